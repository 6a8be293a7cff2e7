// A request that several rate limiters count needs a permit of each: it takes all of them, or none.
import type { StreamReporter } from '../../contracts/reporter.ts'
import type { Priority } from '../../contracts/source.ts'
import { Tether } from '../../core/abort.ts'
import type { Clock } from '../../core/clock.ts'
import { SECOND_MS } from '../../core/time.ts'
import type { RateLimiter } from './rate-limiter.ts'

/** A request that waits for several checks again this often: one of them may not count it any more. */
const LOOK_AGAIN_MS = SECOND_MS

/** The methods of a rate limiter for requests, and for reports. */
export type RateLimiting = Pick<
  RateLimiter,
  'freeAt' | 'announce' | 'enter' | 'limited' | 'limitedUntil' | 'used' | 'close'
>

export class JointRateLimiter implements RateLimiting {
  readonly #counting: () => readonly RateLimiter[]
  readonly #clock: Clock

  /** `counting` returns the limiters that count a request sent now: one, or more while a rotated key still counts. */
  constructor(counting: () => readonly RateLimiter[], clock: Clock) {
    this.#counting = counting
    this.#clock = clock
  }

  freeAt(priority: Priority): number {
    return Math.max(...this.#counting().map((rateLimiter) => rateLimiter.freeAt(priority)))
  }

  announce(priority: Priority): number {
    return Math.max(...this.#counting().map((rateLimiter) => rateLimiter.announce(priority)))
  }

  /** Of the one with the longest wait. */
  get limitedUntil(): number | undefined {
    const until = this.#counting().flatMap((rateLimiter) => rateLimiter.limitedUntil ?? [])
    return until.length > 0 ? Math.max(...until) : undefined
  }

  /** As used as the fullest of them. */
  get used(): RateLimiter['used'] {
    const free = ({ places, allowed }: RateLimiter['used']) => allowed - places
    const [least] = this.#counting()
      .map(({ used }) => used)
      .toSorted((a, b) => free(a) - free(b))
    return least ?? { places: 0, live: 0, allowed: 0, limit: 0 }
  }

  /** As `RateLimiter.enter`. While one of several has no permit, none of another is held, because others may share it. */
  async enter(priority: Priority, signal: AbortSignal, waiting?: () => void): Promise<() => void> {
    for (let tell = waiting; ; tell = undefined) {
      const counting = this.#counting()
      const [only, ...others] = counting
      if (only && others.length === 0) return only.enter(priority, signal, tell)
      await Promise.all(counting.map((rateLimiter) => rateLimiter.load()))
      const waitMs = Math.max(...counting.map((rateLimiter) => rateLimiter.waitMs(priority)))
      if (waitMs <= 0) return enterAll(counting, priority, signal)
      tell?.()
      // Otherwise requests that wait in one limiter only would take each permit before all have one.
      for (const rateLimiter of counting) rateLimiter.announce(priority)
      await this.#clock.sleep(Math.min(waitMs, LOOK_AGAIN_MS), signal)
      signal.throwIfAborted()
    }
  }

  async limited(retryAfterMs: number | undefined): Promise<void> {
    await Promise.all(this.#counting().map((rateLimiter) => rateLimiter.limited(retryAfterMs)))
  }

  async close(): Promise<void> {
    await Promise.all(this.#counting().map((rateLimiter) => rateLimiter.close()))
  }
}

/** If each has a free permit, all are taken before other code runs. */
async function enterAll(
  rateLimiters: readonly RateLimiter[],
  priority: Priority,
  signal: AbortSignal,
): Promise<() => void> {
  const places = await Promise.allSettled(
    rateLimiters.map((rateLimiter) => rateLimiter.enter(priority, signal)),
  )
  const leave = () => {
    for (const place of places) if (place.status === 'fulfilled') place.value()
  }
  const refused = places.find((place) => place.status === 'rejected')
  if (!refused) return leave
  leave()
  throw refused.reason
}

// A permit of the limiter for the key of the request: a waiting request checks whether the key has changed.

const ROTATED = new Error('the key is another one')

interface PermitRequest {
  readonly rateLimiter: Pick<RateLimiting, 'enter'>
  readonly clock: Pick<Clock, 'sleep'>
  readonly reporter: Pick<StreamReporter, 'state'>
  /** Reads the current key from its source. */
  readonly keyNow: () => string
  /** The key can change. */
  readonly mayRotate: boolean
}

/** If the key changes during the wait, takes a permit of the new key: a 429 of the old key does not delay the new one. */
export async function takePermit(
  placing: PermitRequest,
  priority: Priority,
  signal: AbortSignal,
): Promise<{ key: string; answered: () => void }> {
  const { rateLimiter, reporter, keyNow, mayRotate } = placing
  for (;;) {
    const key = keyNow()
    const wait = new Tether(signal)
    const waiting = () => {
      reporter.state('waiting')
      if (mayRotate) void lookOut(placing, key, wait)
    }
    try {
      const answered = await rateLimiter.enter(priority, wait.signal, waiting)
      if (keyNow() === key) return { key, answered }
      answered()
    } catch (error) {
      if (error !== ROTATED) throw error
    } finally {
      wait.close()
    }
  }
}

async function lookOut({ clock, keyNow }: PermitRequest, key: string, wait: Tether): Promise<void> {
  const { signal } = wait
  do await clock.sleep(SECOND_MS, signal)
  while (!signal.aborted && keyNow() === key)
  // After the end of the wait the abort has no effect.
  wait.abort(ROTATED)
}
