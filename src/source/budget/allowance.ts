// How much of its limit a budget allows itself: less after a 429, growing back while none comes. All times are ms of the clock that only runs.
import { MINUTE_MS } from '../../model/time.ts'
import type { StoredBudget } from './stored.ts'

/** So long without a 429, and what we allow ourselves grows back by a tenth of the limit. */
const RECOVERY_MS = 5 * MINUTE_MS
/** What a 429 leaves of it. */
const LEFT = 0.75

export class Allowance {
  readonly #limit: () => number
  /** undefined: all of the limit, whatever that is by then */
  #lowered: number | undefined
  #changedAt = 0

  /** `limit` may change with who shares the budget. */
  constructor(limit: () => number) {
    this.#limit = limit
  }

  at(now: number): number {
    const limit = this.#limit()
    while (this.#lowered !== undefined && now - this.#changedAt >= RECOVERY_MS) {
      const grown = this.#lowered + Math.ceil(limit / 10)
      this.#lowered = grown < limit ? grown : undefined
      this.#changedAt += RECOVERY_MS
    }
    return Math.min(limit, this.#lowered ?? limit)
  }

  lower(now: number): void {
    this.#lowered = Math.max(1, Math.floor(this.at(now) * LEFT))
    this.#changedAt = now
  }

  stored(now: number): Pick<StoredBudget, 'lowered'> {
    return this.#lowered === undefined ? {} : { lowered: [this.#lowered, now - this.#changedAt] }
  }

  /** `storedAt`: what was stored then goes on growing back from there. */
  restore({ lowered }: Pick<StoredBudget, 'lowered'>, storedAt: number): void {
    if (!lowered) return
    this.#lowered = lowered[0]
    this.#changedAt = storedAt - lowered[1]
  }
}
