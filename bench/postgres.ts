// How fast the journal in PostgreSQL takes in at a hundred times the keys, and how large its tables are
// day after day. Against a PostgreSQL of this machine. Prints, asserts nothing. `npm run bench -- postgres`
import { pathToFileURL } from 'node:url'
import type { Journal } from '../src/contracts/journal.ts'
import { PostgresStore } from '../src/journal/postgres/open.ts'
import { migrate } from '../src/journal/postgres/schema.ts'
import { systemClock } from '../src/platform/clock.ts'
import { noPostgres, startPostgres } from '../test/postgres/server.ts'
import type { PostgresServer } from '../test/postgres/server.ts'
import { DAY_MS, Feed, PAGE, appendPages, line, median, millions, nothing, pruneAll, quiet, acknowledgeAll } from './journal.ts' // prettier-ignore
import type { Cost } from './journal.ts'

const FEW_KEYS = 100_000
const TIMES = 100
const SAMPLES = 9
const SAMPLE_PAGES = 50
const DAYS = 5
const PAGES_A_DAY = 1000

interface Shard {
  readonly journal: Journal
  readonly feed: Feed
  close(): Promise<void>
}

async function openShard(server: PostgresServer, schema: string, keepKeysMs: number): Promise<Shard> {
  const settings = { url: server.url() }
  await migrate({ settings, schema })
  const store = new PostgresStore({ settings, schema, holder: 'bench', termMs: 600_000, clock: systemClock, log: quiet }) // prettier-ignore
  // There is a partition for this month, which the days of this feed do not leave.
  const feed = new Feed(Date.UTC(new Date().getUTCFullYear(), new Date().getUTCMonth(), 10) * 1000)
  const clock = { now: () => feed.nowMs, elapsed: () => performance.now(), sleep: async () => {} }
  const journal = await store.acquire(1, { maxBytes: 2 ** 31, keepKeysMs, keepDeliveredBytes: 0, clock, log: quiet }) // prettier-ignore
  if (!journal) throw new Error('the shard is held')
  await journal.registerSinks(['archive'])
  await journal.append(feed.page())
  return { journal, feed, close: async () => (await journal.close(), store.close()) }
}

/** Two shards side by side, one sample of each in turn. */
async function benchKeys(server: PostgresServer): Promise<void> {
  const shards = await Promise.all(
    [1, TIMES].map(async (times) => {
      const schema = `keys_${times}`
      const shard = await openShard(server, schema, 365 * DAY_MS)
      const count = FEW_KEYS * times
      // Of the 20 days before: random ids, as if they had been read.
      await server.query(
        `INSERT INTO ${schema}.dedup_keys (shard, stream, at, id)
         SELECT 1, (SELECT id FROM ${schema}.streams), $1::bigint - n * (20 * 86400000000 / $2::bigint), uuid_send(gen_random_uuid())
         FROM generate_series(1, $2::bigint) n`,
        [Math.floor(shard.feed.nowMs) * 1000 - DAY_MS * 1000, count],
      )
      await server.query(`VACUUM ANALYZE ${schema}.dedup_keys`)
      return { ...shard, count, costs: [] as Cost[] }
    }),
  )
  for (let sample = 0; sample < SAMPLES; sample++)
    for (const { journal, feed, costs } of shards) {
      const cost = nothing()
      await appendPages(journal, feed, SAMPLE_PAGES, cost)
      costs.push(cost)
    }
  const entries = SAMPLE_PAGES * PAGE
  const best = Math.max(...shards.map(({ costs }) => median(costs.map(({ seconds }) => entries / seconds))))
  for (const { count, costs } of shards) line(`append, ${millions(count)} keys there`, entries, costs, best)
  for (const shard of shards) await shard.close()
}

const SIZES = `SELECT coalesce(parent.relname, own.relname) AS name, sum(pg_total_relation_size(own.oid))::bigint AS bytes
  FROM pg_class own LEFT JOIN pg_inherits ON inhrelid = own.oid LEFT JOIN pg_class parent ON parent.oid = inhparent
  WHERE own.relnamespace = 'churn'::regnamespace AND own.relkind = 'r' GROUP BY 1 ORDER BY 2 DESC LIMIT 4`

/** A million entries a day; keys are kept for a day, delivered chunks not at all. */
async function benchChurn(server: PostgresServer): Promise<void> {
  const shard = await openShard(server, 'churn', DAY_MS)
  const { journal, feed } = shard
  for (let day = 1; day <= DAYS; day++) {
    for (let page = 0; page < PAGES_A_DAY; page++) {
      await journal.append(feed.page())
      await acknowledgeAll(journal)
      await pruneAll(journal)
    }
    const sizes = await server.query<{ name: string; bytes: string }>(SIZES)
    const text = sizes.map(({ name, bytes }) => `${name} ${(Number(bytes) / 1e6).toFixed(1)} MB`).join(', ')
    console.log(`after day ${day} of a million entries: ${text}`)
  }
  await shard.close()
}

export async function run(): Promise<void> {
  const why = noPostgres()
  if (why !== undefined) {
    console.log(`skipped: ${why}`)
    return
  }
  // Days pass in seconds here: its vacuum looks every second, and does not pause.
  const server = await startPostgres({
    settings: ['autovacuum_naptime = 1s', 'autovacuum_vacuum_cost_delay = 0', 'max_wal_size = 4GB'],
  })
  try {
    await benchKeys(server)
    await benchChurn(server)
  } finally {
    await server.stop()
  }
}

if (import.meta.url === pathToFileURL(process.argv[1] ?? '').href) await run()
