// The hour in memory: every count is in its step, and a step is never counted twice.
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { openLastHour } from '../../../src/observability/recent.ts'
import { testClock } from './registry-setup.ts'

function open() {
  const clock = testClock()
  const pending = { entries: 0 }
  return { clock, pending, lastHour: openLastHour(clock, () => pending.entries) }
}

describe('the last hour', () => {
  it('begins with one step and grows with time', () => {
    const { clock, lastHour } = open()
    lastHour.arrived(5)
    expect(lastHour.status()).toEqual({ step_seconds: 30, read: [5], delivered: [0], pending: [0] })
    clock.pass(30_000)
    lastHour.accepted(3)
    expect(lastHour.status()).toMatchObject({ read: [5, 0], delivered: [0, 3] })
  })

  it('keeps an hour and no more', () => {
    const { clock, lastHour } = open()
    lastHour.arrived(7)
    clock.pass(119 * 30_000)
    expect(lastHour.status().read).toEqual([7, ...Array<number>(119).fill(0)])
    clock.pass(30_000)
    expect(lastHour.status().read).toEqual(Array<number>(120).fill(0))
  })

  it('pending entries stay pending through steps in which nothing happens', () => {
    const { clock, pending, lastHour } = open()
    pending.entries = 9
    clock.pass(90_000)
    expect(lastHour.status().pending).toEqual([9, 9, 9, 9])
    pending.entries = 0
    expect(lastHour.status().pending).toEqual([9, 9, 9, 0])
  })

  it('a day of silence leaves nothing of yesterday', () => {
    const { clock, pending, lastHour } = open()
    lastHour.arrived(1)
    pending.entries = 4
    clock.pass(86_400_000)
    const { read, pending: levels } = lastHour.status()
    expect(read).toEqual(Array<number>(120).fill(0))
    expect(levels).toEqual(Array<number>(120).fill(4))
  })

  it('every count within the hour is there, once', () => {
    const event = fc.record({
      after: fc.integer({ min: 0, max: 200_000 }),
      count: fc.integer({ min: 0, max: 999 }),
    })
    fc.assert(
      fc.property(fc.array(event, { maxLength: 100 }), (events) => {
        const { clock, lastHour } = open()
        let elapsed = 0
        const reported = events.map(({ after, count }) => {
          clock.pass(after)
          elapsed += after
          lastHour.arrived(count)
          return { step: Math.floor(elapsed / 30_000), count }
        })
        const first = Math.floor(elapsed / 30_000) - 119
        const expected = reported
          .filter(({ step }) => step >= first)
          .reduce((sum, { count }) => sum + count, 0)
        expect(lastHour.status().read.reduce((sum, count) => sum + count, 0)).toBe(expected)
      }),
    )
  })
})
