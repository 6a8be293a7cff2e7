// The tables of a journal in PostgreSQL, as a copy reads and writes them: it holds every shard
// meanwhile.
import { randomBytes } from 'node:crypto'
import type { Clock } from '../../core/clock.ts'
import { ConnectorError } from '../../core/errors.ts'
import type { Log } from '../../core/log.ts'
import { Connection, beginning, unavailable } from '../postgres/connection.ts'
import type { PostgresSettings, Session } from '../postgres/connection.ts'
import { acquireLease } from '../postgres/lease.ts'
import type { Lease } from '../postgres/lease.ts'
import { assertPlainName, assertSchema } from '../postgres/schema.ts'
import { UNFINISHED_COPY } from '../rules/state.ts'
import { chunkPlaces, pagesOf, tables } from './tables.ts'
import type {
  Beginning,
  ChunkPlace,
  KeyedRow,
  Rows,
  Table,
  TableOptions,
  Tables,
  TargetTables,
  Value,
} from './tables.ts'
import type { ShardNumbers } from './renumbering.ts'

export interface PostgresTablesOptions {
  readonly settings: PostgresSettings
  readonly schema: string
  readonly clock: Clock
  readonly log: Log
}

/** Reading a large file of SQLite may block this process for a while. */
const TERM_MS = 60_000
/** A statement may have this many values. */
const MOST_VALUES = 60_000

/** Throws ConnectorError `journal_in_use` while a replica runs. */
export async function openPostgresSource(options: PostgresTablesOptions): Promise<Tables> {
  return opened(options, async (all) => {
    const { schema } = options
    const rows = await all<{ id: number }>(
      `SELECT id FROM ${schema}.shards UNION SELECT shard FROM ${schema}.assignments ORDER BY id`,
    )
    return rows.map(({ id }) => id)
  })
}

/** `shards`: how many it may use, from 1 on. */
export async function openPostgresTarget(
  options: PostgresTablesOptions,
  shards: number,
): Promise<TargetTables> {
  const { schema } = options
  return opened(options, async (all) => {
    const [found] = await all<{ used: boolean }>(
      `SELECT EXISTS (SELECT FROM ${schema}.assignments) OR EXISTS (SELECT FROM ${schema}.streams)
         OR EXISTS (SELECT FROM ${schema}.sinks) OR EXISTS (SELECT FROM ${schema}.state)
         OR EXISTS (SELECT FROM ${schema}.shards WHERE last_seq > 0) AS used`,
    )
    if (found?.used === true)
      throw new ConnectorError(
        'config_invalid',
        `The PostgreSQL schema ${schema} holds a journal, and a copy needs an empty one: drop it if it is an unfinished copy (DROP SCHEMA ${schema} CASCADE), or set journal.postgres.schema to another one; then run "auditferry journal migrate"`,
      )
    return Array.from({ length: shards }, (_, i) => i + 1)
  })
}

type All = <Row>(text: string, values?: readonly unknown[]) => Promise<Row[]>

async function opened(
  options: PostgresTablesOptions,
  shardsOf: (all: All) => Promise<readonly number[]>,
): Promise<PostgresTables> {
  const { schema } = options
  assertPlainName(schema, 'schema')
  const [leasing, connection] = [new Connection(options.settings), new Connection(options.settings)]
  const holder = `copy-${randomBytes(3).toString('hex')}`
  const found = new PostgresTables({ connection, leasing, schema, holder })
  try {
    await connection.use((session) => assertSchema(session, schema))
    const all: All = (text, values) => connection.use((session) => session.query(text, values))
    for (const shard of await shardsOf(all)) {
      const incarnation = randomBytes(8).toString('hex')
      const lease = await acquireLease(
        { ...options, connection: leasing, holder, termMs: TERM_MS },
        shard,
        incarnation,
      )
      if (lease === undefined) throw await inUse(all, connection.where, schema, shard)
      found.leases.push(lease)
    }
    return found
  } catch (error) {
    await found.close()
    throw error
  }
}

async function inUse(all: All, where: string, schema: string, shard: number) {
  const [row] = await all<{ holder: string }>(`SELECT holder FROM ${schema}.shards WHERE id = $1`, [shard])
  return new ConnectorError(
    'journal_in_use',
    `Shard ${shard} of the journal in ${where} is held by ${row?.holder ?? 'another process'}: stop every replica, and wait a minute if one was killed`,
  )
}

interface PostgresTablesParts {
  readonly connection: Connection
  readonly leasing: Connection
  readonly schema: string
  readonly holder: string
}

const booleans: ReadonlySet<string> = new Set(['reported', 'counted', 'replay'])
/** Kept as JSON strings, since PostgreSQL's text cannot hold every character. */
const isJson = (table: Table, column: string) =>
  table === 'dead_letters' && (column === 'type' || column === 'reason')
const columnName = (column: string) => (booleans.has(column) ? `${column}::integer` : `"${column}"`)

class PostgresTables implements TargetTables {
  readonly where: string
  readonly leases: Lease[] = []
  readonly #parts: PostgresTablesParts

  constructor(parts: PostgresTablesParts) {
    this.where = `${parts.connection.where}, schema ${parts.schema}`
    this.#parts = parts
  }

  shards() {
    const { schema } = this.#parts
    return this.#all<ShardNumbers>(
      `SELECT id AS shard, last_seq AS "lastSeq",
         coalesce((SELECT min(first) - 1 FROM ${schema}.chunks WHERE shard = shards.id), last_seq) AS begin
       FROM ${schema}.shards ORDER BY id`,
    )
  }

  async *rows<T extends Table>(table: T) {
    for await (const page of this.#pages(table, tables[table])) yield page.map((row) => rowOf(row, table))
  }

  chunkPlaces() {
    return this.#pages('chunks', chunkPlaces) as AsyncIterable<readonly ChunkPlace[]>
  }

  #pages(table: Table, { columns, order, pageRows }: TableOptions) {
    const selected = columns.map((column) => `${columnName(column)} AS "${column}"`)
    const keys = order.map((name, i) => `"${name}" AS "key ${i}"`)
    const list = order.map((name) => `"${name}"`).join(', ')
    const from = `SELECT ${[...selected, ...keys].join(', ')} FROM ${this.#parts.schema}.${table}`
    const by = `ORDER BY ${list} LIMIT ${pageRows}`
    const values = order.map((_, i) => `$${i + 1}`).join(', ')
    return pagesOf((after) =>
      this.#all<KeyedRow>(`${from} ${after ? `WHERE (${list}) > (${values})` : ''} ${by}`, after),
    )
  }

  chunks(from: ChunkPlace, to: ChunkPlace) {
    const selected = tables.chunks.columns.map((column) => `${columnName(column)} AS "${column}"`)
    return this.#all<Rows['chunks']>(
      `SELECT ${selected.join(', ')} FROM ${this.#parts.schema}.chunks
       WHERE shard = $1 AND first BETWEEN $2 AND $3 ORDER BY first`,
      [from.shard, from.first, to.first],
    )
  }

  async count(table: Table) {
    const ours = table === 'state' ? `WHERE NOT starts_with(name, 'journal.')` : ''
    const [found] = await this.#all<{ count: number }>(
      `SELECT count(*) AS count FROM ${this.#parts.schema}.${table} ${ours}`,
    )
    return found?.count ?? 0
  }

  async begin({ shardOf, lastSeqs }: Beginning) {
    const { schema } = this.#parts
    await this.#write(async (session) => {
      for (const { shard } of this.leases) {
        await session.query(`INSERT INTO ${schema}.state VALUES ($1, $2, '')`, [shard, UNFINISHED_COPY])
        await session.query(`UPDATE ${schema}.shards SET last_seq = $2 WHERE id = $1`, [
          ...[shard, lastSeqs.get(shard) ?? 0],
        ])
      }
      for (const [workspace, shard] of shardOf)
        await session.query(`INSERT INTO ${schema}.assignments (workspace, shard) VALUES ($1, $2)`, [
          workspace,
          shard,
        ])
    })
  }

  async write<T extends Table>(table: T, rows: readonly Rows[T][]) {
    const { columns } = tables[table]
    const incarnations = new Map(this.leases.map(({ shard, row }) => [shard, row.incarnation]))
    const more = table === 'chunks' ? ['incarnation'] : []
    const names = [...columns, ...more].map((column) => `"${column}"`)
    const pageRows = Math.floor(MOST_VALUES / names.length)
    await this.#write(async (session) => {
      for (let from = 0; from < rows.length; from += pageRows) {
        const page = rows.slice(from, from + pageRows) as readonly Readonly<Record<string, Value>>[]
        const values = page.flatMap((row) => [
          ...columns.map((column) => valueOf(row, table, column)),
          ...more.map(() => incarnations.get(row['shard'] as number)),
        ])
        const places = page.map(
          (_, i) => `(${names.map((_, j) => `$${i * names.length + j + 1}`).join(', ')})`,
        )
        await session.query(
          `INSERT INTO ${this.#parts.schema}.${table} (${names.join(', ')}) VALUES ${places.join(', ')}`,
          values,
        )
      }
    })
  }

  async finish() {
    const { schema } = this.#parts
    await this.#write(async (session) => {
      await session.query(`DELETE FROM ${schema}.state WHERE name = $1`, [UNFINISHED_COPY])
      await this.#fence(session)
    })
  }

  async assertHeld() {
    await this.#write((session) => this.#fence(session))
  }

  async close() {
    for (const lease of this.leases) await lease.release()
    this.#parts.leasing.drop()
    await this.#parts.leasing.end()
    await this.#parts.connection.end()
  }

  /** The last statement of a transaction: no other process has had a shard since the copy began. */
  async #fence(session: Session): Promise<void> {
    const { schema, holder } = this.#parts
    const rows = await session.query<{ id: number; epoch: number }>(
      `SELECT id, epoch FROM ${schema}.shards WHERE holder = $1 FOR SHARE`,
      [holder],
    )
    const epochs = new Map(rows.map(({ id, epoch }) => [id, epoch]))
    for (const lease of this.leases)
      if (epochs.get(lease.shard) !== lease.row.epoch) throw lease.lose('another process has taken it over')
  }

  #all<Row>(text: string, values: readonly unknown[] = []): Promise<Row[]> {
    for (const lease of this.leases) lease.assertHeld()
    return this.#parts.connection.use((session) => session.query<Row>(text, values))
  }

  /** If the outcome of the COMMIT is unknown, the copy fails. */
  #write(work: (session: Session) => Promise<void>): Promise<void> {
    for (const lease of this.leases) lease.assertHeld()
    return this.#parts.connection.use(async (session) => {
      try {
        await session.query(beginning(TERM_MS / 2))
        await work(session)
        if (!(await session.commit())) throw unavailable(this.where, 'a transaction was not stored')
      } catch (error) {
        session.close()
        throw error
      }
    })
  }
}

function rowOf<T extends Table>(row: Readonly<Record<string, Value>>, table: T): Rows[T] {
  const { columns } = tables[table]
  return Object.fromEntries(
    columns.map((column) => {
      const value = row[column] ?? null
      return [column, isJson(table, column) && typeof value === 'string' ? JSON.parse(value) : value]
    }),
  ) as Rows[T]
}

function valueOf(row: Readonly<Record<string, Value>>, table: Table, column: string): Value | boolean {
  const value = row[column] ?? null
  if (booleans.has(column)) return value === 1
  return isJson(table, column) ? JSON.stringify(value) : value
}
