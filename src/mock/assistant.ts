// The assistant area (spec §4.4): answers a prompt, and leaves its traces in log and history.
import {
  COMPLETION_PATH,
  PROMPT_CHARACTERS,
  PROMPT_CHARACTERS_WITH_FILE,
  assistantModels,
} from '../core/api.ts'
import { inMemory, replyOf } from './answer.ts'
import type { Body, Reply } from './answer.ts'
import { refused, traceOf } from './call.ts'
import type { AreaRoutes, Call } from './call.ts'
import type { Entry } from './entry.ts'
import { noFeedback, queryEvent } from './history-event.ts'
import type { Completion } from './history-event.ts'
import { fieldsOf, readForm } from './multipart.ts'
import { answer } from './prose.ts'
import { dice, mix } from './random.ts'
import { renderEvent } from './render.ts'

const CHUNK_CHARACTERS = 24
const PLAIN = 'text/plain; charset=utf-8'

interface Prompt extends Omit<Completion, 'response'> {
  readonly stream: boolean
}

/** The body's fields, unchecked, and the file's name. Another kind of body counts as missing. */
function givenIn({ headers, body, switches }: Call): Readonly<Record<string, unknown>> {
  const type = headers['content-type'] ?? ''
  const { assistant_accepts: accepts, assistant_file_field: fileField } = switches
  if (/^application\/json\b/i.test(type)) {
    try {
      const value: unknown = accepts === 'form' ? undefined : JSON.parse(Buffer.from(body).toString())
      return typeof value === 'object' && !Array.isArray(value) ? { ...value, file: '' } : {}
    } catch {
      return {}
    }
  }
  const parts = accepts === 'json' ? [] : (readForm(type, body) ?? [])
  const one = (name: string) => fieldsOf(parts, name)[0]
  const stream = one('stream')
  return {
    prompt: one('prompt'),
    stream: stream === 'true' || stream === 'false' ? stream === 'true' : stream,
    mode: one('mode'),
    model: one('model'),
    file: parts.find(({ name, fileName }) => name === fileField && fileName !== undefined)?.fileName ?? '',
  }
}

/** Checks the documented limits (spec §2.7). A text is the message of the 400. */
function promptIn(call: Call): Prompt | string | undefined {
  const { prompt, stream = false, mode, model, file } = givenIn(call)
  if (typeof prompt !== 'string' || prompt === '') return undefined
  const hasFile = typeof file === 'string' && file !== ''
  const most = hasFile ? PROMPT_CHARACTERS_WITH_FILE : PROMPT_CHARACTERS
  if (Array.from(prompt).length > most)
    return `Prompt exceeds ${most} characters${hasFile ? ' with a file attached' : ''}`
  if (typeof stream !== 'boolean') return 'Invalid stream parameter'
  const [modeWord, modelWord] = [mode ?? '', model ?? '']
  // Values other than `draft` are not documented (§2.7): any word may be valid.
  if (typeof modeWord !== 'string' || !/^\w{0,40}$/.test(modeWord)) return 'Invalid mode parameter'
  const models: readonly unknown[] = ['', ...assistantModels]
  if (typeof modelWord !== 'string' || !models.includes(modelWord)) return 'Invalid model parameter'
  return { prompt, stream, mode: modeWord, model: modelWord, file: hasFile ? file : '' }
}

/** Refers to the question, so that the answer can be recognised. */
function responseTo({ prompt, mode, file }: Prompt, seed: number): string {
  const about = prompt.slice(0, 60).replaceAll('\n', ' ')
  const opening = mode === 'draft' ? `Draft reply to: ${about}` : `On the question “${about}”:`
  return `${opening}${file ? ` (see ${file})` : ''}\n\n${answer(dice(seed))}`
}

/** The audit entry of a call; its usage and query event are derived from it. */
function leaveTraces(call: Call, completion: Completion): Entry {
  const { switches, workspace, now } = call
  const trace = {
    ...traceOf(call, 'api:create_query'),
    historyVisibleAt: now + switches.latency + switches.assistant_visible_after,
    // The history is derived from entries: where calls are not audited, this one stays invisible.
    ...(switches.self_audit === 'off' ? { visibleAt: Infinity } : {}),
  }
  const entry = workspace.add(trace, now, 'self')
  workspace.completions.set(entry.id, completion)
  return entry
}

function whole({ switches, workspace }: Call, entry: Entry, response: string): Reply {
  const body = (bytes: Uint8Array | string): Body => inMemory([Buffer.from(bytes)])
  switch (switches.assistant_body) {
    case 'response':
      return replyOf(200, body(JSON.stringify({ response })))
    case 'event': {
      const { fields } = queryEvent(entry, workspace, noFeedback)
      return replyOf(200, body(renderEvent(fields, undefined, undefined)))
    }
    case 'text':
      return replyOf(200, body(response), PLAIN)
  }
}

/** In pieces, cut between characters. */
function streamed({ switches }: Call, response: string): Reply {
  const characters = Array.from(response)
  const chunks = Array.from({ length: Math.ceil(characters.length / CHUNK_CHARACTERS) }, (_, i) =>
    characters.slice(i * CHUNK_CHARACTERS, (i + 1) * CHUNK_CHARACTERS).join(''),
  )
  const lineOf = (chunk: string) => JSON.stringify({ response: chunk })
  const forms = {
    sse: ['text/event-stream', [...chunks.map((c) => `data: ${lineOf(c)}\n\n`), 'data: [DONE]\n\n']],
    ndjson: ['application/x-ndjson', chunks.map((chunk) => `${lineOf(chunk)}\n`)],
    text: [PLAIN, chunks],
  } as const
  const [type, texts] = forms[switches.assistant_stream_body]
  const pieces = texts.map((text) => Buffer.from(text))
  const again = () => pieces[0] ?? Buffer.from(' ')
  return replyOf(200, { ...inMemory(pieces, again), length: undefined }, type)
}

function completed(call: Call): Reply {
  const prompt = promptIn(call)
  if (typeof prompt !== 'object') return refused(call, 400, prompt)
  const response = responseTo(prompt, mix(call.workspace.seed, call.ordinal))
  const entry = leaveTraces(call, { ...prompt, response })
  return prompt.stream ? streamed(call, response) : whole(call, entry, response)
}

export const assistantArea: AreaRoutes = {
  area: 'assistant',
  endpoints: { [`POST ${COMPLETION_PATH}`]: { name: 'completion', answer: completed } },
}
