// How often a failure is told, and how long a row of them is.
import { expect, it } from 'vitest'
import { ConnectorError } from '../../../src/model/errors.ts'
import { Streak } from '../../../src/model/streak.ts'

const held = new ConnectorError('misconfigured', 'no')
const MINUTE = 60_000

it('a failure is told the 1st, 2nd, 4th, 8th time, also where something succeeds in between', () => {
  for (const between of [false, true]) {
    let now = 0
    const streak = new Streak(() => now)
    const told: number[] = []
    for (let i = 1; i <= 20; i++) {
      const { count, tell } = streak.next(held)
      expect(count).toBe(between ? 1 : i)
      if (tell) told.push(i)
      if (between) streak.succeeded()
      now += 7_000
    }
    expect(told).toEqual([1, 2, 4, 8, 16])
  }
})

it('a success is worth telling where a failure before it was told', () => {
  const streak = new Streak(() => 0)
  expect(streak.succeeded()).toBe(false)
  streak.next(held)
  streak.next(held)
  expect([streak.succeeded(), streak.succeeded()]).toEqual([true, false])
  // The third failure is not told, and so its end is not.
  expect(streak.next(held).tell).toBe(false)
  expect(streak.succeeded()).toBe(false)
})

it('another code is news, and so is one that did not come for ten minutes', () => {
  let now = 0
  const streak = new Streak(() => now)
  for (let i = 0; i < 3; i++) streak.next(held)
  expect(streak.next(new ConnectorError('timeout', 'late'))).toEqual({ count: 1, tell: true })
  expect(streak.next(held)).toEqual({ count: 1, tell: true })
  expect(streak.next(held).tell).toBe(false)
  now += 10 * MINUTE
  expect(streak.next(held).tell).toBe(true)
})
