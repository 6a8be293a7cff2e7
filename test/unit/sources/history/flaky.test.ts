// The history over a line on which most answers fail by chance: what it costs, and that nothing is skipped for it.
import { expect, test } from 'vitest'
import { runIngest } from '../../../../src/ingest/loop.ts'
import { historyEvent } from '../../../fakes/history-server.ts'
import type { HistoryFault } from '../../../fakes/history-server.ts'
import { dice } from '../../../simulation/random.ts'
import { DAY, driven, START } from '../../app/audit-harness.ts'
import { eventsFrom, openHistoryHarness } from './harness.ts'

const TODAY = Math.floor(START / DAY) * DAY
const EVENTS = 6_000
const SEEDS = [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12]

/** An answer of the day has some 1.2 MB. */
function randomFault(random: () => number): HistoryFault {
  const kind = random()
  if (kind < 1 / 3) return { error: 'unreachable' }
  if (kind < 2 / 3) return { status: 500 }
  return { cutBytes: Math.floor(random() * 1_000_000) }
}

/** The time to read yesterday's events under the documented limit. */
async function readOnce(seed: number, share: number) {
  const random = dice(seed)
  const harness = await openHistoryHarness({
    limit: 60,
    source: { start: { kind: 'time', atUs: (TODAY - DAY) * 1000 }, once: true },
    fault: () => (random() < share ? randomFault(random) : undefined),
  })
  harness.server.events = eventsFrom(historyEvent, TODAY - DAY, EVENTS, DAY / EVENTS)
  const stop = new AbortController()
  await driven(harness.clock, runIngest({ ...harness.collector, random, once: true }, stop.signal))
  return {
    requests: harness.server.requests.length,
    ids: new Set(await harness.ids()).size,
    gaps: harness.reporter.gaps,
    tookMs: harness.clock.now() - START,
  }
}

test('with two thirds of the answers failing by chance, a day of 6,000 events costs at most three times what that explains', async () => {
  const clean = await readOnce(0, 0)
  expect(clean).toMatchObject({ ids: EVENTS, gaps: 0 })
  const explained = clean.requests / (1 - 2 / 3)
  const slices = []
  for (const seed of SEEDS) slices.push(await readOnce(seed, 2 / 3))
  expect(slices.map(({ ids, gaps }) => [ids, gaps])).toEqual(SEEDS.map(() => [EVENTS, 0]))
  expect(Math.max(...slices.map(({ requests }) => requests))).toBeLessThanOrEqual(3 * explained)
  expect(slices.reduce((sum, { requests }) => sum + requests, 0) / slices.length).toBeLessThan(
    1.5 * explained,
  )
  // The limit, and the pauses behind failures, leave it quick.
  expect(Math.max(...slices.map(({ tookMs }) => tookMs))).toBeLessThan(90_000)
})
