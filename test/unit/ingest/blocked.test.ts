// A refused key blocks the source, which keeps trying; Retry-After is kept within bounds.
import { expect, test } from 'vitest'
import { runIngest } from '../../../src/ingest/loop.ts'
import { KeyWaits } from '../../../src/core/key-waits.ts'
import type { HttpReply } from '../../../src/contracts/platform.ts'
import { driven, MINUTE, openHarness, SECOND, START } from '../app/audit-harness.ts'

test.each(['unauthorized', 'forbidden'] as const)(
  'a key that is refused as %s blocks the source, which retries for as long as it takes',
  async (fault) => {
    const harness = await openHarness({ faults: { [fault]: { until: START + 30 * MINUTE } } })
    const added = harness.add(5)
    const stop = new AbortController()
    const running = runIngest(harness.collector, stop.signal)
    running.catch(() => undefined)
    await driven(harness.clock, harness.clock.sleep(20 * MINUTE))
    expect(await harness.ids()).toEqual([])
    // Slowly: not once a second for half an hour.
    expect(harness.mock.requests.length).toBeLessThan(60)
    await driven(harness.clock, harness.clock.sleep(20 * MINUTE))
    expect(await harness.ids()).toEqual(added)
    stop.abort()
    await driven(harness.clock, running)
  },
)

const refusal = (status: number, headers: Record<string, string>): HttpReply => ({
  status,
  headers: { 'content-type': 'application/json', ...headers },
  body: (async function* () {
    yield Buffer.from('{}')
  })(),
})

test.each([
  [401, '3600'],
  [401, '0'],
  [401, new Date(START - MINUTE).toUTCString()],
  [403, '3600'],
  [403, '0.001'],
] as const)(
  'a refused key is retried within a minute, and not in a row, whatever Retry-After says (%s, %s)',
  async (status, hint) => {
    const tries: number[] = []
    const repairedAt = START + 10 * MINUTE
    const harness = await openHarness({
      limit: 60,
      wrap: (transport) => async (request, signal) => {
        tries.push(harness.clock.now())
        return harness.clock.now() < repairedAt
          ? refusal(status, { 'retry-after': hint })
          : transport(request, signal)
      },
    })
    const added = harness.add(5)
    const stop = new AbortController()
    const running = runIngest(harness.collector, stop.signal)
    running.catch(() => undefined)
    await driven(harness.clock, harness.clock.sleep(repairedAt + MINUTE + SECOND - START))
    expect(await harness.ids()).toEqual(added)
    const waits = tries.slice(1).map((at, i) => at - (tries[i] ?? 0))
    const refused = waits.slice(0, tries.filter((at) => at < repairedAt).length - 1)
    // The first of our own waits may be half of its base.
    expect(Math.min(...refused)).toBeGreaterThanOrEqual(7 * SECOND)
    expect(refused.length).toBeLessThanOrEqual(40)
    stop.abort()
    await driven(harness.clock, running)
  },
)

test('at the first success with a corrected key, all sources that wait for it resume', async () => {
  const tries: number[] = []
  let isGood = false
  const harness = await openHarness({
    wrap: (transport) => async (request, signal) => {
      tries.push(harness.clock.now())
      return isGood ? transport(request, signal) : refusal(401, {})
    },
  })
  const added = harness.add(5)
  const waits = new KeyWaits(harness.clock)
  const other = waits.of(() => 'the key')
  const stop = new AbortController()
  const running = runIngest({ ...harness.collector, keyWait: waits.of(() => 'the key') }, stop.signal)
  running.catch(() => undefined)
  // By now it asks once a minute.
  while (tries.length < 8) await driven(harness.clock, harness.clock.sleep(10 * SECOND))
  isGood = true
  other.accepted()
  const wokenAt = harness.clock.now()
  await driven(harness.clock, harness.clock.sleep(SECOND))
  expect(tries[8]).toBe(wokenAt)
  expect(await harness.ids()).toEqual(added)

  isGood = false
  const before = tries.length
  while (tries.length < before + 3) await driven(harness.clock, harness.clock.sleep(10 * SECOND))
  isGood = true
  let endedAt: number | undefined
  const waiting = other.sleep(60 * MINUTE, stop.signal).then(() => (endedAt = harness.clock.now()))
  while (tries.length < before + 4) await driven(harness.clock, harness.clock.sleep(SECOND))
  await driven(harness.clock, waiting)
  expect(endedAt).toBe(tries[before + 3])
  stop.abort()
  await driven(harness.clock, running)
})
