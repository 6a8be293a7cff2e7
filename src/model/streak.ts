// Failures by their code: how many in a row, for how long to wait, and how often to tell of them.
import { causeOf } from './cause.ts'
import { ConnectorError, type ErrorCode } from './errors.ts'
import type { Log } from './log.ts'

/** What came up so lately is no news, even where something succeeded in between. */
const NEWS_MS = 10 * 60_000
/** So long after the log's last word another one is told, also where its count would not have it told. */
const LAST_WORD_MS = 60_000
/** Of a code; what more there are count as one, since words that never come twice would all be news. */
const MOST_CAUSES = 8

interface Attempt {
  /** how many in a row had this code, from 1 */
  readonly count: number
  /** an operator must find it, not drown in it */
  readonly tell: boolean
}

interface Known {
  count: number
  at: number
}

/**
 * Told are the 1st, 2nd, 4th, 8th, … failure of a cause, and the success behind such a one. Beyond that the log's last word is
 * to be true: a failure right behind a success that was told is told; another cause a minute after the last word; and a
 * success once it has lasted a minute. So what flaps, or fails by turns, writes two lines a minute and few more.
 */
export class Streak {
  readonly #elapsed: () => number
  readonly #known = new Map<ErrorCode, Map<string, Known>>()
  #code: ErrorCode | undefined
  #count = 0
  /** some failure since the last success was told for its count */
  #isDue = false
  #failedAt = -Infinity
  /** what the log said last: the count of a cause, undefined where all was well */
  #lastWord: Known | undefined
  #lastWordAt = -Infinity

  /** `elapsed`: the clock's */
  constructor(elapsed: () => number) {
    this.#elapsed = elapsed
  }

  next({ code, message }: ConnectorError): Attempt {
    this.#count = code === this.#code ? this.#count + 1 : 1
    this.#code = code
    const at = this.#elapsed()
    const known = this.#knownOf(code, causeOf(message), at)
    known.count = at - known.at < NEWS_MS ? known.count + 1 : 1
    known.at = at
    this.#failedAt = at
    const isDue = (known.count & (known.count - 1)) === 0
    this.#isDue ||= isDue
    const tell = isDue || this.#isNews(known, at)
    if (tell) this.#say(known, at)
    return { count: this.#count, tell }
  }

  /** To be called at each success: the next failure is the first in a row. True when it is to be told. */
  succeeded(): boolean {
    const isDue = this.#isDue
    this.#code = undefined
    this.#count = 0
    this.#isDue = false
    const at = this.#elapsed()
    if (!this.#lastWord || (!isDue && at - this.#failedAt < LAST_WORD_MS)) return false
    this.#say(undefined, at)
    return true
  }

  #isNews(known: Known, at: number): boolean {
    if (!this.#lastWord) return true
    return known !== this.#lastWord && at - this.#lastWordAt >= LAST_WORD_MS
  }

  #say(word: Known | undefined, at: number): void {
    this.#lastWord = word
    this.#lastWordAt = at
  }

  #knownOf(code: ErrorCode, cause: string, at: number): Known {
    const causes = this.#known.get(code) ?? new Map<string, Known>()
    this.#known.set(code, causes)
    if (!causes.has(cause) && causes.size >= MOST_CAUSES)
      for (const [old, known] of causes) if (at - known.at >= NEWS_MS) causes.delete(old)
    const key = causes.has(cause) || causes.size < MOST_CAUSES ? cause : ''
    const known = causes.get(key) ?? { count: 0, at }
    causes.set(key, known)
    return known
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
