// Failures in a row, counted by their code: how often to tell of them, and how long to wait. A new code is news, whatever came before.
import type { ConnectorError, ErrorCode } from './errors.ts'

export interface Attempt {
  /** how many in a row had this code, from 1 */
  readonly count: number
  /** True for the 1st, 2nd, 4th, 8th, …: an operator must find it, not drown in it. */
  readonly tell: boolean
}

export class Streak {
  #code: ErrorCode | undefined
  #count = 0

  next({ code }: ConnectorError): Attempt {
    this.#count = code === this.#code ? this.#count + 1 : 1
    this.#code = code
    return { count: this.#count, tell: (this.#count & (this.#count - 1)) === 0 }
  }

  /** Something succeeded. */
  over(): void {
    this.#code = undefined
    this.#count = 0
  }
}
