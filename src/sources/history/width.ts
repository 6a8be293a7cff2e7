// The width of the next window: narrower if size or duration is the likely cause of a failure,
// and soon as wide again if it was chance. Pure.
import { DAY_MS, MINUTE_MS } from '../../core/time.ts'
import { areNumbers, fieldsOf, isNullOr } from '../shared.ts'

/** The current width of windows, and how reliable the connection is. */
export interface Width {
  ms: number
  /** consecutive failures at this width */
  failures: number
  /** this width failed more often than chance explains; null: not since the last success */
  failedMs: number | null
  /** end of the last of them, epoch ms; the rest of it may fail for the same cause */
  failedTo: number
  /** failures since then, of that width or narrower */
  failed: number
  /** failures of that width after narrower ones were read */
  again: number
  /** narrower windows read since */
  good: number
  /** width of the last of them */
  goodMs: number
  /** recent answers, and recent failures by chance (the same window was read after all) */
  came: number
  lost: number
}

/**
 * How many failures without a cause each one counts for: a slow answer is stronger evidence of its
 * size, and a size limit is proof.
 */
const weights = { unknown: 1, slow: 6, over_bound: 100 } as const

/** epoch ms */
interface Span {
  readonly from: number
  readonly to: number
}

export type Cause = keyof typeof weights

export const MIN_WIDTH_MS = MINUTE_MS
/** A request may span 30 days (spec §4.2), and one second is added at each edge. */
const MAX_WIDTH_MS = 29 * DAY_MS
/** This many good answers before a width that failed is tried again. */
const GOOD_ANSWERS = 8
/** A broken answer shows how much arrived: the next window is that wide, but at least this part. */
const MIN_PART = 1 / 16
/** Number of recent answers and failures that are considered. */
const MAX_COUNTED = 40
const UNLIKELY = 0.02
/** What follows costs more than one more request. */
const VERY_UNLIKELY = 0.001

export const freshWidth = (): Width => ({
  ms: DAY_MS,
  failures: 0,
  failedMs: null,
  failedTo: 0,
  failed: 0,
  again: 0,
  good: 0,
  goodMs: DAY_MS,
  came: 0,
  lost: 0,
})

export const isWidth = (value: unknown): boolean =>
  areNumbers(value, 'ms', 'failures', 'failedTo', 'failed', 'again', 'good', 'goodMs', 'came', 'lost') &&
  isNullOr(fieldsOf(value)?.['failedMs'], Number.isFinite)

/** Probability of this many consecutive failures by chance alone. */
const chanceOf = ({ came, lost }: Width, failures: number): number =>
  ((lost + 1) / (came + lost + 2)) ** failures

const isChance = (width: Width, failures: number): boolean =>
  failures < 2 || chanceOf(width, failures) >= UNLIKELY

/** Five at least: if a good line has just become flaky, earlier answers prove nothing. */
export const isSurelyNoChance = (width: Width, failures: number): boolean =>
  failures > 4 && chanceOf(width, failures) < VERY_UNLIKELY

/**
 * A window failed. `seenMs`: the span of the part that arrived; 0: nothing. Returns true if
 * narrower windows are requested from now on.
 */
export function recordFailure(width: Width, { from, to }: Span, cause: Cause, seenMs: number): boolean {
  const ms = to - from
  const { failedMs, failedTo } = width
  if (failedMs !== null && (ms >= failedMs || to === failedTo) && width.good > 0) {
    width.again += weights[cause]
    width.failed++
    if (isChance(width, width.again)) return false
    width.ms = width.goodMs
    width.good = 0
    return true
  }
  width.failures += weights[cause]
  const isInRow = failedMs !== null && width.good === 0
  // Consecutive failures count together, even if the width changed in between.
  const failures = width.failures + (isInRow ? width.failed : 0)
  if (isChance(width, failures)) return false
  width.failed = failures
  narrow(width, ms, seenMs)
  if (!isInRow) width.failedTo = to
  if (isInRow && cause === 'unknown') width.failedMs = failedMs
  width.again = weights[cause] - 1
  return true
}

/** Windows of `failedMs` are too wide. */
function narrow(width: Width, failedMs: number, seenMs: number): void {
  const half = failedMs / 2
  const ms = seenMs > 0 ? Math.min(half, Math.max(seenMs, failedMs * MIN_PART)) : half
  width.ms = Math.max(MIN_WIDTH_MS, Math.floor(ms / 1000) * 1000)
  width.failedMs = failedMs
  width.failures = 0
  width.good = 0
}

/** A window of `ms` was read. `light`: small and quick, so more than a day may be requested. */
export function widen(width: Width, ms: number, light: boolean): void {
  recordAnswer(width, width.failures)
  width.failures = 0
  width.good++
  if (width.failedMs !== null && ms >= width.failedMs) {
    width.lost += width.failed
    forget(width)
  }
  const maxMs = light ? MAX_WIDTH_MS : DAY_MS
  const wider = Math.min(width.ms * 2, maxMs)
  const { failedMs, good, again } = width
  // The end of a day may cut a window that would be wider.
  if (failedMs === null || width.ms < failedMs) width.goodMs = width.ms
  if (failedMs !== null && (good >= GOOD_ANSWERS || isChance(width, again)))
    width.ms = Math.min(failedMs, maxMs)
  else if (failedMs === null || wider < failedMs) width.ms = wider
}

/** An answer arrived after this many failures by chance. */
export function recordAnswer(width: Width, lost: number): void {
  width.came++
  width.lost += lost
  if (width.came + width.lost <= MAX_COUNTED) return
  width.came /= 2
  width.lost /= 2
}

/** The API fails at any width: no width was the cause. */
export function forgetFailures(width: Width): void {
  width.ms = Math.max(width.ms, DAY_MS)
  width.failures = 0
  forget(width)
}

function forget(width: Width): void {
  width.failedMs = null
  width.failed = 0
  width.again = 0
}
