// The journal in PostgreSQL, held to the contract: each test has a shard of its own in one schema.
import { Client } from 'pg'
import { afterAll, beforeAll, describe, it } from 'vitest'
import { ConnectorError } from '../../src/core/errors.ts'
import { PostgresStore } from '../../src/journal/postgres/open.ts'
import { migrate } from '../../src/journal/postgres/schema.ts'
import { systemClock } from '../../src/platform/clock.ts'
import { logOf } from '../contract/journal-parts.ts'
import { journalContract } from '../contract/journal.contract.ts'
import type { JournalShard } from '../contract/journal.contract.ts'
import { noPostgres, startPostgres } from './server.ts'
import type { PostgresServer } from './server.ts'

/** The sequence does not begin at 1, as after years of use: the sinks have acknowledged this much. */
const BEGIN = 41
const SCHEMA = 'journal'

/** 0: no commit fails; else the one that is so many from now. */
let failing = 0
let server: PostgresServer
let shards = 0

// The connection is cut instead of the COMMIT being sent.
const query = Object.getOwnPropertyDescriptor(Client.prototype, 'query')?.value as (
  this: Client,
  ...args: unknown[]
) => unknown
const cutting = function (this: Client & { readonly isJournal?: boolean }, ...args: unknown[]) {
  if (args[0] === 'COMMIT' && failing > 0 && --failing === 0)
    (this as unknown as { connection: { stream: { destroy(): void } } }).connection.stream.destroy()
  return query.apply(this, args)
}

const why = noPostgres()
if (why !== undefined) {
  process.stderr.write(`\nSKIPPED: the journal in PostgreSQL: ${why}\n\n`)
  describe('journal contract: postgres', () => {
    it.skip(`skipped: ${why}`, () => undefined)
  })
} else {
  beforeAll(async () => {
    server = await startPostgres()
    await migrate({ settings: { url: server.url() }, schema: SCHEMA })
    Object.assign(Client.prototype, { query: cutting })
  })
  afterAll(async () => {
    Object.assign(Client.prototype, { query })
    await server.stop()
  })
  journalContract('postgres', newShard)
}

async function newShard(): Promise<JournalShard> {
  const shard = ++shards
  await server.query(
    `INSERT INTO ${SCHEMA}.shards (id, epoch, expires_at, held_since, incarnation, last_seq) VALUES ($1, 7, now(), now(), '', $2)`,
    [shard, BEGIN],
  )
  await server.query(
    `INSERT INTO ${SCHEMA}.sinks (shard, name, position) VALUES ($1, 'a', $2), ($1, 'b', $2)`,
    [shard, BEGIN],
  )
  const stores: PostgresStore[] = []
  const open: JournalShard['open'] = async ({ sinks, ...settings }) => {
    const store = new PostgresStore({
      ...{
        settings: { url: server.url() },
        schema: SCHEMA,
        holder: `replica ${stores.length}`,
        termMs: 60_000,
      },
      ...{ clock: systemClock, log: logOf() },
    })
    stores.push(store)
    const journal = await store.acquire(shard, settings)
    if (journal === undefined) throw new ConnectorError('journal_in_use', 'Another store holds the shard')
    try {
      await journal.registerSinks(sinks)
    } catch (error) {
      await journal.close()
      throw error
    }
    return journal
  }
  return {
    open,
    failCommit: (nth) => void (failing = nth),
    async succeed(_, settings) {
      await server.query(`UPDATE ${SCHEMA}.shards SET expires_at = now() WHERE id = $1`, [shard])
      return open(settings)
    },
    async remove() {
      for (const store of stores) await store.close()
    },
  }
}
