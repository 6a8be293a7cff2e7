// Delivery accounts: whether the entries stored and their results add up, for each sink, source and
// day. Reads the journal, changes nothing.
import type { Origin } from './source.ts'

/**
 * The counts of an acknowledgement for one source and one UTC day (of the entries' own time, days
 * since 1970). The journal itself counts dead letters.
 */
export interface DayTally {
  readonly origin: Origin
  readonly day: number
  readonly accepted: number
  readonly filtered: number
  /** accepted again, in a replay */
  readonly replayed: number
}

export interface DayRange {
  /** days since 1970: included, excluded */
  readonly fromDay: number
  readonly toDay: number
}

/** Entries of one source and day that the journal stored. */
export interface DayKept {
  readonly origin: Origin
  readonly day: number
  readonly kept: number
  readonly filtered: number
  /** by the day on which they were read */
  readonly quarantined: number
}

/**
 * Results for a day of one source at one sink: kept = before + accepted + filtered + parked +
 * dropped + pending.
 */
export interface DayDeliveries {
  readonly sink: string
  readonly origin: Origin
  readonly day: number
  /** stored when the counting of this sink began, and not pending for it then */
  readonly before: number
  readonly accepted: number
  readonly filtered: number
  /** current dead letters, and those dropped by an operator */
  readonly parked: number
  readonly dropped: number
  /** in addition to the rest */
  readonly replayed: number
}

/** Number of entries of one source and UTC day (days since 1970). */
export interface DayCount {
  readonly origin: Origin
  readonly day: number
  readonly count: number
}

/** One bounded step over the entries pending for a sink, or over those kept. */
export interface OwedStep {
  readonly rows: readonly DayCount[]
  /** the last sequence number read */
  readonly through: number
  readonly more: boolean
}

/** The journal's methods for the accounts; part of its contract. */
export interface Books {
  /** Stored entries and their results, by source, day and sink. */
  counts(
    range: DayRange,
  ): Promise<{ readonly kept: readonly DayKept[]; readonly delivered: readonly DayDeliveries[] }>
  /**
   * Entries behind the sequence number `after` (undefined: the sink's position) that are pending
   * for it, without replays.
   */
  owed(sink: string, after: number | undefined): Promise<OwedStep>
}

/**
 * kept = before + accepted + filtered + dead_lettered + dropped + pending, or entries are
 * unaccounted for.
 */
export interface BalanceRow {
  readonly sink: string
  readonly origin: Origin
  readonly day: number
  readonly kept: number
  readonly before: number
  readonly accepted: number
  readonly filtered: number
  readonly dead_lettered: number
  readonly dropped: number
  readonly pending: number
  readonly replayed: number
  /** 0: balanced; above: entries with no known result; below: more were delivered than kept */
  readonly missing: number
}

export interface Balance {
  readonly kept: readonly DayKept[]
  readonly rows: readonly BalanceRow[]
}

/**
 * One row for each sink, source and day of the range on which entries were kept. The rows change
 * while the daemon works.
 */
export async function balanceOf(books: Books, range: DayRange, sinks: readonly string[]): Promise<Balance> {
  const { kept, delivered } = await books.counts(range)
  const known = new Map(delivered.map((row) => [keyOf(row.sink, row.origin, row.day), row]))
  const rows: BalanceRow[] = []
  for (const sink of sinks) {
    const owing = await owedDays(books, sink)
    for (const { origin, day, kept: count } of kept) {
      if (count === 0) continue
      const key = keyOf(sink, origin, day)
      const {
        before = 0,
        accepted = 0,
        filtered = 0,
        parked = 0,
        dropped = 0,
        replayed = 0,
      } = known.get(key) ?? {}
      const owed = owing.get(key) ?? 0
      const missing = count - before - accepted - filtered - parked - dropped - owed
      const outcomes = { before, accepted, filtered, dead_lettered: parked, dropped, pending: owed, replayed }
      rows.push({ sink, origin, day, kept: count, ...outcomes, missing })
    }
  }
  return { kept, rows }
}

async function owedDays(books: Books, sink: string): Promise<ReadonlyMap<string, number>> {
  const owed = new Map<string, number>()
  let after: number | undefined
  for (;;) {
    const step = await books.owed(sink, after)
    for (const { origin, day, count } of step.rows) {
      const key = keyOf(sink, origin, day)
      owed.set(key, (owed.get(key) ?? 0) + count)
    }
    if (!step.more) return owed
    after = step.through
  }
}

const keyOf = (sink: string, { workspace, source }: Origin, day: number) =>
  `${sink} ${workspace} ${source} ${day}`
