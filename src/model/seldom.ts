// What goes on for long is told when it begins, and from then on as a sum, an hour or more apart.
import { HOUR_MS } from './time.ts'

export class Seldom {
  readonly #elapsed: () => number
  #toldAt = -Infinity
  #untold = 0

  /** `elapsed`: the clock's */
  constructor(elapsed: () => number) {
    this.#elapsed = elapsed
  }

  /** So many more of it: how many to tell of now, 0 for none yet. */
  next(amount: number): number {
    this.#untold += amount
    const at = this.#elapsed()
    if (this.#untold === 0 || at - this.#toldAt < HOUR_MS) return 0
    const sum = this.#untold
    this.#toldAt = at
    this.#untold = 0
    return sum
  }
}
