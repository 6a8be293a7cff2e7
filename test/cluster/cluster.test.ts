// The chart on a real cluster, by each Helm: the life of a release, and that every entry arrives through all of it.
import { mkdirSync, readdirSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
import { helms, root, toolsFolder, toolsMissing, type Helm } from '../chart/tools.ts'
import { call, imageImpossible, ok, until } from '../image/engine.ts'
import { clusterMissing, kubectl, placeWithImage, restartKubelet, reported, tryKubectl } from './cluster.ts'
import { openSetup, type Setup } from './release.ts'

const missing = clusterMissing ?? toolsMissing() ?? (await imageImpossible())
if (missing !== undefined)
  process.stderr.write(`\nSKIPPED: the chart is not installed anywhere: ${missing}\n`)

const FLOW_MS = 480_000
const chart = join(root, 'helm/auditferry')
/** The chart that went before this one. */
const former = join(
  root,
  'test/fixtures/charts',
  readdirSync(join(root, 'test/fixtures/charts')).sort().at(-1) ?? '',
)
const POD = 'pod/auditferry-0'

describe.skipIf(missing !== undefined)('on a cluster', () => {
  const place = placeWithImage(FLOW_MS)

  it.concurrent.each(helms)(
    'installed by %s, every entry arrives, once at file and bucket, whatever happens to pod, node, secret, values, chart and configuration',
    async (name) => {
      const own = join(place.folder, name)
      mkdirSync(own)
      const setup = await openSetup(`by-${name}`, 'first-key', own)
      try {
        await live(name, setup)
      } catch (error) {
        const { stdout } = await tryKubectl('-n', setup.namespace, 'describe', 'statefulset,pods,pvc')
        const logs = await tryKubectl('-n', setup.namespace, 'logs', POD, '--tail=30')
        throw new Error(`${stdout}\n${logs.stdout}`, { cause: error })
      } finally {
        await setup.close()
      }
    },
    FLOW_MS,
  )
})

async function live(helm: Helm, setup: Setup): Promise<void> {
  const { namespace, mock } = setup
  const run = (...args: string[]) =>
    ok(call(join(toolsFolder, 'bin', helm), [...args, '--namespace', namespace]))
  const release = (verb: 'install' | 'upgrade', from: string, ...more: string[]) =>
    run(verb, 'auditferry', from, '-f', setup.values, '--wait', '--timeout', '120s', ...more)
  const pod = () => reported(namespace, POD, '.metadata.uid')
  const container = () => reported(namespace, POD, '.status.containerStatuses[0].containerID')
  const claim = () => reported(namespace, 'pvc/data-auditferry-0', '.metadata.uid')

  await refusesTheUnrestricted(namespace)
  const notes = await release('install', former)
  expect(notes).toContain('exec statefulset/auditferry -- auditferry status')
  const volume = await claim()
  await arrived(setup, 'after the install')

  // A new chart: another pod on the same volume.
  await release('upgrade', chart)
  await arrived(setup, 'after the upgrade of the chart')

  const before = await pod()
  await kubectl('-n', namespace, 'delete', POD)
  await until('another pod', 60_000, async () => {
    const { code, stdout } = await tryKubectl('-n', namespace, 'get', POD, '-o', 'jsonpath={.metadata.uid}')
    return code === 0 && stdout !== before ? true : undefined
  })
  await kubectl('-n', namespace, 'wait', '--for=condition=Ready', POD, '--timeout=60s')
  await arrived(setup, 'after the pod was deleted')

  // Neither a kubelet that dies nor a secret that is rotated touches the daemon.
  const process = await container()
  await restartKubelet()
  mock.rotateKey('first-key', 'second-key')
  await setup.writeSecret('second-key')
  await arrived(setup, 'after the kubelet and the secret')
  expect(await container()).toBe(process)

  const whole = await pod()
  await release('upgrade', chart, '--set', 'config.log.level=warn')
  expect(await pod()).not.toBe(whole)
  await arrived(setup, 'after the upgrade of the values')

  // A configuration that the daemon refuses fails the upgrade, and the next good one repairs it automatically.
  const bad = ['--set', 'config.log.level=loud', '--wait', '--timeout', '10s', '--namespace', namespace]
  const upgrade = ['upgrade', 'auditferry', chart, '-f', setup.values]
  expect((await call(join(toolsFolder, 'bin', helm), [...upgrade, ...bad])).code).not.toBe(0)
  await release('upgrade', chart)
  await arrived(setup, 'after a configuration at fault')

  const tested = await run('test', 'auditferry', '--timeout', '60s')
  expect(tested).toContain('Succeeded')
  await arrived(setup, 'after the test')
  const shown = await kubectl('-n', namespace, 'exec', POD, '--', 'auditferry', 'status', '--json')
  const status = JSON.parse(shown) as { ok: boolean; journal: { findings: number; gaps: number } }
  expect(status).toMatchObject({ ok: true, journal: { findings: 0, gaps: 0 } })

  await run('uninstall', 'auditferry', '--wait')
  expect(await claim()).toBe(volume)
  judge(setup)
}

/** Everything that the workspace has shown up to now is at each receiver. */
async function arrived(setup: Setup, when: string): Promise<void> {
  const now = Date.now()
  const wanted = setup.mock.entries().filter(({ visibleAt }) => visibleAt < now)
  const lacking = () => {
    const received = Object.entries(setup.received())
    return received.map(([name, ids]) => {
      const there = new Set(ids)
      return [name, wanted.filter(({ id }) => !there.has(id)).length] as const
    })
  }
  await until(
    `everything is there ${when}`,
    90_000,
    async () => (lacking().every(([, count]) => count === 0) ? true : undefined),
    async () => JSON.stringify(lacking()),
  )
}

function judge(setup: Setup): void {
  const { file, bucket, collector } = setup.received()
  const known = new Set(setup.mock.entries().map(({ id }) => id))
  expect(new Set(file).size).toBe(file.length)
  expect(new Set(bucket).size).toBe(bucket.length)
  expect([...file, ...bucket, ...collector].filter((id) => !known.has(id))).toEqual([])
}

/** Otherwise the rest would prove nothing of it. */
async function refusesTheUnrestricted(namespace: string): Promise<void> {
  const { code, stderr } = await tryKubectl('-n', namespace, 'run', 'loose', '--image=pause:local')
  expect(stderr).toContain('violates PodSecurity "restricted')
  expect(code).not.toBe(0)
}
