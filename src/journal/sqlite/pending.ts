// Pending entries: what each sink has acknowledged, its in-flight records, and the journal's
// running totals. Memory is updated after the disk, never before.
import type { Database, Statement } from 'better-sqlite3'
import type { InFlight, SinkPosition, TakeWhere } from '../../contracts/journal.ts'
import type { Amount } from '../../contracts/records.ts'
import type { Log } from '../../core/log.ts'
import type { Seq, SequenceRange } from '../../core/sequence.ts'

interface SinkState {
  settled: Settled
  deadLetters: number
}

interface SinkRow {
  name: string
  position: number
  told: number
}

export class Ledger {
  /** the last entry's sequence number, 0 in an empty journal */
  lastSeq: Seq
  /** payload of the chunks that some sink has not fully acknowledged */
  pendingBytes: number
  /** payload of all chunks */
  keptBytes: number
  /** size of the dead letters of all sinks, including sinks that left the configuration */
  letterBytes: number
  readonly unconfigured: readonly string[]
  readonly #sinks = new Map<string, SinkState>()
  /** first sequence number of the oldest pending chunk */
  #pendingFrom: Seq
  readonly #statements: ReturnType<typeof prepare>

  constructor(db: Database, sinks: readonly string[], log: Log) {
    this.#statements = prepare(db)
    const kept = db
      .prepare<[], { oldest: number | null; last: number | null; bytes: number }>(
        'SELECT min(first) AS oldest, max(last) AS last, total(payload) AS bytes FROM chunks',
      )
      .get()
    const rows = new Map(
      db
        .prepare<[], SinkRow>('SELECT name, position, told FROM sinks')
        .all()
        .map((row) => [row.name, row]),
    )
    // If all chunks are pruned, the positions still show the last sequence number.
    this.lastSeq = Math.max(kept?.last ?? 0, 0, ...[...rows.values()].map(({ position }) => position))
    this.keptBytes = kept?.bytes ?? 0
    this.letterBytes = this.#statements.letterBytes.get() ?? 0
    const begin = (kept?.oldest ?? this.lastSeq + 1) - 1
    for (const name of sinks) this.#meet(name, rows.get(name), begin, log)
    this.unconfigured = [...rows.keys()].filter((name) => !this.#sinks.has(name))
    for (const name of this.unconfigured) this.#tell(name, rows.get(name), log)
    this.#pendingFrom = begin + 1
    this.pendingBytes = this.keptBytes
    this.#release()
  }

  /**
   * Adds a sink of the configuration: a known one continues where it was, but never before the
   * oldest stored entry.
   */
  #meet(name: string, row: SinkRow | undefined, begin: Seq, log: Log): void {
    const lost = row !== undefined && row.position < begin
    // Entries there for another sink only, such as its replay, are skipped.
    const entries = row === undefined ? (this.#statements.keptFor.get({ after: 0, sink: name }) ?? 0) : 0
    if (entries > 0)
      log.info('New sink: it begins with the oldest entry that is still kept', {
        sink: name,
        entries,
      })
    if (lost)
      log.warn('A sink came back after entries that it had not acknowledged were dropped', { sink: name })
    const position = Math.max(row?.position ?? 0, begin)
    const { putSink, dropIntentsBelow, deadLettersOf } = this.#statements
    putSink.run(name, position)
    if (lost) this.#statements.uncount.run(name)
    dropIntentsBelow.run(name, position)
    this.#sinks.set(name, {
      settled: this.#ackedFrom(name, position),
      deadLetters: deadLettersOf.get(name) ?? 0,
    })
  }

  /**
   * Ranges stored as acknowledged ahead may be below the position by now: a sink may come back
   * behind them.
   */
  #ackedFrom(name: string, position: Seq): Settled {
    const ahead = this.#statements.aheadOf.all(name)
    return ahead.reduce<Settled>(withAcked, { position, ahead: [] })
  }

  #tell(name: string, row: SinkRow | undefined, log: Log): void {
    if (row?.told === 1) return
    const { keptFor, tellSink } = this.#statements
    const settled = this.#ackedFrom(name, row?.position ?? 0)
    log.warn('A sink left the configuration: what it had not acknowledged is no longer kept for it', {
      sink: name,
      entries: (keptFor.get({ after: settled.position, sink: name }) ?? 0) - aheadCount(settled),
    })
    tellSink.run(name)
  }

  #sink(name: string): SinkState {
    const sink = this.#sinks.get(name)
    if (sink === undefined) throw new Error(`The journal was opened without a sink named ${name}`)
    return sink
  }

  get names(): readonly string[] {
    return [...this.#sinks.keys()]
  }

  /**
   * Every sink has acknowledged everything up to here. Without sinks it is 0: the first sink added
   * gets everything.
   */
  get ackedTo(): Seq {
    const positions = [...this.#sinks.values()].map(({ settled }) => settled.position)
    return positions.length === 0 ? this.#pendingFrom - 1 : Math.min(...positions)
  }

  settled(name: string): Settled {
    return this.#sink(name).settled
  }

  nextPending(name: string, { after, busy }: TakeWhere = {}): SequenceRange {
    const { settled } = this.#sink(name)
    return nextFree(settled, (after ?? settled.position) + 1, this.lastSeq, busy)
  }

  inFlightBatches(name: string): readonly InFlight[] {
    this.#sink(name)
    return this.#statements.intentsOf.all(name)
  }

  writeInFlight(name: string, { first, last, shape, detail }: InFlight): void {
    this.#sink(name)
    this.#statements.putIntent.run(name, first, last, shape, detail)
  }

  /** Call inside a transaction; `apply` the result once that has landed. */
  writeAck(name: string, stretch: SequenceRange): Settled {
    const before = this.#sink(name).settled
    if (stretch.last < stretch.first || stretch.last > this.lastSeq)
      throw new Error(
        `Sink ${name} settled ${stretch.first} to ${stretch.last}, which the journal does not hold`,
      )
    const after = withAcked(before, stretch)
    const { setPosition, dropIntents } = this.#statements
    if (after.position !== before.position) setPosition.run(after.position, name)
    dropIntents.run(name, stretch.first, stretch.last)
    if (before.ahead.length + after.ahead.length > 0) this.#writeAhead(name, after)
    return after
  }

  #writeAhead(name: string, { ahead }: Settled): void {
    this.#statements.dropAhead.run(name)
    for (const { first, last } of ahead) this.#statements.putAhead.run(name, first, last)
  }

  applyAck(name: string, settled: Settled, parked: Amount): void {
    const sink = this.#sink(name)
    sink.settled = settled
    sink.deadLetters += parked.count
    this.letterBytes += parked.bytes
    this.#release()
  }

  applyAppended(entries: number, bytes: number): void {
    this.lastSeq += entries
    this.pendingBytes += bytes
    this.keptBytes += bytes
  }

  applyPruned(bytes: number): void {
    this.keptBytes -= bytes
  }

  applyLetterGone({ sink: name, bytes }: { readonly sink: string; readonly bytes: number }): void {
    this.letterBytes -= bytes
    const sink = this.#sinks.get(name)
    if (sink) sink.deadLetters--
  }

  /** Removes chunks from the pending ones that every sink has acknowledged by now. */
  #release(): void {
    const ackedTo = this.ackedTo
    if (ackedTo < this.#pendingFrom) return
    const settled = this.#statements.settledChunks.get(this.#pendingFrom, ackedTo, ackedTo)
    if (settled === undefined || settled.last === null) return
    this.pendingBytes -= settled.bytes
    this.#pendingFrom = settled.last + 1
  }

  positions(): SinkPosition[] {
    return [...this.#sinks].map(([sink, { settled, deadLetters }]) => ({
      sink,
      position: settled.position,
      pendingEntries: this.lastSeq - settled.position - aheadCount(settled),
      oldestPendingAt:
        settled.position < this.lastSeq ? this.#statements.appendedAt.get(settled.position + 1) : undefined,
      deadLetters,
    }))
  }
}

function prepare(db: Database) {
  const number = <P extends unknown[]>(sql: string): Statement<P, number> =>
    db.prepare<P, number>(sql).pluck()
  return {
    putSink: db.prepare(
      'INSERT INTO sinks VALUES (?, ?, 0, 0) ON CONFLICT DO UPDATE SET position = excluded.position, told = 0',
    ),
    uncount: db.prepare('UPDATE sinks SET counted = 0 WHERE name = ?'),
    tellSink: db.prepare('UPDATE sinks SET told = 1 WHERE name = ?'),
    setPosition: db.prepare('UPDATE sinks SET position = ? WHERE name = ?'),
    aheadOf: db.prepare<[string], SequenceRange>('SELECT first, last FROM ahead WHERE sink = ?'),
    putAhead: db.prepare('INSERT INTO ahead VALUES (?, ?, ?)'),
    dropAhead: db.prepare('DELETE FROM ahead WHERE sink = ?'),
    intentsOf: db.prepare<[string], InFlight>(
      'SELECT first, last, shape, detail FROM intents WHERE sink = ? ORDER BY first',
    ),
    // An earlier version counted tries: the column is unused, and stays for downgrades to that
    // version.
    putIntent: db.prepare(
      'INSERT OR REPLACE INTO intents (sink, first, last, attempt, shape, detail) VALUES (?, ?, ?, 1, ?, ?)',
    ),
    dropIntents: db.prepare('DELETE FROM intents WHERE sink = ? AND first BETWEEN ? AND ?'),
    dropIntentsBelow: db.prepare('DELETE FROM intents WHERE sink = ? AND first <= ?'),
    deadLettersOf: number<[string]>('SELECT count(*) FROM dead_letters WHERE sink = ?'),
    letterBytes: number<[]>('SELECT total(bytes) FROM dead_letters'),
    keptFor: number<[{ after: Seq; sink: string }]>(
      'SELECT total(last - max(first - 1, :after)) FROM chunks WHERE last > :after AND (only_sink IS NULL OR only_sink = :sink)',
    ),
    appendedAt: number<[number]>(
      'SELECT appended_at FROM chunks WHERE first <= ? ORDER BY first DESC LIMIT 1',
    ),
    settledChunks: db.prepare<[number, number, number], { last: number | null; bytes: number }>(
      'SELECT max(last) AS last, total(payload) AS bytes FROM chunks WHERE first BETWEEN ? AND ? AND last <= ?',
    ),
  }
}

// What a sink has acknowledged: everything up to `position`, and some ranges above it. Pure.

export interface Settled {
  readonly position: Seq
  /** acknowledged above the position; ascending, not adjacent to each other or to the position */
  readonly ahead: readonly SequenceRange[]
}

/**
 * Acknowledges [first, last]. Position 10 with 21 to 30 ahead: acknowledging 11 to 20 gives
 * position 30 and nothing ahead; acknowledging 15 to 18 gives position 10 with 15 to 18 and 21 to
 * 30 ahead.
 * @internal for tests
 */
export function withAcked({ position, ahead }: Settled, { first, last }: SequenceRange): Settled {
  const merged: SequenceRange[] = []
  let reached = position
  for (const stretch of [...ahead, { first, last }].sort((a, b) => a.first - b.first)) {
    const before = merged.at(-1)
    if (stretch.first <= reached + 1) reached = Math.max(reached, stretch.last)
    else if (before && stretch.first <= before.last + 1)
      merged[merged.length - 1] = { first: before.first, last: Math.max(before.last, stretch.last) }
    else merged.push(stretch)
  }
  return { position: reached, ahead: merged }
}

/**
 * The first range at or behind `from` that is neither acknowledged nor busy: where to take next,
 * and how far.
 * @internal for tests
 */
export function nextFree(
  { position, ahead }: Settled,
  from: Seq,
  until: Seq,
  busy: readonly SequenceRange[] = [],
): SequenceRange {
  let first = Math.max(from, position + 1)
  for (const stretch of [...ahead, ...busy].sort((a, b) => a.first - b.first)) {
    if (stretch.first > first) return { first, last: Math.min(until, stretch.first - 1) }
    first = Math.max(first, stretch.last + 1)
  }
  return { first, last: until }
}

/** @internal for tests */
export function aheadCount({ ahead }: Settled): number {
  return ahead.reduce((sum, { first, last }) => sum + last - first + 1, 0)
}
