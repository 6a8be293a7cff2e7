// Waits with an end, and plans of a clock that was set back.
import fc from 'fast-check'
import { expect, it } from 'vitest'
import { believed, within } from '../../../src/core/clock.ts'
import { settled, VirtualClock } from '../../simulation/virtual-clock.ts'

it('a plan is due at its time, and never further off than its span', () => {
  const at = fc.integer({ min: -1_000, max: 1_000 })
  fc.assert(
    fc.property(at, fc.nat(500), at, (dueAt, spanMs, now) => {
      expect(believed(dueAt, spanMs, now)).toBe(dueAt - now <= spanMs ? dueAt : now)
    }),
  )
})

it('work that ends in time returns or throws as it does, and leaves no timer', async () => {
  const clock = new VirtualClock(0)
  expect(await within(1_000, clock, Promise.resolve('done'))).toBe('done')
  await expect(within(1_000, clock, Promise.reject(new Error('broken')))).rejects.toThrow('broken')
  expect(clock.advance(1_000)).toBe(false)
})

it('work that takes longer is not waited for', async () => {
  const clock = new VirtualClock(0)
  const answer = within(1_000, clock, new Promise<string>(() => undefined))
  await settled()
  expect(clock.advance(1_000)).toBe(true)
  expect(await answer).toBeUndefined()
})
