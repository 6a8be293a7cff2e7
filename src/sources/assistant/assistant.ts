// The assistant's client (spec §2.7, §4.4): one prompt, one answer. Checks the documented limits before it asks; retries nothing, keeps nothing.
import { createHash } from 'node:crypto'
import { WHOLE_BODY_BYTES } from '../../contracts/entries.ts'
import { PROMPT_CHARACTERS, PROMPT_CHARACTERS_WITH_FILE, assistantModels } from '../../core/api.ts'
import type { AssistantModel } from '../../core/api.ts'
import { ConnectorError } from '../../core/errors.ts'
import type { Answer, Ask, Client } from '../http/client.ts'
import type { BodyLimits } from '../http/deadline.ts'

/** An answer is written while it is sent: minutes are no fault. One that is larger than a page is none. */
const answerLimits: BodyLimits = {
  capBytes: WHOLE_BODY_BYTES,
  totalMs: 5 * 60_000,
  wholeBytes: WHOLE_BODY_BYTES,
  idleMs: 2 * 60_000,
  minBytesPerSecond: 1,
}

interface AttachedFile {
  readonly name: string
  /** media type; application/octet-stream where it is not given */
  readonly type?: string
  readonly bytes: Uint8Array
}

export interface Prompt {
  readonly prompt: string
  /** The answer comes in pieces, as it is written. */
  readonly stream?: boolean
  /** `draft` is the one value that the specification knows. */
  readonly mode?: string
  /** absent: the workspace's default */
  readonly model?: AssistantModel
  readonly file?: AttachedFile
  /** in the place of the client's own */
  readonly userAgent?: string
}

/** What the specification leaves open about the request. */
export interface AssistantOptions {
  readonly client: Client
  /** how fields are sent where no file goes with them; `form`: multipart/form-data, since `model` is called a form parameter */
  readonly fields?: 'form' | 'json'
  /** the name of the form's field for the file */
  readonly fileField?: string
}

interface Completion {
  /** the server's clock as its answer's `Date` header tells it, epoch ms; whole seconds */
  readonly serverAt: number | undefined
  /** the answer, in the pieces in which it came: what a reply's JSON calls so, or the reply as it is where it is called nothing known */
  readonly pieces: AsyncIterable<string>
}

export class Assistant {
  readonly #options: AssistantOptions

  constructor(options: AssistantOptions) {
    this.#options = options
  }

  /**
   * Asks once, under the assistant's budget, and hands the answer to `use`; the connection ends with it. Throws ConnectorError:
   * `bad_request` for a prompt that is over the limits and was not sent, else what `Client.send` throws.
   */
  async *complete<T>(
    prompt: Prompt,
    signal: AbortSignal,
    use: (completion: Completion) => AsyncIterable<T>,
  ): AsyncGenerator<T> {
    const { client } = this.#options
    const fault = promptFault(prompt)
    if (fault !== undefined) throw new ConnectorError('bad_request', `The prompt was not sent: ${fault}`)
    yield* client.send(this.#askOf(prompt), 'live', signal, ({ serverAt, body }: Answer) =>
      use({ serverAt, pieces: assistantText(body, prompt.stream === true) }),
    )
  }

  #askOf(prompt: Prompt): Ask {
    const { fields = 'form', fileField = 'file' } = this.#options
    const common = {
      method: 'POST',
      path: '/api/v2/completion',
      accept: ['text/event-stream', 'application/x-ndjson', 'text/plain'],
      limits: answerLimits,
    } as const
    const agent = prompt.userAgent === undefined ? {} : { 'user-agent': prompt.userAgent }
    const { body, type } =
      fields === 'json' && !prompt.file ? jsonOf(prompt) : formData(partsOf(prompt, fileField))
    return { ...common, headers: { ...agent, 'content-type': type }, body }
  }
}

/** What is wrong with a prompt by spec §2.7, without a word of it; undefined: nothing. */
function promptFault({ prompt, model, file }: Prompt): string | undefined {
  if (prompt === '') return 'it is empty'
  const most = file ? PROMPT_CHARACTERS_WITH_FILE : PROMPT_CHARACTERS
  // Code points, the widest reading of "characters": the server has the last word.
  if (prompt.length > most && Array.from(prompt).length > most)
    return `it is longer than ${most} characters, the limit ${file ? 'with' : 'without'} a file`
  if (model !== undefined && !assistantModels.includes(model)) return 'there is no model of this name'
  return undefined
}

function jsonOf({ prompt, stream, mode, model }: Prompt) {
  const fields = {
    prompt,
    ...(stream ? { stream } : {}),
    ...(mode ? { mode } : {}),
    ...(model ? { model } : {}),
  }
  return { type: 'application/json', body: Buffer.from(JSON.stringify(fields)) }
}

function partsOf({ prompt, stream, mode, model, file }: Prompt, fileField: string): FormPart[] {
  const text = (name: string, value: string): FormPart => ({ name, bytes: Buffer.from(value) })
  return [
    text('prompt', prompt),
    ...(stream ? [text('stream', 'true')] : []),
    ...(mode ? [text('mode', mode)] : []),
    ...(model ? [text('model', model)] : []),
    ...(file
      ? [
          {
            name: fileField,
            fileName: file.name,
            type: file.type ?? 'application/octet-stream',
            bytes: file.bytes,
          },
        ]
      : []),
  ]
}

// Fields and files as multipart/form-data (RFC 7578). What it makes follows from its parts alone.

interface FormPart {
  readonly name: string
  readonly bytes: Uint8Array
  /** of a file, with its media type */
  readonly fileName?: string
  readonly type?: string
}

/** A name inside quotes, as browsers write it: nothing in it ends the header. */
const quoted = (name: string): string =>
  `"${name.replace(/["\r\n]/g, (found) => `%${found.charCodeAt(0).toString(16).toUpperCase().padStart(2, '0')}`)}"`

/** Occurs in none of the parts: taken from their own hash, and taken again in the case that it does. */
function boundaryFor(parts: readonly FormPart[]): string {
  for (let attempt = 0; ; attempt++) {
    const hash = createHash('sha256').update(String(attempt))
    for (const { bytes } of parts) hash.update(bytes)
    const boundary = `form-${hash.digest('hex').slice(0, 40)}`
    if (
      !parts.some(({ bytes }) => Buffer.from(bytes.buffer, bytes.byteOffset, bytes.length).includes(boundary))
    )
      return boundary
  }
}

function headOf({ name, fileName, type }: FormPart): string {
  const file = fileName === undefined ? '' : `; filename=${quoted(fileName)}`
  // A line end in a media type would begin a header of its own.
  const kind = type === undefined ? '' : `Content-Type: ${type.replace(/[\r\n]/g, ' ')}\r\n`
  return `Content-Disposition: form-data; name=${quoted(name)}${file}\r\n${kind}\r\n`
}

function formData(parts: readonly FormPart[]): { readonly type: string; readonly body: Uint8Array } {
  const boundary = boundaryFor(parts)
  const pieces = parts.flatMap((part) => [
    Buffer.from(`--${boundary}\r\n${headOf(part)}`),
    part.bytes,
    Buffer.from('\r\n'),
  ])
  return {
    type: `multipart/form-data; boundary=${boundary}`,
    body: Buffer.concat([...pieces, Buffer.from(`--${boundary}--\r\n`)]),
  }
}

// The assistant's answer as text, in whatever shape its body comes: JSON, server-sent events, a JSON object a line, or plain text.

/**
 * Names under which a reply may hold its text. The specification shows neither body (§4.4): this is how the reader copes, and
 * what is called otherwise is given as it came.
 */
const textNames = ['response', 'text', 'content', 'answer', 'completion', 'output', 'message', 'delta']

/** First bytes of a stream of server-sent events: a field or a comment. */
const eventStart = /^(?:data|event|id|retry)?:/

/** The text, piece by piece; `body` is bounded by whoever reads it. A JSON reply that was not asked for as a stream is one piece. @internal for tests */
export async function* assistantText(
  body: AsyncIterable<Uint8Array>,
  stream: boolean,
): AsyncGenerator<string> {
  const utf8 = new TextDecoder()
  let held = ''
  let read: ((text: string, over: boolean) => Iterable<string>) | undefined
  for await (const bytes of body) {
    held += utf8.decode(bytes, { stream: true })
    read ??= readerOf(held, stream)
    if (!read) continue
    yield* read(held, false)
    held = ''
  }
  held += utf8.decode()
  yield* (read ?? plain)(held, true)
}

/** Undefined as long as too little came to tell. */
function readerOf(begin: string, stream: boolean) {
  const text = begin.trimStart()
  if (text.startsWith('{') || text.startsWith('[') || text.startsWith('"')) return stream ? lines() : whole()
  if (eventStart.test(text)) return events()
  return text.length < 'retry:'.length ? undefined : plain
}

function* plain(text: string): Generator<string> {
  if (text !== '') yield text
}

function whole() {
  let all = ''
  return function* (text: string, over: boolean): Generator<string> {
    all += text
    if (over && all !== '') yield textOf(all) ?? all
  }
}

/** Whole lines of what came so far; the last one when it is over. */
function lineCutter() {
  let rest = ''
  return (text: string, over: boolean): string[] => {
    const cut = (rest + text).split(/\r\n|\n|\r(?!$)/)
    rest = over ? '' : (cut.pop() ?? '')
    return cut
  }
}

/** A JSON value a line; where a line is none, all from there on is one value, or text. */
function lines() {
  const cutter = lineCutter()
  let broken: string[] | undefined
  return function* (text: string, over: boolean): Generator<string> {
    for (const line of cutter(text, over)) {
      const said = broken || line.trim() === '' ? undefined : textOf(line)
      if (said !== undefined) yield said
      else if (broken || line.trim() !== '') (broken ??= []).push(line)
    }
    if (over && broken) {
      const all = broken.join('\n')
      yield textOf(all) ?? all
    }
  }
}

function events() {
  const cutter = lineCutter()
  let data: string[] = []
  return function* (text: string, over: boolean): Generator<string> {
    for (const line of [...cutter(text, over), ...(over ? [''] : [])]) {
      if (line.startsWith('data:')) data.push(line.slice(line.startsWith('data: ') ? 6 : 5))
      else if (line === '' && data.length > 0) {
        const said = data.join('\n')
        data = []
        if (said !== '[DONE]') yield textOf(said) ?? said
      }
    }
  }
}

/** What a JSON value calls its text; its own JSON where it calls nothing so. Undefined: it is no JSON. */
function textOf(json: string): string | undefined {
  try {
    return textIn(JSON.parse(json) as unknown, 4) ?? json
  } catch {
    return undefined
  }
}

function textIn(value: unknown, depth: number): string | undefined {
  if (typeof value === 'string') return value
  if (typeof value !== 'object' || value === null || depth === 0) return undefined
  for (const name of textNames) {
    const found = textIn((value as Record<string, unknown>)[name], depth - 1)
    if (found !== undefined) return found
  }
  return undefined
}
