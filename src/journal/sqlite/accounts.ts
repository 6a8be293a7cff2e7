// Delivery accounts: results of each entry at each sink, counted by source and the entry's own UTC
// day and kept for good. `reconcile` compares them with the entries read.
import type {
  SinkDayAccount,
  KeptDayAccount,
  DayRange,
  DayAccount,
  PendingStep,
} from '../../contracts/accounts.ts'
import type { Database } from 'better-sqlite3'
import type { Seq } from '../../core/sequence.ts'
import type { Stream } from '../../contracts/source.ts'
import { epochDay } from '../../core/time.ts'
import type { Streams } from './streams.ts'
import type { Acknowledged } from '../rules/acknowledgement.ts'
import { NO_SINK, pendingDays } from '../rules/pending-days.ts'
import type { ChunkTimes } from '../rules/pending-days.ts'

interface CountedDeadLetter {
  readonly sink: string
  readonly source: number
  /** own time, µs */
  readonly at: number
  readonly replay: boolean
}

interface Counted {
  source: number
  day: number
}

export class DeliveryAccounts {
  readonly #streams: Streams
  readonly #statements: ReturnType<typeof prepare>

  constructor(db: Database, streams: Streams) {
    this.#streams = streams
    this.#statements = prepare(db)
  }

  /** Call inside the transaction that acknowledges the counted entries. */
  add(sink: string, accounts: readonly DayAccount[]): void {
    for (const { stream, day, accepted, filtered, replayed } of accounts) {
      const source = this.#streams.find(stream)
      if (source === undefined)
        throw new Error('The stream of an acknowledged entry is unknown to the journal')
      this.#statements.add.run(sink, source, day, accepted, filtered, 0, 0, replayed)
    }
  }

  /**
   * Call inside the transaction that adds a dead letter (1), or puts back or drops one (-1).
   * Replayed entries were counted when they were first sent.
   */
  deadLetter({ sink, source, at, replay }: CountedDeadLetter, added: 1 | -1, dropped: 0 | 1 = 0): void {
    if (!replay) this.#statements.add.run(sink, source, epochDay(at), 0, 0, added, dropped, 0)
  }

  /**
   * For a sink that was not counted so far, or lost entries while it was not configured: entries
   * kept that are neither counted nor pending become `before`. From then on kept = before +
   * accepted + filtered + dead_lettered + dropped + pending, on every day.
   */
  begin(sink: string, acknowledged: Acknowledged): void {
    const pending = new Map<string, number>()
    for (let after = acknowledged.position; ;) {
      const step = this.#pending(sink, acknowledged, after)
      for (const { source, day, count } of step.rows) {
        const key = `${source} ${day}`
        pending.set(key, (pending.get(key) ?? 0) + count)
      }
      if (!step.more) break
      after = step.through
    }
    for (const { source, day, missing } of this.#statements.uncounted.all({ sink })) {
      const before = missing - (pending.get(`${source} ${day}`) ?? 0)
      if (before !== 0) this.#statements.addBefore.run(sink, source, day, before)
    }
    this.#statements.counted.run(sink)
  }

  isCounted(sink: string): boolean {
    return this.#statements.isCounted.get(sink) === 1
  }

  kept({ fromDay, toDay }: DayRange): KeptDayAccount[] {
    return this.#statements.kept.all(fromDay, toDay).map((row) => this.#named(row))
  }

  delivered({ fromDay, toDay }: DayRange): SinkDayAccount[] {
    return this.#statements.delivered.all(fromDay, toDay).map((row) => this.#named(row))
  }

  /**
   * One bounded step over the entries behind `after` that are pending for this sink for the first
   * time, or again after they were dead letters.
   */
  pending(sink: string, acknowledged: Acknowledged, after: Seq): PendingStep {
    const { rows, ...step } = this.#pending(sink, acknowledged, after)
    return { ...step, rows: rows.map((row) => this.#named(row)) }
  }

  /**
   * One bounded step over the entries behind `after` that are still stored, as they came in: each
   * entry once.
   */
  storedDays(after: Seq): PendingStep {
    return this.pending(NO_SINK, { position: after, ahead: [] }, after)
  }

  #named<Row extends Counted>({ source, ...rest }: Row): Omit<Row, 'source'> & { stream: Stream } {
    return { stream: this.#streams.stream(source), ...rest }
  }

  #pending(sink: string, { ahead }: Acknowledged, after: Seq) {
    return pendingDays(this.#statements.times.all({ next: after + 1 }), sink, ahead, after)
  }
}

function prepare(db: Database) {
  return {
    add: db.prepare(
      `INSERT INTO accounts (sink, source, day, accepted, filtered, dead_lettered, dropped, replayed) VALUES (?, ?, ?, ?, ?, ?, ?, ?)
       ON CONFLICT DO UPDATE SET accepted = accepted + excluded.accepted, filtered = filtered + excluded.filtered,
       dead_lettered = dead_lettered + excluded.dead_lettered, dropped = dropped + excluded.dropped, replayed = replayed + excluded.replayed`,
    ),
    addBefore: db.prepare(
      `INSERT INTO accounts (sink, source, day, before) VALUES (?, ?, ?, ?)
       ON CONFLICT DO UPDATE SET before = before + excluded.before`,
    ),
    counted: db.prepare('UPDATE sinks SET counted = 1 WHERE name = ?'),
    isCounted: db.prepare<[string], number>('SELECT counted FROM sinks WHERE name = ?').pluck(),
    uncounted: db.prepare<[{ sink: string }], Counted & { missing: number }>(
      `SELECT kept.source, kept.day, kept.new + kept.late -
         coalesce(known.before + known.accepted + known.filtered + known.dead_lettered + known.dropped, 0) AS missing
       FROM counts kept LEFT JOIN accounts known ON known.sink = :sink AND known.source = kept.source AND known.day = kept.day`,
    ),
    kept: db.prepare<[number, number], Counted & Omit<KeptDayAccount, 'stream'>>(
      'SELECT source, day, new + late AS kept, filtered, quarantined FROM counts WHERE day >= ? AND day < ? ORDER BY source, day',
    ),
    delivered: db.prepare<[number, number], Counted & Omit<SinkDayAccount, 'stream'>>(
      `SELECT sink, source, day, before, accepted, filtered, dead_lettered AS deadLettered, dropped, replayed FROM accounts
       WHERE day >= ? AND day < ? ORDER BY sink, source, day`,
    ),
    // Only a chunk's times are read, 8 bytes per entry; the slab behind them is not read.
    times: db.prepare<[{ next: Seq }], ChunkTimes>(
      `SELECT first, last, source, only_sink, replay, times FROM chunks
       WHERE first >= coalesce((SELECT max(first) FROM chunks WHERE first <= :next), 0) AND last >= :next ORDER BY first LIMIT 64`,
    ),
  }
}
