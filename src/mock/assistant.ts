// The assistant area (spec §4.4): one endpoint that answers a prompt, and the entries of a call in
// audit log and history.
import {
  COMPLETION_PATH,
  PROMPT_CHARACTERS,
  PROMPT_CHARACTERS_WITH_FILE,
  assistantModels,
} from '../core/api.ts'
import { routeTable, traceOf } from './area.ts'
import type { AreaRoutes, Call } from './area.ts'
import { queryEvent } from './event.ts'
import { fieldsOf, readForm } from './multipart.ts'
import type { Part } from './multipart.ts'
import { answer } from './prose.ts'
import type { Ask, Completion } from './questions.ts'
import { dice, mix } from './random.ts'
import { renderMembers } from './render.ts'
import { documented, failure, json } from './replies.ts'
import type { Reply } from './replies.ts'

const CHUNK = 24

/** Refers to the question, so that the answer can be recognised. */
function answerTo({ prompt, mode, file }: Prompt, seed: number): string {
  const about = prompt.slice(0, 60).replaceAll('\n', ' ')
  const opening = mode === 'draft' ? `Draft reply to: ${about}` : `On the question “${about}”:`
  return `${opening}${file ? ` (see ${file})` : ''}\n\n${answer(dice(seed))}`
}

/** The records of a call: its audit entry and, derived from it, its usage and query event. */
function leaveTraces(call: Call, completion: Completion): Ask {
  const { switches, workspace, now } = call
  const trace = {
    ...traceOf(call, 'api:create_query'),
    historyVisibleAt: now + switches.latency + switches.assistant_visible_after,
    // The history is derived from entries: if calls are not audited, this entry exists but is never visible.
    ...(switches.self_audit === 'off' ? { visibleAt: Infinity } : {}),
  }
  const entry = workspace.add(trace, now, 'self')
  workspace.asked.completions.set(entry.id, completion)
  return workspace.asked.ask(entry)
}

const typed = (reply: Reply, type: string): Reply => ({
  ...reply,
  headers: { ...reply.headers, 'content-type': type },
})

function whole(call: Call, ask: Ask, response: string): Reply {
  switch (call.switches.assistant_body) {
    case 'response':
      return json(200, [Buffer.from(JSON.stringify({ response }))])
    case 'event': {
      const remark = { from: 0, comments: '', sentiments: '' }
      return json(200, [
        Buffer.from(renderMembers(queryEvent(ask, call.workspace, remark, '').fields, undefined)),
      ])
    }
    case 'text':
      return typed(json(200, [Buffer.from(response)]), 'text/plain; charset=utf-8')
  }
}

/** Pieces of the answer, cut between characters. */
function chunksOf(response: string): string[] {
  const characters = Array.from(response)
  return Array.from({ length: Math.ceil(characters.length / CHUNK) }, (_, i) =>
    characters.slice(i * CHUNK, (i + 1) * CHUNK).join(''),
  )
}

function streamed(call: Call, response: string): Reply {
  const chunks = chunksOf(response)
  const said = (chunk: string) => JSON.stringify({ response: chunk })
  const forms = {
    sse: {
      type: 'text/event-stream',
      pieces: [...chunks.map((c) => `data: ${said(c)}\n\n`), 'data: [DONE]\n\n'],
    },
    ndjson: { type: 'application/x-ndjson', pieces: chunks.map((c) => `${said(c)}\n`) },
    text: { type: 'text/plain; charset=utf-8', pieces: chunks },
  }
  const { type, pieces } = forms[call.switches.assistant_stream_body]
  const bytes = pieces.map((piece) => Buffer.from(piece))
  const body = { count: bytes.length, pieces: () => bytes, again: () => bytes[0] ?? Buffer.from(' ') }
  return typed(json(200, body), type)
}

function completed(call: Call): Reply {
  const prompt = readPrompt(call)
  if (typeof prompt === 'string') return failure(400, prompt)
  const response = answerTo(prompt, mix(call.workspace.seed, call.ordinal))
  const ask = leaveTraces(call, { ...prompt, response })
  return prompt.stream ? streamed(call, response) : whole(call, ask, response)
}

export const assistantArea: AreaRoutes = {
  area: 'assistant',
  find: routeTable({ [`POST ${COMPLETION_PATH}`]: 'completion' }),
  answer: completed,
}

// Reads a request to the assistant (spec §2.7): JSON or a form, checked against the documented limits.

interface Prompt {
  readonly prompt: string
  readonly stream: boolean
  /** empty if not given, like the next two */
  readonly mode: string
  readonly model: string
  /** its name */
  readonly file: string
}

const models: readonly string[] = assistantModels
const NO_PROMPT = documented.assistant[400]

interface Given {
  readonly prompt: unknown
  readonly stream: unknown
  readonly mode: unknown
  readonly model: unknown
  readonly file: string
}

function fromJson(body: Uint8Array): Given | undefined {
  try {
    const value: unknown = JSON.parse(Buffer.from(body).toString())
    if (typeof value !== 'object' || value === null || Array.isArray(value)) return undefined
    const { prompt, stream, mode, model } = value as Record<string, unknown>
    return { prompt, stream, mode, model, file: '' }
  } catch {
    return undefined
  }
}

function fromForm(parts: readonly Part[], fileField: string): Given {
  const one = (name: string) => fieldsOf(parts, name)[0]
  const stream = one('stream')
  const file = parts.find(({ name, fileName }) => name === fileField && fileName !== undefined)
  return {
    prompt: one('prompt'),
    stream: stream === 'true' ? true : stream === 'false' ? false : stream,
    mode: one('mode'),
    model: one('model'),
    file: file?.fileName ?? '',
  }
}

/** A body of another kind counts as missing: no other status is documented for it. */
function givenOf({ headers, body, switches }: Call): Given | undefined {
  const type = headers['content-type'] ?? ''
  const { assistant_accepts: accepts } = switches
  if (/^application\/json\b/i.test(type)) return accepts === 'form' ? undefined : fromJson(body)
  const parts = accepts === 'json' ? undefined : readForm(type, body)
  return parts && fromForm(parts, switches.assistant_file_field)
}

function word(value: unknown): string | undefined {
  if (value === undefined || value === null) return ''
  return typeof value === 'string' ? value : undefined
}

/** The request; a text if it is rejected: the message of the 400. */
function readPrompt(call: Call): Prompt | string {
  const given = givenOf(call)
  if (!given || typeof given.prompt !== 'string' || given.prompt === '') return NO_PROMPT
  const { prompt, stream = false, file } = given
  const most = file === '' ? PROMPT_CHARACTERS : PROMPT_CHARACTERS_WITH_FILE
  if (Array.from(prompt).length > most)
    return `Prompt exceeds ${most} characters${file === '' ? '' : ' with a file attached'}`
  if (typeof stream !== 'boolean') return 'Invalid stream parameter'
  const [mode, model] = [word(given.mode), word(given.model)]
  // Values other than `draft` are not documented (§2.7): any word may be valid.
  if (mode === undefined || !/^\w{0,40}$/.test(mode)) return 'Invalid mode parameter'
  if (model === undefined || (model !== '' && !models.includes(model))) return 'Invalid model parameter'
  return { prompt, stream, mode, model, file }
}
