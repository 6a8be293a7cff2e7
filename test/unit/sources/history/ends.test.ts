// A history API that refuses a future end, which the specification leaves open.
import { expect, test } from 'vitest'
import { dayStart } from '../../../../src/core/time.ts'
import { historyEvent } from '../../../fakes/history-server.ts'
import { DAY, HOUR, MINUTE, SECOND, START } from '../../app/audit-harness.ts'
import { eventsFrom, openHistoryHarness } from './harness.ts'

const source = { start: { kind: 'span', ms: DAY }, lookbackMs: 0, intervalMs: 7 * MINUTE } as const

test.each([
  ['shows the same time', { behindMs: 0 }],
  ['shows the same time, in milliseconds', { behindMs: 0, unit: 'ms' }],
  ['is 40 s behind', { behindMs: 40 * SECOND }],
  ['is 40 s behind and hidden', { behindMs: 40 * SECOND, hidesDate: true }],
  [
    'is 40 s behind and hidden, in milliseconds that seconds find empty',
    { behindMs: 40 * SECOND, hidesDate: true, unit: 'ms', otherUnit: 'empty' },
  ],
  ['is an hour behind', { behindMs: HOUR, unit: 'ms' }],
] as const)(
  'a refused future end is replaced by now if the server’s clock %s',
  async (_, { behindMs, ...more }) => {
    const harness = await openHistoryHarness({ source, endsInPast: true, ...more })
    const serverNow = () => harness.clock.now() - behindMs
    harness.server.options.dateAt = serverNow
    harness.server.events = eventsFrom(historyEvent, START - HOUR, 2 * 24 * 60, MINUTE).map((event) => ({
      ...event,
      visibleAt: event.at,
    }))
    const errors: (Error | undefined)[] = []
    const tryOnce = harness.try.bind(harness)
    harness.try = async () => {
      errors.push(await tryOnce())
      return errors.at(-1)
    }
    await harness.live(START + DAY + HOUR)
    expect(errors.filter((error) => error !== undefined)).toEqual([])
    const due = harness.server.events.filter(({ at }) => at < serverNow() - 9 * MINUTE)
    expect(due.length).toBeGreaterThan(24 * 60)
    const times = new Set(await harness.times())
    expect(due.filter(({ at }) => !times.has(at * 1000))).toEqual([])
    expect(harness.reporter.gaps).toBe(0)
  },
)

test('a refused window of the past is not shortened to now', async () => {
  const harness = await openHistoryHarness({
    source,
    fault: ({ from }) => (from < START - 12 * HOUR ? { status: 400 } : undefined),
  })
  await harness.live(START + MINUTE)
  const past = harness.asked().filter(({ from }) => from < START - 12 * HOUR)
  expect(past.length).toBeGreaterThan(0)
  expect(past.filter(({ to }) => to > START - 9 * HOUR)).toEqual([])
})

test('a day that has just ended is read a minute later, and no gap, if the server refuses its end as future', async () => {
  const midnight = dayStart(START) + DAY
  const harness = await openHistoryHarness({ source, startAt: midnight, endsInPast: true })
  harness.server.events = eventsFrom(historyEvent, midnight - 20 * HOUR, 20, HOUR)
  await harness.live(midnight + 2 * MINUTE)
  expect(await harness.ids()).toHaveLength(20)
  expect(harness.reporter.gaps).toBe(0)
  expect(harness.state().troubles).toEqual([])
})

test('an open day without events is requested once a poll, if the unit is known', async () => {
  const harness = await openHistoryHarness({ source })
  harness.server.events = eventsFrom(historyEvent, START - 20 * HOUR, 5, HOUR)
  await harness.live(START + MINUTE)
  expect(harness.state().unitSure).toBe(true)
  harness.asked()
  await harness.live(START + source.intervalMs + SECOND)
  expect(harness.asked()).toHaveLength(1)
})

test('no second before a midnight is left out by a poll just after it', async () => {
  const midnight = dayStart(START) + DAY
  const harness = await openHistoryHarness({
    ...{ source, startAt: midnight + 1_900 - source.intervalMs, endsInPast: true, startInclusive: false },
    dateAt: () => harness.clock.now() - 2 * SECOND,
  })
  harness.server.events = [3, 2, 1].map((seconds) => historyEvent(midnight - seconds * SECOND))
  await harness.live(midnight + HOUR)
  expect(await harness.ids()).toHaveLength(3)
})

test('if that is refused too, the poll has failed', async () => {
  const harness = await openHistoryHarness({ source, fault: () => ({ status: 400 }) })
  expect((await harness.try()) ?? (await harness.try())).toMatchObject({ code: 'bad_request' })
  // In either unit, up to now, a little less and a minute less.
  expect(harness.asked()).toHaveLength(6)
})
