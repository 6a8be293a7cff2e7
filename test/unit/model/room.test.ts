// The process's allowance of held bytes: never more than there is, first come, first served.
import fc from 'fast-check'
import { expect, it } from 'vitest'
import { openRooms, Room } from '../../../src/model/room.ts'
import { settled } from '../../simulation/virtual-clock.ts'

const never = new AbortController().signal

it('whoever finds room is in at once, whoever does not waits for it', async () => {
  const room = new Room(10)
  const leave = await room.enter(6, never)
  let inside = false
  const second = room.enter(6, never).then((way) => {
    inside = true
    return way
  })
  await settled()
  expect([inside, room.heldBytes]).toEqual([false, 6])
  leave()
  ;(await second)()
  expect(room.heldBytes).toBe(0)
})

it('what asks for more than there is gets in alone', async () => {
  const room = new Room(10)
  const leave = await room.enter(1_000, never)
  expect(room.heldBytes).toBe(10)
  expect(room.tryEnter(1)).toBeUndefined()
  leave()
  expect(room.heldBytes).toBe(0)
})

it('a large one that waits is not overtaken by small ones', async () => {
  const room = new Room(10)
  const order: string[] = []
  const first = await room.enter(8, never)
  const large = room.enter(10, never).then((leave) => (order.push('large'), leave))
  const small = room.enter(1, never).then((leave) => (order.push('small'), leave))
  expect(room.tryEnter(1)).toBeUndefined()
  first()
  ;(await large)()
  ;(await small)()
  expect(order).toEqual(['large', 'small'])
})

it('one who gives up lets those behind him in', async () => {
  const room = new Room(10)
  await room.enter(8, never)
  const leaving = new AbortController()
  const large = room.enter(10, leaving.signal)
  const small = room.enter(2, never)
  leaving.abort()
  await expect(large).rejects.toThrow()
  await small
  expect(room.heldBytes).toBe(10)
})

it('an abort before entering holds nothing', async () => {
  const room = new Room(10)
  await expect(room.enter(1, AbortSignal.abort())).rejects.toThrow()
  expect(room.heldBytes).toBe(0)
})

it('a way out that is taken twice gives back once', async () => {
  const room = new Room(10)
  const leave = await room.enter(4, never)
  await room.enter(4, never)
  leave()
  leave()
  expect(room.heldBytes).toBe(4)
})

it('who fills a part of a room leaves the rest to the others, and both count in it', async () => {
  const room = new Room(10)
  const readers = new Room(6, room)
  const leave = await readers.enter(6, never)
  expect([readers.tryEnter(1), room.heldBytes]).toEqual([undefined, 6])
  const other = await room.enter(4, never)
  expect(room.heldBytes).toBe(10)
  leave()
  expect([readers.heldBytes, room.heldBytes]).toEqual([0, 4])
  expect(readers.tryEnter(7)).toBeDefined()
  other()
  expect([readers.heldBytes, room.heldBytes]).toEqual([6, 6])
})

it('a part of a room waits where the room itself is full, and one who gives up there holds neither', async () => {
  const room = new Room(10)
  const readers = new Room(6, room)
  const leave = await room.enter(8, never)
  expect([readers.tryEnter(4), readers.heldBytes]).toEqual([undefined, 0])
  const leaving = new AbortController()
  const first = readers.enter(4, leaving.signal)
  const second = readers.enter(6, never)
  await settled()
  leaving.abort()
  await expect(first).rejects.toThrow()
  leave()
  ;(await second)()
  expect([readers.heldBytes, room.heldBytes]).toEqual([0, 0])
})

it('readers and sinks hold no more than 32 MiB together, and 8 of them no reader enters', async () => {
  const { all, reading } = openRooms()
  await reading.enter(24 * 2 ** 20, never)
  expect(reading.tryEnter(1)).toBeUndefined()
  await all.enter(8 * 2 ** 20, never)
  expect([all.heldBytes, all.tryEnter(1)]).toEqual([32 * 2 ** 20, undefined])
})

it('what reads the past holds half of the readers’ room at most, and waits within it for no live reader', async () => {
  const { all, reading, past } = openRooms()
  await past.enter(12 * 2 ** 20, never)
  expect(past.tryEnter(1)).toBeUndefined()
  await reading.enter(12 * 2 ** 20, never)
  expect([reading.tryEnter(1), all.heldBytes]).toEqual([undefined, 24 * 2 ** 20])
})

it('what reads the past waits behind all others: a live reader that fits is in at once, and one that does not comes first', async () => {
  const { all, reading, past } = openRooms()
  const mib = 2 ** 20
  const order: string[] = []
  const leave = await reading.enter(18 * mib, never)
  const old = past.enter(8 * mib, never).then((way) => (order.push('past'), way))
  await settled()
  const small = await reading.enter(4 * mib, never)
  const large = reading.enter(20 * mib, never).then((way) => (order.push('live'), way))
  await settled()
  expect([reading.tryEnter(1), past.tryEnter(1), all.heldBytes]).toEqual([undefined, undefined, 22 * mib])
  small()
  leave()
  ;(await large)()
  ;(await old)()
  expect(order).toEqual(['live', 'past'])
  expect([all.heldBytes, reading.heldBytes, past.heldBytes]).toEqual([0, 0, 0])
})

it('what reads the past keeps neither a live reader nor a sink waiting where sinks have filled the room of all', async () => {
  const { all, reading, past } = openRooms()
  const mib = 2 ** 20
  await all.enter(27 * mib, never)
  const leaving = new AbortController()
  const old = past.enter(8 * mib, leaving.signal)
  await settled()
  const leave = await reading.enter(4 * mib, never)
  expect([all.tryEnter(2 * mib), all.heldBytes]).toEqual([undefined, 31 * mib])
  expect(all.tryEnter(mib)).toBeDefined()
  leaving.abort()
  await expect(old).rejects.toThrow()
  leave()
  expect([all.heldBytes, reading.heldBytes, past.heldBytes]).toEqual([28 * mib, 0, 0])
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
        const room = new Room(20)
        const part = new Room(12, room, 'behind')
        await Promise.all(
          visits.map(async ({ bytes, turns, gone, inPart }) => {
            const leaving = new AbortController()
            const entering = (inPart ? part : room).enter(bytes, leaving.signal)
            if (gone) leaving.abort()
            try {
              const leave = await entering
              expect(room.heldBytes).toBeLessThanOrEqual(20)
              expect(part.heldBytes).toBeLessThanOrEqual(12)
              for (let i = 0; i < turns; i++) await settled()
              leave()
            } catch (error) {
              if (!gone) throw error
            }
          }),
        )
        expect([room.heldBytes, part.heldBytes]).toEqual([0, 0])
      },
    ),
  )
})

it('who must look first looks alone: one after the other, whatever becomes of the one before', async () => {
  const room = new Room(10)
  const seen: string[] = []
  const look = (name: string, fails: boolean) => async () => {
    seen.push(`${name} in`)
    await settled()
    seen.push(`${name} out`)
    if (fails) throw new Error(name)
    return name
  }
  const looks = [room.oneByOne(look('a', true)), room.oneByOne(look('b', false))]
  await expect(Promise.allSettled(looks)).resolves.toMatchObject([{ reason: new Error('a') }, { value: 'b' }])
  expect(seen).toEqual(['a in', 'a out', 'b in', 'b out'])
})
