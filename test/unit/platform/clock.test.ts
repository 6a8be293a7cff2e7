// The real clock keeps the promises of the clock's contract.
import { describe, expect, it } from 'vitest'
import { systemClock, systemRandom } from '../../../src/platform/clock.ts'

describe('the system clock', () => {
  it('sleeps at least as long as asked', async () => {
    const from = systemClock.elapsed()
    await systemClock.sleep(20)
    expect(systemClock.elapsed() - from).toBeGreaterThanOrEqual(18)
  })

  it('an abort ends a sleep at once and is no error', async () => {
    const controller = new AbortController()
    const slept = systemClock.sleep(60_000, controller.signal)
    controller.abort()
    await slept
    await systemClock.sleep(60_000, controller.signal)
  })

  it('a sleep longer than a timer can hold does not end at once', async () => {
    const controller = new AbortController()
    let over = false
    const slept = systemClock.sleep(2 ** 33, controller.signal).then(() => (over = true))
    await systemClock.sleep(20)
    expect(over).toBe(false)
    controller.abort()
    await slept
  })

  it('leaves no listener behind on a signal that outlives the sleep', async () => {
    const { signal } = new AbortController()
    let listeners = 0
    const add = signal.addEventListener.bind(signal)
    const remove = signal.removeEventListener.bind(signal)
    signal.addEventListener = (...args: Parameters<typeof add>) => {
      listeners++
      add(...args)
    }
    signal.removeEventListener = (...args: Parameters<typeof remove>) => {
      listeners--
      remove(...args)
    }
    for (let i = 0; i < 3; i++) await systemClock.sleep(1, signal)
    expect(listeners).toBe(0)
  })

  it('randomness is in [0, 1)', () => {
    for (let i = 0; i < 100; i++) {
      const value = systemRandom()
      expect(value >= 0 && value < 1).toBe(true)
    }
  })
})
