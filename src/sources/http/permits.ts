// What a request has to pass where several budgets count it: it has a place in each of them, or in none.
import type { SourceWatch } from '../../contracts/reporter.ts'
import type { Lane } from '../../contracts/source.ts'
import { Tether } from '../../core/abort.ts'
import type { Clock } from '../../core/clock.ts'
import { SECOND_MS } from '../../core/time.ts'
import type { Budget } from './rate-limiter.ts'

/** Who waits for several looks again this often: one of them may count no more by then. */
const LOOK_AGAIN_MS = SECOND_MS

/** What is asked of a budget by those who send requests under it, and by those who tell of it. */
export type Budgeting = Pick<
  Budget,
  'freeAt' | 'announce' | 'enter' | 'limited' | 'limitedUntil' | 'used' | 'close'
>

export class JointBudget implements Budgeting {
  readonly #counting: () => readonly Budget[]
  readonly #clock: Clock

  /** `counting` has those that count a request that is sent now: one, or more for as long as a rotated key still counts. */
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

  /** Of the one that waits longest. */
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

  /** As to `Budget.enter`. While one of several has no place none of another is held: it may be somebody else's too. */
  async enter(lane: Lane, signal: AbortSignal, waiting?: () => void): Promise<() => void> {
    for (let tell = waiting; ; tell = undefined) {
      const counting = this.#counting()
      const [only, ...others] = counting
      if (only && others.length === 0) return only.enter(lane, signal, tell)
      await Promise.all(counting.map((budget) => budget.load()))
      const waitMs = Math.max(...counting.map((budget) => budget.waitMs(lane)))
      if (waitMs <= 0) return enterAll(counting, lane, signal)
      tell?.()
      // Those who wait in one of them alone would else take each permit before all have one.
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

/** Where each has a place free: all are taken before anybody else runs. */
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

// A place in the budget of the key that a request goes out with: whoever waits for one looks whether the key is another one by now.

const ROTATED = new Error('the key is another one')

interface Placing {
  readonly budget: Pick<Budgeting, 'enter'>
  readonly clock: Pick<Clock, 'sleep'>
  readonly watch: Pick<SourceWatch, 'state'>
  /** Looks where the key comes from, and says what it is now. */
  readonly keyNow: () => string
  /** It can become another one. */
  readonly mayRotate: boolean
}

/** A key that changes during the wait takes a place anew: a 429 of the one before is not waited out by a budget that does not know it. */
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
  // Where the wait is over already nobody hears it.
  wait.abort(ROTATED)
}
