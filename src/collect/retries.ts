// How long a reader waits after an error before it asks again, by what the error means.
import { backoffMs } from '../model/backoff.ts'
import type { Random } from '../model/clock.ts'
import type { ConnectorError } from '../model/errors.ts'

const RETRY = { baseMs: 1_000, capMs: 5 * 60_000 }
/** The other side answers, only badly: what helps is another look, not a long wait. */
const BAD_REPLY = { baseMs: 1_000, capMs: 5_000 }
const HELD = { baseMs: 15_000, capMs: 60_000 }
/** A disk's room can only be tried, and each try costs a request that is itself an entry. */
const FULL_DISK = { baseMs: 1_000, capMs: 60_000 }

export function retryDelayMs(
  { action, code, retryAfterMs }: ConnectorError,
  count: number,
  random: Random,
): number {
  if (action === 'pause') return backoffMs(count, FULL_DISK, random)
  if (action === 'hold') return heldMs(retryAfterMs) ?? backoffMs(count, HELD, random)
  // The budget itself waits out a rate limit.
  if (code === 'rate_limited') return 0
  return Math.max(retryAfterMs ?? 0, backoffMs(count, code === 'bad_reply' ? BAD_REPLY : RETRY, random))
}

/** No hint of a server's keeps a repaired key waiting, or has a refused one asked for again and again. At once is our own word: the key has changed. */
function heldMs(hintMs: number | undefined): number | undefined {
  if (hintMs === undefined || hintMs === 0) return hintMs
  return Math.min(Math.max(hintMs, HELD.baseMs), HELD.capMs)
}
