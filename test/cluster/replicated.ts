// What several replicas of one release share: a PostgreSQL of this machine, workspaces that grow all the time, a collector.
import { mkdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { Client } from 'pg'
import { stringify } from 'yaml'
import { listenMock } from '../../src/mock/listen.ts'
import { openMock } from '../../src/mock/mock.ts'
import { systemClock } from '../../src/platform/clock.ts'
import { certificate } from '../fakes/certificates.ts'
import { FakeHec, listenHec } from '../fakes/hec.ts'
import { docker, ok, TAG } from '../image/engine.ts'
import { startPostgres, type PostgresServer } from '../postgres/server.ts'
import { host, reachable } from './cluster.ts'
import { apply, image, makeNamespace } from './release.ts'

const NAMES = ['acme', 'globex', 'initech', 'umbrella', 'hooli', 'vandelay']
export const SHARDS = NAMES.length
const SECRETS = '/run/secrets/auditferry'
const HEC_TOKEN = 'hec-token-of-the-replicas'
/** Each workspace gets one entry so often. */
const TICK_MS = 250
const secret = (name: string) => `\${file:${SECRETS}/${name}}`

export interface Shard {
  readonly id: number
  /** a replica, by its pod's name and some digits; null: none holds it */
  readonly holder: string | null
  readonly epoch: number
}

export type Replicated = Awaited<ReturnType<typeof openReplicated>>

/** Everything around the release, and nothing of the release itself. */
export async function openReplicated(namespace: string, folder: string) {
  const authority = certificate('authority of the database')
  const server = await startPostgres({ tls: certificate(host, authority), address: host })
  const urlOf = (role: string) => `postgres://${role}:password-of-${role}@${host}:${server.port}/auditferry`
  const mock = openMock({
    ...{ clock: systemClock, traffic: { entriesPerHour: 0 }, limits: { audit: 0 } },
    ...{ switches: { self_audit: 'off' }, workspaces: NAMES.map((name) => ({ name })) },
  })
  const hec = new FakeHec({ tokens: { [HEC_TOKEN]: { acks: false } } })
  const listeners = [
    await listenMock(mock, { port: 0, host: '127.0.0.1' }),
    await listenHec(hec, { port: 0 }),
  ]
  const ways = await Promise.all(listeners.map(({ url }) => reachable(url)))
  const [api = '', collector = ''] = ways.map(({ url }) => url)
  const config = {
    journal: { postgres: { url: secret('postgres'), shards: SHARDS, tls: {} } },
    workspaces: NAMES.map((name) => ({
      ...{ name, base_url: api, allow_insecure: true, api_key: `${name}-key` },
      ...{ audit: { interval: '1s', start: 'earliest' }, rate_limits: { audit: 3000 } },
    })),
    sinks: [
      {
        ...{ name: 'collector', type: 'splunk_hec', url: collector, token: secret('hec-token') },
        ...{ allow_insecure: true, batch: { linger: '200ms' } },
      },
    ],
  }
  await makeRoles(server)
  await migrate(
    folder,
    config,
    { postgres: urlOf('auditferry'), owner: urlOf('auditferry_owner') },
    authority,
  )
  await makeNamespace(folder, namespace)
  const stringData: Record<string, string> = { postgres: urlOf('auditferry'), 'hec-token': HEC_TOKEN }
  for (const name of NAMES) stringData[`${name}-key`] = `${name}-key`
  await apply(folder, 'secret', {
    ...{ apiVersion: 'v1', kind: 'Secret', metadata: { name: 'keys', namespace }, stringData },
  })
  const values = join(folder, 'values.yaml')
  const probes = { startupProbe: { periodSeconds: 1 }, readinessProbe: { periodSeconds: 1 } }
  const inValues = {
    ...config,
    workspaces: config.workspaces.map((each) => ({ ...each, api_key: secret(each.api_key) })),
  }
  const privateCA = { pem: authority.cert }
  const more = { secrets: { existing: [{ name: 'keys' }] }, privateCA, ...probes }
  writeFileSync(values, stringify({ image, replicas: 3, config: inValues, ...more }))
  const traffic = openTraffic(mock, hec)
  return {
    ...{ namespace, values, mock, hec, server, traffic },
    /** The leases in the database: its clock decides which still hold. */
    async shards(): Promise<Shard[]> {
      const client = new Client({ connectionString: server.url('owner', 'auditferry') })
      await client.connect()
      const { rows } = await client.query<Shard>(
        'SELECT id, CASE WHEN expires_at > now() THEN holder END AS holder, epoch::integer FROM auditferry.shards ORDER BY id',
      )
      await client.end()
      return rows
    },
    async close() {
      traffic.stop()
      for (const way of ways) await way.close()
      for (const listener of listeners) await listener.close()
      await server.stop()
    },
  }
}

/** As the documents say. */
async function makeRoles(server: PostgresServer): Promise<void> {
  for (const role of ['auditferry_owner', 'auditferry'])
    await server.query(`CREATE ROLE ${role} LOGIN PASSWORD 'password-of-${role}'`)
  await server.query('CREATE DATABASE auditferry OWNER auditferry_owner')
}

/** By the image, in a container of its own. */
async function migrate(
  folder: string,
  config: object,
  urls: { readonly postgres: string; readonly owner: string },
  authority: { readonly cert: string },
): Promise<void> {
  const own = join(folder, 'migrate')
  mkdirSync(own)
  const files = {
    ...urls,
    'hec-token': HEC_TOKEN,
    'ca.pem': authority.cert,
    'auditferry.yaml': stringify(config),
  }
  for (const [name, text] of Object.entries(files)) writeFileSync(join(own, name), text, { mode: 0o644 })
  const run = ['run', '--rm', '--network=host', `--volume=${own}:${SECRETS}:ro`]
  const command = ['journal', 'migrate', '--config', `${SECRETS}/auditferry.yaml`]
  const owner = ['--owner-url-file', `${SECRETS}/owner`, '--runtime-role', 'auditferry']
  await ok(docker(...run, `--env=NODE_EXTRA_CA_CERTS=${SECRETS}/ca.pem`, TAG, ...command, ...owner))
}

/** Entries come all the time, and it is noted when the collector first had each, and how often. */
function openTraffic(mock: ReturnType<typeof openMock>, hec: FakeHec) {
  const added = new Map<string, number>()
  const arrived = new Map<string, number>()
  /** requests that brought something known */
  const repeating = new Set<number>()
  let seen = 0
  const look = () => {
    for (; seen < hec.indexed.length; seen++) {
      const { event, request } = hec.indexed[seen] as (typeof hec.indexed)[number]
      const { id } = JSON.parse(event.toString()) as { id: string }
      if (arrived.has(id)) repeating.add(request)
      else arrived.set(id, Date.now())
    }
  }
  let grows = true
  const timer = setInterval(() => {
    if (grows) for (const name of NAMES) added.set(mock.add({}, name).id, Date.now())
    look()
  }, TICK_MS)
  return {
    ...{ repeating, added },
    lacking: () => [...added.keys()].filter((id) => !arrived.has(id)),
    unknown: () => [...arrived.keys()].filter((id) => !added.has(id)),
    /** How long the slowest entry took that came since then. */
    slowestMs(since: number): number {
      const taken = [...added].filter(([, at]) => at >= since)
      return Math.max(...taken.map(([id, at]) => (arrived.get(id) ?? Date.now()) - at))
    },
    pause: () => void (grows = false),
    stop: () => clearInterval(timer),
  }
}
