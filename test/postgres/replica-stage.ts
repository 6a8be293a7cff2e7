// Three replicas of the built program as processes, each with a network of its own to one PostgreSQL;
// the mock with twelve workspaces, a HEC receiver and an S3 server behind sockets.
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { migrate } from '../../src/journal/postgres/schema.ts'
import { listenMock } from '../../src/mock/listen.ts'
import { openMock } from '../../src/mock/mock.ts'
import { systemClock } from '../../src/platform/clock.ts'
import { startChild } from '../e2e/child.ts'
import type { Child } from '../e2e/child.ts'
import { FakeHec, listenHec } from '../fakes/hec.ts'
import { FakeS3 } from '../fakes/s3.ts'
import { openS3Server } from '../fakes/s3-server.ts'
import { startProxy } from './proxy.ts'
import type { Proxy } from './proxy.ts'
import type { PostgresServer } from './server.ts'

const ROLE = 'auditferry'
const SCHEMA = 'replicas'
const TOKEN = 'hec-token-that-nobody-may-see'
const WORKSPACES = Array.from({ length: 12 }, (_, i) => `firm-${i + 1}`)
export const SHARDS = 6
export const BATCH = 50
/** Requests of each key in a minute: polling alone would send more. */
const LIMIT = 120

export interface Replica {
  readonly name: string
  readonly network: Proxy
  child: Child
}

/** What arrived wrongly, and how often entries arrived again. */
interface Verdict {
  readonly lost: number
  readonly twiceAtS3: number
  readonly twiceAtHec: number
  /** requests of a key above its limit in any rolling minute */
  readonly overLimit: number
}

export interface ReplicaStage {
  readonly replicas: readonly Replica[]
  readonly leaseMs: number
  /** all that the replicas have logged */
  readonly logs: () => string
  start(replica: Replica): void
  /** The name of its current process in the database; undefined: it has not begun. */
  holderOf(replica: Replica): string | undefined
  /** Who holds a shard by a lease that has not ended, one name for each shard. */
  holders(): Promise<readonly string[]>
  /** How often a shard was acquired, by anybody. */
  acquired(): Promise<number>
  /** Resolves with the ms that it took. */
  until(seen: () => boolean | Promise<boolean>, what: string, ms?: number): Promise<number>
  /** Every entry is at both receivers. */
  delivered(): boolean
  stopTraffic(): void
  judge(): Verdict
  close(): Promise<void>
}

export async function openReplicaStage(
  server: PostgresServer,
  main: string,
  leaseMs: number,
): Promise<ReplicaStage> {
  const folder = mkdtempSync(join(tmpdir(), 'auditferry-replicas-'))
  await server.query(`CREATE ROLE ${ROLE} LOGIN`)
  await migrate({ settings: { url: server.url() }, schema: SCHEMA, runtimeRole: ROLE })
  const mock = openMock({
    clock: systemClock,
    seed: 7,
    workspaces: WORKSPACES.map((name) => ({ name, keys: [{ key: `key-of-${name}` }] })),
    traffic: { entriesPerHour: 0 },
    switches: { self_audit: 'off' },
    limits: { audit: LIMIT, history: 0, vault: 0 },
  })
  const hec = new FakeHec({ tokens: { [TOKEN]: { acks: false } } })
  const s3 = new FakeS3()
  const [api, receiver, bucket] = await Promise.all([
    listenMock(mock, { port: 0, host: '127.0.0.1' }),
    listenHec(hec, { port: 0 }),
    openS3Server(s3),
  ])
  const batch = { max_entries: BATCH, linger: '50ms' }
  const configOf = (url: string) => ({
    journal: { postgres: { url, schema: SCHEMA, shards: SHARDS, lease: `${leaseMs}ms` } },
    workspaces: WORKSPACES.map((name) => ({
      ...{ name, base_url: api.url, api_key: `key-of-${name}` },
      audit: { activity: 'high', interval: '1s' },
      rate_limits: { audit: LIMIT },
    })),
    sinks: [
      { name: 'splunk', type: 'splunk_hec', url: receiver.url, token: TOKEN, compression: 'none', batch },
      {
        ...{ name: 'bucket', type: 's3', bucket: 'logs', region: 'eu-central-1', endpoint: bucket.url },
        ...{ force_path_style: true, access_key_id: 'id', secret_access_key: 'secret' },
        rotate: { max_age: '1s' },
      },
    ],
    server: { listen: '127.0.0.1:0' },
  })
  const ended: string[] = []
  const childOf = (name: string): Child =>
    startChild([main, 'run', '--config', join(folder, `${name}.yaml`)], { TMPDIR: join(folder, name) })
  const replicas = await Promise.all(
    ['one', 'two', 'three'].map(async (name): Promise<Replica> => {
      const network = await startProxy(join(server.folder, `.s.PGSQL.${server.port}`), ROLE)
      mkdirSync(join(folder, name))
      // JSON is YAML.
      writeFileSync(join(folder, `${name}.yaml`), JSON.stringify(configOf(network.url)))
      return { name, network, child: childOf(name) }
    }),
  )
  const logs = () => [...ended, ...replicas.map(({ child }) => child.stderr())].join('\n')
  let count = 0
  const traffic = setInterval(() => {
    for (let i = 0; i < 6; i++) mock.add({}, WORKSPACES[count++ % WORKSPACES.length])
  }, 200)
  const all = () => WORKSPACES.flatMap((name) => mock.entries(name)).map(({ id }) => id)
  const arrivals = () => ({
    splunk: tallied(hec.indexed.map(({ event }) => event.toString())),
    bucket: tallied(s3.lines),
  })

  return {
    ...{ replicas, leaseMs, logs },
    start(replica) {
      ended.push(replica.child.stderr())
      replica.child = childOf(replica.name)
    },
    holderOf: ({ child }) => /"replica":"([^"]+)"/.exec(child.stderr())?.[1],
    async acquired() {
      const [row] = await server.query<{ sum: string }>(`SELECT sum(epoch) FROM ${SCHEMA}.shards`)
      return Number(row?.sum)
    },
    async holders() {
      const rows = await server.query<{ holder: string }>(
        `SELECT holder FROM ${SCHEMA}.shards WHERE holder IS NOT NULL AND expires_at > clock_timestamp()`,
      )
      return rows.map(({ holder }) => holder)
    },
    async until(seen, what, ms = 60_000) {
      const begin = Date.now()
      while (!(await seen())) {
        const isOver = replicas.some(({ child }) => (child.ending()?.code ?? 0) !== 0)
        if (isOver || Date.now() > begin + ms)
          throw new Error(`waited in vain for ${what}\n${logs().slice(-20_000)}`)
        await sleep(50)
      }
      return Date.now() - begin
    },
    delivered() {
      const { splunk, bucket: stored } = arrivals()
      return all().every((id) => splunk.has(id) && stored.has(id))
    },
    stopTraffic: () => clearInterval(traffic),
    judge() {
      const { splunk, bucket: stored } = arrivals()
      return {
        lost: all().filter((id) => !splunk.has(id) || !stored.has(id)).length,
        twiceAtS3: repeatsIn(stored),
        twiceAtHec: repeatsIn(splunk),
        overLimit: mock.requests.filter(({ status }) => status === 429).length,
      }
    },
    async close() {
      clearInterval(traffic)
      for (const { child } of replicas) child.kill('SIGKILL')
      await Promise.all(replicas.map(({ child }) => child.ended))
      await Promise.all([
        ...replicas.map(({ network }) => network.close()),
        api.close(),
        receiver.close(),
        bucket.close(),
      ])
      rmSync(folder, { recursive: true, force: true })
    },
  }
}

/** How often each id is there. */
function tallied(lines: readonly string[]): ReadonlyMap<string, number> {
  const tally = new Map<string, number>()
  for (const line of lines) {
    const { id } = JSON.parse(line) as { id: string }
    tally.set(id, (tally.get(id) ?? 0) + 1)
  }
  return tally
}

const repeatsIn = (tally: ReadonlyMap<string, number>): number =>
  [...tally.values()].reduce((sum, times) => sum + times - 1, 0)
