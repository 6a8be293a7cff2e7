// What an answer means for a batch: how far it is settled, and what of it waits to be confirmed. Changes nothing.
import type { DayTally } from '../model/balance.ts'
import type { Intent, Parked, Settlement } from '../model/journal.ts'
import type { Later, Outcome } from '../model/sink.ts'
import type { Loaded } from './lines.ts'
import { tallyOf } from './tally.ts'

interface Counted extends Settlement {
  readonly tally: readonly DayTally[]
}

interface Settled {
  readonly settlement: Settlement
  /** own times of what the receiver accepted, µs */
  readonly times: Float64Array
  readonly filtered: number
}

/** How far the receiver of this sink answered: the settled lines, and what was filtered around them. */
export function settledOf(sink: string, loaded: Loaded, outcome: Outcome): Settled {
  const answered = answeredOf(loaded, outcome)
  const settlement = counted(sink, loaded, { first: loaded.first, ...answered })
  return { settlement, times: acceptedTimes(loaded, outcome), filtered: filteredOf(settlement.tally) }
}

function acceptedTimes({ times }: Loaded, { settled, refused }: Outcome): Float64Array {
  const answered = times.subarray(0, settled)
  if (refused.length === 0) return answered
  const indices = new Set(refused.map(({ index }) => index))
  return answered.filter((_, index) => !indices.has(index))
}

function answeredOf({ first, last, lines }: Loaded, { settled, refused }: Outcome) {
  const through = settled === lines.count ? last : (lines.seqs[settled] ?? first) - 1
  const parked = refused.map(({ index, code, reason }): Parked => ({
    seq: lines.seqs[index] ?? 0,
    code,
    reason,
  }))
  return { through, parked }
}

/** The part with its tally: what became of the entries in it that are not parked. */
function counted(
  sink: string,
  { lines: { seqs }, runs }: Loaded,
  part: Pick<Settlement, 'first' | 'through' | 'parked'>,
): Counted {
  return { ...part, tally: tallyOf(sink, runs, { ...part, seqs }) }
}

/** What another sink alone was to have is nobody's here. */
export const filteredOf = (tally: readonly DayTally[]): number =>
  tally.reduce((sum, { filtered }) => sum + filtered, 0)

/** As much of a batch as the receiver has taken. */
export interface TakenBatch {
  /** as it stands in the journal, with what `resume` needs */
  readonly intent: Intent
  /** own times of its lines, µs */
  readonly times: Float64Array
  /** what is settled once it is confirmed */
  readonly tally: readonly DayTally[]
}

interface Taken extends TakenBatch {
  /** what was refused behind it; undefined: nothing */
  readonly refusedBehind: Counted | undefined
}

/** The batch as far as it was taken, which keeps its intent until it is confirmed. */
export function takenOf(sink: string, intent: Intent, loaded: Loaded, outcome: Outcome, later: Later): Taken {
  const { first, lines, times } = loaded
  const refusedAt = outcome.refused[0]?.index
  const end = refusedAt ?? outcome.settled
  const last = end === lines.count ? loaded.last : (lines.seqs[end] ?? 0) - 1
  const behind = { ...answeredOf(loaded, outcome), first: last + 1 }
  return {
    intent: { ...intent, first, last, detail: later.detail },
    times: times.slice(0, end),
    tally: counted(sink, loaded, { first, through: last, parked: [] }).tally,
    refusedBehind: refusedAt === undefined ? undefined : counted(sink, loaded, behind),
  }
}

/** The whole batch of an intent that a crash left: it was taken before that. */
export function takenBefore(sink: string, intent: Intent, loaded: Loaded): TakenBatch {
  const { first, last: through } = intent
  const { tally } = counted(sink, loaded, { first, through, parked: [] })
  return { intent, times: loaded.times.slice(), tally }
}
