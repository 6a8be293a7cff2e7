// Delay before the next try: exponential and capped, at random between half and all of that. Pure.
import type { Random } from './clock.ts'
import { isRetried } from './errors.ts'
import type { ConnectorError, ErrorCode } from './errors.ts'
import type { Log } from './log.ts'
import { HOUR_MS } from './time.ts'

interface BackoffSpan {
  readonly baseMs: number
  readonly capMs: number
}

/**
 * `attempt` counts from 1. Between half and all of min(cap, base × 2^(attempt−1)), so that many
 * daemons do not retry in step.
 */
export function backoffMs(attempt: number, span: BackoffSpan, random: Random): number {
  const full = Math.min(span.capMs, span.baseMs * 2 ** Math.min(attempt - 1, 40))
  return Math.round(full * (0.5 + random() / 2))
}

// The cause of a failure: its message without the numbers in it.

/** An HTTP status identifies a cause, so it is kept. */
const numbers = /(\banswered \d{3}\b)|\d+(?:[.,]\d+)*/g

/** Equal for two messages that differ only in sizes, counts and times. */
export const causeOf = (message: string): string => message.replaceAll(numbers, '$1')

// The delay that a server requests: the only parser of `Retry-After`, for the API and every
// receiver.

/** A clock before 2000 or from 2200 on is ignored; between them microseconds are exact integers. */
const BELIEVED_MS = [Date.UTC(2000, 0), Date.UTC(2200, 0)] as const

/** The server's clock from its `Date` header: epoch ms, whole seconds. */
export function serverTimeMs(headers: Readonly<Record<string, string>>): number | undefined {
  const at = Date.parse(headers['date'] ?? '')
  const [from, to] = BELIEVED_MS
  return at >= from && at < to ? at : undefined
}

/**
 * Seconds, or an HTTP date (RFC 9110 §10.2.3) by the clock of the server that wrote it; capped at
 * an hour, so that a wrong hint cannot stop us for a day. Anything else is ignored: `Date.parse`
 * alone would read `1.5` as a day of 2001.
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

// Log throttle: a long-lasting event is logged when it begins, then as a sum, at least an hour
// apart by default.

export class LogThrottle {
  readonly #elapsed: () => number
  readonly #apartMs: number
  #loggedAt = -Infinity
  #unlogged = 0

  /** `elapsed`: the clock's */
  constructor(elapsed: () => number, apartMs = HOUR_MS) {
    this.#elapsed = elapsed
    this.#apartMs = apartMs
  }

  /** Adds this many: returns how many to log now, 0 for none yet. */
  next(amount: number): number {
    this.#unlogged += amount
    const isDue = this.#elapsed() - this.#loggedAt >= this.#apartMs
    return isDue ? this.rest() : 0
  }

  /** How long until unlogged events are due; Infinity: all are logged. */
  get dueInMs(): number {
    return this.#unlogged === 0 ? Infinity : Math.max(0, this.#loggedAt + this.#apartMs - this.#elapsed())
  }

  /** How many are not logged yet: to log now. */
  rest(): number {
    const sum = this.#unlogged
    this.#unlogged = 0
    if (sum > 0) this.#loggedAt = this.#elapsed()
    return sum
  }
}

// Failure backoff: failures in a row by code, how long to wait, and how often to log them.

/** A cause this recent is not new, even with a success in between. */
const RECENT_MS = 10 * 60_000
/** After this time another failure is logged, even if its count alone would not cause that. */
const RELOG_MS = 60_000
/** Causes per code; further ones count as one: messages that never repeat would all be new. */
const MAX_CAUSES = 8

interface Attempt {
  /** failures in a row with this code, from 1 */
  readonly count: number
  /** few enough lines that an operator finds it */
  readonly logDue: boolean
}

interface Known {
  count: number
  at: number
}

/**
 * Logged are the 1st, 2nd, 4th, 8th, … failure of a cause, and the success after a logged failure.
 * In addition the last log line must be true: a failure directly after a logged success is logged;
 * another cause a minute after the last line; and a success once it has lasted a minute. So a
 * flapping or alternating failure writes little more than two lines a minute.
 */
export class FailureBackoff {
  readonly #elapsed: () => number
  readonly #known = new Map<ErrorCode, Map<string, Known>>()
  #code: ErrorCode | undefined
  #count = 0
  /** a failure since the last success was logged for its count */
  #isDue = false
  #failedAt = -Infinity
  /** the last log line: the count of a cause, undefined for success */
  #lastLogged: Known | undefined
  #lastLoggedAt = -Infinity

  /** `elapsed`: the clock's */
  constructor(elapsed: () => number) {
    this.#elapsed = elapsed
  }

  next({ code, message }: ConnectorError): Attempt {
    this.#count = code === this.#code ? this.#count + 1 : 1
    this.#code = code
    const at = this.#elapsed()
    const known = this.#knownOf(code, causeOf(message), at)
    known.count = at - known.at < RECENT_MS ? known.count + 1 : 1
    known.at = at
    this.#failedAt = at
    const isDue = (known.count & (known.count - 1)) === 0
    this.#isDue ||= isDue
    const logDue = isDue || this.#isLastLogOutdated(known, at)
    if (logDue) this.#recordLog(known, at)
    return { count: this.#count, logDue }
  }

  /** Call at each success, which ends the failures in a row. True if it is to be logged. */
  succeeded(): boolean {
    const isDue = this.#isDue
    this.#code = undefined
    this.#count = 0
    this.#isDue = false
    const at = this.#elapsed()
    if (!this.#lastLogged || (!isDue && at - this.#failedAt < RELOG_MS)) return false
    this.#recordLog(undefined, at)
    return true
  }

  #isLastLogOutdated(known: Known, at: number): boolean {
    if (!this.#lastLogged) return true
    return known !== this.#lastLogged && at - this.#lastLoggedAt >= RELOG_MS
  }

  #recordLog(logged: Known | undefined, at: number): void {
    this.#lastLogged = logged
    this.#lastLoggedAt = at
  }

  #knownOf(code: ErrorCode, cause: string, at: number): Known {
    const causes = this.#known.get(code) ?? new Map<string, Known>()
    this.#known.set(code, causes)
    if (!causes.has(cause) && causes.size >= MAX_CAUSES)
      for (const [old, known] of causes) if (at - known.at >= RECENT_MS) causes.delete(old)
    const key = causes.has(cause) || causes.size < MAX_CAUSES ? cause : ''
    const known = causes.get(key) ?? { count: 0, at }
    causes.set(key, known)
    return known
  }
}

interface Failure {
  readonly failure: ConnectorError
  readonly delayMs: number
}

/** What the log says of a failure that is retried, and of one that needs a person. */
interface FailureTexts {
  readonly failed: string
  readonly blocked: string
}

/**
 * Logs the failure if it is new. `delayOf`: ms until the next try, after so many failures in a row
 * with its code. Throws errors that waiting cannot fix.
 */
export function logFailure(
  log: Log,
  { failed, blocked }: FailureTexts,
  failures: FailureBackoff,
  error: unknown,
  delayOf: (failure: ConnectorError, count: number) => number,
): Failure {
  if (!isRetried(error)) throw error
  const { count, logDue } = failures.next(error)
  const delayMs = delayOf(error, count)
  const next = delayMs > 0 ? { nextTrySeconds: Math.ceil(delayMs / 1000) } : {}
  const fields = { code: error.code, error: error.message, attempt: count, ...next }
  // Without a delay nothing has to be fixed: a changed key is tried at once.
  const isBlocked = error.action === 'block' && delayMs > 0
  if (logDue && isBlocked) log.error(blocked, fields)
  else if (logDue) log.warn(failed, fields)
  return { failure: error, delayMs }
}
