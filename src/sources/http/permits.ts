// A request that several rate limiters count needs a permit of each: it takes all of them, or none.
import type { StreamReporter } from '../../contracts/reporter.ts'
import type { Priority } from '../../contracts/source.ts'
import { Tether } from '../../core/abort.ts'
import type { Clock } from '../../core/clock.ts'
import { SECOND_MS } from '../../core/time.ts'
import type { RateLimiter } from './rate-limiter.ts'

/** A request that waits for several rechecks this often: one may not count it any more. */
const RECHECK_MS = SECOND_MS

/** The methods of a rate limiter for requests, and for reports. */
export type RateLimiting = Pick<
  RateLimiter,
  'freeAt' | 'announce' | 'acquire' | 'limited' | 'limitedUntil' | 'used' | 'close'
>

export class JointRateLimiter implements RateLimiting {
  readonly #counting: () => readonly RateLimiter[]
  readonly #clock: Clock

  /** `counting`: the limiters that count a request now, several while a rotated key counts. */
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
    const free = ({ permits, allowed }: RateLimiter['used']) => allowed - permits
    const [least] = this.#counting()
      .map(({ used }) => used)
      .toSorted((a, b) => free(a) - free(b))
    return least ?? { permits: 0, live: 0, allowed: 0, limit: 0 }
  }

  /** As `RateLimiter.acquire`. Takes no permit while another limiter has none: others need it. */
  async acquire(priority: Priority, signal: AbortSignal, waiting?: () => void): Promise<() => void> {
    for (let onWait = waiting; ; onWait = undefined) {
      const counting = this.#counting()
      const [only, ...others] = counting
      if (only && others.length === 0) return only.acquire(priority, signal, onWait)
      await Promise.all(counting.map((rateLimiter) => rateLimiter.load()))
      const waitMs = Math.max(...counting.map((rateLimiter) => rateLimiter.waitMs(priority)))
      if (waitMs <= 0) return acquireAll(counting, priority, signal)
      onWait?.()
      // Otherwise requests that wait in only one limiter would take each permit first.
      for (const rateLimiter of counting) rateLimiter.announce(priority)
      await this.#clock.sleep(Math.min(waitMs, RECHECK_MS), signal)
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
async function acquireAll(
  rateLimiters: readonly RateLimiter[],
  priority: Priority,
  signal: AbortSignal,
): Promise<() => void> {
  const permits = await Promise.allSettled(
    rateLimiters.map((rateLimiter) => rateLimiter.acquire(priority, signal)),
  )
  const release = () => {
    for (const permit of permits) if (permit.status === 'fulfilled') permit.value()
  }
  const refused = permits.find((permit) => permit.status === 'rejected')
  if (!refused) return release
  release()
  throw refused.reason
}

// A permit of the limiter of the request's key: a waiting request checks whether the key changed.

const ROTATED = new Error('the key is another one')

interface PermitRequest {
  readonly rateLimiter: Pick<RateLimiting, 'acquire'>
  readonly clock: Pick<Clock, 'sleep'>
  readonly reporter: Pick<StreamReporter, 'state'>
  /** Reads the current key from its source. */
  readonly currentKey: () => string
  /** The key can change. */
  readonly mayRotate: boolean
}

/** A key that changes during the wait gets its own permit: the old key's 429 does not delay it. */
export async function takePermit(
  request: PermitRequest,
  priority: Priority,
  signal: AbortSignal,
): Promise<{ key: string; answered: () => void }> {
  const { rateLimiter, reporter, currentKey, mayRotate } = request
  for (;;) {
    const key = currentKey()
    const wait = new Tether(signal)
    const waiting = () => {
      reporter.state('waiting')
      if (mayRotate) void awaitKeyChange(request, key, wait)
    }
    try {
      const answered = await rateLimiter.acquire(priority, wait.signal, waiting)
      if (currentKey() === key) return { key, answered }
      answered()
    } catch (error) {
      if (error !== ROTATED) throw error
    } finally {
      wait.close()
    }
  }
}

async function awaitKeyChange(
  { clock, currentKey }: PermitRequest,
  key: string,
  wait: Tether,
): Promise<void> {
  const { signal } = wait
  do await clock.sleep(SECOND_MS, signal)
  while (!signal.aborted && currentKey() === key)
  // After the end of the wait the abort has no effect.
  wait.abort(ROTATED)
}
