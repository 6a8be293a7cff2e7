// The whole daemon in one process: its start, its stop and everything between.
import { mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { afterEach, describe, expect, test } from 'vitest'
import type { App } from '../../../src/app/app.ts'
import { ConnectorError } from '../../../src/core/errors.ts'
import type { Transport } from '../../../src/contracts/platform.ts'
import type { Journal } from '../../../src/contracts/journal.ts'
import type { Line } from './daemon-rig.ts'
import { part, spec } from '../../contract/journal-parts.ts'
import { withMethods } from '../../fakes/with-methods.ts'
import { FakeS3, s3Transport } from '../../fakes/s3.ts'
import {
  fastClock,
  acceptAll,
  healthy,
  openDaemonRig,
  never,
  refuseToken,
  reply,
  stalledAnswers,
  until,
} from './daemon-rig.ts'

let daemonRig: ReturnType<typeof openDaemonRig> | undefined
let app: App | undefined
afterEach(async () => {
  await app?.stop()
  daemonRig?.remove()
})

type DaemonRigOptions = NonNullable<Parameters<typeof openDaemonRig>[0]>

async function start(options: DaemonRigOptions, once = false) {
  daemonRig = openDaemonRig(options)
  app = await daemonRig.open(once)
  const running = app.run()
  running.catch(() => undefined)
  return { daemonRig, app, running }
}

const linesOf = (folder: string) => readFileSync(join(folder, 'out.ndjson'), 'utf8').trim().split('\n').length
const reported = (lines: readonly Line[]) =>
  lines.map(({ sentence, fields }) => `${sentence} ${JSON.stringify(fields)}`)

test('the daemon logs a new workspace, and from where it is read', async () => {
  const first = await start({ entries: 1 }, true)
  await until(() => first.app.singleRun() === 'done', 'done')
  await first.app.stop()
  const { folder, clock } = first.daemonRig
  const { daemonRig: place } = await start({ folder, clock, entries: 0, workspace: { name: 'renamed' } })
  const lines = reported(place.lines).filter((line) => /^(New|A) workspace/.test(line))
  expect(lines).toEqual([
    expect.stringMatching(/New workspace.*\{"workspace":"renamed","auditStart":"earliest"\}$/),
    expect.stringMatching(/removed from the configuration.*\{"workspace":"acme"\}$/),
  ])
  expect(reported(first.daemonRig.lines).filter((line) => line.startsWith('A workspace '))).toEqual([])
})

describe('once', () => {
  test('is done when everything that exists is read and delivered', async () => {
    const { app: once, daemonRig: place } = await start({ entries: 30, receiver: acceptAll }, true)
    await until(() => once.singleRun() === 'done', 'done')
    expect(linesOf(place.folder)).toBe(30)
  })

  test('no sink lingers once all is read, however long its linger is', async () => {
    const sinks = { batch: { linger: '1h' } }
    const { app: once, daemonRig: place } = await start({ entries: 30, receiver: acceptAll, sinks }, true)
    await until(() => once.singleRun() === 'done', 'done')
    expect(linesOf(place.folder)).toBe(30)
    expect(once.registry.status().sinks.map(({ accepted_entries }) => accepted_entries)).toEqual([30, 30])
  })

  test('no sink lingers for a blocked source: all that could be read is delivered, then the run is stuck', async () => {
    const sinks = { batch: { linger: '1h' } }
    const options = { entries: 30, receiver: acceptAll, sinks, others: ['beta'] }
    const { app: once, daemonRig: place } = await start(options, true)
    await until(() => once.singleRun() === 'stuck', 'stuck')
    expect(linesOf(place.folder)).toBe(30)
    expect(once.registry.status().sinks.map(({ pending_entries }) => pending_entries)).toEqual([0, 0])
  })

  test('a refused key leaves it stuck', async () => {
    const { app: once } = await start({ key: 'another-key' }, true)
    await until(() => once.singleRun() === 'stuck', 'stuck')
  })

  test('a refused token leaves it stuck, and the other sink has everything', async () => {
    const { app: once, daemonRig: place } = await start({ entries: 30, receiver: refuseToken }, true)
    await until(() => once.singleRun() === 'stuck', 'stuck')
    expect(linesOf(place.folder)).toBe(30)
  })

  test('reading paused by a blocked sink leaves it stuck too', async () => {
    const { app: once } = await start({ entries: 3000, receiver: refuseToken, maxBytes: '1KiB' }, true)
    await until(() => once.singleRun() === 'stuck', 'stuck')
    expect(once.registry.status().journal.paused).toBe(true)
  })

  test('a failing receiver may come back: it keeps working', async () => {
    const receiver = async () => {
      throw new ConnectorError('unreachable', 'nobody there')
    }
    const { app: once } = await start({ receiver }, true)
    await until(() => once.registry.status().sinks.some(({ state }) => state === 'failing'), 'failing')
    expect(once.singleRun()).toBe('working')
  })
})

describe('status', () => {
  test('an unreachable receiver is reported at once, although there is nothing to send, and is healthy once it answers', async () => {
    let isThere = false
    const receiver: Transport = async () => {
      if (!isThere) throw new ConnectorError('unreachable', 'siem refused the connection')
      return reply(200, { text: 'HEC is healthy', code: 17 })
    }
    const { app: running } = await start({ entries: 0, receiver })
    const siem = () => running.registry.status().sinks[1]
    await until(() => siem()?.state === 'failing', 'failing')
    expect(siem()).toMatchObject({ pending_entries: 0, error: { code: 'unreachable' } })
    expect(running.registry.status().summary).toContain('siem is failing: siem refused the connection')
    isThere = true
    await until(() => siem()?.state === 'idle', 'idle')
    expect(siem()).toMatchObject({ error: null, last_success_at: null })
  })

  test('a missing bucket blocks its sink while it collects, long before its first upload, until the bucket exists', async () => {
    const s3 = {
      ...{ type: 's3', name: 'archive', bucket: 'logs', endpoint: 'https://siem.s3.test' },
      ...{ force_path_style: true, access_key_id: 'A', secret_access_key: 'B', rotate: { max_age: '1d' } },
    }
    const server = new FakeS3({ bucket: 'another' })
    const clock = fastClock()
    const { app: running } = await start({
      entries: 3,
      clock,
      sinks: s3,
      receiver: undefined,
      s3: s3Transport(server, clock),
    })
    const archive = () => running.registry.status().sinks[0]
    await until(() => archive()?.state === 'blocked' && archive()?.pending_entries === 3, 'blocked')
    expect(archive()).toMatchObject({
      error: { code: 'not_found', message: expect.stringContaining('does not exist') as string },
    })
    expect(archive()).not.toHaveProperty('next_upload_at')
    server.switches.bucket = 'logs'
    await until(() => archive()?.state === 'collecting', 'collecting')
    expect(Date.parse(archive()?.next_upload_at ?? '')).toBeGreaterThan(clock.now())
    expect([server.entries.length, archive()?.error]).toEqual([0, null])
  })

  test('a receiver that never answers is failing within 30 s, and the other sink is not', async () => {
    const { app: running, daemonRig: place } = await start({ receiver: never })
    const stateOf = (wanted: string) =>
      running.registry.status().sinks.find(({ name }) => name === wanted)?.state
    await until(() => stateOf('siem') === 'sending', 'sending')
    const from = place.clock.elapsed()
    await until(() => stateOf('siem') === 'failing', 'failing')
    expect(place.clock.elapsed() - from).toBeLessThan(30_000)
    await until(() => stateOf('archive') === 'idle', 'the other is done')
    const { ok, summary } = running.registry.status()
    expect([ok, stateOf('archive')]).toEqual([false, 'idle'])
    expect(summary).toMatch(/^siem is \d+ s behind: no answer for \d+ s, and the request is still open/)
  })
})

/** 7 s of waiting in the worst case; the rest is work, which counts four times by this clock. */
const STOP_MS = 8_500

describe('stop', () => {
  test('stays within its limit though a receiver neither answers nor reacts', async () => {
    const { app: running, daemonRig: place } = await start({ receiver: never, clock: fastClock(4) })
    await until(() => running.registry.status().sinks.some(({ state }) => state === 'sending'), 'sending')
    const from = place.clock.elapsed()
    await running.stop()
    expect(place.clock.elapsed() - from).toBeLessThan(STOP_MS)
    expect(await running.alive()).toBe(false)
  })

  test('stays within its limit though the disk under a sink is dead', async () => {
    const { app: running, daemonRig: place } = await start({ deadDisk: true, clock: fastClock(4) })
    await until(
      () => running.registry.status().sinks.some(({ pending_entries }) => pending_entries > 0),
      'owed',
    )
    await place.clock.sleep(5_000)
    const from = place.clock.elapsed()
    await running.stop()
    expect(place.clock.elapsed() - from).toBeLessThan(STOP_MS)
  })

  test('stays within its limit though the API hangs', async () => {
    const { app: running, daemonRig: place } = await start({ api: never, clock: fastClock(4) })
    await until(() => running.registry.status().workspaces[0]?.sources[0]?.state === 'reading', 'reading')
    const from = place.clock.elapsed()
    await running.stop()
    expect(place.clock.elapsed() - from).toBeLessThan(STOP_MS)
  })

  test('lets a delivery finish: its receiver does not get the same again', async () => {
    let asked = 0
    const slow: Transport = async () => {
      asked++
      await place.clock.sleep(1_500)
      return reply(200, { text: 'Success', code: 0 })
    }
    const { app: running, daemonRig: place } = await start({ receiver: healthy(slow) })
    await until(() => asked > 0, 'a request')
    await running.stop()
    expect(running.registry.status().sinks[1]?.accepted_entries).toBe(20)
    expect(asked).toBe(1)
  })

  test('before the first run, and twice, does no harm', async () => {
    daemonRig = openDaemonRig()
    app = await daemonRig.open(false)
    await Promise.all([app.stop(), app.stop()])
    expect(await app.alive()).toBe(false)
  })

  test('objects that a killed process left are removed from the disk, also those of a removed sink', async () => {
    daemonRig = openDaemonRig()
    const left = join(daemonRig.folder, 'spool', 'a.db', 'gone')
    mkdirSync(left, { recursive: true })
    for (const name of ['object-0.part', 'object-5.part', 'notes']) writeFileSync(join(left, name), 'content')
    const others = join(daemonRig.folder, 'spool', 'b.db', 'gone')
    mkdirSync(others, { recursive: true })
    writeFileSync(join(others, 'object-0.part'), 'content')
    app = await daemonRig.open(false)
    expect(readdirSync(left)).toEqual(['notes'])
    expect(readdirSync(others)).toEqual(['object-0.part'])
    expect(
      reported(daemonRig.lines).filter((line) => line.includes('had left on the disk {"files":2}')),
    ).toHaveLength(1)
  })

  test('a process that cannot open the journal leaves the files of the one that has it alone', async () => {
    daemonRig = openDaemonRig()
    app = await daemonRig.open(false)
    const under = join(daemonRig.folder, 'spool', 'a.db', 'bucket')
    mkdirSync(under, { recursive: true })
    writeFileSync(join(under, 'object-0.part'), 'content')
    await expect(daemonRig.open(false)).rejects.toMatchObject({ code: 'journal_in_use' })
    expect(readdirSync(under)).toEqual(['object-0.part'])
  })

  test('the next start delivers what a stop left, and nothing twice', async () => {
    const { app: first, daemonRig: place } = await start({ receiver: refuseToken })
    await until(() => {
      const [archive, siem] = first.registry.status().sinks
      return archive?.accepted_entries === 20 && siem?.state === 'blocked'
    }, 'the file has all, the collector holds')
    await first.stop()
    const api = place.mock.transport
    const { app: second } = await start({ folder: place.folder, api, receiver: acceptAll }, true)
    await until(() => second.singleRun() === 'done', 'done')
    expect(second.registry.status().sinks.map(({ accepted_entries }) => accepted_entries)).toEqual([0, 20])
    expect(linesOf(place.folder)).toBe(20)
  })
})

describe('the next start', () => {
  test('knows when each source was last read and caught up, before it reads again', async () => {
    // What a busy machine takes between the two counts four times by this clock.
    const { app: first, daemonRig: place } = await start({ clock: fastClock(4) })
    const sourceOf = (app: App) => app.registry.status().workspaces[0]?.sources[0]
    await until(() => sourceOf(first)?.caught_up_at !== null, 'caught up')
    await first.stop()
    const before = sourceOf(first)
    const { app: second } = await start({
      folder: place.folder,
      clock: place.clock,
      api: never,
    })
    await until(() => sourceOf(second)?.state !== 'starting', 'the second reads')
    const after = sourceOf(second)
    // The transaction of the last good read is some instants older than what the first process showed.
    for (const name of ['last_success_at', 'caught_up_at'] as const)
      expect(Math.abs(Date.parse(before?.[name] ?? '') - Date.parse(after?.[name] ?? ''))).toBeLessThan(
        15_000,
      )
    expect(await second.metrics.render()).toMatch(
      /^auditferry_source_last_success_timestamp_seconds\{[^}]*\} 1\d{9}/m,
    )
  })
})

describe('what is sent again', () => {
  test('goes to its sink alone, and never from a source that the sink does not name', async () => {
    const { app: daemon, daemonRig: place } = await start({ receiver: acceptAll })
    const query = { workspace: 'acme', source: 'history.query' } as const
    await daemon.journal.append(part([spec(1)], { stream: query }))
    const accepted = () => daemon.registry.status().sinks.map(({ accepted_entries: n }) => n)
    const isSettled = () => daemon.journal.stats().entries === 0
    await until(() => String(accepted()) === '20,20' && isSettled(), 'all settled')
    const asked = {
      sink: 'archive',
      fromUs: 0,
      toUs: 1e18,
      runAt: 1,
      dryRun: false,
      after: 0,
      until: undefined,
    }
    const again = await daemon.journal.replay({ ...asked, sources: ['audit', 'history.query'] })
    expect(again.entries).toBe(21)
    // The journal knows it before the status registry does.
    await until(() => accepted()[0] === 40 && isSettled(), 'all settled again')
    expect(accepted()).toEqual([40, 20])
    expect(linesOf(place.folder)).toBe(40)
  })
})

describe('the journal', () => {
  const failed = new ConnectorError('disk_failed', 'the disk answered EIO')

  test('a fatal error of it ends the daemon at once, though the disk under a sink is dead', async () => {
    let broken = false
    const tamper: DaemonRigOptions['tamper'] = (journal) =>
      withMethods(journal, {
        append: (part) => (broken ? Promise.reject(failed) : journal.append(part)),
      })
    const { daemonRig: place, app: daemon, running } = await start({ deadDisk: true, tamper })
    await until(
      () => daemon.registry.status().sinks.some(({ pending_entries }) => pending_entries > 0),
      'owed',
    )
    await place.clock.sleep(5_000)
    broken = true
    place.mock.add({})
    await expect(running).rejects.toBe(failed)
  })

  test('a fatal error of it ends every loop, before anything asks for a stop', async () => {
    const tamper: DaemonRigOptions['tamper'] = (journal) =>
      withMethods(journal, { prune: () => Promise.reject(failed) })
    const { daemonRig: place, running } = await start({ tamper })
    await expect(running).rejects.toBe(failed)
    // Ten seconds without a request, once those in progress at the failure are over.
    const { requests } = place.mock
    let asked = -1
    for (let tries = 0; tries < 10 && asked < requests.length; tries++) {
      asked = requests.length
      await place.clock.sleep(10_000)
    }
    expect(requests).toHaveLength(asked)
  })

  test('a lost lease ends every loop with that error', async () => {
    const taken = new ConnectorError('lease_lost', 'taken over')
    const { running } = await start({
      tamper: (journal) => withMethods(journal, { prune: () => Promise.reject(taken) }),
    })
    await expect(running).rejects.toBe(taken)
  })

  test('a stop for a damaged journal does not promise that the next start delivers from it', async () => {
    const damaged = new ConnectorError('journal_corrupt', 'torn')
    const tamper: DaemonRigOptions['tamper'] = (journal) =>
      withMethods(journal, { prune: () => Promise.reject(damaged) })
    const { daemonRig: place, app: daemon, running } = await start({ tamper })
    await expect(running).rejects.toBe(damaged)
    await daemon.stop()
    expect(place.lines.at(-1)?.sentence).toBe(
      'Stopped: the journal is damaged, and undelivered entries are in it',
    )
  })

  test('a disk too full to prune on is retried until there is space', async () => {
    let tries = 0
    const prune = async () => {
      tries++
      throw new ConnectorError('disk_full', 'no room')
    }
    const { app: daemon, daemonRig: place } = await start({
      tamper: (journal) => withMethods(journal, { prune }),
    })
    await until(() => tries >= 2, 'a second try')
    place.mock.add({})
    expect(daemon.registry.status().ok).toBe(true)
  })

  test.each([
    ['answers', undefined, true],
    ['hangs', never, false],
    ['fails', () => Promise.reject(failed), false],
  ] as const)('alive reports that it %s', async (_, note, alive) => {
    let tampered = false
    const { app: daemon } = await start({
      tamper: (journal) =>
        withMethods(journal, {
          state: withMethods(journal.state, {
            get: (name) => (tampered && note ? note() : journal.state.get(name)),
          }),
        }),
    })
    tampered = true
    expect(await daemon.alive()).toBe(alive)
  })
})

describe('the log', () => {
  test('names what is read and where it goes, and no secret', async () => {
    const { daemonRig: place, app: daemon } = await start({ receiver: acceptAll })
    await daemon.stop()
    const text = reported(place.lines).join('\n')
    expect(text).toContain('Reading {"workspace":"acme","sources":"audit","host":"api.example.com"}')
    expect(text).toContain(
      'Delivering {"sink":"siem","type":"splunk_hec","assurance":"received","to":"siem.example.com:8088"}',
    )
    expect(text).toContain('"sink":"archive","type":"file","assurance":"stored","to":')
    expect(text).toContain('Started {"version":"0.0.0"')
    expect(place.lines.at(-1)?.sentence).toMatch(/^Stopped/)
    expect(text).not.toMatch(/planted|acme-key/)
  })

  test('a sink that was removed from the configuration is logged once', async () => {
    const { daemonRig: place, app: first } = await start({ fileSink: 'former' })
    await first.stop()
    const { daemonRig: again } = await start({ folder: place.folder })
    expect(reported(again.lines).filter((line) => line.includes('former'))).toHaveLength(1)
  })
})

test('twelve hung receivers block neither another sink nor reading, and no batch is larger than its sink’s share', async () => {
  const bodies: number[] = []
  let hung = 0
  let answers = false
  const receiver: Transport = async (request, signal) => {
    if (!request.url.startsWith('https://siem.')) {
      hung++
      return never()
    }
    if (!answers) throw new ConnectorError('unreachable', 'nobody there')
    bodies.push(request.body?.length ?? 0)
    return acceptAll(request, signal)
  }
  const sinks = { batch: { max_entries: 10_000, max_bytes: '16MiB' } }
  const options = { entries: 3_000, receiver, moreSiems: 12, maxBytes: '64MiB', sinks }
  const { daemonRig: place, app: daemon } = await start(options)
  const accepted = (name: string) =>
    daemon.registry.status().sinks.find((sink) => sink.name === name)?.accepted_entries
  await until(() => accepted('archive') === 3_000 && hung >= 12, 'all that was there, in the file')
  answers = true
  await until(() => accepted('siem') === 3_000, 'the same at the one that lives')
  place.mock.add()
  await until(() => accepted('archive') === 3_001 && accepted('siem') === 3_001, 'what was read since')
  // Twelve beside the file and the healthy one; a batch is in memory twice.
  const most = (16 * 2 ** 20) / 14 / 2
  expect(Math.max(...bodies)).toBeLessThanOrEqual(most)
  expect(Math.max(...bodies)).toBeGreaterThan(most / 2)
})

test('twelve APIs that stall in the middle of their answers keep no sink from sending', async () => {
  const others = Array.from({ length: 12 }, (_, i) => `slow-${i}`)
  const { seen, answer } = stalledAnswers()
  const kept = Promise.withResolvers<undefined>()
  const sent = Promise.withResolvers<number>()
  const api: Transport = async (request, signal) => {
    if (daemonRig && request.headers['authorization'] === 'Bearer acme-key')
      return daemonRig.mock.transport(request, signal)
    await kept.promise
    return answer()
  }
  const receiver: Transport = async (request, signal) => {
    sent.resolve(seen.left)
    return acceptAll(request, signal)
  }
  const tamper = (journal: Journal) =>
    withMethods(journal, {
      append: async (given) => {
        const appended = await journal.append(given)
        kept.resolve(undefined)
        return appended
      },
    })
  await start({ others, api, receiver: healthy(receiver), tamper })
  expect(await sent.promise).toBe(0)
  expect(seen.open).toBe(others.length)
})
