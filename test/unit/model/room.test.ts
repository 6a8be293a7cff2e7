// The process's allowance of held bytes: never more than there is, first come, first served.
import fc from 'fast-check'
import { expect, it } from 'vitest'
import { Room } from '../../../src/model/room.ts'
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

it('whatever comes and goes, no more is held than there is, and in the end nothing', async () => {
  await fc.assert(
    fc.asyncProperty(
      fc.array(fc.record({ bytes: fc.integer({ min: 0, max: 30 }), turns: fc.nat(4), gone: fc.boolean() })),
      async (visits) => {
        const room = new Room(20)
        await Promise.all(
          visits.map(async ({ bytes, turns, gone }) => {
            const leaving = new AbortController()
            const entering = room.enter(bytes, leaving.signal)
            if (gone) leaving.abort()
            try {
              const leave = await entering
              expect(room.heldBytes).toBeLessThanOrEqual(20)
              for (let i = 0; i < turns; i++) await settled()
              leave()
            } catch (error) {
              if (!gone) throw error
            }
          }),
        )
        expect(room.heldBytes).toBe(0)
      },
    ),
  )
})
