// Finds the traces of our own prompt among the entries of each source: by our User-Agent, by user
// and time, by the nonce in its text.
import { TYPE } from '../contracts/entries.ts'
import type { Entries } from '../contracts/entries.ts'
import type { Source, SourceName } from '../contracts/source.ts'
import { textsUnder } from '../core/json.ts'
import type { Seq } from '../core/sequence.ts'
import { DAY_US } from '../core/time.ts'

/** The sources in which a prompt leaves a trace, in order of preference for a sink. */
export const traceSources = ['audit', 'history.usage', 'history.query'] as const
export type TraceSource = (typeof traceSources)[number]

export const isTraceSource = (source: SourceName): source is TraceSource =>
  (traceSources as readonly SourceName[]).includes(source)

/** Spec §2.2. */
export const PROMPT_TYPE = 'api:create_query'
/**
 * A query event this far from its prompt belongs to another one, even with clock differences: its
 * text is not searched.
 */
const FAR_US = 2 * DAY_US

interface Sought {
  readonly nonce: string
  /** epoch ms, our clock */
  readonly sentAt: number
  /** when the prompt was made, by the server's clock, µs; undefined until it is answered */
  readonly madeUs: { readonly from: number; readonly to: number } | undefined
  /** the user of our key; undefined until a trace shows it */
  readonly user: string | undefined
}

interface Trace {
  /** of the entry */
  readonly id: string
  readonly user: string | undefined
}

/** The first entry that is a trace. A distant time or another type costs only a comparison. */
export function traceIn(source: TraceSource, entries: Entries, sought: Sought): Trace | undefined {
  for (const index of candidates(source, entries, sought)) {
    const found = traceAt(source, entries, index, sought)
    if (found) return found
  }
  return undefined
}

function* candidates(source: TraceSource, entries: Entries, { madeUs, sentAt }: Sought): Generator<number> {
  if (source === 'audit') {
    const type = entries.types.indexOf(PROMPT_TYPE)
    for (let i = 0; type >= 0 && i < entries.count; i++) if (entries.column(i, TYPE) === type) yield i
    return
  }
  const near = { from: sentAt * 1000 - FAR_US, to: sentAt * 1000 + FAR_US }
  const span = source === 'history.query' ? near : madeUs
  if (!span) return
  for (let i = 0; i < entries.count; i++) {
    const at = entries.at(i)
    if (at >= span.from && at <= span.to) yield i
  }
}

/** `email`: the name of the user field in v1 of the history (spec §2.4) */
const textsOf = textsUnder(['user', 'email', 'user_agent'])

function traceAt(
  source: TraceSource,
  entries: Entries,
  index: number,
  { nonce, user }: Sought,
): Trace | undefined {
  const bytes = entries.raw(index)
  const raw = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.length)
  if (source !== 'history.usage' && !raw.includes(nonce)) return undefined
  const { user: named, email, user_agent: agent = '' } = textsOf(raw)
  const of = named ?? email
  if (source === 'audit' && !agent.includes(nonce)) return undefined
  if (source === 'history.usage' && (user === undefined || of !== user)) return undefined
  return { id: entries.id(index), user: of }
}

// Wraps a source so that its parts are shown to an observer once they have landed; neither the
// source nor the ingest loop knows it.

/** `last`: none of the entries is after it in the journal. Must not wait. */
type Notice = (entries: Entries, last: Seq) => void

export function noticed(source: Source, notice: Notice): Source {
  return {
    stream: source.stream,
    plan: (cursor) => source.plan(cursor),
    async *read(cursor, signal) {
      const parts = source.read(cursor, signal)
      try {
        for (let next = await parts.next(); !next.done;) {
          const appended = yield next.value
          try {
            if (appended.last !== undefined) notice(next.value.entries, appended.last)
          } catch {
            // Entries are foreign data, and reading must continue: a trace missed this way is reported
            // as missing. The cause is content, so no detail may be logged.
          }
          next = await parts.next(appended)
        }
      } finally {
        await parts.return(undefined)
      }
    },
  }
}
