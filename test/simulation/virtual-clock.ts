// A clock that moves only on demand, from one sleeper to the next.
import type { Clock } from '../../src/core/clock.ts'

interface Sleeper {
  readonly at: number
  readonly order: number
  wake(): void
}

export class VirtualClock implements Clock {
  #now: number
  #order = 0
  #sleepers: Sleeper[] = []

  constructor(startAt: number) {
    this.#now = startAt
  }

  now(): number {
    return this.#now
  }

  elapsed(): number {
    return this.#now
  }

  sleep(ms: number, signal?: AbortSignal): Promise<void> {
    if (signal?.aborted) return Promise.resolve()
    return new Promise((resolve) => {
      const over = () => {
        signal?.removeEventListener('abort', leave)
        resolve()
      }
      const leave = () => {
        this.#sleepers.splice(this.#sleepers.indexOf(sleeper), 1)
        over()
      }
      const sleeper: Sleeper = {
        at: this.#now + Math.max(0, Math.ceil(ms)),
        order: this.#order++,
        wake: over,
      }
      signal?.addEventListener('abort', leave, { once: true })
      const before = this.#sleepers.findIndex((other) => other.at > sleeper.at)
      this.#sleepers.splice(before < 0 ? this.#sleepers.length : before, 0, sleeper)
    })
  }

  /** Wakes the next sleeper at or before `until`; false, and the clock at `until`, when there is none. If `until` is never, it stays. */
  advance(until: number): boolean {
    const next = this.#sleepers[0]
    if (!next || next.at > until) {
      if (until !== Infinity) this.#now = Math.max(this.#now, until)
      return false
    }
    this.#sleepers.shift()
    this.#now = Math.max(this.#now, next.at)
    next.wake()
    return true
  }
}

/** All that can happen at this instant has happened. */
export function settled(): Promise<void> {
  return new Promise((resolve) => {
    setImmediate(resolve)
  })
}
