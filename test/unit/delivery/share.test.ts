// A sink's share of memory: a huge entry that waited is read once no stack frame refers to the last one (invariant 4).
import { expect, test } from 'vitest'
import type { Batch } from '../../../src/contracts/journal.ts'
import { systemClock } from '../../../src/platform/clock.ts'
import { MemoryBudget } from '../../../src/core/memory-budget.ts'
import { takeIntoMemory } from '../../../src/delivery/loader.ts'
import { runOf } from '../../fakes/lines.ts'

const MIB = 1024 * 1024

const batch: Batch = { first: 1, last: 1, count: 1, slices: [runOf([{ id: 'a' }])] }

/** How often is read once another's memory is given back: in that turn of the event loop, and in all. */
async function readsOf(rawBytes: number) {
  const memory = new MemoryBudget(MIB)
  const release = await memory.reserve(MIB, new AbortController().signal)
  let reads = 0
  const read = async (_: number, loneBytes?: number) => {
    reads++
    return loneBytes === undefined ? batch : { rawBytes }
  }
  const held = takeIntoMemory<never>(
    { memory, reporter: { state: () => undefined }, clock: systemClock },
    read,
    Infinity,
    new AbortController().signal,
  )
  await new Promise((resolve) => setImmediate(resolve))
  const looks = reads
  release()
  for (let i = 0; i < 100; i++) await Promise.resolve()
  const atOnce = reads - looks
  await held
  return { atOnce, inAll: reads - looks }
}

test('a huge entry is read in its own turn of the event loop, since the end of an answer still refers to the sent bytes', async () => {
  expect(await readsOf(9 * MIB)).toEqual({ atOnce: 0, inAll: 1 })
})

test('an ordinary batch is read at once', async () => {
  expect(await readsOf(1000)).toEqual({ atOnce: 1, inAll: 1 })
})
