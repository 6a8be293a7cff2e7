// The tables of a journal in SQLite, as a copy reads and writes them.
import { lstatSync } from 'node:fs'
import type { Database } from 'better-sqlite3'
import type { Clock } from '../../core/clock.ts'
import { ConnectorError } from '../../core/errors.ts'
import type { Log } from '../../core/log.ts'
import { UNFINISHED_COPY } from '../rules/state.ts'
import { closeDatabase, translate } from '../sqlite/database.ts'
import { openTables } from '../sqlite/open.ts'
import { chunkPlaces, pagesOf, tables } from './tables.ts'
import type {
  ChunkPlace,
  KeyedRow,
  Rows,
  Table,
  TableOptions,
  Tables,
  TargetTables,
  Value,
} from './tables.ts'

interface SqliteTablesOptions {
  readonly path: string
  readonly clock: Clock
  readonly log: Log
}

/** Throws ConnectorError as the journal does when it is opened, and if there is none. */
export async function openSqliteSource(options: SqliteTablesOptions): Promise<Tables> {
  const { path } = options
  if (!isThere(path))
    throw new ConnectorError(
      'config_invalid',
      `There is no journal at ${path}: nothing can be copied from it`,
    )
  return opened(options)
}

export async function openSqliteTarget(options: SqliteTablesOptions): Promise<TargetTables> {
  const { path } = options
  if (isThere(path) || isThere(`${path}-wal`))
    throw new ConnectorError(
      'config_invalid',
      `The file ${path} exists, and a copy needs a new one: remove it with its -wal if it is an unfinished copy, or set journal.path to another file`,
    )
  return opened(options)
}

const isThere = (path: string) => lstatSync(path, { throwIfNoEntry: false }) !== undefined

const opened = async (options: SqliteTablesOptions) =>
  new SqliteTables(
    options.path,
    // Only while it is copied, the file has no bound.
    await openTables({
      ...options,
      maxBytes: 0,
      keepKeysMs: 0,
      keepDeliveredBytes: 0,
      maxFileBytes: Infinity,
    }),
  )

/** Names that differ from those of PostgreSQL. */
const tableNames: Partial<Record<Table, string>> = { streams: 'sources', dedup_keys: 'keys' }
const columnNames: Readonly<Record<string, string>> = {
  shard: '1',
  stream: 'source',
  checksum: 'crc',
  fingerprint: 'shape',
  low_us: 'low_at',
  low_before_us: 'low_before',
}
/** Columns that this engine does not have, or has in another form. */
const expressions: Readonly<Record<string, string>> = {
  'streams newest_us': '(SELECT max(at) FROM keys WHERE keys.source = sources.id)',
  'quarantine kept_at': 'abs(kept_at)',
  'quarantine dropped_at': 'CASE WHEN kept_at < 0 THEN -kept_at END',
  // The first findings were stored without it.
  'findings at': 'coalesce(at, found_at * 1000)',
}

const tableName = (table: Table) => tableNames[table] ?? table
const columnName = (column: string) => columnNames[column] ?? `"${column}"`

class SqliteTables implements TargetTables {
  readonly where: string
  readonly #db: Database

  constructor(path: string, db: Database) {
    this.where = path
    this.#db = db
  }

  async shards() {
    const [found] = this.#all<{ begin: number | null; last: number }>(
      `SELECT (SELECT min(first) - 1 FROM chunks) AS begin,
         max((SELECT coalesce(max(last), 0) FROM chunks), (SELECT coalesce(max(position), 0) FROM sinks)) AS last`,
    )
    const lastSeq = found?.last ?? 0
    return [{ shard: 1, begin: found?.begin ?? lastSeq, lastSeq }]
  }

  async *rows<T extends Table>(table: T) {
    for await (const page of this.#pages(table, tables[table])) yield page.map(withoutKeys) as Rows[T][]
  }

  chunkPlaces() {
    return this.#pages('chunks', chunkPlaces) as AsyncIterable<readonly ChunkPlace[]>
  }

  #pages(table: Table, { columns, order, pageRows }: TableOptions) {
    const names = order.filter((column) => column !== 'shard')
    const selected = columns.map(
      (column) => `${expressions[`${table} ${column}`] ?? columnName(column)} AS "${column}"`,
    )
    const keys = names.map((name, i) => `${columnName(name)} AS "key ${i}"`)
    const list = names.map(columnName).join(', ')
    const from = `SELECT ${[...selected, ...keys].join(', ')} FROM ${tableName(table)}`
    const by = `ORDER BY ${list} LIMIT ${pageRows}`
    const values = names.map(() => '?').join(', ')
    return pagesOf(async (after) =>
      this.#all<KeyedRow>(`${from} ${after ? `WHERE (${list}) > (${values})` : ''} ${by}`, after),
    )
  }

  async chunks(from: ChunkPlace, to: ChunkPlace) {
    const selected = tables.chunks.columns.map((column) => `${columnName(column)} AS "${column}"`)
    return this.#all<Rows['chunks']>(
      `SELECT ${selected.join(', ')} FROM chunks WHERE first BETWEEN ? AND ? ORDER BY first`,
      [from.first, to.first],
    )
  }

  async count(table: Table) {
    const [found] = this.#all<{ count: number }>(
      `SELECT count(*) AS count FROM ${tableName(table)} ${ours(table)}`,
    )
    return found?.count ?? 0
  }

  async begin() {
    this.#write(() => this.#db.prepare('INSERT INTO state VALUES (?, ?)').run(UNFINISHED_COPY, ''))
  }

  async write<T extends Table>(table: T, rows: readonly Rows[T][]) {
    const missing = table === 'streams' ? ['newest_us'] : table === 'quarantine' ? ['dropped_at'] : []
    const columns = tables[table].columns.filter((column) => column !== 'shard' && !missing.includes(column))
    const names = [...columns.map(columnName), ...(table === 'dead_letters' ? ['bytes'] : [])]
    this.#write(() => {
      const insert = this.#db.prepare(
        `INSERT INTO ${tableName(table)} (${names.join(', ')}) VALUES (${names.map(() => '?').join(', ')})`,
      )
      for (const row of rows as readonly Readonly<Record<string, Value>>[]) {
        const values = columns.map((column) => valueOf(row, table, column))
        insert.run(...values, ...(table === 'dead_letters' ? [(row['raw'] as Buffer).length] : []))
      }
    })
  }

  async finish() {
    this.#write(() => this.#db.prepare('DELETE FROM state WHERE name = ?').run(UNFINISHED_COPY))
  }

  /** No other process opens the file meanwhile. */
  async assertHeld() {}

  async close() {
    closeDatabase(this.#db, (error) => translate(error, this.where))
  }

  #all<Row>(text: string, values: readonly Value[] = []): Row[] {
    return this.#judged(() => this.#db.prepare<Value[], Row>(text).all(...values))
  }

  #write(work: () => void): void {
    this.#judged(() => this.#db.transaction(work).immediate())
  }

  #judged<T>(work: () => T): T {
    try {
      return work()
    } catch (error) {
      throw translate(error, this.where)
    }
  }
}

/** The engine's own state entries are not counted. */
const ours = (table: Table) => (table === 'state' ? "WHERE name NOT GLOB 'journal.*'" : '')

const withoutKeys = (row: KeyedRow): KeyedRow =>
  Object.fromEntries(Object.entries(row).filter(([name]) => !name.startsWith('key ')))

/** `kept_at` below 0: dropped at that time. */
function valueOf(row: Readonly<Record<string, Value>>, table: Table, column: string): Value {
  const dropped = table === 'quarantine' && column === 'kept_at' ? row['dropped_at'] : null
  return typeof dropped === 'number' ? -Math.max(1, dropped) : (row[column] ?? null)
}
