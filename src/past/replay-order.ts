// How a replay from the API stands in the journal's notes, what is counted of it, and how the status page tells it.
import { z } from 'zod'
import type { ApiReplay, ReplayCounts } from '../model/api-replay.ts'
import { sourceNames } from '../model/source.ts'
import { isoFromUs } from '../model/time.ts'
import { pastState } from '../ops/status.ts'
import type { ReplayStatus } from '../ops/status.ts'
import { readNote } from './notes.ts'
import type { Progress } from './progress.ts'

const count = z.number()
/** As it stands in the journal's notes. */
const stored = z.object({
  v: z.literal(1),
  sink: z.string(),
  origin: z.object({ workspace: z.string(), source: z.enum(sourceNames) }),
  /** µs */
  spans: z.array(z.object({ fromUs: z.number(), toUs: z.number() })),
  /** as it was asked for: told apart from another one by this */
  asked: z.string(),
  /** index of the span that is read */
  span: z.number(),
  /** epoch ms */
  runAt: z.number(),
  endedAt: z.number().exactOptional(),
  /** µs; of how its reading fares, the rest is the order */
  atUs: z.number().exactOptional(),
  counts: z.object({
    read: count,
    sent: count,
    filtered: count,
    unknown: count,
    malformed: count,
    gaps: count,
  }),
  /** an answer of this span broke off: what it told may come again in other windows */
  voided: z.literal(true).exactOptional(),
  /** where the reading of the span is, opaque */
  place: z.string().exactOptional(),
})
export type StoredReplay = Omit<z.output<typeof stored>, 'atUs'>

export const NOTE = 'replay:'
const PAGE_NOTE = 'replay-page:'
const nameIn = ({ sink, origin }: Pick<StoredReplay, 'sink' | 'origin'>) =>
  `${sink}:${origin.workspace}:${origin.source}`
export const nameOf = (order: StoredReplay) => `${NOTE}${nameIn(order)}`
/** Notes of the page under way begin like this. */
export const pagePrefix = (order: Pick<StoredReplay, 'sink' | 'origin'>) => `${PAGE_NOTE}${nameIn(order)}:`

export const none: ReplayCounts = { read: 0, sent: 0, filtered: 0, unknown: 0, malformed: 0, gaps: 0 }

export const readOrder = (note: string) => readNote(stored, note)

export function added(counts: ReplayCounts, more: ReplayCounts): ReplayCounts {
  return {
    read: counts.read + more.read,
    sent: counts.sent + more.sent,
    filtered: counts.filtered + more.filtered,
    unknown: counts.unknown + more.unknown,
    malformed: counts.malformed + more.malformed,
    gaps: counts.gaps + more.gaps,
  }
}

export function reportOf(
  { sink, origin, asked, spans, runAt, endedAt, counts }: StoredReplay,
  { atUs, error, waitsFor, waitReason }: Progress,
): ApiReplay {
  const why = error && { code: error.code, message: error.message }
  return { sink, origin, asked, spans, runAt, endedAt, atUs, counts, error: why, waitsFor, waitReason }
}

/** As the status page has it, its spans as one. */
export function replayStatusOf(replay: ApiReplay): ReplayStatus | undefined {
  const { sink, origin, spans, counts } = replay
  const fromUs = spans[0]?.fromUs
  const toUs = spans.at(-1)?.toUs
  // All of it lies where live reading has not come to.
  if (fromUs === undefined || toUs === undefined) return undefined
  return {
    workspace: origin.workspace,
    source: origin.source,
    sink,
    from: isoFromUs(fromUs),
    to: isoFromUs(toUs),
    ...pastState({ ...replay, fromUs, toUs }),
    read_entries: counts.read,
    sent_entries: counts.sent,
    gaps: counts.gaps,
  }
}
