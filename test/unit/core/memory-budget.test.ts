// The process's allowance of held bytes: never more than there is, first come, first served.
import fc from 'fast-check'
import { expect, it } from 'vitest'
import { openMemoryBudgets, MemoryBudget } from '../../../src/core/memory-budget.ts'
import { settled } from '../../simulation/virtual-clock.ts'

const never = new AbortController().signal

it('whoever finds room is in at once, whoever does not waits for it', async () => {
  const memory = new MemoryBudget(10)
  const leave = await memory.enter(6, never)
  let inside = false
  const second = memory.enter(6, never).then((way) => {
    inside = true
    return way
  })
  await settled()
  expect([inside, memory.usedBytes]).toEqual([false, 6])
  leave()
  ;(await second)()
  expect(memory.usedBytes).toBe(0)
})

it('what asks for more than there is gets in alone', async () => {
  const memory = new MemoryBudget(10)
  const leave = await memory.enter(1_000, never)
  expect(memory.usedBytes).toBe(10)
  expect(memory.tryEnter(1)).toBeUndefined()
  leave()
  expect(memory.usedBytes).toBe(0)
})

it('a large one that waits is not overtaken by small ones', async () => {
  const memory = new MemoryBudget(10)
  const order: string[] = []
  const first = await memory.enter(8, never)
  const large = memory.enter(10, never).then((leave) => (order.push('large'), leave))
  const small = memory.enter(1, never).then((leave) => (order.push('small'), leave))
  expect(memory.tryEnter(1)).toBeUndefined()
  first()
  ;(await large)()
  ;(await small)()
  expect(order).toEqual(['large', 'small'])
})

it('one who gives up lets those behind him in', async () => {
  const memory = new MemoryBudget(10)
  await memory.enter(8, never)
  const leaving = new AbortController()
  const large = memory.enter(10, leaving.signal)
  const small = memory.enter(2, never)
  leaving.abort()
  await expect(large).rejects.toThrow()
  await small
  expect(memory.usedBytes).toBe(10)
})

it('an abort before entering holds nothing', async () => {
  const memory = new MemoryBudget(10)
  await expect(memory.enter(1, AbortSignal.abort())).rejects.toThrow()
  expect(memory.usedBytes).toBe(0)
})

it('a way out that is taken twice gives back once', async () => {
  const memory = new MemoryBudget(10)
  const leave = await memory.enter(4, never)
  await memory.enter(4, never)
  leave()
  leave()
  expect(memory.usedBytes).toBe(4)
})

it('who fills a part of a room leaves the rest to the others, and both count in it', async () => {
  const memory = new MemoryBudget(10)
  const readers = new MemoryBudget(6, memory)
  const leave = await readers.enter(6, never)
  expect([readers.tryEnter(1), memory.usedBytes]).toEqual([undefined, 6])
  const other = await memory.enter(4, never)
  expect(memory.usedBytes).toBe(10)
  leave()
  expect([readers.usedBytes, memory.usedBytes]).toEqual([0, 4])
  // What is more than the part holds takes nothing from the others.
  expect(readers.tryEnter(7)).toBeDefined()
  expect([readers.usedBytes, memory.usedBytes]).toEqual([6, 10])
  other()
  expect(memory.usedBytes).toBe(6)
})

it('a part of a room waits where the room itself is full, and one who gives up there holds neither', async () => {
  const memory = new MemoryBudget(10)
  const readers = new MemoryBudget(6, memory)
  const leave = await memory.enter(8, never)
  expect([readers.tryEnter(4), readers.usedBytes]).toEqual([undefined, 0])
  const leaving = new AbortController()
  const first = readers.enter(4, leaving.signal)
  const second = readers.enter(6, never)
  await settled()
  leaving.abort()
  await expect(first).rejects.toThrow()
  leave()
  ;(await second)()
  expect([readers.usedBytes, memory.usedBytes]).toEqual([0, 0])
})

const MIB = 2 ** 20

it('readers and sinks hold no more than 32 MiB together, and the sinks’ half of them no reader enters', async () => {
  const { all, reading, share } = openMemoryBudgets(2)
  const shares = [share(), share()]
  await reading.enter(16 * MIB, never)
  expect(reading.tryEnter(1)).toBeUndefined()
  for (const each of shares) expect(each.tryEnter(8 * MIB)).toBeDefined()
  expect([all.usedBytes, all.tryEnter(1)]).toEqual([32 * MIB, undefined])
})

it('each sink has an equal share, which nobody else enters: however many are full, its batch and the one looked ahead are in at once', () => {
  for (const sinks of [1, 2, 3, 4, 13, 100]) {
    const { all, reading, share } = openMemoryBudgets(sinks)
    const shares = Array.from({ length: sinks }, share)
    reading.tryEnter(16 * MIB)
    for (const each of shares) {
      const half = Math.floor(each.capacityBytes / 2)
      expect(half).toBeGreaterThanOrEqual(Math.floor((8 * MIB) / sinks) - 1)
      expect([each.tryEnter(half), each.tryEnter(half)]).not.toContain(undefined)
    }
    expect(all.usedBytes).toBeLessThanOrEqual(32 * MIB)
    expect(all.usedBytes).toBeGreaterThan(32 * MIB - 3 * sinks)
  }
})

it('what is larger than its share counts in full, fills it, and the rest of it stands beside what readers hold: of such 8 MiB', async () => {
  const { all, reading, past, share } = openMemoryBudgets(4)
  const shares = Array.from({ length: 4 }, share) as [MemoryBudget, MemoryBudget, MemoryBudget, MemoryBudget]
  await shares[0].enter(8 * MIB, never)
  expect([shares[0].freeBytes, all.usedBytes, reading.usedBytes]).toEqual([0, 8 * MIB, 4 * MIB])
  await shares[1].enter(8 * MIB, never)
  const third = shares[2].enter(5 * MIB, never)
  await settled()
  // It waits for one of its kind, and keeps nobody else waiting.
  expect(reading.usedBytes).toBe(8 * MIB)
  expect(reading.tryEnter(4 * MIB)).toBeDefined()
  expect(past.tryEnter(4 * MIB)).toBeDefined()
  const leave = shares[3].tryEnter(4 * MIB)
  expect(all.usedBytes).toBe(28 * MIB)
  leave?.()
  expect(shares[3].tryEnter(5 * MIB)).toBeUndefined()
  await expect(Promise.race([third, settled()])).resolves.toBeUndefined()
})

it('what is larger than a share and the readers’ part together waits for readers alone, and takes nothing from another sink’s share', async () => {
  const { all, reading, share } = openMemoryBudgets(4)
  const [one, other] = [share(), share()]
  const leaveReading = await reading.enter(MIB, never)
  const leaveOther = await other.enter(4 * MIB, never)
  let inside = false
  const large = one.enter(40 * MIB, never).then((leave) => ((inside = true), leave))
  await settled()
  expect(inside).toBe(false)
  leaveReading()
  const leave = await large
  expect([all.usedBytes, reading.tryEnter(1)]).toEqual([24 * MIB, undefined])
  leaveOther()
  expect(other.tryEnter(4 * MIB)).toBeDefined()
  leave()
  expect([all.usedBytes, reading.usedBytes, one.usedBytes]).toEqual([4 * MIB, 0, 0])
})

it('who lets go of a part keeps what is left of it, in its share before all: what is over goes to who waits', async () => {
  const { all, reading, share } = openMemoryBudgets(4)
  const one = share()
  const leave = await one.enter(32 * MIB, never)
  let inside = false
  const reader = reading.enter(4 * MIB, never).then((way) => ((inside = true), way))
  await settled()
  expect([inside, all.usedBytes]).toEqual([false, 20 * MIB])
  leave(16 * MIB)
  const leaveReader = await reader
  expect([one.usedBytes, reading.usedBytes, all.usedBytes]).toEqual([4 * MIB, 16 * MIB, 20 * MIB])
  // No more than before, whoever says so.
  leave(30 * MIB)
  leaveReader()
  expect([one.usedBytes, reading.usedBytes, all.usedBytes]).toEqual([4 * MIB, 12 * MIB, 16 * MIB])
  leave(3 * MIB)
  expect([one.usedBytes, reading.usedBytes, all.usedBytes]).toEqual([3 * MIB, 0, 3 * MIB])
  leave()
  leave()
  expect([one.usedBytes, reading.usedBytes, all.usedBytes]).toEqual([0, 0, 0])
})

it('what reads the past holds half of the readers’ room at most, and waits within it for no live reader', async () => {
  const { all, reading, past } = openMemoryBudgets(4)
  await past.enter(8 * MIB, never)
  expect(past.tryEnter(1)).toBeUndefined()
  await reading.enter(8 * MIB, never)
  expect([reading.tryEnter(1), all.usedBytes]).toEqual([undefined, 16 * MIB])
})

it('answers that stream for hours leave room for the audit log, and those of the past do not keep live ones out', async () => {
  const { all, reading, long, past } = openMemoryBudgets(4)
  for (let answers = 0; answers < 3; answers++) expect(long.tryEnter(4 * MIB)).toBeDefined()
  const waits = long.enter(4 * MIB, never)
  const old = past.enter(4 * MIB, never)
  await settled()
  const leave = reading.tryEnter(4 * MIB)
  expect([leave !== undefined, reading.tryEnter(1), all.usedBytes]).toEqual([true, undefined, 16 * MIB])
  leave?.()
  await expect(Promise.race([waits, old, settled()])).resolves.toBeUndefined()
})

it('what reads the past waits behind all others: a live reader that fits is in at once, and one that does not comes first', async () => {
  const { all, reading, past } = openMemoryBudgets(4)
  const order: string[] = []
  const leave = await reading.enter(10 * MIB, never)
  const old = past.enter(8 * MIB, never).then((way) => (order.push('past'), way))
  await settled()
  const small = await reading.enter(4 * MIB, never)
  const large = reading.enter(14 * MIB, never).then((way) => (order.push('live'), way))
  await settled()
  expect([reading.tryEnter(1), past.tryEnter(1), all.usedBytes]).toEqual([undefined, undefined, 14 * MIB])
  small()
  leave()
  ;(await large)()
  ;(await old)()
  expect(order).toEqual(['live', 'past'])
  expect([all.usedBytes, reading.usedBytes, past.usedBytes]).toEqual([0, 0, 0])
})

it('what reads the past keeps neither a live reader nor a sink waiting where something large has filled the room of all', async () => {
  const { all, reading, past } = openMemoryBudgets(4)
  const fill = await all.enter(27 * MIB, never)
  const leaving = new AbortController()
  const old = past.enter(8 * MIB, leaving.signal)
  await settled()
  const leave = await reading.enter(4 * MIB, never)
  expect([all.tryEnter(2 * MIB), all.usedBytes]).toEqual([undefined, 31 * MIB])
  expect(all.tryEnter(MIB)).toBeDefined()
  leaving.abort()
  await expect(old).rejects.toThrow()
  leave()
  fill()
  expect([all.usedBytes, reading.usedBytes, past.usedBytes]).toEqual([MIB, 0, 0])
})

it('whatever comes and goes, no more is held than there is, and in the end nothing', async () => {
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
            const entering = (inPart ? part : memory).enter(bytes, leaving.signal)
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

/** As a sink does: one batch after the other, each with what is looked ahead beside it where that fits. */
async function visits(memory: MemoryBudget, all: MemoryBudget, list: readonly Visit[]): Promise<void> {
  for (const { bytes, aheadBytes, keptBytes, turns, gone } of list) {
    const leaving = new AbortController()
    const entering = memory.enter(bytes, leaving.signal)
    if (gone) leaving.abort()
    const leave = await entering.catch(() => undefined)
    if (!leave) continue
    const leaveAhead = memory.tryEnter(aheadBytes)
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

/** Whether all of it comes to its end; `meanwhile` once a turn. */
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

it('whoever waits gets in when those before have left, whatever comes, goes and gives up in all parts', async () => {
  await fc.assert(
    fc.asyncProperty(lists, lists, lists, async (sinks, readers, old) => {
      const { all, reading, long, past, share } = openMemoryBudgets(sinks.length)
      const shares = sinks.map(share)
      const work = [
        ...sinks.map((list, i) => visits(shares[i] as MemoryBudget, all, list)),
        ...readers.map((list, i) => visits(i % 2 ? long : reading, all, bounded(list, 4 * MIB))),
        ...old.map((list) => visits(past, all, bounded(list, 4 * MIB))),
      ]
      expect(await ends(work)).toBe(true)
      expect([all, reading, long, past, ...shares].every(({ usedBytes }) => usedBytes === 0)).toBe(true)
    }),
    { numRuns: 300 },
  )
})

it('no sink ever waits for what fits its share, however large the others’ entries are', async () => {
  await fc.assert(
    fc.asyncProperty(lists, lists, fc.integer({ min: 1, max: 12 }), async (sinks, readers, more) => {
      const { all, reading, past, share } = openMemoryBudgets(sinks.length + more)
      const own = share()
      const work = [
        ...sinks.map((list) => visits(share(), all, list)),
        ...readers.map((list, i) => visits(i % 2 ? past : reading, all, bounded(list, 4 * MIB))),
      ]
      const ownTurn = async () => {
        const leave = own.tryEnter(own.capacityBytes)
        expect(leave).toBeDefined()
        await settled()
        leave?.()
      }
      expect(await ends(work, ownTurn)).toBe(true)
    }),
    { numRuns: 300 },
  )
})

it('who must look first looks alone in all parts of a room: one after the other, whatever becomes of the one before', async () => {
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
