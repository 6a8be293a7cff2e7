// Wakes all parts that wait because a key was refused: the first success with that key ends their
// wait.
import type { Clock } from './clock.ts'

/** How a part of the program waits for its key. */
export interface KeyWait {
  /** Resolves after `ms`, when the signal aborts, or when another part succeeds with this key. */
  sleep(ms: number, signal: AbortSignal): Promise<void>
  /** Call at the first success after a refusal. */
  accepted(): void
}

export class KeyWaits {
  readonly #clock: Pick<Clock, 'sleep'>
  readonly #waiting = new Map<AbortController, () => string>()

  constructor(clock: Pick<Clock, 'sleep'>) {
    this.#clock = clock
  }

  /** `key`: the credential and destination of the next request. */
  of(key: () => string): KeyWait {
    return {
      sleep: async (ms, signal) => {
        const woken = new AbortController()
        this.#waiting.set(woken, key)
        try {
          await this.#clock.sleep(ms, AbortSignal.any([signal, woken.signal]))
        } finally {
          this.#waiting.delete(woken)
        }
      },
      accepted: () => {
        const good = key()
        for (const [woken, other] of this.#waiting) if (other() === good) woken.abort()
      },
    }
  }
}
