// What is put at the journal's end once more, for one sink alone: what it keeps still, or what was read again.
import type { DayCount } from './balance.ts'
import type { Entries } from './entries.ts'
import type { NoteChange } from './note.ts'
import type { Seq } from './seq.ts'
import type { Origin, SourceName } from './source.ts'

/** What is to be delivered again to one sink: of its own sources, by the entries' own time. */
export interface ReplayQuery {
  readonly sink: string
  /** µs, included */
  readonly fromUs: number
  /** µs, excluded */
  readonly toUs: number
  /** absent: all of them */
  readonly workspace?: string
  readonly sources: readonly SourceName[]
  /** epoch ms; the same in all steps of one replay, and its name where objects are named by it */
  readonly runAt: number
  /** counts only */
  readonly dryRun: boolean
  /** left out, by the entries' own UTC day: what is read from the API instead */
  readonly leave?: readonly DaysOf[]
  /** where the last step ended, and what it told as `until`; 0 and undefined at first */
  readonly after: Seq
  readonly until: Seq | undefined
}

/** UTC days of one source, since 1970: included, excluded. */
export interface DaysOf {
  readonly origin: Origin
  readonly fromDay: number
  readonly toDay: number
}

/** What was read again for one sink alone. */
export interface Resend {
  readonly sink: string
  readonly origin: Origin
  readonly entries: Entries
  /** as in ReplayQuery */
  readonly runAt: number
  /** lands with them: how far the reading is */
  readonly notes: NoteChange
}

export interface Replayed {
  readonly entries: number
  /** of raw payload */
  readonly bytes: number
  /** the same entries by source and UTC day */
  readonly days: readonly DayCount[]
  readonly through: Seq
  readonly until: Seq
  /** false: the last step */
  readonly more: boolean
  /** epoch ms at which the oldest entry that is still kept was taken in */
  readonly keptSince: number | undefined
}
