// Polls that would use the whole limit: jobs still finish, and late entries are found.
import { expect, it, test } from 'vitest'
import { runIngest } from '../../../src/ingest/loop.ts'
import { HOUR_MS as HOUR } from '../../../src/core/time.ts'
import { driven, MINUTE, openHarness, SECOND, START } from '../app/audit-harness.ts'
import { settled } from '../../simulation/virtual-clock.ts'
import {
  idsIn,
  isDone,
  openLateHarness,
  pastOf,
  runUntil,
  SPAN,
  comparingOn,
  compareAll,
} from './backfill-harness.ts'

/** Two requests per second. */
const greedy = { intervalMs: SECOND, lookbackMs: 0 }

test('a backfill beside busy polls gets its tenth of the limit, and no minute exceeds the limit', async () => {
  const harness = await openLateHarness({ limit: 60, limits: { audit: 60 }, source: greedy }, 30_000)
  const live = new AbortController()
  const polls = runIngest(harness.collector, live.signal)
  for (let i = 0; i < 120; i++) {
    await settled()
    harness.clock.advance(harness.clock.now() + SECOND)
  }
  const past = pastOf(harness)
  await past.backfill({}, SPAN)
  const from = harness.clock.now()
  await runUntil(harness, past, isDone)
  live.abort()
  await driven(harness.clock, polls)
  // About 23 pages and the search for the first one, at six requests a minute.
  expect(harness.clock.now() - from).toBeLessThanOrEqual(6 * MINUTE)
  expect(past.list()[0]?.counts.new).toBe(idsIn(harness, SPAN).length)
  expect(harness.asked().some(({ status }) => status === 429)).toBe(false)
})

test('a reconcile beside busy polls finishes', async () => {
  const harness = await openLateHarness({ limit: 60, limits: { audit: 60 }, source: greedy }, 5_000)
  const live = new AbortController()
  const polls = runIngest(harness.collector, live.signal)
  for (let i = 0; i < 120; i++) {
    await settled()
    harness.clock.advance(harness.clock.now() + SECOND)
  }
  const from = harness.clock.now()
  const compared = await driven(harness.clock, compareAll(harness, comparingOn(harness)))
  live.abort()
  await driven(harness.clock, polls)
  expect(harness.clock.now() - from).toBeLessThanOrEqual(3 * MINUTE)
  expect(compared.days.reduce((sum, { fetched }) => sum + fetched, 0)).toBe(idsIn(harness, SPAN).length)
})

it('lookback beside busy polls finds late entries', async () => {
  const harness = await openHarness({
    ...{ limit: 60, limits: { audit: 60 } },
    source: { intervalMs: SECOND, lookbackMs: HOUR, start: { kind: 'latest' } },
  })
  const stop = new AbortController()
  const polls = runIngest(harness.collector, stop.signal)
  const run = async (seconds: number) => {
    for (let i = 0; i < seconds; i++) {
      harness.mock.add({ at: harness.clock.now(), visibleAt: 0 })
      await settled()
      harness.clock.advance(harness.clock.now() + SECOND)
    }
  }
  await run(120)
  const late = harness.mock.add({ at: START + MINUTE, visibleAt: START + 10 * MINUTE })
  await run(25 * 60)
  stop.abort()
  await driven(harness.clock, polls)
  expect(await harness.ids()).toContain(late.id)
})
