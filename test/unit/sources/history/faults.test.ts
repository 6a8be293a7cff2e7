// The history’s reader before an API that fails, in each of the ways the mock knows.
import { Readable } from 'node:stream'
import { expect, test } from 'vitest'
import { historyEvent } from '../../../fakes/history-server.ts'
import type { HistoryFault, HistoryRequest } from '../../../fakes/history-server.ts'
import { DAY, driven, HOUR, MINUTE, SECOND, START } from '../../app/audit-harness.ts'
import { eventsFrom, openHistoryHarness } from './harness.ts'

const TODAY = Math.floor(START / DAY) * DAY
/** A window's own width, without the second more at both ends. */
const widthOf = ({ from, to }: HistoryRequest) => to - from - 2 * SECOND
const latest = { start: { kind: 'latest' }, lookbackMs: 0 } as const
const holds = ({ from, to }: HistoryRequest, at: number) => from <= at && at <= to

test.each<[string, HistoryFault, number]>([
  ['a server that fails', { status: 500 }, 5],
  ['an answer that is cut', { cutBytes: 60 }, 5],
  ['an answer that ends too early', { shortBytes: 60 }, 5],
  ['an answer that stalls', { cutBytes: 60, cutError: 'timeout' }, 0],
  ['an answer over the cap', { cutBytes: 60, cutError: 'too_large' }, 0],
])('a window is halved for %s, and grows again', async (_, fault, chances) => {
  const limit = 3 * HOUR
  const harness = await openHistoryHarness({
    source: { start: { kind: 'time', atUs: (TODAY - DAY) * 1000 }, lookbackMs: 0 },
    fault: (request) => (widthOf(request) > limit ? fault : undefined),
  })
  harness.server.events = eventsFrom(historyEvent, TODAY - DAY, 34, HOUR)
  await harness.once()
  const widths = harness.asked().map(widthOf)
  // Ten hours of today: as often as it may be chance, then halved.
  expect(widths.slice(0, 3 + chances)).toEqual([
    ...Array<number>(1 + chances).fill(10 * HOUR),
    5 * HOUR,
    2.5 * HOUR,
  ])
  expect(await harness.ids()).toHaveLength(34)
  expect(new Set(await harness.ids()).size).toBe(34)
  expect(harness.reporter.gaps).toBe(0)
  harness.server.options.fault = () => undefined
  await harness.live(START + 13 * HOUR)
  expect(harness.asked().map(widthOf).at(-1)).toBeGreaterThan(22 * HOUR)
})

test.each<[string, HistoryFault, string]>([
  ['a key that is refused', { status: 401 }, 'unauthorized'],
  ['a rate limit', { status: 429 }, 'rate_limited'],
  ['a host that cannot be reached', { error: 'unreachable' }, 'unreachable'],
])('%s says nothing about the window: it is requested again unchanged', async (_, fault, code) => {
  let broken = true
  const harness = await openHistoryHarness({ source: latest, fault: () => (broken ? fault : undefined) })
  harness.server.events = [historyEvent(START)]
  for (let i = 0; i < 5; i++) {
    expect(await harness.try()).toMatchObject({ code })
    await driven(harness.clock, harness.clock.sleep(10 * MINUTE))
  }
  broken = false
  await harness.step()
  // Except if the host was never reached.
  expect(harness.asked().every(({ from }) => from === TODAY - SECOND)).toBe(true)
  expect(await harness.ids()).toHaveLength(1)
})

test('a 403 after version 2 was read says only that the permission is lost', async () => {
  let lost = false
  const harness = await openHistoryHarness({
    source: latest,
    fault: () => (lost ? { status: 403 } : undefined),
  })
  harness.server.events = [historyEvent(START)]
  await harness.step()
  await driven(harness.clock, harness.clock.sleep(HOUR))
  lost = true
  expect((await harness.try())?.message).toMatch(
    /answered 403: the key has lost the permission for the history: grant it$/,
  )
})

test('a 500 is the fault of the API: the daemon asks for less, and says that nothing is skipped', async () => {
  const harness = await openHistoryHarness({ source: latest, fault: () => ({ status: 500 }) })
  const messages: (string | undefined)[] = []
  for (let i = 0; i < 12; i++) {
    messages.push((await harness.try())?.message)
    await driven(harness.clock, harness.clock.sleep(10 * MINUTE))
  }
  expect(messages[0]).toMatch(
    /answered 500: an error at the API; the history from .* is not read yet\. Nothing is skipped: the (same window|next request)/,
  )
  expect(messages.join('\n')).toMatch(/the next request covers \d+ min instead of \d+ min/)
})

test('a minute that stays unreadable is one gap, is skipped once others are read, and is read later when it can be', async () => {
  const poison = START - 5 * HOUR + 30 * SECOND
  let broken = true
  const harness = await openHistoryHarness({
    source: latest,
    fault: (request) => (broken && holds(request, poison) ? { status: 500 } : undefined),
  })
  harness.open({ start: { kind: 'time', atUs: TODAY * 1000 }, lookbackMs: 0 })
  harness.server.events = eventsFrom(historyEvent, TODAY + 30 * SECOND, 600, MINUTE)
  await harness.live(START + HOUR)
  expect(await harness.ids()).toHaveLength(599)
  expect(harness.reporter.gaps).toBe(1)
  expect(harness.journal.stats().gaps).toBe(1)
  expect(harness.state().troubles).toMatchObject([{ to: (harness.state().troubles[0]?.from ?? 0) + MINUTE }])
  // Not before something else was read in its place.
  expect(harness.reporter.caughtUps).toBeGreaterThan(0)
  expect(harness.log.lines.some((line) => line.includes('stays unreadable'))).toBe(true)
  harness.asked()
  await harness.live(START + 12 * HOUR)
  const again = harness.asked().filter((request) => holds(request, poison))
  // Every poll reads around it; it alone is retried less and less often.
  expect(again.length).toBeLessThan(10)
  expect(harness.reporter.gaps).toBe(1)
  broken = false
  await harness.live(START + 20 * HOUR)
  expect(await harness.ids()).toHaveLength(600)
  expect(harness.state().troubles).toEqual([])
})

test('complete events of an unreadable window are kept', async () => {
  const broken = TODAY + 30 * SECOND
  const harness = await openHistoryHarness({
    source: { start: { kind: 'time', atUs: TODAY * 1000 }, lookbackMs: 0 },
    fault: (request) => (holds(request, broken) ? { cutBytes: 500 } : undefined),
  })
  harness.server.events = eventsFrom(historyEvent, broken, 10, SECOND)
  await harness.live(START + HOUR)
  // Some two elements fit into the bytes that came.
  expect((await harness.ids()).length).toBeGreaterThanOrEqual(2)
  expect((await harness.ids()).length).toBeLessThan(10)
  expect(harness.reporter.gaps).toBe(1)
})

test('an API that fails everywhere has no window skipped, however long it lasts', async () => {
  let broken = false
  const harness = await openHistoryHarness({
    source: latest,
    fault: () => (broken ? { status: 503 } : undefined),
  })
  harness.server.events = eventsFrom(historyEvent, START, 48, HOUR)
  await harness.live(START + HOUR)
  broken = true
  await harness.live(START + 8 * HOUR)
  expect(harness.reporter.gaps).toBe(0)
  expect(harness.state().troubles).toEqual([])
  broken = false
  await harness.live(START + 24.5 * HOUR)
  expect(await harness.ids()).toHaveLength(25)
  expect(harness.reporter.gaps).toBe(0)
})

test('days older than the API has are one gap, and newer ones are read', async () => {
  const reach = START - 100 * DAY
  const harness = await openHistoryHarness({
    source: { start: { kind: 'span', ms: 200 * DAY }, lookbackMs: 0 },
    fault: ({ from }) => (from < reach ? { status: 400 } : undefined),
  })
  harness.server.events = eventsFrom(historyEvent, START - 200 * DAY, 200, DAY)
  await harness.once()
  expect((await harness.ids()).length).toBeGreaterThanOrEqual(98)
  expect(harness.reporter.gaps).toBe(1)
  expect(harness.state().troubles).toHaveLength(1)
})

test('malformed elements are quarantined once, however often their window is read', async () => {
  const harness = await openHistoryHarness({ source: latest })
  harness.server.events = [
    historyEvent(START),
    { at: START, v2: '{"unique_usage_id":"a","utc_time":"soon"}', v1: '' },
    { at: START, v2: '[1]', v1: '' },
  ]
  await harness.live(START + HOUR)
  expect(await harness.ids()).toHaveLength(1)
  expect(harness.reporter.sum('quarantined')).toBe(2)
})

test('a journal that fills up in mid-answer keeps the answer open for a while; with room in time nothing is requested again', async () => {
  const harness = await openHistoryHarness({ source: latest, maxBytes: 1_000_000 })
  const text = 'x'.repeat(1_000)
  harness.server.events = Array.from({ length: 6_000 }, () => historyEvent(START, { fields: { text } }))
  const reading = harness.try()
  await driven(harness.clock, harness.clock.sleep(5 * SECOND))
  expect(harness.reporter.states.at(-1)).toBe('paused')
  let settled = 0
  for (let i = 0; i < 20; i++) {
    settled += await settleAll(harness)
    await driven(harness.clock, harness.clock.sleep(SECOND))
  }
  expect(await reading).toBeUndefined()
  settled += await settleAll(harness)
  expect(settled).toBe(6_000)
  // One window, and none doubted.
  expect(harness.asked()).toHaveLength(1)
})

test('a journal that stays full gives the answer up, and the chunks kept of it are known the next time', async () => {
  const harness = await openHistoryHarness({ source: latest, maxBytes: 1_000_000 })
  const text = 'x'.repeat(1_000)
  harness.server.events = Array.from({ length: 6_000 }, () => historyEvent(START, { fields: { text } }))
  const before = harness.clock.now()
  expect(await harness.try()).toMatchObject({ code: 'journal_full' })
  expect(harness.clock.now() - before).toBeGreaterThanOrEqual(30 * SECOND)
  expect(harness.clock.now() - before).toBeLessThan(35 * SECOND)
  let settled = 0
  for (let i = 0; i < 10; i++) {
    settled += await settleAll(harness)
    await harness.try()
  }
  settled += await settleAll(harness)
  expect(settled).toBe(6_000)
  // Never halved: it was our own fault.
  expect(harness.asked().every(({ from }) => from === TODAY - SECOND)).toBe(true)
})

test.each(['s', 'ms'] as const)('the unit is found if the other one is refused (%s)', async (unit) => {
  const harness = await openHistoryHarness({ unit, otherUnit: 'refused' })
  harness.server.events = eventsFrom(historyEvent, START - 3 * DAY, 72, HOUR)
  await harness.once()
  expect(await harness.ids()).toHaveLength(72)
  expect(harness.state()).toMatchObject({ unit, unitSure: true })
})

test.each(['s', 'ms'] as const)('the unit is found if the other one shows nothing (%s)', async (unit) => {
  const harness = await openHistoryHarness({ unit, otherUnit: 'empty' })
  harness.server.events = eventsFrom(historyEvent, START - 3 * DAY, 72, HOUR)
  await harness.once()
  expect(await harness.ids()).toHaveLength(72)
  expect(harness.state()).toMatchObject({ unit, unitSure: true })
})

test('a server that shows events of other times for times that it cannot read is not believed', async () => {
  const harness = await openHistoryHarness({ source: latest })
  const stale = Buffer.from(`{"events":[${historyEvent(START - 50 * DAY).v2}]}`)
  const shown: string[] = []
  // In an unknown unit it shows anything.
  harness.through((request, signal) => {
    if (!/start_time=\d{13}/.test(request.url)) return harness.server.transport(request, signal)
    shown.push(request.url)
    return Promise.resolve({ status: 200, headers: {}, body: Readable.from([stale]) })
  })
  await harness.live(START + HOUR)
  expect(shown.length).toBeGreaterThan(0)
  expect(harness.state()).toMatchObject({ unit: 's', unitSure: false })
  expect(await harness.ids()).toEqual([])
})

test('rows without a time prove the unit too', async () => {
  const harness = await openHistoryHarness({
    unit: 'ms',
    otherUnit: 'empty',
    source: { version: 'v1', start: { kind: 'span', ms: 3 * DAY } },
  })
  const timeless = (at: number) => historyEvent(at, { timeless: true })
  harness.server.events = eventsFrom(timeless, START - 30 * HOUR, 30, HOUR)
  await harness.live(START + MINUTE)
  expect(harness.state()).toMatchObject({ unit: 'ms', unitSure: true, timeless: true })
  expect(await harness.ids()).toHaveLength(30)
})

test('rows without a time that are shown for any day prove no unit', async () => {
  const harness = await openHistoryHarness({ source: { ...latest, version: 'v1' } })
  const anything = Buffer.from(`[${historyEvent(START, { timeless: true }).v1}]`)
  const asked: string[] = []
  harness.through((request, signal) => {
    if (!/start_time=\d{13}/.test(request.url)) return harness.server.transport(request, signal)
    asked.push(request.url)
    return Promise.resolve({ status: 200, headers: {}, body: Readable.from([anything]) })
  })
  await harness.live(START + MINUTE)
  expect(asked).toHaveLength(2)
  expect(harness.state()).toMatchObject({ unit: 's', unitSure: false })
})

async function settleAll(harness: Awaited<ReturnType<typeof openHistoryHarness>>): Promise<number> {
  const batch = await harness.batch()
  if (!batch) return 0
  await harness.journal.ack('archive', { first: batch.first, through: batch.last, rejected: [] })
  return batch.count
}

/** Each window that was not requested before shows nothing, though it may have something. */
const emptyAtFirst = () => {
  const asked = new Set<string>()
  return ({ version, from, to }: HistoryRequest): HistoryFault | undefined => {
    const name = `${from} ${to}`
    if (asked.has(name)) return undefined
    asked.add(name)
    return { body: version === 'v2' ? '{"events":[]}' : '[]' }
  }
}

test('a window of the past that is empty once by mistake is not taken for empty', async () => {
  const harness = await openHistoryHarness({
    source: { start: { kind: 'span', ms: 20 * DAY }, lookbackMs: 0 },
    fault: emptyAtFirst(),
  })
  harness.server.events = eventsFrom(historyEvent, TODAY - 18 * DAY, 18, DAY)
  await harness.live(START + HOUR)
  expect(await harness.ids()).toHaveLength(18)
})

/** An event that cannot be read at first, and then shows nothing once. */
async function withTrouble() {
  const at = TODAY - 20 * DAY + 6 * HOUR
  let fault: HistoryFault | undefined = { status: 500 }
  const harness = await openHistoryHarness({
    source: { start: { kind: 'span', ms: 25 * DAY }, lookbackMs: 0 },
    fault: (request) => {
      const reported = holds(request, at) ? fault : undefined
      if (reported?.body !== undefined) fault = undefined
      return reported
    },
  })
  harness.server.events = [historyEvent(at), historyEvent(TODAY - DAY)]
  return { harness, at, showNothing: () => (fault = { body: '{"events":[]}' }) }
}

test('nor is an unreadable window, when it is retried', async () => {
  const { harness, at, showNothing } = await withTrouble()
  await harness.once()
  expect(harness.state().troubles).toHaveLength(1)
  showNothing()
  await harness.live(START + DAY)
  expect(harness.state().troubles).toEqual([])
  expect(await harness.times()).toContain(at * 1000)
})

const nothing = { added: 0, late: 0, known: 0, filtered: 0, quarantined: 0, findings: 0, latestBehindUs: 0 }

test('nor is an unreadable window in a job', async () => {
  const { harness, at, showNothing } = await withTrouble()
  const range = harness
    .range()
    .open({ fromUs: (at - DAY) * 1000, toUs: TODAY * 1000 }, harness.reporter, 'keep')
  const times: number[] = []
  let place: string | undefined
  const step = async () => {
    const parts = range.read(place, new AbortController().signal)
    for (let next = await parts.next(); !next.done; next = await parts.next(nothing)) {
      const { entries, gaps, cursor } = next.value
      times.push(...entries.times)
      if (gaps > 0) showNothing()
      place = cursor ?? place
    }
  }
  for (let i = 0; i < 200 && !range.plan(place).caughtUp; i++) await driven(harness.clock, step())
  expect(times).toContain(at * 1000)
})

test('nor is the open day of a single run, which is not read again', async () => {
  const harness = await openHistoryHarness({ fault: emptyAtFirst() })
  harness.open({ ...latest, once: true })
  harness.server.events = [historyEvent(START - SECOND), historyEvent(START)]
  await harness.once()
  expect(await harness.ids()).toHaveLength(1)
})

test('an empty past costs each of its windows one more request, and no more', async () => {
  const harness = await openHistoryHarness({
    source: { start: { kind: 'span', ms: 300 * DAY }, lookbackMs: 0 },
  })
  harness.server.events = [historyEvent(START)]
  await harness.live(START + HOUR)
  const windows = harness.asked().filter(({ to }) => to <= TODAY + SECOND)
  const times = Map.groupBy(windows, ({ from, to }) => `${from} ${to}`)
  expect([...times.values()].map(({ length }) => length).every((length) => length === 2)).toBe(true)
})
