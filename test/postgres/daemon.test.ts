// The whole daemon with its journal in PostgreSQL: listener, control socket and reload of a replica,
// and commands that reach shards through any replica.
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest'
import { runDaemon } from '../../src/cli/run/daemon.ts'
import type { NextSetup } from '../../src/cli/run/daemon.ts'
import { openEngine } from '../../src/cli/run/engine.ts'
import type { Setup } from '../../src/cli/run/engine.ts'
import { basePath } from '../../src/config/journal.ts'
import { accountReport } from '../../src/contracts/accounts.ts'
import { connectControl } from '../../src/control/client.ts'
import { DAY_MS } from '../../src/core/time.ts'
import { systemClock } from '../../src/platform/clock.ts'
import { NAMES, POISON, openReplicaRig } from './replica-rig.ts'
import type { ReplicaRig } from './replica-rig.ts'
import { noPostgres, startPostgres } from './server.ts'
import type { PostgresServer } from './server.ts'

const why = noPostgres()
const given = why === undefined ? describe : describe.skip
if (why !== undefined) it.skip(`skipped: ${why}`, () => undefined)

const before = process.env['TMPDIR']
let server: PostgresServer
let folder: string
let rig: ReplicaRig
const ends: (() => Promise<void>)[] = []

const setupOf = (): Setup => ({ config: rig.config(), environment: rig.environment(systemClock) })

beforeAll(async () => {
  if (why === undefined) server = await startPostgres()
})
afterAll(async () => {
  if (why === undefined) await server.stop()
})
beforeEach(async () => {
  folder = mkdtempSync(join(tmpdir(), 'daemon-'))
  // The control socket is there.
  process.env['TMPDIR'] = folder
  rig = await openReplicaRig(server)
  rig.addEntries()
})
afterEach(async () => {
  for (const end of ends.splice(0).reverse()) await end()
  if (before === undefined) delete process.env['TMPDIR']
  else process.env['TMPDIR'] = before
  rmSync(folder, { recursive: true, force: true })
})

/** A daemon that gets its next setups from the test. */
async function startDaemon(first = setupOf()) {
  const stopping = new AbortController()
  let reload: (next: Setup) => void = () => undefined
  let rejected: unknown
  const nextSetup: NextSetup = (current) =>
    new Promise((resolve) => {
      reload = (next) => {
        current.prepareFor(next).then(
          () => resolve(next),
          (error: unknown) => void (rejected = error),
        )
      }
    })
  let url = ''
  const over = runDaemon(first, stopping.signal, { nextSetup, started: (at) => void (url = at) })
  over.catch(() => undefined)
  ends.push(async () => {
    stopping.abort()
    await over.catch(() => undefined)
  })
  await rig.until(() => url !== '', 'its listener')
  return {
    over,
    page: async (path: string) => {
      const answer = await fetch(`${url}${path}`)
      return { status: answer.status, text: await answer.text() }
    },
    reload: (next: Setup) => reload(next),
    rejected: () => rejected,
    stop: () => stopping.abort(),
  }
}

given('a daemon with its journal in PostgreSQL', () => {
  it('delivers, answers probes, pages and commands, and takes a new configuration', async () => {
    const first = setupOf()
    const daemon = await startDaemon(first)
    await rig.until(rig.deliveredOnce, 'each entry once')
    expect((await daemon.page('livez')).status).toBe(200)
    expect((await daemon.page('readyz')).status).toBe(200)
    expect((await daemon.page('metrics')).text).toContain('auditferry_shard_held{shard="4"} 1')
    expect((await daemon.page('metrics')).text).toContain('process_start_time_seconds')
    expect((await daemon.page('')).text).toContain('umbrella')
    const client = await connectControl(basePath(first.config))
    expect((await client?.status())?.shards).toHaveLength(4)
    expect(await client?.jobs.origins()).toHaveLength(4)
    expect(await client?.instance()).toMatch(/^[0-9a-f]{24}( [0-9a-f]{24}){3}$/)
    daemon.reload({
      ...setupOf(),
      config: { ...first.config, workspaces: first.config.workspaces.slice(0, 2) },
    })
    await rig.until(async () => (await client?.status())?.workspaces.length === 2, 'the new configuration')
    rig.mock.add({}, 'acme')
    await rig.until(async () => rig.copies()[5] === 1, 'an entry under the new configuration')
    daemon.stop()
    await daemon.over
    await expect(daemon.page('livez')).rejects.toThrow('fetch failed')
    const free = await server.query<{ holder: string | null }>(`SELECT holder FROM ${rig.schema}.shards`)
    expect(free.map(({ holder }) => holder)).toEqual([null, null, null, null])
    expect(await server.query(`SELECT * FROM ${rig.schema}.replicas`)).toEqual([])
  })

  it('rejects a new configuration whose workspaces share a key across shards, and keeps running', async () => {
    const first = setupOf()
    const daemon = await startDaemon(first)
    await rig.until(rig.deliveredOnce, 'each entry once')
    const [one] = first.config.workspaces
    const workspaces = first.config.workspaces.map((each) => ({
      ...each,
      api_key: one?.api_key ?? each.api_key,
    }))
    daemon.reload({ ...first, config: { ...first.config, workspaces } })
    await rig.until(() => daemon.rejected() !== undefined, 'the rejection')
    expect(daemon.rejected()).toMatchObject({ code: 'config_invalid' })
    rig.addEntries(1)
    await rig.until(rig.deliveredOnce, 'the later entries')
  })

  it('refuses a schema that was not migrated, and a second replica in the same temporary folder', async () => {
    const setup = setupOf()
    await startDaemon(setup)
    await expect(runDaemon(setup, new AbortController().signal)).rejects.toMatchObject({
      code: 'misconfigured',
      message: expect.stringContaining('TMPDIR') as string,
    })
    const { postgres } = setup.config.journal
    const journal = {
      ...setup.config.journal,
      ...(postgres && { postgres: { ...postgres, schema: 'absent' } }),
    }
    await expect(
      runDaemon({ ...setup, config: { ...setup.config, journal } }, new AbortController().signal),
    ).rejects.toMatchObject({
      code: 'config_invalid',
      message: expect.stringContaining('auditferry journal migrate') as string,
    })
  })
})

/** Without listener and socket, so that several can be in this process. */
async function startReplica() {
  const setup = setupOf()
  const engine = await openEngine(setup, undefined, new AbortController().signal)
  const running = await engine.open(setup)
  running.run().catch(() => undefined)
  ends.push(async () => {
    await Promise.all([engine.leave(), running.stop()])
    await engine.close()
  })
  const here = () => running.registry.status().shards?.filter((shard) => shard.here) ?? []
  return { running, here }
}

given('a command', () => {
  it('reaches every shard through any replica: dead letters, accounts, replays, jobs, comparisons', async () => {
    const [one, two] = [await startReplica(), await startReplica()]
    await rig.until(() => one.here().length === 2 && two.here().length === 2, 'two shards each')
    for (const name of NAMES) rig.mock.add({ type: POISON }, name)
    const letters = () => one.running.registry.status().sinks[0]?.dead_letters
    await rig.until(() => letters() === 4, 'a dead letter of each workspace')
    const { running } = two
    const { journal, jobs, comparing } = running

    const listed = await journal.deadLetters({ limit: 3 })
    const rest = await journal.deadLetters({ after: listed.at(-1)?.id ?? 0 })
    expect([...listed, ...rest].map(({ stream }) => stream.workspace).toSorted()).toEqual(NAMES)
    for (const { id } of [...listed, ...rest])
      expect(Buffer.from((await journal.deadLetterRaw(id)) ?? []).toString()).toContain(POISON)
    rig.heal()
    const ids = [...listed, ...rest].map(({ id }) => id)
    expect(await running.retry({ ids: ids.slice(0, 3) })).toEqual({ count: 3, left: [] })
    expect(await journal.dropDeadLetters({ ids })).toBe(1)
    await rig.until(() => rig.copies().filter((count) => count === 1).length === 23, 'those put back')

    const today = Math.floor(Date.now() / DAY_MS)
    const range = { fromDay: today - 1, toDay: today + 1 }
    const { rows } = await accountReport(journal, range, ['siem'])
    const sum = (of: (row: (typeof rows)[number]) => number) => rows.reduce((all, row) => all + of(row), 0)
    expect({
      kept: sum(({ kept }) => kept),
      dropped: sum(({ dropped }) => dropped),
      missing: sum(({ missing }) => missing),
    }).toEqual({ kept: 24, dropped: 1, missing: 0 })

    const span = { fromUs: 0, toUs: (Date.now() + DAY_MS) * 1000 }
    let replayed = 0
    let at: { after: number; until: number | undefined } = { after: 0, until: undefined }
    for (let more = true; more;) {
      const step = await journal.replay({
        ...span,
        ...at,
        sink: 'siem',
        sources: ['audit'],
        runAt: 1,
        dryRun: true,
      })
      replayed += step.entries
      at = { after: step.through, until: step.until }
      more = step.more
    }
    expect(replayed).toBe(24)

    const begun = await jobs.backfill({}, { fromUs: span.toUs - 2 * DAY_MS * 1000, toUs: span.toUs })
    expect(begun.map(({ stream }) => stream.workspace).toSorted()).toEqual(NAMES)
    await rig.until(
      async () => (await jobs.all('backfill')).filter(({ endedAt }) => endedAt !== undefined).length === 4,
      'the end of the backfills',
    )
    await expect(jobs.backfill({ workspace: 'nobody' }, span)).rejects.toMatchObject({
      code: 'misconfigured',
    })

    const request = { job: 'one', fromUs: span.toUs - 2 * DAY_MS * 1000, toUs: span.toUs }
    let compared = await comparing.compare(request)
    await rig.until(async () => (compared = await comparing.compare(request)).isDone, 'the comparison')
    await comparing.endCompare('one')
    expect(compared.streams.map(({ stream }) => stream.workspace).toSorted()).toEqual(NAMES)
    expect(compared.streams.flatMap(({ days }) => days).reduce((all, { known }) => all + known, 0)).toBe(24)
  })
})
