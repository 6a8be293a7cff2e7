// Delivery accounts: whether the entries stored and their results add up, for each sink, source and
// day. Reads the journal, changes nothing.
import type { Stream } from './source.ts'

/**
 * The counts of an acknowledgement for one source and one UTC day (of the entries' own time, days
 * since 1970). The journal itself counts dead letters.
 */
export interface DayAccount {
  readonly stream: Stream
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
export interface KeptDayAccount {
  readonly stream: Stream
  readonly day: number
  readonly kept: number
  readonly filtered: number
  /** by the day on which they were read */
  readonly quarantined: number
}

/**
 * Results for a day of one source at one sink: kept = before + accepted + filtered + dead letters +
 * dropped + pending.
 */
export interface SinkDayAccount {
  readonly sink: string
  readonly stream: Stream
  readonly day: number
  /** stored when the counting of this sink began, and not pending for it then */
  readonly before: number
  readonly accepted: number
  readonly filtered: number
  /** current dead letters, and those dropped by an operator */
  readonly deadLettered: number
  readonly dropped: number
  /** in addition to the rest */
  readonly replayed: number
}

/** Number of entries of one source and UTC day (days since 1970). */
export interface DayCount {
  readonly stream: Stream
  readonly day: number
  readonly count: number
}

/** One bounded step over the entries pending for a sink, or over those kept. */
export interface PendingStep {
  readonly rows: readonly DayCount[]
  /** the last sequence number read */
  readonly through: number
  readonly more: boolean
}

/** A role of the journal. */
export interface Accounts {
  /** Stored entries and their results, by source, day and sink. */
  counts(
    range: DayRange,
  ): Promise<{ readonly kept: readonly KeptDayAccount[]; readonly delivered: readonly SinkDayAccount[] }>
  /** Entries behind `after` (undefined: the sink's position) that are pending, without replays. */
  pending(sink: string, after: number | undefined): Promise<PendingStep>
  /** One bounded step over the stored entries behind `after` (undefined: all); none put back. */
  storedDays(after: number | undefined): Promise<PendingStep>
}

/** kept = before + accepted + filtered + dead_lettered + dropped + pending + missing. */
export interface AccountRow {
  readonly sink: string
  readonly stream: Stream
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

export interface AccountReport {
  readonly kept: readonly KeptDayAccount[]
  readonly rows: readonly AccountRow[]
}

/** A row per sink, source and day with kept entries. The rows change while the daemon works. */
export async function accountReport(
  accounts: Accounts,
  range: DayRange,
  sinks: readonly string[],
): Promise<AccountReport> {
  const { kept, delivered } = await accounts.counts(range)
  const known = new Map(delivered.map((row) => [keyOf(row.sink, row.stream, row.day), row]))
  const rows: AccountRow[] = []
  for (const sink of sinks) {
    const pendingByKey = await pendingDays(accounts, sink)
    for (const { stream, day, kept: count } of kept) {
      if (count === 0) continue
      const key = keyOf(sink, stream, day)
      const {
        before = 0,
        accepted = 0,
        filtered = 0,
        deadLettered = 0,
        dropped = 0,
        replayed = 0,
      } = known.get(key) ?? {}
      const pending = pendingByKey.get(key) ?? 0
      const missing = count - before - accepted - filtered - deadLettered - dropped - pending
      const account = {
        before,
        accepted,
        filtered,
        dead_lettered: deadLettered,
        dropped,
        pending: pending,
        replayed,
      }
      rows.push({ sink, stream, day, kept: count, ...account, missing })
    }
  }
  return { kept, rows }
}

async function pendingDays(accounts: Accounts, sink: string): Promise<ReadonlyMap<string, number>> {
  const pending = new Map<string, number>()
  let after: number | undefined
  for (;;) {
    const step = await accounts.pending(sink, after)
    for (const { stream, day, count } of step.rows) {
      const key = keyOf(sink, stream, day)
      pending.set(key, (pending.get(key) ?? 0) + count)
    }
    if (!step.more) return pending
    after = step.through
  }
}

const keyOf = (sink: string, { workspace, source }: Stream, day: number) =>
  `${sink} ${workspace} ${source} ${day}`
