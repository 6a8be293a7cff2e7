// Polls that would use the whole limit: jobs come to their end all the same, and late entries are found.
import { expect, it, test } from 'vitest'
import { runIngest } from '../../../src/ingest/loop.ts'
import { HOUR_MS as HOUR } from '../../../src/core/time.ts'
import { driven, MINUTE, openDesk, SECOND, START } from '../app/desk.ts'
import { settled } from '../../simulation/virtual-clock.ts'
import {
  idsIn,
  isDone,
  openLateDesk,
  pastOf,
  runUntil,
  SPAN,
  comparingOn,
  compareAll,
} from './backfill-desk.ts'

/** Two requests each second. */
const greedy = { intervalMs: SECOND, lookbackMs: 0 }

test('a backfill beside them makes its tenth of the limit, and no minute holds more than the limit', async () => {
  const desk = await openLateDesk({ limit: 60, limits: { audit: 60 }, source: greedy }, 30_000)
  const live = new AbortController()
  const polls = runIngest(desk.collector, live.signal)
  for (let i = 0; i < 120; i++) {
    await settled()
    desk.clock.advance(desk.clock.now() + SECOND)
  }
  const past = pastOf(desk)
  await past.backfill({}, SPAN)
  const from = desk.clock.now()
  await runUntil(desk, past, isDone)
  live.abort()
  await driven(desk.clock, polls)
  // Some 23 pages and the place of the first: at six requests a minute.
  expect(desk.clock.now() - from).toBeLessThanOrEqual(6 * MINUTE)
  expect(past.list()[0]?.counts.new).toBe(idsIn(desk, SPAN).length)
  expect(desk.asked().some(({ status }) => status === 429)).toBe(false)
})

test('a reconcile beside them comes to its end', async () => {
  const desk = await openLateDesk({ limit: 60, limits: { audit: 60 }, source: greedy }, 5_000)
  const live = new AbortController()
  const polls = runIngest(desk.collector, live.signal)
  for (let i = 0; i < 120; i++) {
    await settled()
    desk.clock.advance(desk.clock.now() + SECOND)
  }
  const from = desk.clock.now()
  const walked = await driven(desk.clock, compareAll(desk, comparingOn(desk)))
  live.abort()
  await driven(desk.clock, polls)
  expect(desk.clock.now() - from).toBeLessThanOrEqual(3 * MINUTE)
  expect(walked.days.reduce((sum, { fetched }) => sum + fetched, 0)).toBe(idsIn(desk, SPAN).length)
})

it('lookback beside them finds what became visible late', async () => {
  const desk = await openDesk({
    ...{ limit: 60, limits: { audit: 60 } },
    source: { intervalMs: SECOND, lookbackMs: HOUR, start: { kind: 'latest' } },
  })
  const stop = new AbortController()
  const polls = runIngest(desk.collector, stop.signal)
  const run = async (seconds: number) => {
    for (let i = 0; i < seconds; i++) {
      desk.mock.add({ at: desk.clock.now(), visibleAt: 0 })
      await settled()
      desk.clock.advance(desk.clock.now() + SECOND)
    }
  }
  await run(120)
  const late = desk.mock.add({ at: START + MINUTE, visibleAt: START + 10 * MINUTE })
  await run(25 * 60)
  stop.abort()
  await driven(desk.clock, polls)
  expect(await desk.ids()).toContain(late.id)
})
