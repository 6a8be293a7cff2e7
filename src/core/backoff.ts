// How long to wait before the next try: exponential with full jitter in its upper half, capped. Pure.
import type { Random } from './clock.ts'
import { ConnectorError } from './errors.ts'
import type { ErrorCode } from './errors.ts'
import type { Log } from './log.ts'
import { HOUR_MS } from './time.ts'

interface BackoffSpan {
  readonly baseMs: number
  readonly capMs: number
}

/** `attempt` counts from 1. Between half and all of min(cap, base × 2^(attempt−1)), so that many daemons never march in step. */
export function backoffMs(attempt: number, span: BackoffSpan, random: Random): number {
  const full = Math.min(span.capMs, span.baseMs * 2 ** Math.min(attempt - 1, 40))
  return Math.round(full * (0.5 + random() / 2))
}

// What a failure is about: its words, whatever numbers they are told with.

/** A status says what happened, as a word does. */
const numbers = /(\banswered \d{3}\b)|\d+(?:[.,]\d+)*/g

/** The same for two messages that differ in sizes, counts and times only. */
export const causeOf = (message: string): string => message.replaceAll(numbers, '$1')

// How long the other side asks us to wait: the one reading of `Retry-After`, for the API and for every receiver.

/** A clock that is before 2000 or from 2200 on tells nothing; microseconds of what lies between are whole numbers. */
const BELIEVED_MS = [Date.UTC(2000, 0), Date.UTC(2200, 0)] as const

/** The clock of whoever answered, as its `Date` header tells it: epoch ms, whole seconds. */
export function serverTimeMs(headers: Readonly<Record<string, string>>): number | undefined {
  const at = Date.parse(headers['date'] ?? '')
  const [from, to] = BELIEVED_MS
  return at >= from && at < to ? at : undefined
}

/**
 * Seconds, or an HTTP date (RFC 9110 §10.2.3) by the clock of the server that wrote it; capped at an hour, so that a wrong
 * hint cannot stop us for a day. What is neither is no hint: `Date.parse` alone would read `1.5` as a day of 2001.
 */
export function retryAfterMs(headers: Readonly<Record<string, string>>, nowMs: number): number | undefined {
  const text = headers['retry-after']?.trim() ?? ''
  const isDate = /^[a-z]{3,9},? .*\d/i.test(text)
  const ms = /^\d+(\.\d+)?$/.test(text)
    ? Number(text) * 1000
    : isDate
      ? Date.parse(text) - (serverTimeMs(headers) ?? nowMs)
      : NaN
  return Number.isNaN(ms) ? undefined : Math.min(Math.max(ms, 0), HOUR_MS)
}

// What goes on for long is told when it begins, and from then on as a sum, an hour or more apart unless told otherwise.

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

// Failures by their code: how many in a row, for how long to wait, and how often to tell of them.

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
