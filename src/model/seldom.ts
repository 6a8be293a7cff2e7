// What goes on for long is told when it begins, and from then on as a sum, an hour or more apart unless told otherwise.
import { HOUR_MS } from './time.ts'

export class Seldom {
  readonly #elapsed: () => number
  readonly #apartMs: number
  #toldAt = -Infinity
  #untold = 0

  /** `elapsed`: the clock's */
  constructor(elapsed: () => number, apartMs = HOUR_MS) {
    this.#elapsed = elapsed
    this.#apartMs = apartMs
  }

  /** So many more of it: how many to tell of now, 0 for none yet. */
  next(amount: number): number {
    this.#untold += amount
    const isDue = this.#elapsed() - this.#toldAt >= this.#apartMs
    return isDue ? this.rest() : 0
  }

  /** How long until what was not told yet is due; Infinity: all is told. */
  get dueInMs(): number {
    return this.#untold === 0 ? Infinity : Math.max(0, this.#toldAt + this.#apartMs - this.#elapsed())
  }

  /** How many were not told yet: to tell of now. */
  rest(): number {
    const sum = this.#untold
    this.#untold = 0
    if (sum > 0) this.#toldAt = this.#elapsed()
    return sum
  }
}
