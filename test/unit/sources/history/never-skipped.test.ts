// Parts of the history that may never be skipped: the past of a server whose unit is learned late, and an open day that is refused.
import { expect, test } from 'vitest'
import { historyEvent } from '../../../fakes/history-server.ts'
import { DAY, HOUR, MINUTE, START } from '../../app/audit-harness.ts'
import { eventsFrom, openHistoryHarness } from './harness.ts'

const TODAY = Math.floor(START / DAY) * DAY

test('on a server that counts in milliseconds and has nothing today, all of the past is read', async () => {
  const harness = await openHistoryHarness({ unit: 'ms', otherUnit: 'empty' })
  const past = [
    ...eventsFrom(historyEvent, TODAY - 6 * DAY, 20, HOUR),
    ...eventsFrom(historyEvent, TODAY - 2 * DAY, 5, HOUR),
  ]
  harness.server.events = past
  await harness.live(START + 2 * HOUR)
  expect((await harness.times()).toSorted((a, b) => a - b)).toEqual(past.map(({ at }) => at * 1000))
  harness.server.events = [...past, historyEvent(harness.clock.now())]
  await harness.live(START + 6 * HOUR)
  expect(harness.state()).toMatchObject({ unit: 'ms', unitSure: true })
  expect((await harness.times()).toSorted((a, b) => a - b)).toEqual(
    harness.server.events.map(({ at }) => at * 1000),
  )
})

test('a single run on a server that counts in milliseconds reads a past with nothing of today', async () => {
  const harness = await openHistoryHarness({ unit: 'ms', otherUnit: 'empty', source: { once: true } })
  harness.server.events = eventsFrom(historyEvent, TODAY - 6 * DAY, 20, HOUR)
  await harness.once()
  expect((await harness.times()).length).toBe(20)
})

test.each(['earliest', 'span'] as const)(
  'a single run on a server that counts in milliseconds reads a past that begins with nothing (%s)',
  async (kind) => {
    const start = kind === 'span' ? { kind, ms: 90 * DAY } : { kind }
    const harness = await openHistoryHarness({
      unit: 'ms',
      otherUnit: 'empty',
      source: { once: true, start },
    })
    harness.server.events = eventsFrom(historyEvent, TODAY - 6 * DAY, 20, HOUR)
    await harness.once()
    expect((await harness.times()).length).toBe(20)
    // No part of the past is requested much more often than to prove it empty, in one unit and in the other.
    expect(harness.asked().length).toBeLessThan(100)
  },
)

test('a 400 on the open day blocks: it makes no unreadable window, skips nothing, and the day is read when it is accepted again', async () => {
  const state = { refuses: false }
  const harness = await openHistoryHarness({
    fault: ({ from }) => (state.refuses && from >= TODAY - HOUR ? { status: 400 } : undefined),
  })
  harness.server.events = eventsFrom(historyEvent, TODAY - 3 * DAY, 40, 2 * HOUR)
  await harness.live(START + HOUR)
  state.refuses = true
  const fresh = eventsFrom(historyEvent, START + HOUR + MINUTE, 5, MINUTE)
  harness.server.events.push(...fresh)
  const before = await harness.times()
  const codes = new Set<string>()
  while (harness.clock.advance(START + 2 * HOUR));
  for (let i = 0; i < 8; i++) {
    const error = await harness.try()
    if (error) codes.add((error as { code?: string }).code ?? error.message)
  }
  expect([...codes]).toEqual(['bad_request'])
  expect(harness.state().troubles).toEqual([])
  expect(harness.reporter.gaps).toBe(0)
  state.refuses = false
  await harness.live(START + 4 * HOUR)
  expect(await harness.times()).toEqual([...before, ...fresh.map(({ at }) => at * 1000)])
})

test('a day with an unreadable end is still read up to that, and read again like any other', async () => {
  const edge = TODAY - 5 * MINUTE
  const harness = await openHistoryHarness({
    source: { start: { kind: 'span', ms: 2 * DAY } },
    fault: ({ from, to }) => (from < TODAY - 2_000 && to > edge + 2_000 ? { status: 500 } : undefined),
  })
  harness.server.events = eventsFrom(historyEvent, edge - 60 * MINUTE, 59, MINUTE)
  await harness.live(START + 20 * HOUR)
  const { todo, lookback, troubles, rereads } = harness.state()
  expect([todo, lookback, Math.max(...troubles.map(({ to }) => to))]).toEqual([[], null, TODAY])
  expect(Object.keys(rereads)).toContain(String(TODAY - DAY))
  expect(harness.source.plan(harness.cursor).caughtUp).toBe(true)
  expect(await harness.ids()).toHaveLength(59)
})

test('an unreadable window that is refused at a retry stays unreadable, and is retried less and less often', async () => {
  const bad = TODAY - 3 * HOUR
  let status = 500
  const harness = await openHistoryHarness({
    source: { start: { kind: 'span', ms: 2 * DAY }, lookbackMs: 0 },
    fault: ({ from, to }) => (from <= bad + MINUTE / 2 && to >= bad + MINUTE / 2 ? { status } : undefined),
  })
  harness.server.events = eventsFrom(historyEvent, TODAY - 10 * HOUR + MINUTE / 2, 60, MINUTE)
  await harness.live(START + HOUR)
  const [before] = harness.state().troubles
  expect(before).toMatchObject({ from: bad })
  status = 400
  await harness.live(START + 12 * HOUR)
  const [after] = harness.state().troubles
  expect(after?.from).toBe(bad)
  expect(after?.tries).toBeGreaterThan(before?.tries ?? Infinity)
  expect(harness.asked().filter(({ from, to }) => from <= bad && to >= bad + MINUTE).length).toBeLessThan(40)
})

test('an open day that is refused wherever it ends is requested with three ends, in either unit, and reported', async () => {
  const harness = await openHistoryHarness({ fault: () => ({ status: 400 }), source: { lookbackMs: 0 } })
  expect(await harness.try()).toMatchObject({ code: 'bad_request' })
  expect(harness.asked()).toHaveLength(6)
})

test('a failure that was then read is forgotten: each window that fails by chance is requested again unchanged', async () => {
  const asked = new Map<string, number>()
  const harness = await openHistoryHarness({
    source: { start: { kind: 'span', ms: 4 * DAY }, lookbackMs: 0 },
    fault: ({ from, to }) => {
      if (to > TODAY + MINUTE) return undefined
      const times = (asked.get(`${from} ${to}`) ?? 0) + 1
      asked.set(`${from} ${to}`, times)
      return times === 1 ? { status: 500 } : undefined
    },
  })
  harness.server.events = eventsFrom(historyEvent, TODAY - 4 * DAY, 96, HOUR)
  await harness.once()
  expect(await harness.ids()).toHaveLength(96 - 10)
  expect([...asked.values()]).toEqual([2, 2, 2])
})
