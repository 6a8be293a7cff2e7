// A request that several rate limiters count needs a permit of each: it takes all of them, or none.
import type { SourceWatch } from '../../contracts/reporter.ts'
import type { Lane } from '../../contracts/source.ts'
import { Tether } from '../../core/abort.ts'
import type { Clock } from '../../core/clock.ts'
import { SECOND_MS } from '../../core/time.ts'
import type { Budget } from './rate-limiter.ts'

/** A request that waits for several checks again this often: one of them may not count it any more. */
const LOOK_AGAIN_MS = SECOND_MS

/** The methods of a rate limiter for requests, and for reports. */
export type Budgeting = Pick<
  Budget,
  'freeAt' | 'announce' | 'enter' | 'limited' | 'limitedUntil' | 'used' | 'close'
>

export class JointBudget implements Budgeting {
  readonly #counting: () => readonly Budget[]
  readonly #clock: Clock

  /** `counting` returns the limiters that count a request sent now: one, or more while a rotated key still counts. */
  constructor(counting: () => readonly Budget[], clock: Clock) {
    this.#counting = counting
    this.#clock = clock
  }

  freeAt(lane: Lane): number {
    return Math.max(...this.#counting().map((budget) => budget.freeAt(lane)))
  }

  announce(lane: Lane): number {
    return Math.max(...this.#counting().map((budget) => budget.announce(lane)))
  }

  /** Of the one with the longest wait. */
  get limitedUntil(): number | undefined {
    const until = this.#counting().flatMap((budget) => budget.limitedUntil ?? [])
    return until.length > 0 ? Math.max(...until) : undefined
  }

  /** As used as the fullest of them. */
  get used(): Budget['used'] {
    const free = ({ places, allowed }: Budget['used']) => allowed - places
    const [least] = this.#counting()
      .map(({ used }) => used)
      .toSorted((a, b) => free(a) - free(b))
    return least ?? { places: 0, live: 0, allowed: 0, limit: 0 }
  }

  /** As `Budget.enter`. While one of several has no permit, none of another is held, because others may share it. */
  async enter(lane: Lane, signal: AbortSignal, waiting?: () => void): Promise<() => void> {
    for (let tell = waiting; ; tell = undefined) {
      const counting = this.#counting()
      const [only, ...others] = counting
      if (only && others.length === 0) return only.enter(lane, signal, tell)
      await Promise.all(counting.map((budget) => budget.load()))
      const waitMs = Math.max(...counting.map((budget) => budget.waitMs(lane)))
      if (waitMs <= 0) return enterAll(counting, lane, signal)
      tell?.()
      // Otherwise requests that wait in one limiter only would take each permit before all have one.
      for (const budget of counting) budget.announce(lane)
      await this.#clock.sleep(Math.min(waitMs, LOOK_AGAIN_MS), signal)
      signal.throwIfAborted()
    }
  }

  async limited(retryAfterMs: number | undefined): Promise<void> {
    await Promise.all(this.#counting().map((budget) => budget.limited(retryAfterMs)))
  }

  async close(): Promise<void> {
    await Promise.all(this.#counting().map((budget) => budget.close()))
  }
}

/** If each has a free permit, all are taken before other code runs. */
async function enterAll(budgets: readonly Budget[], lane: Lane, signal: AbortSignal): Promise<() => void> {
  const places = await Promise.allSettled(budgets.map((budget) => budget.enter(lane, signal)))
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

interface Placing {
  readonly budget: Pick<Budgeting, 'enter'>
  readonly clock: Pick<Clock, 'sleep'>
  readonly watch: Pick<SourceWatch, 'state'>
  /** Reads the current key from its source. */
  readonly keyNow: () => string
  /** The key can change. */
  readonly mayRotate: boolean
}

/** If the key changes during the wait, takes a permit of the new key: a 429 of the old key does not delay the new one. */
export async function takePlace(
  placing: Placing,
  lane: Lane,
  signal: AbortSignal,
): Promise<{ key: string; answered: () => void }> {
  const { budget, watch, keyNow, mayRotate } = placing
  for (;;) {
    const key = keyNow()
    const wait = new Tether(signal)
    const waiting = () => {
      watch.state('waiting')
      if (mayRotate) void lookOut(placing, key, wait)
    }
    try {
      const answered = await budget.enter(lane, wait.signal, waiting)
      if (keyNow() === key) return { key, answered }
      answered()
    } catch (error) {
      if (error !== ROTATED) throw error
    } finally {
      wait.close()
    }
  }
}

async function lookOut({ clock, keyNow }: Placing, key: string, wait: Tether): Promise<void> {
  const { signal } = wait
  do await clock.sleep(SECOND_MS, signal)
  while (!signal.aborted && keyNow() === key)
  // After the end of the wait the abort has no effect.
  wait.abort(ROTATED)
}
