// The instant that nothing is shipped before: settled with the first try by our clock, and once more where that was ahead; of `latest` it is told apart.
import { secondText } from '../../model/time.ts'
import { CLOCKS_APART_MS, SET_BACK_MS } from './clock.ts'
import type { OptionsAndCursor } from './step.ts'

/** What was noted before this was noted by a clock that nobody had set yet. */
const UNSET_US = 1000 * Date.UTC(2025, 0, 1)

/** True where that is news: it is counted from the first try on, however long that stays in vain. */
export function settleStart({ cursor, options }: OptionsAndCursor): boolean {
  const { start, clock, log } = options
  if (start.kind === 'time') cursor.startUs ??= start.atUs
  if (start.kind === 'time' || start.kind === 'earliest') return false
  const now = clock.now()
  if (start.kind === 'latest' && cursor.triedUs === undefined) {
    cursor.triedUs = now * 1000
    return true
  }
  const wantedUs = (start.kind === 'span' ? now - start.ms : now) * 1000
  const { startUs } = cursor
  if (startUs === null) {
    if (start.kind === 'span') cursor.startUs = wantedUs
    return start.kind === 'span'
  }
  if (startUs <= (now + SET_BACK_MS) * 1000) return false
  log.warn(
    'The audit log was to be read from an instant that has not come yet, settled by a clock that was ahead: it is settled anew. Look after the clock of this machine',
    { was: secondText(startUs / 1000), is: secondText(wantedUs / 1000) },
  )
  cursor.startUs = wantedUs
  return true
}

/** When `start: latest` was tried for the first time, µs, by the server's clock where it is told; Infinity: not before, or by a clock that is not believed. */
export function triedSinceUs({ cursor, options }: OptionsAndCursor, serverAt: number | undefined): number {
  const { triedUs = Infinity } = cursor
  const now = options.clock.now()
  const behindMs = (serverAt ?? now) - now
  return triedUs < UNSET_US || Math.abs(behindMs) > CLOCKS_APART_MS ? Infinity : triedUs + 1000 * behindMs
}
