// Replays from the API: complete, marked and without duplicates at their
// sink, across restarts, also within a page. Live reading is not affected.
import { stateIn } from '../../fakes/state.ts'
import { expect, test } from 'vitest'
import { ConnectorError } from '../../../src/core/errors.ts'
import type { StateEntry, StateChange } from '../../../src/contracts/journal.ts'
import { noCounts } from '../../../src/contracts/jobs.ts'
import type { Job } from '../../../src/contracts/jobs.ts'
import { overlay } from '../../../src/core/overlay.ts'
import { stateOf } from '../../../src/jobs/record.ts'
import { markOf, marksIn, SentPages } from '../../../src/jobs/sent-pages.ts'
import { replayStatusOf } from '../../../src/observability/status.ts'
import { withMethods } from '../../fakes/with-methods.ts'
import { DAY, MINUTE, openHarness, stream, START } from '../app/audit-harness.ts'
import type { Harness } from '../app/audit-harness.ts'
import { fillPast, idsIn, isDone, rangeOn, runUntil, SPAN, TODAY } from './backfill-harness.ts'
import { ARCHIVE, forget, openReadHarness, replay, replaysOf, REQUEST } from './replay-harness.ts'

const everything = { maxEntries: 1e6, maxBytes: 2 ** 30 }
const counts = ([one]: readonly Job[]) => one?.counts

test('a replay sends a span that the journal dropped again, once, byte for byte and marked, and leaves the live cursor alone', async () => {
  const harness = await openReadHarness({}, 4_000)
  expect(await harness.journal.take('archive', everything)).toBeUndefined()
  const [cursor, kept] = [
    await harness.journal.cursor(stream),
    await harness.journal.counts({ fromDay: 0, toDay: 1e6 }),
  ]
  const replays = replaysOf(harness)
  expect(await replay(replays)).toMatchObject({ ...REQUEST, endedAt: undefined })
  await runUntil(harness, replays, isDone)
  const wanted = harness.mock.entries().filter(({ atUs }) => atUs >= SPAN.fromUs && atUs < SPAN.toUs)
  const slices = (await harness.journal.take('archive', everything))?.slices ?? []
  for (const run of slices)
    expect(run).toMatchObject({ replay: true, onlySink: 'archive', appendedAt: 77_000 })
  expect(await harness.raws()).toEqual(wanted.map(({ raw }) => Buffer.from(raw).toString()))
  expect(await harness.journal.cursor(stream)).toBe(cursor)
  expect(await harness.journal.counts({ fromDay: 0, toDay: 1e6 })).toEqual(kept)
  const sent = wanted.length
  expect(counts(replays.list())).toEqual({
    ...{ ...noCounts, read: sent, sent },
  })
  expect(harness.reporter.gaps).toBe(0)
  const reported = { workspace: 'acme', source: 'audit', sink: 'archive', state: 'done', progress: 1 }
  expect(replays.list().map(replayStatusOf)).toEqual([
    expect.objectContaining({ ...reported, sent_entries: sent }),
  ])
})

test('a replay continues after a restart where it was, without duplicates', async () => {
  const harness = await openReadHarness({ limit: 20, switches: { page_cap: 100 } }, 5_000)
  const first = replaysOf(harness)
  await replay(first)
  await runUntil(harness, first, (reported) => (counts(reported)?.read ?? 0) > 1_000)
  harness.asked()
  const second = replaysOf(harness)
  const found = await second.all('replay')
  const before = counts(found)?.read ?? 0
  expect(before).toBeGreaterThan(1_000)
  expect(found[0]?.atUs).toBeGreaterThan(SPAN.fromUs)
  // Not a page back: its progress is stored with each page.
  expect(found[0]?.atUs).toBe(first.list()[0]?.atUs)
  await runUntil(harness, second, isDone)
  expect(await harness.ids()).toEqual(inOrder(harness))
  // The second job read the rest, not everything again.
  expect(harness.asked().length).toBeLessThan((inOrder(harness).length - before) / 100 + 5)
})

test('jobs continue once the database of the journal, away at the start, is back', async () => {
  const harness = await openReadHarness({}, 100)
  await replay(replaysOf(harness))
  const { journal } = harness
  let lists = 0
  const state = withMethods(journal.state, {
    list: async (prefix, limit) => {
      // Of the jobs, then of the pages that were sent.
      if ([1, 4].includes(++lists)) throw new ConnectorError('store_unavailable', 'no database')
      return journal.state.list(prefix, limit)
    },
  })
  await runUntil(harness, replaysOf(harness, { journal: overlay(journal, { state }) }), isDone)
  expect(lists).toBe(5)
  expect(await harness.ids()).toEqual(inOrder(harness))
})

test('the same replay requested right after a restart is joined, even before the old one continues', async () => {
  const harness = await openReadHarness({}, 100)
  await replay(replaysOf(harness))
  const next = replaysOf(harness)
  expect(await replay(next, { ...REQUEST, startedAt: 88_000 })).toMatchObject({
    isJoined: true,
    startedAt: 77_000,
  })
})

test('a complete page leaves nothing to remember, in memory or in the journal', async () => {
  const changes: StateChange[] = []
  const asked = { asked: [SPAN], spans: [SPAN], span: 0, counts: noCounts, unread: [] }
  const job = stateOf({ v: 2, kind: 'replay', ...REQUEST, ...asked })
  const { record } = job
  const pages = new SentPages({ state: stateIn(new Map()), open: () => [job], mostMarks: undefined })
  const mark = 'm'.repeat(16)
  const land = (isWhole: boolean) =>
    pages.land(job, { record, marks: [mark], isWhole }, async (change) => void changes.push(change))
  await land(false)
  expect([job.sent.size, job.pageEntries.length]).toEqual([1, 1])
  const names = job.pageEntries
  await land(true)
  expect(changes.at(-1)?.drop).toEqual(names)
  expect([job.sent.size, job.pageEntries.length]).toEqual([0, 0])
  await land(true)
  expect(changes.at(-1)?.drop).toEqual([])
})

test.each([1, 2, 3])(
  'after a crash %i page chunks into a page, the page is read again without duplicates',
  async (parts) => {
    const harness = await openHugeHarness()
    let landed = 0
    const dying = withMethods(harness.journal, {
      resend: async (again) => {
        if (landed++ >= parts) throw new Error('death')
        await harness.journal.resend(again)
      },
    })
    const first = replaysOf(harness, { journal: dying })
    await replay(first)
    await expect(runUntil(harness, first, isDone)).rejects.toThrow('death')
    const sent = (await harness.ids()).length
    expect(sent).toBeGreaterThan(0)
    expect(sent).toBeLessThan(1_000)
    const second = replaysOf(harness)
    expect(counts(await second.all('replay'))?.sent).toBe(sent)
    await runUntil(harness, second, isDone)
    expect(await harness.ids()).toEqual(inOrder(harness))
    expect(counts(second.list())).toMatchObject({ read: 1_500, sent: 1_500, unknown: 0 })
    expect(await harness.journal.state.list('replay-page:', 10)).toEqual([])
  },
)

test.each([
  ['once', [2]],
  ['until smaller pages are requested', [2, 3, 4]],
])(
  'a page whose answer breaks off after some page chunks were sent is read again without duplicates: %s',
  async (_, nth) => {
    const harness = await openHugeHarness(24_000)
    breakOff(harness, nth)
    const replays = replaysOf(harness)
    await replay(replays)
    await runUntil(harness, replays, isDone)
    expect(harness.asked().flatMap(({ faults }) => faults)).toEqual(nth.map(() => 'truncated'))
    expect(await harness.ids()).toEqual(inOrder(harness))
    expect(counts(replays.list())).toMatchObject({ read: 1_500, sent: 1_500, gaps: 0 })
    expect(await harness.journal.state.list('replay-page:', 10)).toEqual([])
  },
)

test('all replays together remember at most the limit of sent entries, and each finishes', async () => {
  const harness = await openHugeHarness(24_000)
  const other = { workspace: 'other', source: 'audit' } as const
  const ranges = [rangeOn(harness, ['*']), { ...rangeOn(harness, ['*']), stream: other }]
  let most = 0
  const journal = withMethods(harness.journal, {
    resend: async (again) => {
      await harness.journal.resend(again)
      const entries = await harness.journal.state.list('replay-page:', 1e6)
      most = Math.max(
        most,
        entries.reduce((sum, { value }) => sum + marksIn(value).length, 0),
      )
    },
  })
  const replays = replaysOf(harness, { journal, ranges, mostMarks: 300 })
  await replay(replays)
  await replay(replays, { ...REQUEST, stream: other })
  await runUntil(harness, replays, (reported) => reported.every(({ endedAt }) => endedAt !== undefined))
  expect(replays.list().map((one) => one.counts.sent)).toEqual([1_500, 1_500])
  expect(most).toBe(300)
})

test('only sent entries are remembered, also across a restart within an interrupted page', async () => {
  const harness = await openHugeHarness(24_000)
  breakOff(harness, [2, 3, 4])
  const stored: StateEntry[] = []
  const journal = withMethods(harness.journal, {
    resend: async (again) => {
      stored.push(...again.state.put.filter(({ name }) => name.startsWith('replay-page:')))
      await harness.journal.resend(again)
    },
  })
  const first = replaysOf(harness, { journal })
  await replay(first)
  await runUntil(harness, first, (reported) => (counts(reported)?.read ?? 0) > 0)
  const second = replaysOf(harness, { journal })
  await second.all('replay')
  await runUntil(harness, second, isDone)
  expect(await harness.ids()).toEqual(inOrder(harness))
  // Each has its own name, and a page chunk with nothing new has none.
  expect(stored.length).toBeGreaterThan(1)
  expect(new Set(stored.map(({ name }) => name)).size).toBe(stored.length)
  expect(stored.map(({ value }) => value)).not.toContain('')
})

test('leftovers of an earlier replay hide nothing from the next one', async () => {
  const harness = await openReadHarness({}, 500)
  const first = replaysOf(harness)
  await replay(first)
  await runUntil(harness, first, isDone)
  const batch = await harness.journal.take('archive', everything)
  const marks = batch?.slices.flatMap(({ entries }) =>
    Array.from({ length: entries.count }, (_, i) => markOf(entries, i)),
  )
  await forget(harness)
  await harness.journal.state.put('replay-page:archive:acme:audit:000007', marks?.join('') ?? '')
  const second = replaysOf(harness)
  await replay(second, { ...REQUEST, startedAt: 78_000 })
  expect(await harness.journal.state.list('replay-page:', 10)).toHaveLength(0)
  // Also not through the state entries in the journal, after a restart.
  const third = replaysOf(harness)
  await third.all('replay')
  await runUntil(harness, third, isDone)
  expect(await harness.ids()).toEqual(inOrder(harness))
})

test('an entry that the daemon never saw is sent, counted, and stays new to live reading', async () => {
  const harness = await openReadHarness({}, 500)
  const lost = harness.mock.add({ at: TODAY - 2 * DAY + 1000, visibleAt: 0 })
  const replays = replaysOf(harness)
  await replay(replays)
  await runUntil(harness, replays, isDone)
  expect(counts(replays.list())?.unknown).toBe(1)
  const batch = await harness.journal.take('archive', everything)
  expect(await harness.ids()).toContain(lost.id)
  const entries = batch?.slices.map(({ entries: each }) => each) ?? []
  const known = await Promise.all(entries.map((each) => harness.journal.known(stream, each)))
  expect(known.flatMap((each) => [...each]).filter((each) => each === 0)).toHaveLength(1)
})

test('entries that live reading has not reached are not sent, since live reading delivers them', async () => {
  const harness = await openReadHarness({}, 1_000)
  const readTo = (TODAY - 2 * DAY) * 1000
  const replays = replaysOf(harness, { readTo: async () => readTo })
  await replay(replays)
  await runUntil(harness, replays, isDone)
  expect((await harness.ids()).sort()).toEqual(idsIn(harness, { fromUs: SPAN.fromUs, toUs: readTo + 1 }))
})

test('the newest entry that live reading has read is sent', async () => {
  const harness = await openReadHarness({}, 1_000)
  const newest = inOrder(harness).at(500)
  const readTo = harness.mock.entries().find(({ id }) => id === newest)?.atUs
  const replays = replaysOf(harness, { readTo: async () => readTo })
  await replay(replays)
  await runUntil(harness, replays, isDone)
  expect((await harness.ids()).at(-1)).toBe(newest)
})

test('a replay ends now, even if live reading has read an entry dated in the future', async () => {
  const harness = await openReadHarness({}, 10)
  const replays = replaysOf(harness, { readTo: async () => (START + MINUTE) * 1000 })
  const { spans } = await replay(replays, {
    ...REQUEST,
    spans: [{ ...SPAN, toUs: (START + DAY) * 1000 }],
    dryRun: true,
  })
  expect(spans).toEqual([{ fromUs: SPAN.fromUs, toUs: START * 1000 }])
})

test('of several replays of one source the oldest runs first, also after a restart', async () => {
  const harness = await openReadHarness({}, 10)
  const sinks = [ARCHIVE, { ...ARCHIVE, name: 'older' }]
  const before = replaysOf(harness, { sinks })
  await replay(before, { ...REQUEST, sink: 'older', startedAt: 76_000 })
  await replay(before)
  const taken: string[] = []
  const journal = withMethods(harness.journal, { resend: async ({ sink }) => void taken.push(sink) })
  const replays = replaysOf(harness, { sinks, journal })
  await replays.all('replay')
  await runUntil(harness, replays, isDone)
  expect([...new Set(taken)]).toEqual(['older', 'archive'])
})

test('several spans are read one after another, and nothing in between', async () => {
  const harness = await openReadHarness({}, 2_000)
  const day = (ago: number) => ({
    fromUs: (TODAY - ago * DAY) * 1000,
    toUs: (TODAY - (ago - 1) * DAY) * 1000,
  })
  const replays = replaysOf(harness)
  await replay(replays, { ...REQUEST, spans: [day(3), day(1)] })
  await runUntil(harness, replays, isDone)
  expect((await harness.ids()).sort()).toEqual([...idsIn(harness, day(3)), ...idsIn(harness, day(1))].sort())
})

test('unwanted types are counted and not sent; a malformed element is counted once', async () => {
  const harness = await openHarness()
  fillPast(harness, 300)
  harness.mock.add({ at: TODAY - DAY - 1000, visibleAt: 0, defect: 'no_id' })
  const replays = replaysOf(harness, { types: ['auth:*'] })
  await replay(replays)
  await runUntil(harness, replays, isDone)
  const { read = 0, sent = 0, filtered = 0, malformed } = counts(replays.list()) ?? {}
  expect((await harness.ids()).length).toBe(sent)
  expect(filtered).toBeGreaterThan(0)
  expect(malformed).toBe(1)
  expect(read).toBe(sent + filtered + 1)
  expect(harness.journal.stats().quarantined).toBe(0)
})

test('a replay cancelled within a page ends, and comes back neither with that page nor after a restart', async () => {
  const harness = await openReadHarness({}, 2_000)
  const landing = withMethods(harness.journal, {
    known: async (of, entries) => {
      const known = await harness.journal.known(of, entries)
      if (entries.count > 0) expect(await replays.cancel('replay', { sink: 'archive' })).toBeLessThan(2)
      return known
    },
  })
  const replays = replaysOf(harness, { journal: landing })
  await replay(replays)
  expect(await replays.cancel('replay', { sink: 'siem' })).toBe(0)
  await runUntil(harness, replays, (reported) => reported.length === 0)
  expect(await replaysOf(harness).all('replay')).toEqual([])
  expect(await harness.journal.state.list('replay', 10)).toEqual([])
})

test.each([
  ['source', { ranges: [] }],
  ['sink', { sinks: [{ ...ARCHIVE, name: 'other' }] }],
  ['sources', { sinks: [{ ...ARCHIVE, sources: ['history.usage' as const] }] }],
] as const)(
  'a replay whose %s was removed before a restart is listed as waiting for it, and can be cancelled with all its state',
  async (what, left) => {
    const harness = await openReadHarness({}, 100)
    await replay(replaysOf(harness))
    await harness.journal.state.put('replay-page:archive:acme:audit:000007', 'x')
    const replays = replaysOf(harness, left)
    expect(await replays.all('replay')).toMatchObject([
      { sink: 'archive', endedAt: undefined, waitsFor: what },
    ])
    expect(replays.list()).toEqual([])
    expect(await replays.cancel('replay', { sink: 'other' })).toBe(0)
    expect(await replays.cancel('replay', { sink: 'archive' })).toBe(1)
    expect(await replays.all('replay')).toEqual([])
    expect(await harness.journal.state.list('replay', 10)).toEqual([])
  },
)

test('a disk too full to save the end of a replay stops neither the replay nor the process', async () => {
  const harness = await openReadHarness({}, 100)
  let refused = 0
  const full = withMethods(harness.journal, {
    state: withMethods(harness.journal.state, {
      put: async (name, value) => {
        // One for the end of a span, one for the end of all.
        if (++refused % 3 !== 0) throw new ConnectorError('disk_full', 'no room for a state entry')
        await harness.journal.state.put(name, value)
      },
    }),
  })
  const replays = replaysOf(harness, { journal: full })
  const middle = (TODAY - 2 * DAY) * 1000
  const halves = [
    { fromUs: SPAN.fromUs, toUs: middle },
    { fromUs: middle, toUs: SPAN.toUs },
  ]
  await replay(replays, { ...REQUEST, spans: halves })
  await runUntil(harness, replays, ([one]) => one?.error?.code === 'disk_full')
  await runUntil(harness, replays, isDone)
  expect(refused).toBe(6)
  expect(replays.list()).toMatchObject([{ error: undefined, counts: { sent: idsIn(harness, SPAN).length } }])
})

test('a replay cancelled while a page chunk is being stored leaves no state of that page', async () => {
  const harness = await openHugeHarness()
  let cancelled: Promise<number> | undefined
  const landing = withMethods(harness.journal, {
    resend: async (again) => {
      if (again.state.put.some(({ name }) => name.startsWith('replay-page:')))
        cancelled ??= replays.cancel('replay', { sink: 'archive' })
      await harness.journal.resend(again)
    },
  })
  const replays = replaysOf(harness, { journal: landing })
  await replay(replays)
  await runUntil(harness, replays, (reported) => reported.length === 0)
  expect(await cancelled).toBe(1)
  expect(await harness.journal.state.list('replay', 10)).toEqual([])
})

test('a replay started while an equal one is cancelled keeps the state of its pages', async () => {
  const harness = await openReadHarness({}, 10)
  const page = { name: 'replay-page:archive:acme:audit:000000', value: '' }
  let next: Promise<unknown> | undefined
  const journal = withMethods(harness.journal, {
    state: withMethods(harness.journal.state, {
      change: async (change) => {
        await harness.journal.state.change(change)
        if (change.put.length > 0 || next) return
        next = replay(replays, { ...REQUEST, startedAt: 78_000 })
        await next
        await harness.journal.state.put(page.name, page.value)
      },
    }),
  })
  const replays = replaysOf(harness, { journal })
  await replay(replays)
  expect(await replays.cancel('replay', { sink: 'archive' })).toBe(1)
  expect(replays.list()).toMatchObject([{ startedAt: 78_000 }])
  expect(await harness.journal.state.list('replay-page:', 10)).toEqual([page])
})

test('the same request joins the replay; another span, an unknown sink or an unread source is refused meanwhile', async () => {
  const harness = await openReadHarness({}, 10)
  const replays = replaysOf(harness)
  const first = await replay(replays)
  expect(await replay(replays, { ...REQUEST, startedAt: 78_000 })).toEqual({ ...first, isJoined: true })
  const other = { ...REQUEST, spans: [{ fromUs: SPAN.fromUs, toUs: START * 1000 }] }
  await expect(replay(replays, other)).rejects.toThrow('is under way already')
  await expect(replay(replays, { ...REQUEST, sink: 'siem' })).rejects.toThrow('There is no sink siem')
  const usage = { workspace: 'acme', source: 'history.usage' } as const
  await expect(replay(replays, { ...REQUEST, stream: usage })).rejects.toThrow('is not switched on')
  await runUntil(harness, replays, isDone)
  expect(await replay(replays, other)).toMatchObject({ endedAt: undefined })
})

test('a replay of several streams starts whole or not at all, also if one has another span or the journal has no room', async () => {
  const harness = await openReadHarness({}, 10)
  const other = { workspace: 'other', source: 'audit' } as const
  const ranges = [rangeOn(harness), { ...rangeOn(harness), stream: other }]
  let isFull = false
  const journal = withMethods(harness.journal, {
    state: withMethods(harness.journal.state, {
      change: async (change) => {
        if (isFull) throw new ConnectorError('disk_full', 'no room')
        await harness.journal.state.change(change)
      },
    }),
  })
  const replays = replaysOf(harness, { ranges, journal })
  const first = await replay(replays, {
    ...REQUEST,
    stream: other,
    spans: [{ ...SPAN, toUs: SPAN.toUs - 1 }],
  })
  const reads = [stream, other].map((one) => ({ stream: one, spans: [SPAN] }))
  const both = { sink: 'archive', startedAt: 88_000, reads }
  await expect(replays.replay(both)).rejects.toThrow('other audit to archive is under way already')
  expect(replays.list()).toEqual([first])
  expect(await replays.cancel('replay', { workspace: 'other' })).toBe(1)
  isFull = true
  await expect(replays.replay(both)).rejects.toThrow('no room')
  expect(replays.list()).toEqual([])
  isFull = false
  expect(await replays.replay(both)).toMatchObject([{ stream }, { stream: other }])
  expect(await replaysOf(harness, { ranges }).all('replay')).toHaveLength(2)
})

test('a replay waits at half of the journal, and goes on when there is room', async () => {
  const harness = await openReadHarness({}, 500)
  let bytes = 500
  const journal = withMethods(harness.journal, {
    pressure: () => ({ ...harness.journal.pressure(), bytes, capacityBytes: 1000 }),
  })
  const replays = replaysOf(harness, { journal })
  await replay(replays)
  await runUntil(harness, replays, () => harness.clock.now() > START + 2 * MINUTE)
  expect(replays.list()[0]).toMatchObject({ waitsFor: 'room', counts: { read: 0 } })
  expect(replays.list().map(replayStatusOf)).toMatchObject([{ state: 'waiting', progress: null }])
  bytes = 499
  const next = replaysOf(harness, { journal })
  await runUntil(harness, next, isDone)
  expect(counts(next.list())?.sent).toBe(idsIn(harness, SPAN).length)
})

test('an answer larger than the free room also stops at half of the journal, and goes on without duplicates', async () => {
  const harness = await openHugeHarness(24_000)
  let put = 0
  let most = 0
  let capacityBytes = 8e6
  const journal = withMethods(harness.journal, {
    pressure: () => ({ ...harness.journal.pressure(), bytes: put, capacityBytes }),
    resend: async (again) => {
      most = Math.max(most, put)
      for (let i = 0; i < again.entries.count; i++) put += again.entries.raw(i).length
      await harness.journal.resend(again)
    },
  })
  const replays = replaysOf(harness, { journal })
  await replay(replays)
  await runUntil(harness, replays, () => harness.clock.now() > START + 2 * MINUTE)
  expect(most).toBeLessThan(capacityBytes / 2)
  expect(replays.list()[0]).toMatchObject({ endedAt: undefined, waitsFor: 'room', error: undefined })
  capacityBytes = 1e9
  await runUntil(harness, replays, isDone)
  expect(await harness.ids()).toEqual(inOrder(harness))
})

test('a replay that could not be saved does not start', async () => {
  const harness = await openReadHarness({}, 10)
  let failing = true
  const journal = withMethods(harness.journal, {
    state: withMethods(harness.journal.state, {
      change: async (change) => {
        if (failing) throw new Error('no room')
        await harness.journal.state.change(change)
      },
    }),
  })
  const replays = replaysOf(harness, { journal })
  await expect(replay(replays)).rejects.toThrow('no room')
  expect(replays.list()).toEqual([])
  failing = false
  await replay(replays, { ...REQUEST, startedAt: 78_000 })
  await runUntil(harness, replays, isDone)
  expect(replays.list()[0]?.startedAt).toBe(78_000)
})

test('a replay started at the instant its equal is cancelled takes none of its pages', async () => {
  const harness = await openReadHarness({}, 2_000)
  let landing = false
  const journal = withMethods(harness.journal, {
    known: async (of, entries) => {
      const known = await harness.journal.known(of, entries)
      if (landing || entries.count === 0) return known
      landing = true
      await replays.cancel('replay', { sink: 'archive' })
      await replay(replays)
      return known
    },
  })
  const replays = replaysOf(harness, { journal })
  await replay(replays)
  await runUntil(harness, replays, isDone)
  expect(await harness.ids()).toEqual(inOrder(harness))
})

test('a refused key is reported and tried again, and the replay goes on once the key works', async () => {
  const harness = await openReadHarness({}, 100)
  harness.mock.setFault('unauthorized', 1)
  const replays = replaysOf(harness)
  await replay(replays)
  await runUntil(harness, replays, ([one]) => one?.error !== undefined)
  expect(replays.list()[0]?.error?.code).toBe('unauthorized')
  harness.mock.setFault('unauthorized', undefined)
  await runUntil(harness, replays, isDone)
  expect(replays.list()[0]).toMatchObject({ error: undefined })
})

test.each(['no JSON', 'null', '{"v":2}', '{"v":1}'])(
  'a damaged state entry of a replay, or one of another version, is ignored: %s',
  async (text) => {
    const harness = await openReadHarness({}, 10)
    await harness.journal.state.put('replay:archive:acme:audit', text)
    expect(await replaysOf(harness).all('replay')).toEqual([])
  },
)

/** Two pages of the past, each an answer of several page chunks. */
async function openHugeHarness(entryBytes = 12_000): Promise<Harness> {
  const harness = await openHarness({ switches: { huge_bytes: entryBytes } })
  for (let i = 0; i < 1_500; i++)
    harness.mock.add({ at: TODAY - DAY + i * 1000, visibleAt: 0, defect: 'huge' })
  await harness.drain()
  await forget(harness)
  return harness
}

/** Lets the answers with these numbers, from now on, break off midway. */
function breakOff(harness: Harness, numbers: readonly number[]): void {
  const before = harness.asked().length
  harness.mock.setFault('truncated', { nth: numbers.map((number) => before + number) })
}

function inOrder(harness: Harness): string[] {
  const within = harness.mock.entries().filter(({ atUs }) => atUs >= SPAN.fromUs && atUs < SPAN.toUs)
  return within.map(({ id }) => id)
}
