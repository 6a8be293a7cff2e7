// When reading yields to deliveries that are close behind, and when it does not.
import { expect, test } from 'vitest'
import { yieldToDeliveries } from '../../../src/ingest/loop.ts'
import type { Pressure } from '../../../src/contracts/journal.ts'
import { VirtualClock } from '../../simulation/virtual-clock.ts'
import { driven } from '../app/audit-harness.ts'

const MIB = 1024 * 1024

/** How long reading waits for so many pending bytes, look by look; the last value stays. */
async function waitedMs(pending: readonly number[], signal = new AbortController().signal): Promise<number> {
  const clock = new VirtualClock(0)
  let look = 0
  const pressure = () => ({ bytes: pending[Math.min(look++, pending.length - 1)] ?? 0 }) as Pressure
  await driven(clock, yieldToDeliveries({ journal: { pressure }, clock }, signal))
  return clock.elapsed()
}

test('reading continues at once where deliveries keep up', async () => {
  expect(await waitedMs([4 * MIB])).toBe(0)
})

test('reading waits for deliveries that are close behind, until they have caught up', async () => {
  expect(await waitedMs([6 * MIB, 5 * MIB, 5 * MIB, 4 * MIB])).toBe(3)
})

test('a stalled sink delays reading by 25 ms per chunk at most', async () => {
  expect(await waitedMs([6 * MIB])).toBe(25)
})

test('reading does not wait for a sink that is far behind', async () => {
  expect(await waitedMs([17 * MIB])).toBe(0)
})

test('a stop does not wait for deliveries', async () => {
  expect(await waitedMs([6 * MIB], AbortSignal.abort())).toBe(0)
})
