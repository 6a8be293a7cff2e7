// Failures by their code: how many in a row, for how long to wait, and how often to tell of them.
import { ConnectorError, type ErrorCode } from './errors.ts'
import type { Log } from './log.ts'

/** What came up so lately is no news, even where something succeeded in between. */
const NEWS_MS = 10 * 60_000

interface Attempt {
  /** how many in a row had this code, from 1 */
  readonly count: number
  /** True for the 1st, 2nd, 4th, 8th, … of a code: an operator must find it, not drown in it. */
  readonly tell: boolean
}

interface Known {
  count: number
  at: number
}

export class Streak {
  readonly #elapsed: () => number
  readonly #known = new Map<ErrorCode, Known>()
  #code: ErrorCode | undefined
  #count = 0
  /** failures since the last success that an operator was told of */
  #told = false

  /** `elapsed`: the clock's */
  constructor(elapsed: () => number) {
    this.#elapsed = elapsed
  }

  next({ code }: ConnectorError): Attempt {
    this.#count = code === this.#code ? this.#count + 1 : 1
    this.#code = code
    const at = this.#elapsed()
    const known = this.#known.get(code)
    const count = known && at - known.at < NEWS_MS ? known.count + 1 : 1
    this.#known.set(code, { count, at })
    const tell = (count & (count - 1)) === 0
    this.#told ||= tell
    return { count: this.#count, tell }
  }

  /** To be called at each success: the next failure is the first in a row. True when it is worth telling: some of the failures before it were told. */
  succeeded(): boolean {
    const told = this.#told
    this.#code = undefined
    this.#count = 0
    this.#told = false
    return told
  }
}

interface Failure {
  readonly failure: ConnectorError
  /** how many in a row had its code, from 1 */
  readonly count: number
}

/** Tells what failed, where that is news. Throws what no waiting cures. */
export function tellFailure(log: Log, sentence: string, streak: Streak, error: unknown): Failure {
  if (!(error instanceof ConnectorError) || error.action === 'exit') throw error
  const { count, tell } = streak.next(error)
  if (tell) log.warn(sentence, { code: error.code, error: error.message, attempt: count })
  return { failure: error, count }
}
