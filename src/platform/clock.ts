// The real clock and randomness: the only place that reads either from the machine.
import { performance } from 'node:perf_hooks'
import type { Clock, Random } from '../core/clock.ts'

/** A timer of more than 2^31 − 1 ms would fire at once: longer sleeps are split. */
const MAX_TIMER_MS = 2 ** 31 - 1

/** True if it slept to its end. */
function sleepPiece(ms: number, signal: AbortSignal | undefined): Promise<boolean> {
  return new Promise((resolve) => {
    const stop = () => {
      clearTimeout(timer)
      resolve(false)
    }
    const timer = setTimeout(() => {
      signal?.removeEventListener('abort', stop)
      resolve(true)
    }, ms)
    signal?.addEventListener('abort', stop, { once: true })
  })
}

export const systemClock: Clock = {
  now: () => Date.now(),
  elapsed: () => performance.now(),
  async sleep(ms, signal) {
    for (let leftMs = Math.max(0, ms); ; leftMs -= MAX_TIMER_MS) {
      if (signal?.aborted === true) return
      const completed = await sleepPiece(Math.min(leftMs, MAX_TIMER_MS), signal)
      if (!completed || leftMs <= MAX_TIMER_MS) return
    }
  },
}

export const systemRandom: Random = () => Math.random()
