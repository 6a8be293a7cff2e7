// Dead letters: entries that a sink rejects for good, kept with their bytes until an operator
// retries or drops them.
import type { Database } from 'better-sqlite3'
import { TRANSACTION_BYTES } from '../../contracts/entries.ts'
import type { Rejected, Acknowledgement } from '../../contracts/journal.ts'
import type { Amount, DeadLetter, DeadLetterQuery } from '../../contracts/records.ts'
import { idBytes, timeBytes } from '../rules/chunk.ts'
import { bundlesOf, deadLetterOf, entriesOf } from '../rules/dead-letters.ts'
import type { DeadLetterRow } from '../rules/dead-letters.ts'
import { explaining, putChunks } from './append.ts'
import type { Core } from './core.ts'

interface Chosen {
  sink: string | null
  ids?: string
  after: number
  limit: number
}

interface Retried {
  readonly rows: readonly DeadLetterRow[]
  /** size of their chunks */
  readonly bytes: number
}

/** Sums are updated after the disk: `apply` a transaction's result once it has landed. */
export class DeadLetters {
  readonly #core: Core
  readonly #statements: ReturnType<typeof prepareDeadLetters>

  constructor(core: Core) {
    this.#core = core
    this.#statements = prepareDeadLetters(core.db)
  }

  list(query: DeadLetterQuery): DeadLetter[] {
    return this.#rows(query).map((row) => deadLetterOf(row, this.#core.streams.stream(row.source)))
  }

  raw(id: number): Buffer | undefined {
    return this.#statements.raw.get(id)
  }

  /**
   * Call inside a transaction: copies the entry from its chunk, which will be pruned. Returns its
   * bytes, undefined if it was a dead letter before.
   */
  writeDeadLetter(sink: string, { seq, code, reason }: Rejected): number | undefined {
    const { clock, accounts, streams, chunkStore } = this.#core
    const found = chunkStore.entry(seq)
    if (found === undefined)
      throw new Error(`Sink ${sink} rejected entry ${seq}, which the journal does not hold`)
    const { slice, index } = found
    const { entries } = slice
    const raw = entries.raw(index)
    const source = streams.find(slice.stream)
    if (source === undefined) throw new Error('The stream of a rejected entry is unknown to the journal')
    const { changes } = this.#statements.insert.run(
      sink,
      seq,
      source,
      idBytes(entries, index),
      timeBytes(entries, index),
      entries.at(index),
      entries.type(index),
      entries.version(index),
      code,
      reason,
      clock.now(),
      raw.length,
      raw,
      slice.replay ? 1 : 0,
    )
    if (changes === 0) return undefined
    accounts.deadLetter({ sink, source, at: entries.at(index), replay: slice.replay }, 1)
    return raw.length
  }

  /**
   * Call inside a transaction: puts them at the journal's end. A dead letter of a sink that left
   * the configuration stays: no sink would take it.
   */
  writeRetried(query: DeadLetterQuery): Retried {
    const { clock, accounts, pending } = this.#core
    const rows = this.#rows(query).filter(({ sink }) => pending.sinks.has(sink))
    let lastSeq = pending.lastSeq
    let bytes = 0
    for (const { source, sink, replay, rows: bundled } of bundlesOf(rows)) {
      const entries = entriesOf(bundled, (id) => this.raw(id))
      const address = { source, appendedAt: clock.now(), onlySink: sink, replay }
      for (const { payload } of putChunks(this.#core, lastSeq, address, entries)) bytes += payload
      lastSeq += bundled.length
    }
    for (const row of rows) {
      this.#statements.remove.run(row.id)
      accounts.deadLetter(countedOf(row), -1)
    }
    return { rows, bytes }
  }

  applyRetried({ rows, bytes }: Retried): void {
    this.#core.pending.applyAppended(rows.length, bytes)
    this.applyDropped(rows)
  }

  /** Call inside a transaction. */
  writeDropped(query: DeadLetterQuery): readonly DeadLetterRow[] {
    const rows = this.#rows(query)
    for (const row of rows) {
      this.#statements.remove.run(row.id)
      this.#core.accounts.deadLetter(countedOf(row), -1, 1)
    }
    return rows
  }

  applyDropped(rows: readonly DeadLetterRow[]): void {
    for (const row of rows) this.#core.pending.applyDeadLetterGone(row)
  }

  #rows({ sink, ids, after = 0, limit = -1 }: DeadLetterQuery): DeadLetterRow[] {
    const { list, listOf } = this.#statements
    const chosen = { sink: sink ?? null, after, limit }
    return ids === undefined ? list.all(chosen) : listOf.all({ ...chosen, ids: JSON.stringify(ids) })
  }
}

const countedOf = ({ sink, source, at, replay }: DeadLetterRow) => ({
  sink,
  source,
  at,
  replay: replay === 1,
})

const listed = (ids: string) =>
  `SELECT id, sink, seq, source, entry_id, time, at, type, version, code, reason, dead_lettered_at, bytes, replay FROM dead_letters
   WHERE id > :after AND (:sink IS NULL OR sink = :sink) ${ids} ORDER BY id LIMIT :limit`

export function prepareDeadLetters(db: Database) {
  return {
    insert: db.prepare(
      `INSERT OR IGNORE INTO dead_letters (sink, seq, source, entry_id, time, at, type, version, code, reason, dead_lettered_at, bytes, raw, replay)
       VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`,
    ),
    list: db.prepare<[Chosen], DeadLetterRow>(listed('')),
    listOf: db.prepare<[Chosen], DeadLetterRow>(listed('AND id IN (SELECT value FROM json_each(:ids))')),
    raw: db.prepare<[number], Buffer>('SELECT raw FROM dead_letters WHERE id = ?').pluck(),
    remove: db.prepare('DELETE FROM dead_letters WHERE id = ?'),
  }
}

// Acknowledges a range: refused entries become dead letters, the others are counted, the position
// moves, in one transaction (invariant 3).

/** One transaction, as `append`. Repeating an acknowledgement adds no second dead letter. */
export function ack(
  core: Core,
  deadLetters: DeadLetters,
  sink: string,
  acknowledgement: Acknowledgement,
): void {
  const { first, through, rejected, accounts: dayAccounts, next, state } = acknowledgement
  const { accounts, pending, chunkStore, transactions } = core
  if (rejected.some(({ seq }) => seq < first || seq > through))
    throw new Error(`Sink ${sink} rejected an entry outside of what it acknowledged`)
  let copied: Amount = { count: 0, bytes: 0 }
  const land = () => {
    // Counted again if the disk was full at the first try.
    copied = { count: 0, bytes: 0 }
    for (const each of rejected) {
      const bytes = deadLetters.writeDeadLetter(sink, each)
      if (bytes !== undefined) copied = { count: copied.count + 1, bytes: copied.bytes + bytes }
    }
    const acknowledged = pending.writeAck(sink, { first, last: through })
    if (dayAccounts) accounts.add(sink, dayAccounts)
    if (next) pending.writeInFlight(sink, next)
    if (state) core.state.write({ put: state })
    return acknowledged
  }
  const acknowledged = explaining(core, TRANSACTION_BYTES, () => transactions.write(land))
  pending.applyAck(sink, acknowledged, copied)
  chunkStore.release(pending.ackedTo)
}
