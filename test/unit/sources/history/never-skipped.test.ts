// Parts of the history that may never be skipped: the past of a server whose unit is learned late, and an open day that is refused.
import { expect, test } from 'vitest'
import { historyEvent } from '../../../fakes/history-server.ts'
import { DAY, HOUR, MINUTE, START } from '../../app/desk.ts'
import { eventsFrom, openHistoryDesk } from './desk.ts'

const TODAY = Math.floor(START / DAY) * DAY

test('on a server that counts in milliseconds and has nothing today, all of the past is read once its unit is known', async () => {
  const desk = await openHistoryDesk({ unit: 'ms', otherUnit: 'empty' })
  const past = [
    ...eventsFrom(historyEvent, TODAY - 6 * DAY, 20, HOUR),
    ...eventsFrom(historyEvent, TODAY - 2 * DAY, 5, HOUR),
  ]
  desk.server.events = past
  await desk.live(START + 2 * HOUR)
  expect(await desk.times()).toEqual([])
  desk.server.events = [...past, historyEvent(desk.clock.now())]
  await desk.live(START + 6 * HOUR)
  expect(desk.state()).toMatchObject({ unit: 'ms', unitSure: true })
  expect((await desk.times()).toSorted((a, b) => a - b)).toEqual(
    desk.server.events.map(({ at }) => at * 1000),
  )
})

test('a single run on a server that counts in milliseconds reads a past with nothing of today', async () => {
  const desk = await openHistoryDesk({ unit: 'ms', otherUnit: 'empty', source: { once: true } })
  desk.server.events = eventsFrom(historyEvent, TODAY - 6 * DAY, 20, HOUR)
  await desk.once()
  expect((await desk.times()).length).toBe(20)
})

test.each(['earliest', 'span'] as const)(
  'a single run on a server that counts in milliseconds reads a past that begins with nothing (%s)',
  async (kind) => {
    const start = kind === 'span' ? { kind, ms: 90 * DAY } : { kind }
    const desk = await openHistoryDesk({ unit: 'ms', otherUnit: 'empty', source: { once: true, start } })
    desk.server.events = eventsFrom(historyEvent, TODAY - 6 * DAY, 20, HOUR)
    await desk.once()
    expect((await desk.times()).length).toBe(20)
    // No part of the past is requested much more often than to prove it empty, in one unit and in the other.
    expect(desk.asked().length).toBeLessThan(100)
  },
)

test('a 400 on the open day blocks: it makes no unreadable window, skips nothing, and the day is read when it is accepted again', async () => {
  const state = { refuses: false }
  const desk = await openHistoryDesk({
    fault: ({ from }) => (state.refuses && from >= TODAY - HOUR ? { status: 400 } : undefined),
  })
  desk.server.events = eventsFrom(historyEvent, TODAY - 3 * DAY, 40, 2 * HOUR)
  await desk.live(START + HOUR)
  state.refuses = true
  const fresh = eventsFrom(historyEvent, START + HOUR + MINUTE, 5, MINUTE)
  desk.server.events.push(...fresh)
  const before = await desk.times()
  const codes = new Set<string>()
  while (desk.clock.advance(START + 2 * HOUR));
  for (let i = 0; i < 8; i++) {
    const error = await desk.try()
    if (error) codes.add((error as { code?: string }).code ?? error.message)
  }
  expect([...codes]).toEqual(['bad_request'])
  expect(desk.state().troubles).toEqual([])
  expect(desk.reporter.gaps).toBe(0)
  state.refuses = false
  await desk.live(START + 4 * HOUR)
  expect(await desk.times()).toEqual([...before, ...fresh.map(({ at }) => at * 1000)])
})

test('a day with an unreadable end is still read up to that, and read again like any other', async () => {
  const edge = TODAY - 5 * MINUTE
  const desk = await openHistoryDesk({
    source: { start: { kind: 'span', ms: 2 * DAY } },
    fault: ({ from, to }) => (from < TODAY - 2_000 && to > edge + 2_000 ? { status: 500 } : undefined),
  })
  desk.server.events = eventsFrom(historyEvent, edge - 60 * MINUTE, 59, MINUTE)
  await desk.live(START + 20 * HOUR)
  const { todo, sweep, troubles, rereads } = desk.state()
  expect([todo, sweep, Math.max(...troubles.map(({ to }) => to))]).toEqual([[], null, TODAY])
  expect(Object.keys(rereads)).toContain(String(TODAY - DAY))
  expect(desk.source.plan(desk.cursor).caughtUp).toBe(true)
  expect(await desk.ids()).toHaveLength(59)
})

test('an unreadable window that is refused at a retry stays unreadable, and is retried less and less often', async () => {
  const bad = TODAY - 3 * HOUR
  let status = 500
  const desk = await openHistoryDesk({
    source: { start: { kind: 'span', ms: 2 * DAY }, lookbackMs: 0 },
    fault: ({ from, to }) => (from <= bad + MINUTE / 2 && to >= bad + MINUTE / 2 ? { status } : undefined),
  })
  desk.server.events = eventsFrom(historyEvent, TODAY - 10 * HOUR + MINUTE / 2, 60, MINUTE)
  await desk.live(START + HOUR)
  const [before] = desk.state().troubles
  expect(before).toMatchObject({ from: bad })
  status = 400
  await desk.live(START + 12 * HOUR)
  const [after] = desk.state().troubles
  expect(after?.from).toBe(bad)
  expect(after?.tries).toBeGreaterThan(before?.tries ?? Infinity)
  expect(desk.asked().filter(({ from, to }) => from <= bad && to >= bad + MINUTE).length).toBeLessThan(40)
})

test('an open day that is refused wherever it ends is requested with three ends, in either unit, and reported', async () => {
  const desk = await openHistoryDesk({ fault: () => ({ status: 400 }), source: { lookbackMs: 0 } })
  expect(await desk.try()).toMatchObject({ code: 'bad_request' })
  expect(desk.asked()).toHaveLength(6)
})

test('a failure that was then read is forgotten: each window that fails by chance is requested again unchanged', async () => {
  const asked = new Map<string, number>()
  const desk = await openHistoryDesk({
    source: { start: { kind: 'span', ms: 4 * DAY }, lookbackMs: 0 },
    fault: ({ from, to }) => {
      if (to > TODAY + MINUTE) return undefined
      const times = (asked.get(`${from} ${to}`) ?? 0) + 1
      asked.set(`${from} ${to}`, times)
      return times === 1 ? { status: 500 } : undefined
    },
  })
  desk.server.events = eventsFrom(historyEvent, TODAY - 4 * DAY, 96, HOUR)
  await desk.once()
  expect(await desk.ids()).toHaveLength(96 - 10)
  expect([...asked.values()]).toEqual([2, 2, 2])
})
