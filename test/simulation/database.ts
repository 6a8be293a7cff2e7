// Faults of the database and of the replicas around it: it is lost for a while, the outcome of a
// COMMIT is unknown, and a replica stops, or loses its line, while another takes its shard.
import { dice } from './random.ts'

const SECOND_MS = 1_000
const MINUTE_MS = 60_000

export interface Takeover {
  /** epoch ms */
  readonly at: number
  /**
   *   paused   it stops in the middle of whatever it does, and its lease is ended
   *   cut      its line to the database is lost, and so its lease, while it goes on
   */
  readonly kind: 'paused' | 'cut'
  /** how long until it is back; shorter than the lease: it believes to hold it then */
  readonly forMs: number
  /** of paused: at so many steps after that instant, of which most are calls of the journal */
  readonly steps: number
}

export interface DatabaseScenario {
  readonly takeovers: readonly Takeover[]
  /** The database is lost. Epoch ms. */
  readonly outages: readonly { readonly from: number; readonly until: number }[]
  /** Each cuts the line at the COMMIT that comes next: before it, after it, or on its way. */
  readonly cuts: readonly { readonly at: number; readonly kind: 'before' | 'after' | 'late' }[]
}

/** Drawn apart, so that the seeds of SQLite and the rest of a seed stay the same. */
export function databaseOf(seed: number, startAt: number, troubleMs: number): DatabaseScenario {
  const roll = dice(seed + 1_300_021)
  const some = <T>(counts: readonly number[], make: (at: number) => T): readonly T[] =>
    Array.from({ length: roll.pick(counts) }, () => make(startAt + Math.floor(roll() * troubleMs)))
  return {
    takeovers: some([0, 1, 2, 4], (at) => ({
      at,
      kind: roll.pick(['paused', 'paused', 'cut'] as const),
      steps: 1 + roll.below(roll.pick([4, 40, 400])),
      forMs: roll.pick([
        SECOND_MS,
        5 * SECOND_MS,
        30 * SECOND_MS,
        2 * MINUTE_MS,
        20 * MINUTE_MS,
        180 * MINUTE_MS,
      ]),
    })),
    outages: some([0, 0, 1, 2], (from) => ({
      from,
      until: from + roll.pick([20 * SECOND_MS, 3 * MINUTE_MS, 20 * MINUTE_MS, 120 * MINUTE_MS]),
    })),
    cuts: some([0, 3, 10, 30], (at) => ({
      at,
      kind: roll.pick(['before', 'before', 'after', 'after', 'after', 'late'] as const),
    })),
  }
}
