// Dead letters: entries that a sink refuses for good, kept with their bytes until somebody retries or drops them.
import type { Database } from 'better-sqlite3'
import { COLUMNS, columnsOf, Entries, TRANSACTION_BYTES, TRANSACTION_ENTRIES } from '../model/entries.ts'
import type { Parked } from '../model/journal.ts'
import type { DeadLetter, DeadLetterQuery } from '../model/set-aside.ts'
import { putChunks } from './append.ts'
import { idBytes, timeBytes } from './chunk.ts'
import type { Core } from './core.ts'

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
  parked_at: number
  bytes: number
  replay: number
}

export type LetterStatements = ReturnType<typeof prepareLetters>

interface Chosen {
  sink: string | null
  ids?: string
  after: number
  limit: number
}

const listed = (ids: string) =>
  `SELECT id, sink, seq, source, entry_id, time, at, type, version, code, reason, parked_at, bytes, replay FROM dead_letters
   WHERE id > :after AND (:sink IS NULL OR sink = :sink) ${ids} ORDER BY id LIMIT :limit`

export function prepareLetters(db: Database) {
  return {
    insert: db.prepare(
      `INSERT OR IGNORE INTO dead_letters (sink, seq, source, entry_id, time, at, type, version, code, reason, parked_at, bytes, raw, replay)
       VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`,
    ),
    list: db.prepare<[Chosen], LetterRow>(listed('')),
    listOf: db.prepare<[Chosen], LetterRow>(listed('AND id IN (SELECT value FROM json_each(:ids))')),
    raw: db.prepare<[number], Buffer>('SELECT raw FROM dead_letters WHERE id = ?').pluck(),
    remove: db.prepare('DELETE FROM dead_letters WHERE id = ?'),
  }
}

function rowsOf(
  { list, listOf }: LetterStatements,
  { sink, ids, after = 0, limit = -1 }: DeadLetterQuery,
): LetterRow[] {
  const chosen = { sink: sink ?? null, after, limit }
  return ids === undefined ? list.all(chosen) : listOf.all({ ...chosen, ids: JSON.stringify(ids) })
}

export function list({ origins }: Core, statements: LetterStatements, query: DeadLetterQuery): DeadLetter[] {
  return rowsOf(statements, query).map((row) => ({
    id: row.id,
    sink: row.sink,
    seq: row.seq,
    origin: origins.origin(row.source),
    entryId: row.entry_id.toString(),
    time: row.time.toString(),
    type: row.type,
    code: row.code,
    reason: row.reason,
    parkedAt: row.parked_at,
    bytes: row.bytes,
  }))
}

/** Inside a transaction: copies the entry out of its chunk, which will be pruned. Returns its bytes, undefined where it was parked before. */
export function park(
  core: Core,
  { insert }: LetterStatements,
  sink: string,
  { seq, code, reason }: Parked,
): number | undefined {
  const found = core.shelf.entry(seq)
  if (found === undefined)
    throw new Error(`Sink ${sink} parked entry ${seq}, which the journal does not hold`)
  const { run, index } = found
  const { entries } = run
  const raw = entries.raw(index)
  const source = core.origins.find(run.origin)
  if (source === undefined) throw new Error('A parked origin is unknown to the journal')
  const { changes } = insert.run(
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
    core.clock.now(),
    raw.length,
    raw,
    run.replay ? 1 : 0,
  )
  if (changes === 0) return undefined
  core.deliveries.letter({ sink, source, at: entries.at(index), replay: run.replay }, 1)
  return raw.length
}

const letterOf = ({ sink, source, at, replay }: LetterRow) => ({ sink, source, at, replay: replay === 1 })

/** Letters of one sink and source, as many as a chunk holds. */
interface Bundle {
  readonly sink: string
  readonly source: number
  readonly replay: boolean
  readonly rows: LetterRow[]
  bytes: number
}

function bundle(rows: readonly LetterRow[]): Bundle[] {
  const open = new Map<string, Bundle>()
  const bundles: Bundle[] = []
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

/** The raw bytes one after the other, each followed by the entry's id and time as text. */
function entriesOf({ raw }: LetterStatements, { rows }: Bundle): Entries {
  const pieces: Buffer[] = []
  const columns = new Uint32Array(rows.length * COLUMNS)
  const types = [...new Set(rows.map(({ type }) => type))]
  let length = 0
  rows.forEach((row, i) => {
    const body = raw.get(row.id) ?? Buffer.alloc(0)
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

/** A letter of a sink that left the configuration stays: nobody would take it. */
export function retry(core: Core, statements: LetterStatements, query: DeadLetterQuery): number {
  const { deliveries, ledger, transactions } = core
  let count = 0
  let bytes = 0
  let rows: LetterRow[] = []
  transactions.write(() => {
    rows = rowsOf(statements, query).filter(({ sink }) => ledger.names.includes(sink))
    count = 0
    bytes = 0
    for (const each of bundle(rows)) {
      const address = {
        source: each.source,
        appendedAt: core.clock.now(),
        onlySink: each.sink,
        replay: each.replay,
      }
      for (const { payload } of putChunks(core, ledger.lastSeq + count, address, entriesOf(statements, each)))
        bytes += payload
      count += each.rows.length
    }
    for (const row of rows) {
      statements.remove.run(row.id)
      deliveries.letter(letterOf(row), -1)
    }
  })
  ledger.applyAppended(count, bytes)
  for (const row of rows) ledger.applyLetterGone(row)
  return count
}

export function drop(
  { deliveries, ledger, transactions }: Core,
  statements: LetterStatements,
  query: DeadLetterQuery,
): number {
  const rows = transactions.write(() => {
    const found = rowsOf(statements, query)
    for (const row of found) {
      statements.remove.run(row.id)
      deliveries.letter(letterOf(row), -1, 1)
    }
    return found
  })
  for (const row of rows) ledger.applyLetterGone(row)
  return rows.length
}
