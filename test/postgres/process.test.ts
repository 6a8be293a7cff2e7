// The replicas of a daemon on one PostgreSQL: equal shares, takeovers, and reports on all shards.
// Two in one process, the API of the mock, real leases of 3 s.
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest'
import { Shards } from '../../src/app/process.ts'
import type { Clock } from '../../src/core/clock.ts'
import { PostgresStore } from '../../src/journal/postgres/open.ts'
import { Replicas } from '../../src/journal/postgres/replicas.ts'
import { systemClock } from '../../src/platform/clock.ts'
import { logOf } from '../contract/journal-parts.ts'
import { startProxy } from './proxy.ts'
import { NAMES, ROLE, openReplicaRig } from './replica-rig.ts'
import type { ReplicaRig } from './replica-rig.ts'
import { noPostgres, startPostgres } from './server.ts'
import type { PostgresServer } from './server.ts'

const LEASE_MS = 3_000
const HOUR_MS = 3_600_000

const why = noPostgres()
const given = why === undefined ? describe : describe.skip
if (why !== undefined) it.skip(`skipped: ${why}`, () => undefined)

let server: PostgresServer
let rig: ReplicaRig
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

interface Replica {
  readonly holder: string
  shards: Shards
  /** the run of its first shards */
  readonly running: Promise<void>
  readonly clock: ReturnType<typeof stoppable>
  readonly shared: Replicas
  /** Its shards once more, as at a reload. */
  readonly open: (startedAt?: number) => Shards
  stop(): Promise<void>
}

function start(holder: string, config = rig.config(), url = server.url(ROLE)): Replica {
  const clock = stoppable()
  const database = { settings: { url }, schema: rig.schema, holder, termMs: LEASE_MS, clock }
  const store = new PostgresStore({ ...database, log: logOf(rig.sentences) })
  const shared = new Replicas(database)
  void shared.live()
  const open = (startedAt?: number) =>
    new Shards({
      ...{ config, environment: rig.environment(clock), store, replicas: shared, shards: 4 },
      ...(startedAt !== undefined && { startedAt }),
      answer: async (app, { question }) => ({
        status: 200,
        bytes: Buffer.from(`${question} answered by ${holder} for ${app.config.workspaces.length}`),
      }),
    })
  const shards = open()
  const running = shards.run()
  running.catch(() => undefined)
  const replica: Replica = {
    ...{ holder, shards, running, clock, shared, open },
    async stop() {
      clock.goOn()
      await Promise.all([shared.leave(), replica.shards.stop()])
      await Promise.all([shared.close(), store.close()])
    },
  }
  replicas.push(replica)
  return replica
}

const heldBy = (...of: Replica[]) => of.map(({ shards }) => shards.held.size)

beforeAll(async () => {
  if (why === undefined) server = await startPostgres()
})
afterAll(async () => {
  if (why === undefined) await server.stop()
})
beforeEach(async () => {
  rig = await openReplicaRig(server)
  rig.addEntries()
})
afterEach(async () => {
  await Promise.all(replicas.splice(0).map((replica) => replica.stop()))
})

given('the replicas of a daemon', () => {
  it('one alone holds every shard, and delivers each entry once', async () => {
    const one = start('one')
    await rig.until(() => rig.deliveredOnce() && one.shards.held.size === 4, 'each entry once')
    rig.addEntries()
    await rig.until(rig.deliveredOnce, 'the later entries')
    await rig.until(() => one.shards.registry.status().journal.entries === 0, 'the acknowledgement')
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
    await rig.until(() => one.shards.held.size === 4, 'all of the shards')
    const two = start('two')
    await rig.until(() => heldBy(one, two).join(' ') === '2 2', 'two shards each')
    rig.addEntries()
    await rig.until(rig.deliveredOnce, 'each entry once')
    replicas.splice(replicas.indexOf(one), 1)
    await one.stop()
    const stoppedAt = Date.now()
    await rig.until(() => two.shards.held.size === 4, 'the takeover')
    // It takes one shard per second.
    expect(Date.now() - stoppedAt).toBeLessThan(5_000)
    rig.addEntries()
    await rig.until(rig.deliveredOnce, 'each entry once after the takeover')
    expect(await two.shards.metrics.render()).toContain('auditferry_shard_takeovers_total 0')
  })

  it('one that is frozen loses its shards to the other, and every write of it is refused until it holds them again', async () => {
    const one = start('one')
    await rig.until(() => one.shards.held.size === 4 && rig.deliveredOnce(), 'all of the shards')
    const [shard = 0, app] = [...one.shards.held][0] ?? []
    one.clock.stop()
    const two = start('two')
    const frozenAt = Date.now()
    await rig.until(() => two.shards.held.size === 4, 'the takeover')
    // The lease, and one shard per second.
    expect(Date.now() - frozenAt).toBeLessThan(LEASE_MS + 7_000)
    await expect(app?.journal.state.put('late', 'write')).rejects.toMatchObject({ code: 'lease_lost' })
    rig.addEntries()
    await rig.until(rig.deliveredOnce, 'each entry once, by the second')
    const statusOf = ({ shards }: Replica) =>
      shards.registry.status().shards?.find((each) => each.shard === shard)
    await rig.until(() => statusOf(two)?.takeovers === 1, 'the takeover in the status')
    expect(statusOf(two)).toMatchObject({ holder: 'two', here: true, epoch: 2 })
    expect(await two.shards.metrics.render()).toContain('auditferry_shard_takeovers_total 4')
    expect(rig.sentences.filter((line) => line.startsWith('A shard is taken over'))).toHaveLength(4)
    one.clock.goOn()
    await rig.until(() => heldBy(one, two).join(' ') === '2 2', 'equal shares again')
    rig.addEntries()
    await rig.until(rig.deliveredOnce, 'each entry once, by both')
    expect(
      rig.sentences.filter((line) => line.includes('The lease of a shard is lost')).length,
    ).toBeGreaterThan(0)
  })

  it('keep their shards through a reload of one, which the other does not take meanwhile', async () => {
    const [one, two] = [start('one'), start('two')]
    await rig.until(() => heldBy(one, two).join(' ') === '2 2', 'two shards each')
    const { startedAt } = one.shards.registry
    await one.shards.stop()
    // The other would take them within a second if this one had left.
    await sleep(2_500)
    expect(two.shards.held.size).toBe(2)
    one.shards = one.open(startedAt)
    one.shards.run().catch(() => undefined)
    await rig.until(() => heldBy(one, two).join(' ') === '2 2', 'the same shares')
    rig.addEntries()
    await rig.until(rig.deliveredOnce, 'each entry once')
    const { started_at, configured_at } = one.shards.registry.status()
    expect(Date.parse(configured_at)).toBeGreaterThan(Date.parse(started_at))
  })

  it('report the same of every workspace and sink, each for its own shards and those of the other', async () => {
    const [one, two] = [start('one'), start('two')]
    await rig.until(() => heldBy(one, two).join(' ') === '2 2' && rig.deliveredOnce(), 'each entry once')
    await rig.until(() => {
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

  it('one answers questions about its shards that the other got; a shard that is free gets no answer', async () => {
    const [one, two] = [start('one'), start('two')]
    await rig.until(() => heldBy(one, two).join(' ') === '2 2', 'two shards each')
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
    const proxy = await startProxy(join(server.folder, `.s.PGSQL.${server.port}`), ROLE)
    try {
      const one = start('one', rig.config(), proxy.url)
      const isDelivered = () => one.shards.registry.status().journal.entries === 0 && rig.deliveredOnce()
      await rig.until(() => one.shards.held.size === 4 && isDelivered(), 'all of the shards')
      proxy.refuse()
      await rig.until(() => one.shards.held.size === 0, 'the end of the leases')
      rig.addEntries()
      const { ok, summary, shards } = one.shards.registry.status()
      expect(shards?.map(({ holder }) => holder)).toEqual(Array(4).fill(null))
      expect({ ok, summary, alive: await one.shards.alive() }).toMatchObject({
        ok: false,
        summary: expect.stringMatching(
          /^PostgreSQL at 127\.0\.0\.1:\d+\/postgres is not available/,
        ) as string,
        alive: true,
      })
      proxy.heal()
      await rig.until(() => one.shards.held.size === 4 && rig.deliveredOnce(), 'all of the shards again')
      await rig.until(() => one.shards.registry.status().ok, 'a good status')
      // A counter that fell would look like a restart.
      const all = 'auditferry_sink_entries_total{sink="siem",outcome="accepted"} 40'
      await rig.until(async () => (await one.shards.metrics.render()).includes(all), 'the counter')
    } finally {
      await Promise.all(replicas.splice(0).map((replica) => replica.stop()))
      await proxy.close()
    }
  })

  it('one that its database does not answer cuts what it sends when its leases end, since others may send it then', async () => {
    const proxy = await startProxy(join(server.folder, `.s.PGSQL.${server.port}`), ROLE)
    try {
      rig.silence()
      const config = rig.config()
      // It asks the journal nothing while it sends.
      const workspaces = config.workspaces.map((each) => ({
        ...each,
        audit: each.audit && { ...each.audit, interval: HOUR_MS },
      }))
      const one = start('one', { ...config, workspaces }, proxy.url)
      await rig.until(() => rig.underWay() === 4, 'a request of each shard')
      const refusedAt = Date.now()
      proxy.refuse()
      await rig.until(() => rig.underWay() === 0, 'the cut')
      expect(Date.now() - refusedAt).toBeLessThan(LEASE_MS + 500)
      await rig.until(() => one.shards.held.size === 0, 'the end of the leases')
      const ends = rig.sentences.filter((line) => /^Work on this shard has ended|^Stop/.test(line))
      expect(ends).toEqual(Array(4).fill(expect.stringMatching(/^Work on this shard has ended/)))
    } finally {
      await Promise.all(replicas.splice(0).map((replica) => replica.stop()))
      await proxy.close()
    }
  })

  it('one delivers what is pending of workspaces that left the configuration, each alone in its shard', async () => {
    rig.shut(true)
    const one = start('one')
    await rig.until(() => one.shards.registry.status().journal.entries === 20, 'entries that wait')
    replicas.splice(0)
    await one.stop()
    rig.shut(false)
    const config = rig.config()
    const two = start('two', { ...config, workspaces: config.workspaces.slice(0, 1) })
    await rig.until(rig.deliveredOnce, 'each entry once')
    expect(two.shards.held.size).toBe(4)
    expect(two.shards.registry.status().workspaces.map(({ name }) => name)).toEqual(['acme'])
  })

  it('refuses workspaces with the same key in two shards, which an earlier configuration gave keys of their own', async () => {
    const one = start('one')
    await rig.until(() => one.shards.held.size === 4, 'all of the shards')
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
