// Three replicas of the built program as processes, each with a network of its own to the primary of
// a pair; the mock with twelve workspaces, a HEC receiver and a bucket behind sockets.
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
import { ACCESS, BUCKET, openBucket } from './bucket.ts'
import { openNetworks } from './networks.ts'
import type { Network, Networks } from './networks.ts'
import type { Pair } from './pair.ts'

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
  readonly network: Network
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
  readonly cuts: Networks['cuts']
  /** what the replicas work with beside PostgreSQL */
  readonly servers: string
  /** all that the replicas have logged */
  readonly logs: () => string
  start(replica: Replica): void
  /** The name of its current process in the database; undefined: it has not begun. */
  holderOf(replica: Replica): string | undefined
  /** Who holds a shard by a lease that has not ended, one name for each shard. */
  holders(): Promise<readonly string[]>
  /** How often a shard was acquired, by anybody. */
  acquired(): Promise<number>
  /** Until the lease of each shard has been renewed, or begun, from now on. Resolves with the ms that it took. */
  untilRenewed(): Promise<number>
  /** Resolves with the ms that it took. */
  until(seen: () => boolean | Promise<boolean>, what: string, ms?: number): Promise<number>
  /** Every entry is at both receivers. */
  delivered(): Promise<boolean>
  stopTraffic(): void
  judge(): Promise<Verdict>
  close(): Promise<void>
}

export async function openReplicaStage(database: Pair, main: string, leaseMs: number): Promise<ReplicaStage> {
  const folder = mkdtempSync(join(tmpdir(), 'auditferry-replicas-'))
  await database.primary.query(`CREATE ROLE ${ROLE} LOGIN`)
  await migrate({ settings: { url: database.primary.url() }, schema: SCHEMA, runtimeRole: ROLE })
  const mock = openMock({
    clock: systemClock,
    seed: 7,
    workspaces: WORKSPACES.map((name) => ({ name, keys: [{ key: `key-of-${name}` }] })),
    traffic: { entriesPerHour: 0 },
    switches: { self_audit: 'off' },
    limits: { audit: LIMIT, history: 0, vault: 0 },
  })
  const hec = new FakeHec({ tokens: { [TOKEN]: { acks: false } } })
  const [api, receiver, bucket, networks] = await Promise.all([
    listenMock(mock, { port: 0, host: '127.0.0.1' }),
    listenHec(hec, { port: 0 }),
    openBucket(join(folder, 'bucket')),
    openNetworks(leaseMs),
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
        ...{ name: 'bucket', type: 's3', bucket: BUCKET, endpoint: bucket.url, force_path_style: true },
        ...ACCESS,
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
      const network = await networks.lay(database.primary, ROLE)
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
  const arrived = () => tallied(hec.indexed.map(({ event }) => event.toString()))
  const stored = async () => tallied(await bucket.lines())
  async function until(seen: () => boolean | Promise<boolean>, what: string, ms = 60_000): Promise<number> {
    const begin = Date.now()
    while (!(await seen())) {
      const isOver = replicas.some(({ child }) => (child.ending()?.code ?? 0) !== 0)
      if (isOver || Date.now() > begin + ms)
        throw new Error(`waited in vain for ${what}\n${logs().slice(-20_000)}`)
      await sleep(50)
    }
    return Date.now() - begin
  }

  return {
    ...{ replicas, logs, until, cuts: networks.cuts },
    servers: `${bucket.name}, ${networks.name}`,
    start(replica) {
      ended.push(replica.child.stderr())
      replica.child = childOf(replica.name)
    },
    holderOf: ({ child }) => /"replica":"([^"]+)"/.exec(child.stderr())?.[1],
    async acquired() {
      const [row] = await database.primary.query<{ sum: string }>(`SELECT sum(epoch) FROM ${SCHEMA}.shards`)
      return Number(row?.sum)
    },
    async holders() {
      const rows = await database.primary.query<{ holder: string }>(
        `SELECT holder FROM ${SCHEMA}.shards WHERE holder IS NOT NULL AND expires_at > clock_timestamp()`,
      )
      return rows.map(({ holder }) => holder)
    },
    async untilRenewed() {
      const [row] = await database.primary.query<{ now: string }>('SELECT clock_timestamp()::text AS now')
      const renewed = async () => {
        const leases = await database.primary.query<{ isRenewed: boolean }>(
          `SELECT expires_at >= $1::timestamptz + $2 * interval '1 millisecond' AS "isRenewed"
           FROM ${SCHEMA}.shards`,
          [row?.now, leaseMs],
        )
        return leases.every(({ isRenewed }) => isRenewed)
      }
      return until(renewed, 'the renewal of each lease')
    },
    async delivered() {
      const splunk = arrived()
      if (!all().every((id) => splunk.has(id))) return false
      const inBucket = await stored()
      return all().every((id) => inBucket.has(id))
    },
    stopTraffic: () => clearInterval(traffic),
    async judge() {
      const [splunk, inBucket] = [arrived(), await stored()]
      return {
        lost: all().filter((id) => !splunk.has(id) || !inBucket.has(id)).length,
        twiceAtS3: repeatsIn(inBucket),
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
      await networks.close()
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
