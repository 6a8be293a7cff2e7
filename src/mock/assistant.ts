// The assistant area (spec §4.4): one endpoint that answers a prompt, and the traces that this leaves in audit log and history.
import { traceOf } from './area.ts'
import type { AreaRoutes, Call } from './area.ts'
import type { Ask, Completion } from './asks.ts'
import { queryEvent } from './event.ts'
import { readPrompt } from './prompt.ts'
import type { Prompt } from './prompt.ts'
import { answer } from './prose.ts'
import { dice, mix } from './random.ts'
import { renderMembers } from './render-members.ts'
import { failure, json } from './replies.ts'
import type { Reply } from './replies.ts'
import { routeTable } from './route-table.ts'

const CHUNK = 24

/** Written in words about the question, so that it can be told whose answer it is. */
function answerTo({ prompt, mode, file }: Prompt, seed: number): string {
  const about = prompt.slice(0, 60).replaceAll('\n', ' ')
  const opening = mode === 'draft' ? `Draft reply to: ${about}` : `On the question “${about}”:`
  return `${opening}${file ? ` (see ${file})` : ''}\n\n${answer(dice(seed))}`
}

/** The traces of a call: its audit entry and, by it, its usage and query event. */
function leaveTraces(call: Call, completion: Completion): Ask {
  const { switches, workspace, now } = call
  const trace = {
    ...traceOf(call, 'api:create_query'),
    historyVisibleAt: now + switches.latency + switches.assistant_visible_after,
    // The history is made of entries: where calls are not audited, this one is there and never shown.
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
  find: routeTable({ 'POST /api/v2/completion': 'completion' }),
  answer: completed,
}
