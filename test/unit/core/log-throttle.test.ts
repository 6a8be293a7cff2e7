// A long-lasting condition is logged at once, then as a sum, and nothing is left out of it.
import { expect, test } from 'vitest'
import { LogThrottle } from '../../../src/core/backoff.ts'

test('the first occurrence is logged at once, however long nothing was before', () => {
  let now = 0
  const throttle = new LogThrottle(() => now, 1_000)
  expect(throttle.next(0)).toBe(0)
  expect(throttle.next(2)).toBe(2)
  now = 999
  expect([throttle.next(3), throttle.next(0)]).toEqual([0, 0])
  now = 1_000
  expect(throttle.next(4)).toBe(7)
  expect(throttle.rest()).toBe(0)
})

test('the rest can be asked for at any time, and then counts as logged', () => {
  let now = 0
  const throttle = new LogThrottle(() => now, 1_000)
  throttle.next(1)
  throttle.next(5)
  expect([throttle.rest(), throttle.rest()]).toEqual([5, 0])
  now = 999
  expect(throttle.next(1)).toBe(0)
})
