// The replicas of a daemon on one PostgreSQL: they share the shards out, take over from one another,
// and each reports on all of them. Two or three in one process, the mock's API, real leases of 3 s.
import { setTimeout as sleep } from 'node:timers/promises'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest'
import type { Environment } from '../../src/app/environment.ts'
import { Shards } from '../../src/app/process.ts'
import { configSchema } from '../../src/config/schema.ts'
import type { Config } from '../../src/config/schema.ts'
import type { Transport } from '../../src/contracts/platform.ts'
import type { Clock } from '../../src/core/clock.ts'
import { PostgresStore } from '../../src/journal/postgres/open.ts'
import { Replicas } from '../../src/journal/postgres/replicas.ts'
import { migrate } from '../../src/journal/postgres/schema.ts'
import { openMock } from '../../src/mock/mock.ts'
import type { Mock } from '../../src/mock/mock.ts'
import { systemClock } from '../../src/platform/clock.ts'
import { disk } from '../../src/platform/disk.ts'
import { logOf } from '../contract/journal-parts.ts'
import { acceptAll, healthy, never } from '../unit/app/daemon-rig.ts'
import { startProxy } from './proxy.ts'
import { noPostgres, startPostgres } from './server.ts'
import type { PostgresServer } from './server.ts'

const LEASE_MS = 3_000
const NAMES = ['acme', 'globex', 'initech', 'umbrella']

const why = noPostgres()
const given = why === undefined ? describe : describe.skip
if (why !== undefined) it.skip(`skipped: ${why}`, () => undefined)

let server: PostgresServer
let folder: string
let schema: string
let schemas = 0
let mock: Mock
/** request bodies that the receiver has accepted */
let received: string[]
let sentences: string[]
const replicas: Replica[] = []

/** A clock that can be stopped, as the whole process is by SIGSTOP. */
function stoppable(): Clock & { stop(): void; goOn(): void } {
  let stoppedAt: number | undefined
  let lostMs = 0
  let going = Promise.withResolvers<undefined>()
  going.resolve(undefined)
  return {
    now: () => systemClock.now(),
    elapsed: () => (stoppedAt ?? systemClock.elapsed()) - lostMs,
    async sleep(ms, signal) {
      await systemClock.sleep(ms, signal)
      await going.promise
    },
    stop() {
      stoppedAt = systemClock.elapsed()
      going = Promise.withResolvers()
    },
    goOn() {
      lostMs += systemClock.elapsed() - (stoppedAt ?? 0)
      stoppedAt = undefined
      going.resolve(undefined)
    },
  }
}

const configOf = (names: readonly string[] = NAMES): Config =>
  configSchema.parse({
    journal: { postgres: { url: server.url(), schema, shards: 4, lease: '3s' } },
    workspaces: names.map((name) => ({
      ...{ name, base_url: 'https://api.example.com', api_key: `${name}-key` },
      audit: { interval: '1s', lookback: '0s' },
    })),
    sinks: [
      {
        ...{ name: 'siem', type: 'splunk_hec', url: 'https://siem.example.com:8088', token: 'planted-token' },
        batch: { linger: '0s' },
      },
    ],
  })

const receiver: Transport = async (request, signal) => {
  const { body } = request
  const pieces: Uint8Array[] = []
  if (body instanceof Uint8Array) pieces.push(body)
  else for await (const piece of body ?? []) pieces.push(piece)
  received.push(Buffer.concat(pieces).toString())
  return acceptAll(request, signal)
}

const environmentOf = (clock: Clock): Environment => {
  const send: Transport = (request, signal) =>
    request.url.startsWith('https://siem')
      ? healthy(receiver)(request, signal)
      : mock.transport(request, signal)
  return {
    ...{ version: '0.0.0', clock, random: Math.random, log: logOf(sentences), disk },
    network: () => ({ send, close: async () => undefined }),
    ...{ connect: never, datagrams: never },
    print: async () => undefined,
    gzip: async (bytes) => bytes,
  }
}

type Replica = ReturnType<typeof start>

function start(holder: string, config = configOf(), url = server.url()) {
  const clock = stoppable()
  const place = { settings: { url }, schema, holder, termMs: LEASE_MS, clock }
  const store = new PostgresStore({ ...place, log: logOf(sentences) })
  const shared = new Replicas(place)
  void shared.live()
  const open = (startedAt?: number) =>
    new Shards({
      ...{ config, environment: environmentOf(clock), store, replicas: shared, shards: 4 },
      ...(startedAt !== undefined && { startedAt }),
      answer: async (app, { question }) => ({
        status: 200,
        bytes: Buffer.from(`${question} answered by ${holder} for ${app.config.workspaces.length}`),
      }),
    })
  const shards = open()
  const running = shards.run()
  running.catch(() => undefined)
  const replica = {
    ...{ holder, shards, running, clock, shared, store, open },
    async stop() {
      clock.goOn()
      await Promise.all([shared.leave(), replica.shards.stop()])
      await Promise.all([shared.close(), store.close()])
    },
  }
  replicas.push(replica)
  return replica
}

/** How often the receiver got each entry. */
function copies(): number[] {
  const all = received.join('\n')
  return NAMES.flatMap((name) => mock.entries(name)).map(
    ({ id }) => all.split(`"entry_id":"${id}"`).length - 1,
  )
}

const deliveredOnce = () => copies().every((count) => count === 1)
const heldBy = (...of: Replica[]) => of.map(({ shards }) => shards.held.size)

async function until(seen: () => boolean | Promise<boolean>, what: string, ms = 20_000): Promise<void> {
  const end = Date.now() + ms
  while (!(await seen())) {
    if (Date.now() > end)
      throw new Error(
        `waited in vain for: ${what} (copies: ${copies().join(' ')}); the log:\n${sentences.slice(-30).join('\n')}`,
      )
    await sleep(50)
  }
}

function addEntries(each = 5): void {
  for (const name of NAMES) for (let i = 0; i < each; i++) mock.add({}, name)
}

beforeAll(async () => {
  if (why !== undefined) return
  server = await startPostgres()
  folder = mkdtempSync(join(tmpdir(), 'process-'))
})
afterAll(async () => {
  if (why !== undefined) return
  await server.stop()
  rmSync(folder, { recursive: true, force: true })
})
beforeEach(async () => {
  received = []
  sentences = []
  schema = `test_${++schemas}`
  await migrate({ settings: { url: server.url() }, schema })
  mock = openMock({
    ...{ clock: systemClock, traffic: { entriesPerHour: 0 }, limits: { audit: 0 } },
    ...{ switches: { self_audit: 'off' }, workspaces: NAMES.map((name) => ({ name })) },
  })
  addEntries()
})
afterEach(async () => {
  await Promise.all(replicas.splice(0).map((replica) => replica.stop()))
})

given('the replicas of a daemon', () => {
  it('one alone holds every shard, and delivers each entry once', async () => {
    const one = start('one')
    await until(() => deliveredOnce() && one.shards.held.size === 4, 'each entry once')
    addEntries()
    await until(deliveredOnce, 'the later entries')
    await until(() => one.shards.registry.status().journal.entries === 0, 'the acknowledgement')
    const { ok, shards, workspaces } = one.shards.registry.status()
    expect(workspaces.map(({ name }) => name)).toEqual(NAMES)
    expect(shards?.map(({ shard, holder, here }) => ({ shard, holder, here }))).toEqual(
      [1, 2, 3, 4].map((shard) => ({ shard, holder: 'one', here: true })),
    )
    expect(ok).toBe(true)
    const metrics = await one.shards.metrics.render()
    expect(metrics).toContain('auditferry_sink_entries_total{sink="siem",outcome="accepted"} 40')
    expect(metrics).toContain('auditferry_shard_held{shard="1"} 1')
  })

  it('two hold two shards each; the second takes over at once when the first stops', async () => {
    const one = start('one')
    await until(() => one.shards.held.size === 4, 'all of the shards')
    const two = start('two')
    await until(() => heldBy(one, two).join(' ') === '2 2', 'two shards each')
    addEntries()
    await until(deliveredOnce, 'each entry once')
    replicas.splice(replicas.indexOf(one), 1)
    await one.stop()
    const stoppedAt = Date.now()
    await until(() => two.shards.held.size === 4, 'the takeover')
    // It takes one shard per second.
    expect(Date.now() - stoppedAt).toBeLessThan(5_000)
    addEntries()
    await until(deliveredOnce, 'each entry once after the takeover')
    expect(await two.shards.metrics.render()).toContain('auditferry_shard_takeovers_total 0')
  })

  it('one that is frozen loses its shards to the other, and every write of it is refused until it holds them again', async () => {
    const one = start('one')
    await until(() => one.shards.held.size === 4 && deliveredOnce(), 'all of the shards')
    const [shard = 0, app] = [...one.shards.held][0] ?? []
    one.clock.stop()
    const two = start('two')
    const frozenAt = Date.now()
    await until(() => two.shards.held.size === 4, 'the takeover')
    // The lease, and one shard per second.
    expect(Date.now() - frozenAt).toBeLessThan(LEASE_MS + 7_000)
    await expect(app?.journal.state.put('late', 'write')).rejects.toMatchObject({ code: 'lease_lost' })
    addEntries()
    await until(deliveredOnce, 'each entry once, by the second')
    const statusOf = ({ shards }: Replica) =>
      shards.registry.status().shards?.find((each) => each.shard === shard)
    await until(() => statusOf(two)?.takeovers === 1, 'the takeover in the status')
    expect(statusOf(two)).toMatchObject({ holder: 'two', here: true, epoch: 2 })
    expect(await two.shards.metrics.render()).toContain('auditferry_shard_takeovers_total 4')
    one.clock.goOn()
    await until(() => heldBy(one, two).join(' ') === '2 2', 'equal shares again')
    addEntries()
    await until(deliveredOnce, 'each entry once, by both')
    expect(sentences.filter((line) => line.includes('The lease of a shard is lost')).length).toBeGreaterThan(
      0,
    )
  })

  it('keep their shards through a reload of one, which the other does not take meanwhile', async () => {
    const [one, two] = [start('one'), start('two')]
    await until(() => heldBy(one, two).join(' ') === '2 2', 'two shards each')
    const { startedAt } = one.shards.registry
    await one.shards.stop()
    // The other would take them within a second if this one had left.
    await sleep(2_500)
    expect(two.shards.held.size).toBe(2)
    one.shards = one.open(startedAt)
    one.shards.run().catch(() => undefined)
    await until(() => heldBy(one, two).join(' ') === '2 2', 'the same shares')
    addEntries()
    await until(deliveredOnce, 'each entry once')
    const { started_at, configured_at } = one.shards.registry.status()
    expect(Date.parse(configured_at)).toBeGreaterThan(Date.parse(started_at))
  })

  it('report the same of every workspace and sink, each for its own shards and those of the other', async () => {
    const [one, two] = [start('one'), start('two')]
    await until(() => heldBy(one, two).join(' ') === '2 2' && deliveredOnce(), 'each entry once')
    await until(() => {
      const [mine, other] = [one, two].map(({ shards }) => shards.registry.status())
      const accepted = [mine, other].map((report) => report?.sinks[0]?.accepted_entries)
      return mine?.ok === true && other?.ok === true && accepted.join(' ') === '20 20'
    }, 'both reports of all')
    for (const [self, other] of [[one, two] as const, [two, one] as const]) {
      const { workspaces, shards } = self.shards.registry.status()
      expect(workspaces.map(({ name }) => name)).toEqual(NAMES)
      const foreign = workspaces.filter(({ replica }) => replica === other.holder).map(({ name }) => name)
      expect(foreign).toHaveLength(2)
      for (const name of foreign) expect(other.shards.held.has(self.shards.shardOf(name) ?? 0)).toBe(true)
      expect(shards?.filter(({ here }) => here)).toHaveLength(2)
    }
  })

  it('one answers questions about its shards that the other got; nobody answers for a shard that is free', async () => {
    const [one, two] = [start('one'), start('two')]
    await until(() => heldBy(one, two).join(' ') === '2 2', 'two shards each')
    const [shard = 0] = [...two.shards.held.keys()]
    const { status, bytes } = await one.shared.ask(shard, { question: 'POST /counts', body: '{}' })
    expect({ status, text: Buffer.from(bytes).toString() }).toEqual({
      status: 200,
      text: 'POST /counts answered by two for 1',
    })
    await expect(one.shared.ask(9, { question: 'POST /counts', body: '{}' })).rejects.toMatchObject({
      code: 'unreachable',
      message: 'No replica holds shard 9 now: try again in a moment',
    })
  })

  it('one that its database does not answer stops, says so in the status and fails no probe; it goes on when that is back', async () => {
    const proxy = await startProxy(join(server.folder, `.s.PGSQL.${server.port}`), 'owner')
    try {
      const one = start('one', configOf(), proxy.url)
      await until(() => one.shards.held.size === 4 && deliveredOnce(), 'all of the shards')
      proxy.refuse()
      await until(() => one.shards.held.size === 0, 'the end of the leases')
      addEntries()
      const { ok, summary } = one.shards.registry.status()
      expect({ ok, summary, alive: await one.shards.alive() }).toMatchObject({
        ok: false,
        summary: expect.stringMatching(
          /^PostgreSQL at 127\.0\.0\.1:\d+\/postgres is not available/,
        ) as string,
        alive: true,
      })
      proxy.heal()
      await until(() => one.shards.held.size === 4 && deliveredOnce(), 'all of the shards again')
      await until(() => one.shards.registry.status().ok, 'a good status')
      // A counter that fell would look like a restart.
      expect(await one.shards.metrics.render()).toContain(
        'auditferry_sink_entries_total{sink="siem",outcome="accepted"} 40',
      )
    } finally {
      await Promise.all(replicas.splice(0).map((replica) => replica.stop()))
      await proxy.close()
    }
  })

  it('refuses workspaces with the same key in two shards, which an earlier configuration gave keys of their own', async () => {
    const one = start('one')
    await until(() => one.shards.held.size === 4, 'all of the shards')
    const { workspaces } = one.shards.config
    const config = {
      ...one.shards.config,
      workspaces: workspaces.map((each) => ({ ...each, api_key: workspaces[0]?.api_key ?? each.api_key })),
    }
    const two = start('two', config)
    await expect(two.running).rejects.toMatchObject({
      code: 'config_invalid',
      message: expect.stringContaining('acme and globex have the same api_key') as string,
    })
  })
})
