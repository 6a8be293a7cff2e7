// Three replicas with PostgreSQL on a real cluster: what is lost, ended, updated or restarted costs no entry and little time.
import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
import { helms, root, toolsFolder, toolsMissing } from '../chart/tools.ts'
import { call, imageImpossible, ok, until } from '../image/engine.ts'
import { noPostgres } from '../postgres/server.ts'
import { clusterMissing, killContainer, kubectl, placeWithImage, reported, tryKubectl } from './cluster.ts'
import { openReplicated, SHARDS, type Replicated } from './replicated.ts'

const missing = clusterMissing ?? noPostgres() ?? toolsMissing() ?? (await imageImpossible())
if (missing !== undefined) process.stderr.write(`\nSKIPPED: no replicas on a cluster: ${missing}\n`)

const FLOW_MS = 480_000
const REPLICAS = 3
const LEASE_MS = 10_000
/** For a machine that is busy with other tests. */
const PATIENCE_MS = 10_000
const chart = join(root, 'helm/auditferry')
const PODS = 'app.kubernetes.io/instance=auditferry'

describe.skipIf(missing !== undefined)('several replicas on a cluster', () => {
  const place = placeWithImage(FLOW_MS)

  it(
    'share the work equally, and every entry arrives, repeated only by a takeover, when a pod dies or is deleted, at an upgrade and when PostgreSQL restarts',
    async () => {
      const setup = await openReplicated('replicas', place.folder)
      try {
        await live(setup)
      } catch (error) {
        const { stdout } = await tryKubectl('-n', setup.namespace, 'describe', 'deployment,pods')
        const logs = await tryKubectl('-n', setup.namespace, 'logs', '-l', PODS, '--tail=20', '--prefix')
        throw new Error(`${stdout}\n${logs.stdout}`, { cause: error })
      } finally {
        await setup.close()
      }
    },
    FLOW_MS,
  )
})

async function live(setup: Replicated): Promise<void> {
  const { namespace, traffic } = setup
  const helm = (...args: string[]) =>
    ok(call(join(toolsFolder, 'bin', helms.at(-1) ?? ''), [...args, '--namespace', namespace]))
  const release = (verb: 'install' | 'upgrade', ...more: string[]) =>
    helm(verb, 'auditferry', chart, '-f', setup.values, '--wait', '--timeout', '120s', ...more)
  const podNames = async () =>
    (await kubectl('-n', namespace, 'get', 'pods', '-l', PODS, '-o', 'jsonpath={.items[*].metadata.name}'))
      .split(' ')
      .filter((name) => name !== '')
  const restarts = () =>
    kubectl(
      '-n',
      namespace,
      'get',
      'pods',
      '-l',
      PODS,
      '-o',
      'jsonpath={.items[*].status.containerStatuses[0].restartCount}',
    )
  const ready = async () =>
    Number((await reported(namespace, 'deployment/auditferry', '.status.readyReplicas')) || 0)

  await release('install')
  await sharedEqually(setup, await podNames())
  const allowed = () => reported(namespace, 'poddisruptionbudget/auditferry', '.status.disruptionsAllowed')
  await until(
    'drains may take one',
    30_000,
    async () => ((await allowed()) === '1' ? true : undefined),
    allowed,
  )
  await settled(setup)
  expect(traffic.repeating.size).toBe(0)

  // A pod that dies frees nothing: its leases must end first.
  const [lost = '', , leaving = ''] = await podNames()
  let since = Date.now()
  await killContainer(namespace, lost)
  await kubectl('-n', namespace, 'delete', 'pod', lost, '--grace-period=0', '--force')
  const takeoverMs = await takenFrom(setup, lost, since)
  expect(takeoverMs).toBeLessThan(LEASE_MS + PATIENCE_MS)
  await until('a new pod', 60_000, async () => ((await ready()) === REPLICAS ? true : undefined))
  await sharedEqually(setup, await podNames())
  await settled(setup)
  const lostSlowestMs = traffic.slowestMs(since)
  const repeated = traffic.repeating.size
  // At most one batch for each shard of the lost one.
  expect(repeated).toBeLessThanOrEqual(Math.ceil(SHARDS / REPLICAS))

  since = Date.now()
  const deleting = kubectl('-n', namespace, 'delete', 'pod', leaving)
  const handOverMs = await takenFrom(setup, leaving, since)
  await deleting
  expect(handOverMs).toBeLessThan(LEASE_MS)
  await until('another new pod', 60_000, async () => ((await ready()) === REPLICAS ? true : undefined))
  await sharedEqually(setup, await podNames())
  await settled(setup)
  const leftSlowestMs = traffic.slowestMs(since)

  since = Date.now()
  const before = await podNames()
  await release('upgrade', '--set', 'podAnnotations.changed=yes')
  await until('only new pods', 60_000, async () =>
    (await podNames()).some((name) => before.includes(name)) ? undefined : true,
  )
  await sharedEqually(setup, await podNames())
  await settled(setup)
  const upgradeSlowestMs = traffic.slowestMs(since)
  expect(upgradeSlowestMs).toBeLessThan(LEASE_MS)
  // What is handed over is not repeated.
  expect(traffic.repeating.size).toBe(repeated)

  since = Date.now()
  const counted = await restarts()
  await setup.server.crash()
  await sharedEqually(setup, await podNames())
  expect(await ready()).toBe(REPLICAS)
  await settled(setup)
  const databaseSlowestMs = traffic.slowestMs(since)
  expect(await restarts()).toBe(counted)

  traffic.pause()
  await settled(setup)
  const [any = ''] = await podNames()
  const shown = await kubectl('-n', namespace, 'exec', any, '--', 'auditferry', 'status', '--json')
  const status = JSON.parse(shown) as { ok: boolean; journal: object; shards: { takeovers: number }[] }
  expect(status).toMatchObject({ ok: true, journal: { findings: 0, gaps: 0 } })
  const takeovers = status.shards.reduce((sum, each) => sum + each.takeovers, 0)
  expect(takeovers).toBeGreaterThanOrEqual(SHARDS / REPLICAS)
  const seconds = (ms: number) => `${(ms / 1000).toFixed(1)} s`
  process.stdout.write(
    `${traffic.added.size} entries, ${traffic.repeating.size} batches repeated, ${takeovers} takeovers; ` +
      `takeover ${seconds(takeoverMs)} (slowest entry ${seconds(lostSlowestMs)}), ` +
      `hand-over ${seconds(handOverMs)} (${seconds(leftSlowestMs)}), ` +
      `slowest entry during the upgrade ${seconds(upgradeSlowestMs)}, with the restart of PostgreSQL ${seconds(databaseSlowestMs)}\n`,
  )
  expect(traffic.unknown()).toEqual([])
  // A batch whose answer PostgreSQL could not record any more is sent again too, by the replica that sent it.
  expect(traffic.repeating.size).toBeLessThanOrEqual(repeated + SHARDS)
  await helm('uninstall', 'auditferry', '--wait')
}

/** Each shard has a holder among these pods, and each pod its part. */
async function sharedEqually(setup: Replicated, pods: readonly string[]): Promise<void> {
  const countOf = async () => {
    const shards = await setup.shards()
    return pods.map((pod) => shards.filter(({ holder }) => holder?.startsWith(`${pod}-`)).length)
  }
  await until(
    'equal shares',
    60_000,
    async () => ((await countOf()).every((count) => count === SHARDS / REPLICAS) ? true : undefined),
    async () => `${JSON.stringify(await setup.shards())} of ${pods.join(' ')}`,
  )
}

/** How long it took until other replicas held everything. */
async function takenFrom(setup: Replicated, pod: string, since: number): Promise<number> {
  await until('its shards are held by others', 60_000, async () => {
    const shards = await setup.shards()
    const free = shards.filter(({ holder }) => holder === null || holder.startsWith(`${pod}-`))
    return free.length === 0 ? true : undefined
  })
  return Date.now() - since
}

/** Everything that the workspaces had when this began is at the collector. */
async function settled({ traffic }: Replicated): Promise<void> {
  const wanted = new Set(traffic.added.keys())
  const lacking = () => traffic.lacking().filter((id) => wanted.has(id)).length
  await until(
    'every entry is there',
    60_000,
    async () => (lacking() === 0 ? true : undefined),
    async () => `${lacking()} lacking`,
  )
}
