// The history’s reader: which windows it reads, when, and when one is done.
import fc from 'fast-check'
import { expect, test } from 'vitest'
import { envelope } from '../../../../src/formats/raw.ts'
import { ByteWriter } from '../../../../src/core/bytes.ts'
import { freshHistoryCursor, openHistoryCursor } from '../../../../src/sources/history/cursor.ts'
import { freshWidth } from '../../../../src/sources/history/width.ts'
import { historyEvent } from '../../../fakes/history-server.ts'
import type { HistoryFault, HistoryRequest } from '../../../fakes/history-server.ts'
import { DAY, driven, HOUR, MINUTE, SECOND, START } from '../../app/audit-harness.ts'
import { eachEntry, eventsFrom, openHistoryHarness } from './harness.ts'

const TODAY = Math.floor(START / DAY) * DAY

test('a first read begins with the open day, then reads the past oldest first', async () => {
  const harness = await openHistoryHarness()
  harness.server.events = [historyEvent(START - HOUR)]
  await harness.step()
  expect(harness.asked()).toMatchObject([
    { version: 'v2', kind: 'usage', from: TODAY - SECOND, to: START + SECOND },
  ])
  expect(harness.source.plan(harness.cursor)).toMatchObject({ priority: 'job', caughtUp: false })
  await harness.step()
  expect(harness.asked()[0]).toMatchObject({ from: TODAY - 7 * DAY - SECOND, to: TODAY - 6 * DAY + SECOND })
})

test('everything between the start and now is delivered, byte for byte, and nothing before', async () => {
  const harness = await openHistoryHarness()
  const before = eventsFrom(historyEvent, START - 7 * DAY - 3 * HOUR, 3, HOUR)
  const wanted = eventsFrom(historyEvent, START - 7 * DAY, 400, 25 * MINUTE)
  harness.server.events = [...before, ...wanted]
  await harness.once()
  expect((await harness.raws()).sort()).toEqual(wanted.map(({ v2 }) => v2).sort())
})

test.each([
  [true, true],
  [true, false],
  [false, true],
  [false, false],
])(
  'nothing at an edge is lost or doubled (start inclusive %s, end inclusive %s)',
  async (startInclusive, endInclusive) => {
    const harness = await openHistoryHarness({ startInclusive, endInclusive })
    harness.server.events = eventsFrom(historyEvent, TODAY - 7 * DAY + DAY, 6 * 24, HOUR)
    await harness.once()
    expect((await harness.ids()).length).toBe(6 * 24)
    expect(new Set(await harness.ids()).size).toBe(6 * 24)
  },
)

test('spans without events are read in ever wider windows, never of more than 30 days', async () => {
  const harness = await openHistoryHarness({ source: { start: { kind: 'span', ms: 300 * DAY } } })
  harness.server.events = [
    historyEvent(START - 300 * DAY),
    historyEvent(START - 40 * DAY),
    historyEvent(START - HOUR),
  ]
  await harness.once()
  const asked = harness.asked()
  // Each that shows nothing is requested twice.
  expect(asked.length).toBeLessThan(2 * 20)
  expect(Math.max(...asked.map(({ from, to }) => to - from))).toBe(29 * DAY + 2 * SECOND)
  expect(harness.server.refused).toEqual([])
  expect(await harness.ids()).toHaveLength(3)
})

test.each([
  ['latest', { kind: 'latest' }, 1, 2],
  ['a time in the middle of a day', { kind: 'time', atUs: (START - 2 * HOUR) * 1000 }, 2, 2],
  ['earliest, a year back', { kind: 'earliest' }, 4, 2 * 20],
] as const)('the start may be %s', async (_, start, entries, requests) => {
  const harness = await openHistoryHarness({ source: { start } })
  harness.server.events = [
    historyEvent(START - 300 * DAY),
    historyEvent(START - 3 * HOUR),
    historyEvent(START - HOUR),
    historyEvent(START),
  ]
  await harness.once()
  expect(await harness.ids()).toHaveLength(entries)
  expect(harness.asked().length).toBeLessThanOrEqual(requests)
})

test('the open day is read again at every interval, and a closed one as a whole with the first poll after midnight', async () => {
  const harness = await openHistoryHarness({
    startAt: Date.UTC(2026, 10, 30, 23, 40),
    source: { start: { kind: 'latest' }, lookbackMs: 0 },
  })
  const day = Date.UTC(2026, 10, 30)
  harness.server.events = eventsFrom(historyEvent, Date.UTC(2026, 10, 30, 23, 40), 60, MINUTE)
  await harness.live(Date.UTC(2026, 11, 1, 0, 30))
  const windows = harness
    .asked()
    .map(({ from, to }) => [(from - day + SECOND) / MINUTE, (to - day - SECOND) / MINUTE])
  expect(windows).toEqual([
    [0, 1420],
    [0, 1435],
    // Across the midnight and the month's end: the open day is read to its end, then the new one.
    [0, 1440],
    [1440, 1450],
    [1440, 1465],
  ])
  expect(await harness.ids()).toHaveLength(46)
  expect(harness.reporter.sum('late')).toBe(0)
})

test('the last days are read again, the youngest most often, and late events are counted as late', async () => {
  const harness = await openHistoryHarness({ source: { start: { kind: 'span', ms: 5 * DAY } } })
  const late = historyEvent(START - 2 * DAY)
  harness.server.events = [historyEvent(START - 4 * DAY), { ...late, visibleAt: START + 10 * HOUR }]
  await harness.live(START + HOUR)
  harness.asked()
  await harness.live(START + DAY)
  const lookbacks = harness.asked().filter(({ from, to }) => to - from === DAY + 2 * SECOND)
  const perDay = new Map<number, number>()
  for (const { from } of lookbacks) {
    const day = (from + SECOND - TODAY) / DAY
    perDay.set(day, (perDay.get(day) ?? 0) + 1)
  }
  // Today has become yesterday meanwhile and is read most; none before the span of three days.
  expect([...perDay.keys()].sort()).toEqual([-1, -2, -3, 0].sort())
  for (const [day, count] of perDay) expect(count, `day ${day}`).toBeLessThanOrEqual(day === 0 ? 9 : 6)
  expect(perDay.get(-2)).toBeGreaterThanOrEqual(3)
  expect(await harness.ids()).toHaveLength(2)
  expect(harness.reporter.sum('late')).toBe(1)
})

test('a pause while a day was read for the first time does not delay that it is read again', async () => {
  const harness = await openHistoryHarness({ source: { start: { kind: 'span', ms: DAY }, lookbackMs: DAY } })
  // Within the lookback for nine hours more.
  harness.server.events = [{ ...historyEvent(START - DAY + HOUR), visibleAt: START + 5 * HOUR }]
  await harness.step()
  // The journal is full, or the daemon does not run.
  while (harness.clock.advance(START + 4 * HOUR));
  await harness.live(START + 2 * DAY)
  expect(await harness.ids()).toHaveLength(1)
})

test('the cost of reading a day is its share of the answer time, failed ones included', async () => {
  let failures = 1
  const harness = await openHistoryHarness({
    source: { start: { kind: 'span', ms: 2 * DAY } },
    fault: ({ from }) => (from < TODAY - DAY && failures-- > 0 ? { status: 500 } : undefined),
  })
  harness.through(async (request, signal) => {
    await harness.clock.sleep(20 * SECOND, signal)
    return harness.server.transport(request, signal)
  })
  harness.server.events = eventsFrom(historyEvent, TODAY - 2 * DAY, 58, HOUR)
  await harness.live(START + HOUR)
  // One that failed, and each of the two days.
  const took = Object.values(harness.state().rereads).map(([, tookMs]) => tookMs / SECOND)
  expect(took).toEqual([30, 30])
})

test('backfill does not delay the open day', async () => {
  const harness = await openHistoryHarness({
    limit: 4,
    source: { start: { kind: 'span', ms: 300 * DAY }, lookbackMs: 0, intervalMs: 5 * MINUTE },
  })
  // Heavy days, so that each is read separately.
  const text = 'x'.repeat(1_200_000)
  harness.server.events = eventsFrom(
    (at) => historyEvent(at, { fields: { text } }),
    TODAY - 299 * DAY,
    20,
    DAY,
  )
  await harness.live(START + 30 * MINUTE)
  const live = harness.asked().filter(({ to }) => to >= START)
  const gaps = live.slice(1).map(({ at }, i) => at - (live[i]?.at ?? 0))
  expect(Math.max(...gaps)).toBeLessThanOrEqual(6 * MINUTE + SECOND)
})

test('caught up is reported when the open day and all before it are read, and the lag is honest until then', async () => {
  const harness = await openHistoryHarness({ source: { lookbackMs: 0 } })
  harness.server.events = eventsFrom(historyEvent, START - 7 * DAY, 7 * 24, HOUR)
  await harness.step()
  expect(harness.reporter.caughtUps).toBe(0)
  expect(harness.reporter.headUs).toBe((START - HOUR) * 1000)
  expect(harness.reporter.cursorUs).toBe((TODAY - 7 * DAY) * 1000)
  await harness.once()
  expect(harness.reporter.caughtUps).toBe(1)
  expect(harness.reporter.cursorUs).toBe(harness.reporter.headUs)
})

test('a single run without a lookback reads from where reading stopped up to now, once', async () => {
  const harness = await openHistoryHarness()
  harness.server.events = eventsFrom(historyEvent, START - 7 * DAY, 7 * 24 + 12 * 24, HOUR)
  harness.open({ once: true, lookbackMs: 0 })
  await harness.once()
  expect(await harness.ids()).toHaveLength(7 * 24 + 1)
  harness.asked()
  await driven(harness.clock, harness.clock.sleep(5 * DAY))
  harness.open({ once: true, lookbackMs: 0 })
  await harness.once()
  expect(await harness.ids()).toHaveLength(12 * 24 + 1)
  const asked = harness.asked()
  expect(Math.min(...asked.map(({ from }) => from))).toBe(TODAY - SECOND)
  expect(new Set(asked.map(({ from, to }) => `${from} ${to}`)).size).toBe(asked.length)
})

test('after a long absence the open day comes first, the days between use spare requests', async () => {
  const harness = await openHistoryHarness({ source: { start: { kind: 'latest' } } })
  harness.server.events = eventsFrom(historyEvent, START, 10 * 24, HOUR)
  await harness.live(START + HOUR)
  await driven(harness.clock, harness.clock.sleep(8 * DAY))
  harness.asked()
  await harness.live(harness.clock.now() + 2 * HOUR)
  expect(harness.asked()[1]).toMatchObject({ from: TODAY + 8 * DAY - SECOND })
  expect(await harness.ids()).toHaveLength(8 * 24 + 4)
})

test.each([
  ['while its keys are kept', 35 * DAY, 1],
  ['not once they are gone', 6 * DAY, 0],
])('a lookback that a pause prevented is made after it, once: %s', async (_, keepKeysMs, times) => {
  const midnight = TODAY + DAY
  const harness = await openHistoryHarness({ source: { keepKeysMs, start: { kind: 'span', ms: 2 * DAY } } })
  const late = { ...historyEvent(midnight - 10 * MINUTE), visibleAt: midnight + 2 * HOUR }
  harness.server.events = [...eventsFrom(historyEvent, START - HOUR, 10, MINUTE), late]
  await harness.live(midnight + HOUR)
  while (harness.clock.advance(midnight + 5 * DAY));
  harness.asked()
  await harness.live(midnight + 8 * DAY)
  const again = harness.asked().filter(({ from }) => from === TODAY - SECOND)
  expect(again).toHaveLength(times)
  expect((await harness.ids()).length).toBe(10 + times)
  expect(Object.keys(harness.state().rereads).every((day) => Number(day) > midnight + 3 * DAY)).toBe(true)
})

test('a clock that was ahead and is set back loses nothing', async () => {
  const harness = await openHistoryHarness({ source: { start: { kind: 'latest' }, lookbackMs: 0 } })
  let aheadMs = 0
  const now = harness.clock.now.bind(harness.clock)
  harness.clock.now = () => now() + aheadMs
  // The server keeps the true time.
  harness.server.options.dateAt = now
  harness.server.events = eventsFrom(historyEvent, START, 4 * 24, HOUR).map((event) => ({
    ...event,
    visibleAt: event.at,
  }))
  await harness.live(START + 2 * HOUR)
  aheadMs = 5 * DAY
  const trueEnd = START + DAY
  while (now() < trueEnd) {
    // Live reading, and what it leaves to backfill.
    for (let i = 0; i < 4; i++) await harness.try()
    await driven(harness.clock, harness.clock.sleep(15 * MINUTE))
  }
  aheadMs = 0
  await harness.live(START + 3 * DAY)
  expect((await harness.ids()).length).toBe(3 * 24 + 1)
  expect(new Set(await harness.ids()).size).toBe(3 * 24 + 1)
})

test('the same id with other content is a new version, and reaches the formats as one', async () => {
  const harness = await openHistoryHarness({ source: { start: { kind: 'latest' } } })
  const id = '7d3f0000-0000-4000-8000-00000000abcd'
  harness.server.events = [historyEvent(START, { id })]
  await harness.step()
  harness.server.events = [historyEvent(START, { id, fields: { feedback_comments: 'good' } })]
  await driven(harness.clock, harness.clock.sleep(15 * MINUTE))
  await harness.step()
  const batch = await harness.batch()
  expect(eachEntry(batch, (entries, i) => [entries.id(i), entries.version(i)])).toEqual([
    [id, 0],
    [id, 2],
  ])
  const format = envelope()
  const lines = (batch?.slices ?? []).map((run) => {
    const out = new ByteWriter(256)
    format(run, 0, out)
    return JSON.parse(Buffer.from(out.view()).toString()) as { version?: number }
  })
  expect(lines.map(({ version }) => version)).toEqual([undefined, 2])
})

test('the type is the product area, so that patterns over types fit', async () => {
  const harness = await openHistoryHarness({ source: { start: { kind: 'latest' } } })
  harness.server.events = [historyEvent(START, { fields: { product_surface_area: 'VAULT' } })]
  await harness.step()
  expect(eachEntry(await harness.batch(), (entries, i) => entries.type(i))).toEqual(['VAULT'])
})

test.each(['no JSON', '[]', '{"v":2}', '{"v":1}'])(
  'a cursor that is damaged (%s) is reported clearly',
  async (text) => {
    const harness = await openHistoryHarness()
    expect(() => harness.source.plan(text)).toThrow(/cursor for history.usage of workspace acme/)
  },
)

test('a cursor that an earlier build stored between failing windows is read on from', async () => {
  const harness = await openHistoryHarness()
  const rangeRead = { from: START, to: START + DAY, at: START + DAY / 2, begunAt: START }
  const width = { ms: DAY / 4, failedMs: DAY, good: 3 }
  const stored = { ...rangeRead, failures: 2, stuck: 3, doubts: 1 }
  const earlier = {
    ...freshHistoryCursor(START + 2 * DAY, START, START),
    ...{ lookback: undefined, sweep: stored, todo: [stored] },
    widths: { live: width, sweep: width, backfill: width },
  }
  const { lookback, todo, widths } = openHistoryCursor(JSON.stringify(earlier), 'acme', 'history.usage')
  expect([lookback, ...todo]).toEqual(Array(2).fill({ ...rangeRead, failures: 0, proofs: 0, elsewhere: 0 }))
  expect(widths).toEqual({ live: freshWidth(), lookback: freshWidth(), backfill: freshWidth() })
  expect(() => harness.source.plan(JSON.stringify(earlier))).not.toThrow()
})

test('every instant from the start to now is covered by windows that were read, whatever fails on the way', async () => {
  const random = fc.record({
    startBackMs: fc.integer({ min: 0, max: 80 * DAY }),
    hours: fc.integer({ min: 0, max: 47 }),
    // Which requests fail, and how.
    faults: fc.array(fc.constantFrom('ok', 'ok', 'ok', 'slow', 'cut', '500', '429', 'down'), {
      maxLength: 60,
    }),
  })
  await fc.assert(
    fc.asyncProperty(random, async ({ startBackMs, hours, faults }) => {
      const left = [...faults]
      const good: HistoryRequest[] = []
      const harness = await openHistoryHarness({
        keepOpen: true,
        source: { start: { kind: 'span', ms: startBackMs }, lookbackMs: 0 },
        fault: (request) => {
          const fault = left.shift() ?? 'ok'
          if (fault === 'ok') good.push(request)
          return faultNamed[fault]
        },
      })
      try {
        harness.server.events = [historyEvent(START - 1)]
        await harness.live(START + (hours + 4) * HOUR)
        const from = Math.floor((START - startBackMs) / SECOND) * SECOND
        expect(uncovered(good, from, START + hours * HOUR)).toEqual([])
        expect(harness.server.refused).toEqual([])
        expect(harness.state().troubles).toEqual([])
      } finally {
        await harness.close()
      }
    }),
    { numRuns: 25 },
  )
}, 60_000)

const faultNamed: Readonly<Record<string, HistoryFault | undefined>> = {
  slow: { delayMs: 100_000 },
  cut: { cutBytes: 20 },
  '500': { status: 500 },
  '429': { status: 429 },
  down: { error: 'unreachable' },
}

/** What of [from, to] no good request covers. */
function uncovered(good: readonly HistoryRequest[], from: number, to: number): [number, number][] {
  const left: [number, number][] = []
  let at = from
  for (const request of good.toSorted((a, b) => a.from - b.from)) {
    if (request.from > at && at < to) left.push([at, request.from])
    at = Math.max(at, request.to)
  }
  if (at < to) left.push([at, to])
  return left
}

test('an event dated far in the future is delivered, but is not the head', async () => {
  const harness = await openHistoryHarness()
  const event = historyEvent(START - HOUR)
  const future = historyEvent(START - 2 * HOUR)
  const dated = future.v2.replace(/"utc_time":"\d{4}/, '"utc_time":"2099')
  expect(dated).not.toBe(future.v2)
  harness.server.events = [{ ...future, v2: dated }, event]
  await harness.once()
  expect((await harness.raws()).sort()).toEqual([dated, event.v2].sort())
  expect(harness.reporter.headUs).toBe(event.at * 1000)
})
