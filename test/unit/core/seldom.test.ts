// What goes on for long is told at once, then as a sum, and nothing of it is left out.
import { expect, test } from 'vitest'
import { Seldom } from '../../../src/core/backoff.ts'

test('the first of it is told at once, however long nothing was before', () => {
  let now = 0
  const seldom = new Seldom(() => now, 1_000)
  expect(seldom.next(0)).toBe(0)
  expect(seldom.next(2)).toBe(2)
  now = 999
  expect([seldom.next(3), seldom.next(0)]).toEqual([0, 0])
  now = 1_000
  expect(seldom.next(4)).toBe(7)
  expect(seldom.rest()).toBe(0)
})

test('the rest can be asked for at any time, and counts as told', () => {
  let now = 0
  const seldom = new Seldom(() => now, 1_000)
  seldom.next(1)
  seldom.next(5)
  expect([seldom.rest(), seldom.rest()]).toEqual([5, 0])
  now = 999
  expect(seldom.next(1)).toBe(0)
})
