// What an answer means for a batch: how far it is settled, what of it waits to be confirmed, and who is told. Changes nothing.
import type { DayTally } from '../model/balance.ts'
import type { Intent, Parked, Settlement } from '../model/journal.ts'
import type { Later, Outcome } from '../model/sink.ts'
import type { Loaded } from './lines.ts'
import { tallyOf } from './tally.ts'

interface Settled {
  readonly settlement: Settlement
  readonly accepted: number
  readonly filtered: number
}

/** How far the receiver of this sink answered: the settled lines, and what was filtered around them. */
export function settledOf(sink: string, loaded: Loaded, outcome: Outcome): Settled {
  const answered = answeredOf(loaded, outcome)
  const settlement = counted(sink, loaded, { first: loaded.first, ...answered })
  return {
    settlement,
    accepted: outcome.settled - answered.parked.length,
    filtered: filteredOf(settlement.tally),
  }
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
) {
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
  readonly refusedBehind: Settlement | undefined
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
