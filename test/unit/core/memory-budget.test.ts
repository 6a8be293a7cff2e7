// The process's budget of held bytes: never more than the total, first come, first served.
import fc from 'fast-check'
import { expect, it } from 'vitest'
import { openMemoryBudgets, MemoryBudget } from '../../../src/core/memory-budget.ts'
import { settled } from '../../simulation/virtual-clock.ts'

const never = new AbortController().signal

it('a request that fits enters at once, any other waits', async () => {
  const memory = new MemoryBudget(10)
  const leave = await memory.reserve(6, never)
  let inside = false
  const second = memory.reserve(6, never).then((way) => {
    inside = true
    return way
  })
  await settled()
  expect([inside, memory.usedBytes]).toEqual([false, 6])
  leave()
  ;(await second)()
  expect(memory.usedBytes).toBe(0)
})

it('a request for more than the total enters alone', async () => {
  const memory = new MemoryBudget(10)
  const leave = await memory.reserve(1_000, never)
  expect(memory.usedBytes).toBe(10)
  expect(memory.tryReserve(1)).toBeUndefined()
  leave()
  expect(memory.usedBytes).toBe(0)
})

it('small requests do not overtake a large one that waits', async () => {
  const memory = new MemoryBudget(10)
  const order: string[] = []
  const first = await memory.reserve(8, never)
  const large = memory.reserve(10, never).then((leave) => (order.push('large'), leave))
  const small = memory.reserve(1, never).then((leave) => (order.push('small'), leave))
  expect(memory.tryReserve(1)).toBeUndefined()
  first()
  ;(await large)()
  ;(await small)()
  expect(order).toEqual(['large', 'small'])
})

it('a request that gives up lets those behind it enter', async () => {
  const memory = new MemoryBudget(10)
  await memory.reserve(8, never)
  const leaving = new AbortController()
  const large = memory.reserve(10, leaving.signal)
  const small = memory.reserve(2, never)
  leaving.abort()
  await expect(large).rejects.toThrow()
  await small
  expect(memory.usedBytes).toBe(10)
})

it('an abort before entering holds nothing', async () => {
  const memory = new MemoryBudget(10)
  await expect(memory.reserve(1, AbortSignal.abort())).rejects.toThrow()
  expect(memory.usedBytes).toBe(0)
})

it('a release that is called twice gives back once', async () => {
  const memory = new MemoryBudget(10)
  const leave = await memory.reserve(4, never)
  await memory.reserve(4, never)
  leave()
  leave()
  expect(memory.usedBytes).toBe(4)
})

it('a full sub-budget leaves the rest to the others, and both count in the total', async () => {
  const memory = new MemoryBudget(10)
  const readers = new MemoryBudget(6, memory)
  const leave = await readers.reserve(6, never)
  expect([readers.tryReserve(1), memory.usedBytes]).toEqual([undefined, 6])
  const other = await memory.reserve(4, never)
  expect(memory.usedBytes).toBe(10)
  leave()
  expect([readers.usedBytes, memory.usedBytes]).toEqual([0, 4])
  // A request for more than the sub-budget takes nothing from the others.
  expect(readers.tryReserve(7)).toBeDefined()
  expect([readers.usedBytes, memory.usedBytes]).toEqual([6, 10])
  other()
  expect(memory.usedBytes).toBe(6)
})

it('a sub-budget waits if the total is full, and a request that gives up there holds neither', async () => {
  const memory = new MemoryBudget(10)
  const readers = new MemoryBudget(6, memory)
  const leave = await memory.reserve(8, never)
  expect([readers.tryReserve(4), readers.usedBytes]).toEqual([undefined, 0])
  const leaving = new AbortController()
  const first = readers.reserve(4, leaving.signal)
  const second = readers.reserve(6, never)
  await settled()
  leaving.abort()
  await expect(first).rejects.toThrow()
  leave()
  ;(await second)()
  expect([readers.usedBytes, memory.usedBytes]).toEqual([0, 0])
})

const MIB = 2 ** 20

it('readers and sinks hold no more than 32 MiB together, and no reader enters the sinks’ half', async () => {
  const { all, reading, forSink } = openMemoryBudgets(2)
  const shares = [forSink(), forSink()]
  await reading.reserve(16 * MIB, never)
  expect(reading.tryReserve(1)).toBeUndefined()
  for (const each of shares) expect(each.tryReserve(8 * MIB)).toBeDefined()
  expect([all.usedBytes, all.tryReserve(1)]).toEqual([32 * MIB, undefined])
})

it('each sink has an equal share of its own: however many are full, its batch and the prefetched one enter at once', () => {
  for (const sinks of [1, 2, 3, 4, 13, 100]) {
    const { all, reading, forSink } = openMemoryBudgets(sinks)
    const shares = Array.from({ length: sinks }, forSink)
    reading.tryReserve(16 * MIB)
    for (const each of shares) {
      const half = Math.floor(each.capacityBytes / 2)
      expect(half).toBeGreaterThanOrEqual(Math.floor((8 * MIB) / sinks) - 1)
      expect([each.tryReserve(half), each.tryReserve(half)]).not.toContain(undefined)
    }
    expect(all.usedBytes).toBeLessThanOrEqual(32 * MIB)
    expect(all.usedBytes).toBeGreaterThan(32 * MIB - 3 * sinks)
  }
})

it('a batch larger than its share counts in full and fills it, and the rest of it fits beside what readers hold: of such 8 MiB', async () => {
  const { all, reading, jobs, forSink } = openMemoryBudgets(4)
  const shares = Array.from({ length: 4 }, forSink) as [
    MemoryBudget,
    MemoryBudget,
    MemoryBudget,
    MemoryBudget,
  ]
  await shares[0].reserve(8 * MIB, never)
  expect([shares[0].freeBytes, all.usedBytes, reading.usedBytes]).toEqual([0, 8 * MIB, 4 * MIB])
  await shares[1].reserve(8 * MIB, never)
  const third = shares[2].reserve(5 * MIB, never)
  await settled()
  // It waits for one of its kind, and blocks no other.
  expect(reading.usedBytes).toBe(8 * MIB)
  expect(reading.tryReserve(4 * MIB)).toBeDefined()
  expect(jobs.tryReserve(4 * MIB)).toBeDefined()
  const leave = shares[3].tryReserve(4 * MIB)
  expect(all.usedBytes).toBe(28 * MIB)
  leave?.()
  expect(shares[3].tryReserve(5 * MIB)).toBeUndefined()
  await expect(Promise.race([third, settled()])).resolves.toBeUndefined()
})

it('a batch larger than a share and the readers’ part together waits for readers alone, and takes nothing from another sink’s share', async () => {
  const { all, reading, forSink } = openMemoryBudgets(4)
  const [one, other] = [forSink(), forSink()]
  const leaveReading = await reading.reserve(MIB, never)
  const leaveOther = await other.reserve(4 * MIB, never)
  let inside = false
  const large = one.reserve(40 * MIB, never).then((leave) => ((inside = true), leave))
  await settled()
  expect(inside).toBe(false)
  leaveReading()
  const leave = await large
  expect([all.usedBytes, reading.tryReserve(1)]).toEqual([24 * MIB, undefined])
  leaveOther()
  expect(other.tryReserve(4 * MIB)).toBeDefined()
  leave()
  expect([all.usedBytes, reading.usedBytes, one.usedBytes]).toEqual([4 * MIB, 0, 0])
})

it('a partial release keeps the remainder in its own share first: the excess goes to waiting requests', async () => {
  const { all, reading, forSink } = openMemoryBudgets(4)
  const one = forSink()
  const leave = await one.reserve(32 * MIB, never)
  let inside = false
  const reader = reading.reserve(4 * MIB, never).then((way) => ((inside = true), way))
  await settled()
  expect([inside, all.usedBytes]).toEqual([false, 20 * MIB])
  leave(16 * MIB)
  const leaveReader = await reader
  expect([one.usedBytes, reading.usedBytes, all.usedBytes]).toEqual([4 * MIB, 16 * MIB, 20 * MIB])
  // No more than before, whatever the caller asks for.
  leave(30 * MIB)
  leaveReader()
  expect([one.usedBytes, reading.usedBytes, all.usedBytes]).toEqual([4 * MIB, 12 * MIB, 16 * MIB])
  leave(3 * MIB)
  expect([one.usedBytes, reading.usedBytes, all.usedBytes]).toEqual([3 * MIB, 0, 3 * MIB])
  leave()
  leave()
  expect([one.usedBytes, reading.usedBytes, all.usedBytes]).toEqual([0, 0, 0])
})

it('jobs hold at most half of the readers’ memory, and never wait for a live reader within it', async () => {
  const { all, reading, jobs } = openMemoryBudgets(4)
  await jobs.reserve(8 * MIB, never)
  expect(jobs.tryReserve(1)).toBeUndefined()
  await reading.reserve(8 * MIB, never)
  expect([reading.tryReserve(1), all.usedBytes]).toEqual([undefined, 16 * MIB])
})

it('answers that stream for hours leave memory for the audit log, and those of jobs do not block live ones', async () => {
  const { all, reading, long, jobs } = openMemoryBudgets(4)
  for (let answers = 0; answers < 3; answers++) expect(long.tryReserve(4 * MIB)).toBeDefined()
  const waits = long.reserve(4 * MIB, never)
  const old = jobs.reserve(4 * MIB, never)
  await settled()
  const leave = reading.tryReserve(4 * MIB)
  expect([leave !== undefined, reading.tryReserve(1), all.usedBytes]).toEqual([true, undefined, 16 * MIB])
  leave?.()
  await expect(Promise.race([waits, old, settled()])).resolves.toBeUndefined()
})

it('jobs wait behind all others: a live reader that fits enters at once, and one that does not comes first', async () => {
  const { all, reading, jobs } = openMemoryBudgets(4)
  const order: string[] = []
  const leave = await reading.reserve(10 * MIB, never)
  const old = jobs.reserve(8 * MIB, never).then((way) => (order.push('past'), way))
  await settled()
  const small = await reading.reserve(4 * MIB, never)
  const large = reading.reserve(14 * MIB, never).then((way) => (order.push('live'), way))
  await settled()
  expect([reading.tryReserve(1), jobs.tryReserve(1), all.usedBytes]).toEqual([undefined, undefined, 14 * MIB])
  small()
  leave()
  ;(await large)()
  ;(await old)()
  expect(order).toEqual(['live', 'past'])
  expect([all.usedBytes, reading.usedBytes, jobs.usedBytes]).toEqual([0, 0, 0])
})

it('jobs block neither a live reader nor a sink when something large has filled the shared memory', async () => {
  const { all, reading, jobs } = openMemoryBudgets(4)
  const fill = await all.reserve(27 * MIB, never)
  const leaving = new AbortController()
  const old = jobs.reserve(8 * MIB, leaving.signal)
  await settled()
  const leave = await reading.reserve(4 * MIB, never)
  expect([all.tryReserve(2 * MIB), all.usedBytes]).toEqual([undefined, 31 * MIB])
  expect(all.tryReserve(MIB)).toBeDefined()
  leaving.abort()
  await expect(old).rejects.toThrow()
  leave()
  fill()
  expect([all.usedBytes, reading.usedBytes, jobs.usedBytes]).toEqual([MIB, 0, 0])
})

it('for any order of requests, no more is held than the total, and in the end nothing', async () => {
  await fc.assert(
    fc.asyncProperty(
      fc.array(
        fc.record({
          bytes: fc.integer({ min: 0, max: 30 }),
          turns: fc.nat(4),
          gone: fc.boolean(),
          inPart: fc.boolean(),
        }),
      ),
      async (visits) => {
        const memory = new MemoryBudget(20)
        const part = new MemoryBudget(12, memory, 'behind')
        await Promise.all(
          visits.map(async ({ bytes, turns, gone, inPart }) => {
            const leaving = new AbortController()
            const entering = (inPart ? part : memory).reserve(bytes, leaving.signal)
            if (gone) leaving.abort()
            try {
              const leave = await entering
              expect(memory.usedBytes).toBeLessThanOrEqual(20)
              expect(part.usedBytes).toBeLessThanOrEqual(12)
              for (let i = 0; i < turns; i++) await settled()
              leave()
            } catch (error) {
              if (!gone) throw error
            }
          }),
        )
        expect([memory.usedBytes, part.usedBytes]).toEqual([0, 0])
      },
    ),
  )
})

const visit = fc.record({
  bytes: fc.oneof(fc.nat(4 * MIB), fc.nat(40 * MIB), fc.nat(3)),
  aheadBytes: fc.nat(8 * MIB),
  keptBytes: fc.nat(20 * MIB),
  turns: fc.nat(3),
  gone: fc.boolean(),
})
type Visit = typeof visit extends fc.Arbitrary<infer T> ? T : never

/** Like a sink: one batch after the other, each with its prefetch where that fits. */
async function visits(memory: MemoryBudget, all: MemoryBudget, list: readonly Visit[]): Promise<void> {
  for (const { bytes, aheadBytes, keptBytes, turns, gone } of list) {
    const leaving = new AbortController()
    const entering = memory.reserve(bytes, leaving.signal)
    if (gone) leaving.abort()
    const leave = await entering.catch(() => undefined)
    if (!leave) continue
    const leaveAhead = memory.tryReserve(aheadBytes)
    expect(all.usedBytes).toBeLessThanOrEqual(32 * MIB)
    for (let i = 0; i < turns; i++) {
      await settled()
      leave(keptBytes)
    }
    leaveAhead?.()
    leave()
  }
}

const bounded = (list: readonly Visit[], mostBytes: number) =>
  list.map((each) => ({ ...each, bytes: Math.min(each.bytes, mostBytes) }))

/** Whether all of it ends; `meanwhile` once a turn. */
async function ends(work: readonly Promise<void>[], meanwhile = settled): Promise<boolean> {
  const looking = new AbortController()
  const turns = async () => {
    for (let i = 0; i < 500 && !looking.signal.aborted; i++) await meanwhile()
    return false
  }
  const ended = await Promise.race([Promise.all(work).then(() => true), turns()])
  looking.abort()
  return ended
}

const lists = fc.array(fc.array(visit, { maxLength: 6 }), { minLength: 1, maxLength: 6 })

it('every waiting request enters when those before it have left, whatever arrives, leaves and gives up in all parts', async () => {
  await fc.assert(
    fc.asyncProperty(lists, lists, lists, async (sinks, readers, old) => {
      const { all, reading, long, jobs, forSink } = openMemoryBudgets(sinks.length)
      const shares = sinks.map(forSink)
      const work = [
        ...sinks.map((list, i) => visits(shares[i] as MemoryBudget, all, list)),
        ...readers.map((list, i) => visits(i % 2 ? long : reading, all, bounded(list, 4 * MIB))),
        ...old.map((list) => visits(jobs, all, bounded(list, 4 * MIB))),
      ]
      expect(await ends(work)).toBe(true)
      expect([all, reading, long, jobs, ...shares].every(({ usedBytes }) => usedBytes === 0)).toBe(true)
    }),
    { numRuns: 300 },
  )
})

it('no sink ever waits for what fits its share, however large the others’ entries are', async () => {
  await fc.assert(
    fc.asyncProperty(lists, lists, fc.integer({ min: 1, max: 12 }), async (sinks, readers, more) => {
      const { all, reading, jobs, forSink } = openMemoryBudgets(sinks.length + more)
      const own = forSink()
      const work = [
        ...sinks.map((list) => visits(forSink(), all, list)),
        ...readers.map((list, i) => visits(i % 2 ? jobs : reading, all, bounded(list, 4 * MIB))),
      ]
      const ownTurn = async () => {
        const leave = own.tryReserve(own.capacityBytes)
        expect(leave).toBeDefined()
        await settled()
        leave?.()
      }
      expect(await ends(work, ownTurn)).toBe(true)
    }),
    { numRuns: 300 },
  )
})

it('requests that must measure first do so alone in all parts: one after the other, whatever becomes of the one before', async () => {
  const memory = new MemoryBudget(10)
  const parts = [new MemoryBudget(4, memory), new MemoryBudget(4, memory)] as const
  const seen: string[] = []
  const look = (name: string, fails: boolean) => async () => {
    seen.push(`${name} in`)
    await settled()
    seen.push(`${name} out`)
    if (fails) throw new Error(name)
    return name
  }
  const looks = [parts[0].oneByOne(look('a', true)), parts[1].oneByOne(look('b', false))]
  await expect(Promise.allSettled(looks)).resolves.toMatchObject([{ reason: new Error('a') }, { value: 'b' }])
  expect(seen).toEqual(['a in', 'a out', 'b in', 'b out'])
})
