// The assistant's client (spec §2.7, §4.4): one prompt, one answer. Checks the documented limits before it asks; retries nothing, keeps nothing.
import {
  assistantModels,
  PROMPT_CHARACTERS,
  PROMPT_CHARACTERS_WITH_FILE,
} from '../../model/assistant-limits.ts'
import type { AssistantModel } from '../../model/assistant-limits.ts'
import { WHOLE_BODY_BYTES } from '../../model/entries.ts'
import { ConnectorError } from '../../model/errors.ts'
import type { BodyLimits } from '../client/deadline.ts'
import type { Answer, Ask, Client } from '../client/client.ts'
import { assistantText } from './text.ts'
import { formData, type FormPart } from './form-data.ts'

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
