// Which stored entries a replay sends again, and their numbers by day.
import type { DayCount } from '../../contracts/accounts.ts'
import { Entries, TRANSACTION_BYTES } from '../../contracts/entries.ts'
import type { ChunkSlice, DaysOf, ReplayQuery } from '../../contracts/journal.ts'
import { isSameStream } from '../../contracts/source.ts'
import { ConnectorError } from '../../core/errors.ts'
import type { Seq, SequenceRange } from '../../core/sequence.ts'
import { DAY_US, epochDay } from '../../core/time.ts'
import type { Acknowledged, PendingEntries, SinkState } from './acknowledgement.ts'
import { payloadBytes } from './chunk.ts'
import type { ChunkSize } from './pruning.ts'

/** Bounds of a step: with SQLite it runs on the main thread. */
export const STEP_CHUNKS = 64
const STEP_BYTES = 2 * TRANSACTION_BYTES

/** No limits: a range is read whole. */
export const everything = { maxEntries: Infinity, maxBytes: Infinity }

/** Throws ConnectorError `misconfigured` if the journal has no such sink. */
export function acknowledgedBy({ sinks }: PendingEntries<SinkState>, sink: string): Acknowledged {
  const found = sinks.get(sink)
  if (found) return found.acknowledged
  throw new ConnectorError('misconfigured', `There is no sink ${sink} in the configuration`)
}

export const untilOf = ({ until }: ReplayQuery, { position, ahead }: Acknowledged): Seq =>
  until ?? ahead.at(-1)?.last ?? position

/**
 * As many of these chunks as fit into a step, at least one: the ranges of them that the sink has
 * acknowledged, also out of order. The rest is pending, and goes out anyway.
 */
export function stepOf(
  chunks: readonly ChunkSize[],
  { position, ahead }: Acknowledged,
  after: Seq,
  until: Seq,
): { readonly ranges: readonly SequenceRange[]; readonly through: Seq } {
  const ranges: SequenceRange[] = []
  let through = after
  let bytes = 0
  for (const chunk of chunks) {
    if (through > after && bytes + chunk.payload > STEP_BYTES) break
    bytes += chunk.payload
    through = chunk.last
    for (const range of [{ first: 1, last: position }, ...ahead]) {
      const [first, last] = [Math.max(chunk.first, range.first), Math.min(chunk.last, range.last, until)]
      if (first <= last) ranges.push({ first, last })
    }
  }
  return { ranges, through }
}

export interface Selected {
  readonly slice: ChunkSlice
  readonly entries: Entries
}

/** Of each slice, the entries whose own time is in the span, if the query includes its source. */
export function selected(slices: readonly ChunkSlice[], query: ReplayQuery): Selected[] {
  return slices
    .map((slice) => ({ slice, entries: within(slice, query) }))
    .filter(({ entries }) => entries.count > 0)
}

function within({ stream, entries }: ChunkSlice, query: ReplayQuery): Entries {
  const { fromUs, toUs, workspace, sources, leave = [] } = query
  const meant = (workspace ?? stream.workspace) === stream.workspace && sources.includes(stream.source)
  if (!meant) return Entries.none
  const left = leave.filter((days) => isSameStream(days.stream, stream))
  return without(entries.between(fromUs, toUs), left)
}

function without(entries: Entries, left: readonly DaysOf[]): Entries {
  if (left.length === 0) return entries
  const kept: number[] = []
  for (let i = 0; i < entries.count; i++) {
    const at = entries.at(i)
    if (!left.some(({ fromDay, toDay }) => at >= fromDay * DAY_US && at < toDay * DAY_US)) kept.push(i)
  }
  return kept.length === entries.count ? entries : entries.pick(kept)
}

export const sumsOf = (found: readonly Selected[]) => ({
  entries: found.reduce((sum, { entries: { count } }) => sum + count, 0),
  bytes: found.reduce((sum, { entries }) => sum + payloadBytes(entries), 0),
  days: daysOf(found),
})

function daysOf(found: readonly Selected[]): DayCount[] {
  const counts = new Map<string, { -readonly [Key in keyof DayCount]: DayCount[Key] }>()
  for (const {
    slice: { stream },
    entries,
  } of found) {
    for (let i = 0; i < entries.count; i++) {
      const day = epochDay(entries.at(i))
      const key = `${stream.workspace} ${stream.source} ${day}`
      const known = counts.get(key)
      if (known) known.count++
      else counts.set(key, { stream, day, count: 1 })
    }
  }
  return [...counts.values()]
}
