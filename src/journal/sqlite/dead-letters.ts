// Dead letters: entries that a sink rejects for good, kept with their bytes until an operator
// retries or drops them.
import type { Database } from 'better-sqlite3'
import {
  COLUMNS,
  Entries,
  TRANSACTION_BYTES,
  TRANSACTION_ENTRIES,
  columnsOf,
} from '../../contracts/entries.ts'
import type { Rejected, Acknowledgement } from '../../contracts/journal.ts'
import type { Amount, DeadLetter, DeadLetterQuery } from '../../contracts/records.ts'
import { idBytes, timeBytes } from '../rules/chunk.ts'
import { explaining, putChunks } from './append.ts'
import type { Core } from './core.ts'
import { writeNotes } from './state.ts'
import type { NoteStatements } from './state.ts'

interface Chosen {
  sink: string | null
  ids?: string
  after: number
  limit: number
}

interface Retried {
  readonly rows: readonly LetterRow[]
  /** size of their chunks */
  readonly bytes: number
}

/**
 * The sums in the ledger are updated after the disk: `apply` the result of a transaction once it
 * has landed.
 */
export class DeadLetters {
  readonly #core: Core
  readonly #statements: ReturnType<typeof prepareLetters>

  constructor(core: Core) {
    this.#core = core
    this.#statements = prepareLetters(core.db)
  }

  list(query: DeadLetterQuery): DeadLetter[] {
    return this.#rows(query).map((row) => ({
      id: row.id,
      sink: row.sink,
      seq: row.seq,
      stream: this.#core.origins.stream(row.source),
      entryId: row.entry_id.toString(),
      time: row.time.toString(),
      type: row.type,
      code: row.code,
      reason: row.reason,
      deadLetteredAt: row.dead_lettered_at,
      bytes: row.bytes,
    }))
  }

  raw(id: number): Buffer | undefined {
    return this.#statements.raw.get(id)
  }

  /**
   * Call inside a transaction: copies the entry from its chunk, which will be pruned. Returns its
   * bytes, undefined if it was a dead letter before.
   */
  writeDeadLetters(sink: string, { seq, code, reason }: Rejected): number | undefined {
    const { clock, deliveries, origins, chunkStore } = this.#core
    const found = chunkStore.entry(seq)
    if (found === undefined)
      throw new Error(`Sink ${sink} parked entry ${seq}, which the journal does not hold`)
    const { run, index } = found
    const { entries } = run
    const raw = entries.raw(index)
    const source = origins.find(run.stream)
    if (source === undefined) throw new Error('A parked origin is unknown to the journal')
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
      run.replay ? 1 : 0,
    )
    if (changes === 0) return undefined
    deliveries.letter({ sink, source, at: entries.at(index), replay: run.replay }, 1)
    return raw.length
  }

  /**
   * Call inside a transaction: puts them at the journal's end. A dead letter of a sink that left
   * the configuration stays: no sink would take it.
   */
  writeRetried(query: DeadLetterQuery): Retried {
    const { clock, deliveries, ledger } = this.#core
    const rows = this.#rows(query).filter(({ sink }) => ledger.names.includes(sink))
    let lastSeq = ledger.lastSeq
    let bytes = 0
    for (const { source, sink, replay, rows: bundled } of bundlesOf(rows)) {
      const entries = entriesOf(bundled, (id) => this.raw(id))
      const address = { source, appendedAt: clock.now(), onlySink: sink, replay }
      for (const { payload } of putChunks(this.#core, lastSeq, address, entries)) bytes += payload
      lastSeq += bundled.length
    }
    for (const row of rows) {
      this.#statements.remove.run(row.id)
      deliveries.letter(letterOf(row), -1)
    }
    return { rows, bytes }
  }

  applyRetried({ rows, bytes }: Retried): void {
    this.#core.ledger.applyAppended(rows.length, bytes)
    this.applyDropped(rows)
  }

  /** Call inside a transaction. */
  writeDropped(query: DeadLetterQuery): readonly LetterRow[] {
    const rows = this.#rows(query)
    for (const row of rows) {
      this.#statements.remove.run(row.id)
      this.#core.deliveries.letter(letterOf(row), -1, 1)
    }
    return rows
  }

  applyDropped(rows: readonly LetterRow[]): void {
    for (const row of rows) this.#core.ledger.applyLetterGone(row)
  }

  #rows({ sink, ids, after = 0, limit = -1 }: DeadLetterQuery): LetterRow[] {
    const { list, listOf } = this.#statements
    const chosen = { sink: sink ?? null, after, limit }
    return ids === undefined ? list.all(chosen) : listOf.all({ ...chosen, ids: JSON.stringify(ids) })
  }
}

const letterOf = ({ sink, source, at, replay }: LetterRow) => ({ sink, source, at, replay: replay === 1 })

const listed = (ids: string) =>
  `SELECT id, sink, seq, source, entry_id, time, at, type, version, code, reason, dead_lettered_at, bytes, replay FROM dead_letters
   WHERE id > :after AND (:sink IS NULL OR sink = :sink) ${ids} ORDER BY id LIMIT :limit`

export function prepareLetters(db: Database) {
  return {
    insert: db.prepare(
      `INSERT OR IGNORE INTO dead_letters (sink, seq, source, entry_id, time, at, type, version, code, reason, dead_lettered_at, bytes, raw, replay)
       VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`,
    ),
    list: db.prepare<[Chosen], LetterRow>(listed('')),
    listOf: db.prepare<[Chosen], LetterRow>(listed('AND id IN (SELECT value FROM json_each(:ids))')),
    raw: db.prepare<[number], Buffer>('SELECT raw FROM dead_letters WHERE id = ?').pluck(),
    remove: db.prepare('DELETE FROM dead_letters WHERE id = ?'),
  }
}

// Converts dead letters back to entries to put them back: grouped by sink and source, up to a chunk
// each.

/** A dead letter as stored in the file, without its bytes. */
interface LetterRow {
  id: number
  sink: string
  seq: number
  source: number
  entry_id: Buffer
  time: Buffer
  at: number
  type: string
  version: number
  code: string
  reason: string
  dead_lettered_at: number
  bytes: number
  replay: number
}

/** Dead letters of one sink and source, up to one chunk. */
interface LetterBundle {
  readonly sink: string
  readonly source: number
  readonly replay: boolean
  readonly rows: LetterRow[]
  bytes: number
}

function bundlesOf(rows: readonly LetterRow[]): LetterBundle[] {
  const open = new Map<string, LetterBundle>()
  const bundles: LetterBundle[] = []
  for (const row of rows) {
    const key = `${row.source} ${row.sink} ${row.replay}`
    let last = open.get(key)
    const full =
      last !== undefined &&
      (last.rows.length >= TRANSACTION_ENTRIES || last.bytes + row.bytes > TRANSACTION_BYTES)
    if (last === undefined || full) {
      last = { sink: row.sink, source: row.source, replay: row.replay === 1, rows: [], bytes: 0 }
      open.set(key, last)
      bundles.push(last)
    }
    last.rows.push(row)
    last.bytes += row.bytes
  }
  return bundles
}

/** The raw bytes in sequence, each followed by the entry's id and time as text. */
function entriesOf(rows: readonly LetterRow[], rawOf: (id: number) => Buffer | undefined): Entries {
  const pieces: Buffer[] = []
  const columns = new Uint32Array(rows.length * COLUMNS)
  const types = [...new Set(rows.map(({ type }) => type))]
  let length = 0
  rows.forEach((row, i) => {
    const body = rawOf(row.id) ?? Buffer.alloc(0)
    const rawEnd = length + body.length
    const idEnd = rawEnd + row.entry_id.length
    const timeEnd = idEnd + row.time.length
    const places = {
      raw: [length, rawEnd],
      id: [rawEnd, idEnd],
      time: [idEnd, timeEnd],
      type: types.indexOf(row.type),
      version: row.version,
    } as const
    columns.set(columnsOf(places), i * COLUMNS)
    pieces.push(body, row.entry_id, row.time)
    length = timeEnd
  })
  return new Entries(
    Buffer.concat(pieces),
    rows.length,
    columns,
    Float64Array.from(rows, ({ at }) => at),
    types,
  )
}

// Acknowledges a range: refused entries become dead letters, the others are counted, the position
// moves, in one transaction (invariant 3).

/** One transaction, as `append`. Repeating an acknowledgement adds no second dead letter. */
export function ack(
  core: Core,
  letters: DeadLetters,
  noteStatements: NoteStatements,
  sink: string,
  { first, through, parked, outcomes, next, notes }: Acknowledgement,
): void {
  const { deliveries, ledger, chunkStore, transactions } = core
  if (parked.some(({ seq }) => seq < first || seq > through))
    throw new Error(`Sink ${sink} parked an entry outside of what it settled`)
  let copied: Amount = { count: 0, bytes: 0 }
  const land = () => {
    // Counted again if the disk was full at the first try.
    copied = { count: 0, bytes: 0 }
    for (const each of parked) {
      const bytes = letters.writeDeadLetters(sink, each)
      if (bytes !== undefined) copied = { count: copied.count + 1, bytes: copied.bytes + bytes }
    }
    const settled = ledger.writeAck(sink, { first, last: through })
    if (outcomes) deliveries.add(sink, outcomes)
    if (next) ledger.writeInFlight(sink, next)
    if (notes) writeNotes(noteStatements, { put: notes })
    return settled
  }
  const settled = explaining(core, TRANSACTION_BYTES, () => transactions.write(land))
  ledger.applyAck(sink, settled, copied)
  chunkStore.release(ledger.ackedTo)
}
