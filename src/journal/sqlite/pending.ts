// Pending entries: what each sink has acknowledged, its in-flight records, and the journal's
// running totals. Memory is updated after the disk, never before.
import type { Database, Statement } from 'better-sqlite3'
import type { InFlight, SinkPosition } from '../../contracts/journal.ts'
import type { Amount } from '../../contracts/records.ts'
import type { Log } from '../../core/log.ts'
import type { Seq, SequenceRange } from '../../core/sequence.ts'
import { PendingEntries, aheadCount, withAcked } from '../rules/acknowledgement.ts'
import type { Acknowledged, Released, SinkState } from '../rules/acknowledgement.ts'
import { logLeftSink, logNewSink, logReturnedSink } from '../rules/streams.ts'

interface SinkRow {
  name: string
  position: number
  /** 1: the operator knows that this sink left the configuration */
  reported: number
}

interface Registered {
  readonly sinks: ReadonlyMap<string, SinkState>
  readonly unconfigured: readonly string[]
}

export class Pending extends PendingEntries<SinkState> {
  /** the last entry's sequence number, 0 in an empty journal */
  lastSeq: Seq
  /** size of the dead letters of all sinks, including sinks that left the configuration */
  deadLetterBytes: number
  readonly #statements: ReturnType<typeof prepare>

  constructor(db: Database) {
    super()
    this.#statements = prepare(db)
    const stored = this.#statements.stored.get()
    // If all chunks are pruned, the positions still show the last sequence number.
    this.lastSeq = Math.max(
      stored?.last ?? 0,
      0,
      ...this.#statements.sinks.all().map(({ position }) => position),
    )
    this.storedBytes = this.bytes = stored?.bytes ?? 0
    this.deadLetterBytes = this.#statements.deadLetterBytes.get() ?? 0
    this.pendingFrom = stored?.oldest ?? this.lastSeq + 1
  }

  /** Call inside a transaction; `apply` the result once that has landed. */
  writeRegistered(sinks: readonly string[], log: Log): Registered {
    const rows = new Map(this.#statements.sinks.all().map((row) => [row.name, row]))
    const begin = (this.#statements.oldest.get() ?? this.lastSeq + 1) - 1
    const unconfigured = [...rows.keys()].filter((name) => !sinks.includes(name))
    const states = new Map(sinks.map((name) => [name, this.#writeSink(name, rows.get(name), begin, log)]))
    for (const name of unconfigured) this.#reportLeft(name, rows.get(name), log)
    return { sinks: states, unconfigured }
  }

  applyRegistered({ sinks, unconfigured }: Registered): void {
    this.sinks = sinks
    this.unconfigured = unconfigured
    this.#release()
  }

  /** Adds a configured sink: a known one continues, but not before the oldest stored entry. */
  #writeSink(name: string, row: SinkRow | undefined, begin: Seq, log: Log): SinkState {
    const lost = row !== undefined && row.position < begin
    // Entries there for another sink only, such as its replay, are skipped.
    const entries = row === undefined ? (this.#statements.storedFor.get({ after: 0, sink: name }) ?? 0) : 0
    if (entries > 0) logNewSink(log, name, entries)
    if (lost) logReturnedSink(log, name)
    const position = Math.max(row?.position ?? 0, begin)
    const { putSink, dropInFlightBelow, deadLettersOf } = this.#statements
    putSink.run(name, position)
    if (lost) this.#statements.uncount.run(name)
    dropInFlightBelow.run(name, position)
    return { acknowledged: this.#ackedFrom(name, position), deadLetters: deadLettersOf.get(name) ?? 0 }
  }

  /** Stored ranges may be below the position by now: a sink may come back behind them. */
  #ackedFrom(name: string, position: Seq): Acknowledged {
    const ahead = this.#statements.aheadOf.all(name)
    return ahead.reduce<Acknowledged>(withAcked, { position, ahead: [] })
  }

  #reportLeft(name: string, row: SinkRow | undefined, log: Log): void {
    if (row?.reported === 1) return
    const { storedFor, setReported } = this.#statements
    const acknowledged = this.#ackedFrom(name, row?.position ?? 0)
    const stored = storedFor.get({ after: acknowledged.position, sink: name }) ?? 0
    logLeftSink(log, name, stored - aheadCount(acknowledged))
    setReported.run(name)
  }

  inFlightBatches(name: string): readonly InFlight[] {
    this.sink(name)
    return this.#statements.inFlightOf.all(name)
  }

  writeInFlight(name: string, { first, last, shape, detail }: InFlight): void {
    this.sink(name)
    this.#statements.putInFlight.run(name, first, last, shape, detail)
  }

  /** Call inside a transaction; `apply` the result once that has landed. */
  writeAck(name: string, range: SequenceRange): Acknowledged {
    const before = this.sink(name).acknowledged
    const after = this.ackedWith(name, range, this.lastSeq)
    const { setPosition, dropInFlight } = this.#statements
    if (after.position !== before.position) setPosition.run(after.position, name)
    dropInFlight.run(name, range.first, range.last)
    if (before.ahead.length + after.ahead.length > 0) this.#writeAhead(name, after)
    return after
  }

  #writeAhead(name: string, { ahead }: Acknowledged): void {
    this.#statements.dropAhead.run(name)
    for (const { first, last } of ahead) this.#statements.putAhead.run(name, first, last)
  }

  applyAck(name: string, acknowledged: Acknowledged, deadLetters: Amount): void {
    const sink = this.sink(name)
    sink.acknowledged = acknowledged
    sink.deadLetters += deadLetters.count
    this.deadLetterBytes += deadLetters.bytes
    this.#release()
  }

  applyAppended(entries: number, bytes: number): void {
    this.lastSeq += entries
    this.bytes += bytes
    this.storedBytes += bytes
  }

  applyPruned(bytes: number): void {
    this.storedBytes -= bytes
  }

  applyDeadLetterGone({ sink: name, bytes }: { readonly sink: string; readonly bytes: number }): void {
    this.deadLetterBytes -= bytes
    const sink = this.sinks.get(name)
    if (sink) sink.deadLetters--
  }

  /** Removes chunks from the pending ones that every sink has acknowledged by now. */
  #release(): void {
    const ackedTo = this.ackedTo
    if (ackedTo < this.pendingFrom) return
    const chunks = this.#statements.acknowledgedChunks.get(this.pendingFrom, ackedTo, ackedTo)
    if (chunks) this.applyReleased(chunks)
  }

  positions(): SinkPosition[] {
    return [...this.sinks].map(([sink, { acknowledged, deadLetters }]) => ({
      sink,
      position: acknowledged.position,
      pendingEntries: this.lastSeq - acknowledged.position - aheadCount(acknowledged),
      oldestPendingAt:
        acknowledged.position < this.lastSeq
          ? this.#statements.appendedAt.get(acknowledged.position + 1)
          : undefined,
      deadLetters,
    }))
  }
}

function prepare(db: Database) {
  const number = <P extends unknown[]>(sql: string): Statement<P, number> =>
    db.prepare<P, number>(sql).pluck()
  return {
    stored: db.prepare<[], { oldest: number | null; last: number | null; bytes: number }>(
      'SELECT min(first) AS oldest, max(last) AS last, total(payload) AS bytes FROM chunks',
    ),
    oldest: db.prepare<[], number | null>('SELECT min(first) FROM chunks').pluck(),
    sinks: db.prepare<[], SinkRow>('SELECT name, position, reported FROM sinks'),
    putSink: db.prepare(
      'INSERT INTO sinks VALUES (?, ?, 0, 0) ON CONFLICT DO UPDATE SET position = excluded.position, reported = 0',
    ),
    uncount: db.prepare('UPDATE sinks SET counted = 0 WHERE name = ?'),
    setReported: db.prepare('UPDATE sinks SET reported = 1 WHERE name = ?'),
    setPosition: db.prepare('UPDATE sinks SET position = ? WHERE name = ?'),
    aheadOf: db.prepare<[string], SequenceRange>(
      'SELECT first, last FROM acknowledged_ranges WHERE sink = ?',
    ),
    putAhead: db.prepare('INSERT INTO acknowledged_ranges VALUES (?, ?, ?)'),
    dropAhead: db.prepare('DELETE FROM acknowledged_ranges WHERE sink = ?'),
    inFlightOf: db.prepare<[string], InFlight>(
      'SELECT first, last, shape, detail FROM in_flight WHERE sink = ? ORDER BY first',
    ),
    putInFlight: db.prepare(
      'INSERT OR REPLACE INTO in_flight (sink, first, last, shape, detail) VALUES (?, ?, ?, ?, ?)',
    ),
    dropInFlight: db.prepare('DELETE FROM in_flight WHERE sink = ? AND first BETWEEN ? AND ?'),
    dropInFlightBelow: db.prepare('DELETE FROM in_flight WHERE sink = ? AND first <= ?'),
    deadLettersOf: number<[string]>('SELECT count(*) FROM dead_letters WHERE sink = ?'),
    deadLetterBytes: number<[]>('SELECT total(bytes) FROM dead_letters'),
    storedFor: number<[{ after: Seq; sink: string }]>(
      'SELECT total(last - max(first - 1, :after)) FROM chunks WHERE last > :after AND (only_sink IS NULL OR only_sink = :sink)',
    ),
    appendedAt: number<[number]>(
      'SELECT appended_at FROM chunks WHERE first <= ? ORDER BY first DESC LIMIT 1',
    ),
    acknowledgedChunks: db.prepare<[number, number, number], Released>(
      'SELECT max(last) AS last, total(payload) AS bytes FROM chunks WHERE first BETWEEN ? AND ? AND last <= ?',
    ),
  }
}
