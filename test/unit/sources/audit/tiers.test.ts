// Polling intervals and page sizes: the documented tiers, and `auto` between them.
import fc from 'fast-check'
import { expect, it } from 'vitest'
import { paceOf, smoothRate } from '../../../../src/sources/audit/step.ts'

const MINUTE = 60_000

it('the tiers are the documented ones', () => {
  expect(paceOf('high', undefined, 0)).toEqual({ intervalMs: 5 * MINUTE, take: 1000 })
  expect(paceOf('medium', undefined, 0)).toEqual({ intervalMs: 15 * MINUTE, take: 500 })
  expect(paceOf('low', undefined, 0)).toEqual({ intervalMs: 60 * MINUTE, take: 100 })
})

it('a configured interval overrides the tier’s, its take stays', () => {
  expect(paceOf('low', 30_000, 0)).toEqual({ intervalMs: 30_000, take: 100 })
})

it("`auto` takes the slowest tier whose page holds twice an interval's entries", () => {
  fc.assert(
    fc.property(fc.double({ min: 0, max: 1e6, noNaN: true }), (perHour) => {
      const pace = paceOf('auto', undefined, perHour)
      const holds = ({ intervalMs, take }: typeof pace) => (perHour * intervalMs) / 3_600_000 <= take / 2
      const low = paceOf('low', undefined, 0)
      const medium = paceOf('medium', undefined, 0)
      const wanted = holds(low) ? low : holds(medium) ? medium : paceOf('high', undefined, 0)
      expect(pace).toEqual(wanted)
    }),
  )
})

it('a rate follows a lasting change, not a single burst', () => {
  const quiet = smoothRate(0, 10, 3_600_000)
  const burst = smoothRate(quiet, 1_000, 3_600_000)
  expect(burst).toBeLessThan(300)
  let rate = burst
  for (let i = 0; i < 20; i++) rate = smoothRate(rate, 1_000, 3_600_000)
  expect(rate).toBeGreaterThan(950)
})

it('without elapsed time the rate stays unknown', () => {
  expect(smoothRate(7, 100, 0)).toBe(7)
  expect(smoothRate(7, 100, -5)).toBe(7)
})
