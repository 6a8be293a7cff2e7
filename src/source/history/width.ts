// How wide the next window is: halved where an answer is too slow, too large or fails, grown again where answers are good. Pure.
import { DAY_MS, MINUTE_MS } from '../../model/time.ts'
import type { Width } from './cursor.ts'

export const NARROWEST_MS = MINUTE_MS
/** A request may span 30 days (spec §4.2), and each edge of a window is asked for with a second more. */
const WIDEST_MS = 29 * DAY_MS
/** So many answers before a width that failed once is tried again. */
const GOOD_ANSWERS = 8

/** A window of `failedMs` could not be read. */
export function narrow(width: Width, failedMs: number): void {
  width.ms = Math.max(NARROWEST_MS, Math.floor(failedMs / 2 / 1000) * 1000)
  width.failedMs = failedMs
  width.good = 0
}

/** An answer was good. `light`: small and quick, so that more than a day may be asked for at once. */
export function widen(width: Width, light: boolean): void {
  width.good++
  const ms = Math.min(width.ms * 2, light ? WIDEST_MS : DAY_MS)
  if (width.failedMs !== null && ms >= width.failedMs) {
    if (width.good < GOOD_ANSWERS) return
    width.failedMs = null
  }
  width.ms = ms
}
