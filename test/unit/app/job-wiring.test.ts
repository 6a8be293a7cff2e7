// How the whole daemon connects jobs: each connection is tested by the failure without it.
import { afterEach, expect, test } from 'vitest'
import type { App } from '../../../src/app/app.ts'
import type { HttpRequest } from '../../../src/contracts/platform.ts'
import { fastClock, openDaemonRig, reply, stalledAnswers, until } from './daemon-rig.ts'

const DAY = 86_400_000
/** A stalled answer is given up after a while by this clock: not while a busy machine does the rest. */
const PATIENT = 2
const usage = { workspace: 'acme', source: 'history.usage' } as const
const audit = { workspace: 'acme', source: 'audit' } as const

let daemonRig: ReturnType<typeof openDaemonRig> | undefined
let app: App | undefined
afterEach(async () => {
  await app?.stop()
  daemonRig?.remove()
})

/** Live reading is caught up. `wrong` answers in place of the API. */
async function start(
  wrong: (request: HttpRequest) => ReturnType<typeof reply> | undefined = () => undefined,
) {
  const place = openDaemonRig({
    workspace: {
      history: { version: 'v2', usage: true, interval: '1s', start: '1d' },
      rate_limits: { audit: 60_000, history: 60_000 },
    },
    api: async (request, signal) => wrong(request) ?? place.mock.transport(request, signal),
  })
  daemonRig = place
  app = await place.open(false)
  app.run().catch(() => undefined)
  const daemon = app
  const sources = () => daemon.registry.status().workspaces[0]?.sources ?? []
  await until(() => sources().length > 1 && sources().every((one) => one.caught_up_at !== null), 'caught up')
  return { place, app: daemon }
}

/** Whole days before live reading. */
function past(place: ReturnType<typeof openDaemonRig>) {
  const today = Math.floor(place.clock.now() / DAY)
  return { fromUs: (today - 5) * DAY * 1000, toUs: (today - 3) * DAY * 1000 }
}

async function begin(daemon: App, stream: typeof usage | typeof audit, span: ReturnType<typeof past>) {
  const reads = [{ stream, spans: [span] }]
  const [job] = await daemon.jobs.replay({ sink: 'archive', startedAt: 1, reads })
  return job ?? expect.fail()
}

async function ended(list: () => Promise<readonly { readonly endedAt: number | undefined }[]>) {
  for (let tries = 0; tries < 500; tries++) {
    const all = await list()
    if (all.length > 0 && all.every(({ endedAt }) => endedAt !== undefined)) return
    await new Promise((resolve) => setTimeout(resolve, 20))
  }
  throw new Error('no end')
}

const versionsRead = (daemon: App) => daemon.journal.state.get('versions:acme:history.usage')

test('a replay ends where the daemon’s own live reading is', async () => {
  const { place, app: daemon } = await start()
  const headUs = Math.max(...place.mock.entries().map(({ atUs }) => atUs))
  const toUs = (place.clock.now() + DAY) * 1000
  const { spans } = await begin(daemon, audit, { fromUs: headUs - 10_000_000, toUs })
  expect(spans).toHaveLength(1)
  // Reported in whole ms.
  expect(Math.abs((spans[0]?.toUs ?? 0) - headUs)).toBeLessThanOrEqual(1_000)
})

test('before live reading has resumed after a restart, a replay ends where the one before did', async () => {
  const { place, app: first } = await start()
  const headUs = Math.max(...place.mock.entries().map(({ atUs }) => atUs))
  await first.stop()
  place.mock.add({ at: place.clock.now() })
  app = await place.open(false)
  const toUs = (place.clock.now() + DAY) * 1000
  const { spans } = await begin(app, audit, { fromUs: headUs - 10_000_000, toUs })
  expect(spans).toEqual([{ fromUs: headUs - 10_000_000, toUs: headUs + 1 }])
})

test('a backfill of the history records which days it kept as which version, a replay records none', async () => {
  const { place, app: daemon } = await start(({ url }) => {
    if (!url.includes('/history/')) return undefined
    const at = Math.floor(Date.now() / DAY) * DAY - 4 * DAY
    const [from, to] = ['start_time', 'end_time'].map(
      (name) => Number(new URL(url).searchParams.get(name)) * 1000,
    )
    const utc_time = new Date(at).toISOString().slice(0, 19).replace('T', ' ')
    const event = { unique_usage_id: '11111111-1111-4111-8111-111111111111', utc_time, user: 'a@example.com' }
    return reply(200, { events: (from ?? 0) <= at && at <= (to ?? 0) ? [event] : [] })
  })
  await begin(daemon, usage, past(place))
  await ended(() => daemon.jobs.all('replay'))
  const [replay] = await daemon.jobs.all('replay')
  expect(replay?.counts.sent).toBeGreaterThan(0)
  expect(await versionsRead(daemon)).toBeUndefined()
  await daemon.jobs.backfill(usage, past(place))
  await ended(() => daemon.jobs.all('backfill'))
  expect(await versionsRead(daemon)).toBeDefined()
})

test('days that the API refuses are reported as unread by a backfill and counted by a replay, and their time is kept', async () => {
  const { place, app: daemon } = await start(({ url }) => {
    const from = Number(new URL(url).searchParams.get('start_time') ?? Infinity)
    return from * 1000 < Date.now() - 2 * DAY ? reply(400, { error: 'too old' }) : undefined
  })
  expect(await daemon.journal.state.get('gap:acme:history.usage')).toBeUndefined()
  await begin(daemon, usage, past(place))
  await ended(() => daemon.jobs.all('replay'))
  const [replay] = await daemon.jobs.all('replay')
  expect(replay?.counts.gaps).toBe(1)
  // It is no gap of live reading.
  expect(await daemon.journal.state.get('gap:acme:history.usage')).toBeUndefined()
  await daemon.jobs.backfill(usage, past(place))
  await ended(() => daemon.jobs.all('backfill'))
  const [backfill] = await daemon.jobs.all('backfill')
  expect(backfill?.unread).toEqual([{ ...past(place), why: 'refused' }])
  expect(await daemon.journal.state.get('gap:acme:history.usage')).toBeDefined()
})

test('the time of the last gap in a backfill of the audit log is kept', async () => {
  const dead = { id: '' }
  const { place, app: daemon } = await start(({ url }) =>
    dead.id !== '' && url.includes(dead.id) ? reply(404, { error: 'not found' }) : undefined,
  )
  dead.id = place.mock.entries()[0]?.id ?? ''
  expect(await daemon.journal.state.get('gap:acme:audit')).toBeUndefined()
  await daemon.jobs.backfill(audit, {
    fromUs: (place.clock.now() - DAY) * 1000,
    toUs: place.clock.now() * 1000,
  })
  await ended(() => daemon.jobs.all('backfill'))
  expect((await daemon.jobs.all('backfill'))[0]?.counts.gaps).toBe(1)
  expect(await daemon.journal.state.get('gap:acme:audit')).toBeDefined()
})

test.each([
  // Live reading asks for the earliest entry, a job for the first in its span.
  ['audit', (url: URL) => url.pathname.endsWith('/search')],
  ['history.usage', (url: URL) => Number(url.searchParams.get('start_time')) < (Date.now() - 2 * DAY) / 1000],
] as const)(
  'backfills of %s whose answers stall take no memory from live reading',
  async (source, isPast) => {
    const others = Array.from({ length: 7 }, (_, i) => `slow-${i}`)
    const { seen, answer } = stalledAnswers()
    const place = openDaemonRig({
      ...{ others, clock: fastClock(PATIENT) },
      otherWorkspaces: { history: { version: 'v2', usage: true, interval: '1s', start: '1h' } },
      api: async (request, signal) => {
        if (request.headers['authorization'] === 'Bearer acme-key')
          return place.mock.transport(request, signal)
        const url = new URL(request.url)
        const isMeant = url.pathname.includes('/history/') === (source === 'history.usage')
        return isMeant && isPast(url)
          ? answer()
          : reply(200, isMeant && source !== 'audit' ? { events: [] } : {})
      },
    })
    daemonRig = place
    app = await place.open(false)
    app.run().catch(() => undefined)
    const daemon = app
    await until(() => daemon.registry.status().sinks[0]?.accepted_entries === 20, 'all that was there')
    await daemon.jobs.backfill({ source }, past(place))
    // Each takes 4 MiB, since none declares its length.
    await until(() => seen.open === others.length, 'all of them stalled')
    place.mock.add({ at: place.clock.now() })
    await until(
      () => daemon.registry.status().sinks[0]?.accepted_entries === 21,
      'what live reading reads on',
    )
    expect(seen.left).toBe(0)
  },
)

test('histories with endless answers take no memory from the audit log', async () => {
  const others = Array.from({ length: 7 }, (_, i) => `slow-${i}`)
  const { seen, answer } = stalledAnswers()
  const place = openDaemonRig({
    ...{ others, clock: fastClock(PATIENT) },
    otherWorkspaces: { history: { version: 'v2', usage: true, interval: '1s', start: '1h' } },
    api: async (request, signal) => {
      if (request.headers['authorization'] === 'Bearer acme-key') return place.mock.transport(request, signal)
      return new URL(request.url).pathname.includes('/history/') ? answer() : reply(200, {})
    },
  })
  daemonRig = place
  app = await place.open(false)
  app.run().catch(() => undefined)
  const daemon = app
  await until(() => seen.open === others.length, 'all of them under way')
  place.mock.add({ at: place.clock.now() })
  await until(
    () => daemon.registry.status().sinks[0]?.accepted_entries === 21,
    'what the audit log has meanwhile',
  )
  expect(seen.left).toBe(0)
})

test('a single run leaves unfinished jobs alone', async () => {
  const { place, app: daemon } = await start()
  await daemon.stop()
  const idle = await place.open(false)
  const span = { fromUs: (place.clock.now() - DAY) * 1000, toUs: place.clock.now() * 1000 }
  await idle.jobs.backfill(audit, span)
  await begin(idle, audit, span)
  await idle.stop()
  const single = await place.open(true)
  app = single
  single.run().catch(() => undefined)
  await until(() => single.singleRun() === 'done', 'the end of the run')
  for (const list of [await app.jobs.all('backfill'), await app.jobs.all('replay')])
    expect(list).toMatchObject([{ endedAt: undefined, counts: { read: 0 } }])
})

test('a stop says that an unfinished job continues at the next start', async () => {
  let failing = false
  const { place, app: daemon } = await start(() => (failing ? reply(500, {}) : undefined))
  await until(() => daemon.registry.status().sinks.every((one) => one.pending_entries === 0), 'delivered')
  failing = true
  await daemon.jobs.backfill(usage, past(place))
  await daemon.stop()
  expect(place.lines.at(-1)).toMatchObject({
    sentence: 'Stopped: everything read is delivered; unfinished jobs continue at the next start',
    fields: { jobs: 1 },
  })
})
