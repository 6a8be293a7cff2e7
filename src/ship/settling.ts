// What an answer means for a batch: how far it is settled, what of it waits to be confirmed, and who is told. Changes nothing.
import type { DayTally } from '../model/balance.ts'
import type { Intent, Parked, Settlement } from '../model/journal.ts'
import type { Log } from '../model/log.ts'
import type { Later, Outcome } from '../model/sink.ts'
import type { SinkWatch } from '../model/watch.ts'
import type { Loaded } from './lines.ts'
import { tallyOf } from './tally.ts'
import type { TakenBatch } from './unconfirmed.ts'

export interface Settled {
  readonly settlement: Settlement
  readonly accepted: number
  readonly filtered: number
}

/** How far the receiver of this sink answered: the settled lines, and what was filtered around them. */
export function settledOf(
  sink: string,
  { first, last, lines, batch }: Loaded,
  { settled, refused }: Outcome,
): Settled {
  const whole = settled === lines.count
  const through = whole ? last : (lines.seqs[settled] ?? first) - 1
  const parked = refused.map(({ index, code, reason }): Parked => ({
    seq: lines.seqs[index] ?? 0,
    code,
    reason,
  }))
  const tally = tallyOf(sink, batch, { seqs: lines.seqs, first, through, parked })
  return {
    settlement: { first, through, parked, tally },
    accepted: settled - parked.length,
    filtered: filteredOf(tally),
  }
}

/** What another sink alone was to have is nobody's here. */
export const filteredOf = (tally: readonly DayTally[]): number =>
  tally.reduce((sum, { filtered }) => sum + filtered, 0)

export interface Taken extends TakenBatch {
  /** what was refused behind it; undefined: nothing */
  readonly rest: Settlement | undefined
}

/** The batch as far as it was taken, which keeps its intent until it is confirmed. */
export function takenOf(sink: string, intent: Intent, loaded: Loaded, outcome: Outcome, later: Later): Taken {
  const { lines, times, batch } = loaded
  const { seqs } = lines
  const refusedAt = outcome.refused[0]?.index
  const end = refusedAt ?? outcome.settled
  const last = end === lines.count ? loaded.last : (lines.seqs[end] ?? 0) - 1
  const taken = { ...intent, first: loaded.first, last, detail: later.detail }
  const tally = tallyOf(sink, batch, { seqs, first: loaded.first, through: last, parked: [] })
  const { settlement } = settledOf(sink, loaded, outcome)
  const { through, parked } = settlement
  const behind = { seqs, first: last + 1, through, parked }
  const rest =
    refusedAt === undefined
      ? undefined
      : { ...settlement, first: last + 1, tally: tallyOf(sink, batch, behind) }
  return { intent: taken, times: times.slice(0, end), tally, rest }
}

export function tellParked(
  { log, watch }: { readonly log: Log; readonly watch: SinkWatch },
  { length: entries }: readonly Parked[],
): void {
  if (entries === 0) return
  log.warn('Entries that the receiver refuses for good are parked as dead letters', { entries })
  watch.settled({ accepted: 0, deadLettered: entries, filtered: 0 })
}
