// The journals of a process in PostgreSQL: one per shard that it holds.
import { randomBytes } from 'node:crypto'
import { ConnectorError } from '../../core/errors.ts'
import type { SourceName } from '../../contracts/source.ts'
import { UNFINISHED_COPY } from '../rules/state.ts'
import { StreamIds } from '../rules/streams.ts'
import { ChunkStore } from './chunks.ts'
import { Connection } from './connection.ts'
import type { PostgresSettings, Queries } from './connection.ts'
import type { Core, JournalOptions } from './core.ts'
import { PostgresJournal } from './journal.ts'
import { acquireLease } from './lease.ts'
import type { Lease, LeaseOptions } from './lease.ts'
import { Pending } from './pending.ts'
import { Totals } from './records.ts'
import { assertPlainName, assertSchema } from './schema.ts'
import { Transactions } from './transactions.ts'

export interface PostgresStoreOptions extends Omit<LeaseOptions, 'connection'> {
  readonly settings: PostgresSettings
}

export class PostgresStore {
  readonly #options: PostgresStoreOptions
  /** for leases only */
  readonly #connection: Connection

  /** Throws ConnectorError `config_invalid`. Connects to nothing. */
  constructor(options: PostgresStoreOptions) {
    assertPlainName(options.schema, 'schema')
    this.#options = options
    this.#connection = new Connection(options.settings)
  }

  /**
   * The journal of a shard, or undefined while another process holds it. Changes nothing but the
   * lease. Throws ConnectorError `store_unavailable`, `config_invalid` (the schema is of another
   * version), `journal_corrupt`.
   */
  async acquire(shard: number, options: JournalOptions): Promise<PostgresJournal | undefined> {
    const { schema, termMs } = this.#options
    const connection = this.#connection
    await connection.use((session) => assertSchema(session, schema))
    const incarnation = randomBytes(8).toString('hex')
    const lease = await acquireLease({ ...this.#options, connection }, shard, incarnation)
    if (lease === undefined) return undefined
    const transactions = new Transactions({
      ...{ connection: new Connection(this.#options.settings), schema, lease, idleMs: termMs / 2 },
    })
    try {
      return await this.#open(transactions, lease, options)
    } catch (error) {
      await transactions.end()
      await lease.release()
      throw error
    }
  }

  /** Call once the journals are closed. */
  async close(): Promise<void> {
    this.#connection.drop()
    await this.#connection.end()
  }

  async #open(transactions: Transactions, lease: Lease, options: JournalOptions): Promise<PostgresJournal> {
    const { schema } = this.#options
    const { where } = this.#connection
    const { shard, row } = lease
    const [streams, pending] = [new StreamIds(), new Pending()]
    const shared = { shard, schema, where, streams, pending }
    const chunks = new ChunkStore({ ...shared, incarnation: row.incarnation })
    const core: Core = { ...options, ...shared, transactions, chunks, totals: new Totals() }
    await transactions.read(async (queries) => {
      await refuseUnfinished(queries, core)
      await loadStreams(queries, core)
      await pending.load(queries, core)
      await core.totals.load(queries, core)
    })
    return new PostgresJournal(core, lease)
  }
}

async function refuseUnfinished({ query }: Queries, { shard, schema, where }: Core): Promise<void> {
  const rows = await query(`SELECT FROM ${schema}.state WHERE shard = $1 AND name = $2`, [
    ...[shard, UNFINISHED_COPY],
  ])
  if (rows.length > 0)
    throw new ConnectorError(
      'config_invalid',
      `The journal in ${where} is an unfinished copy: drop its schema (DROP SCHEMA ${schema} CASCADE), then run "auditferry journal migrate" and "auditferry journal copy" again`,
    )
}

async function loadStreams({ query }: Queries, { shard, schema, streams }: Core): Promise<void> {
  const rows = await query<{ id: number; workspace: string; source: SourceName }>(
    `SELECT id, workspace, source FROM ${schema}.streams WHERE shard = $1`,
    [shard],
  )
  for (const { id, ...stream } of rows) streams.remember(id, stream)
}
