// Which stored entries a replay sends again, and their numbers by day.
import type { DayCount } from '../../contracts/accounts.ts'
import { Entries } from '../../contracts/entries.ts'
import type { ChunkSlice, DaysOf, ReplayQuery } from '../../contracts/journal.ts'
import { isSameStream } from '../../contracts/source.ts'
import type { SequenceRange } from '../../core/sequence.ts'
import { DAY_US, epochDay } from '../../core/time.ts'
import type { Acknowledged } from './acknowledgement.ts'

/** What the sink has acknowledged, also out of order. The rest is pending, and goes out anyway. */
export const acknowledgedRanges = ({ position, ahead }: Acknowledged): readonly SequenceRange[] => [
  { first: 1, last: position },
  ...ahead,
]

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

export function daysOf(found: readonly Selected[]): DayCount[] {
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
