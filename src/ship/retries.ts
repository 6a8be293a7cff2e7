// How long a sink waits after an error before it is tried again, by what the error means.
import { backoffMs } from '../model/backoff.ts'
import type { Random } from '../model/clock.ts'
import type { ConnectorError } from '../model/errors.ts'

const RETRY = { baseMs: 1_000, capMs: 30_000 }
const HELD = { baseMs: 10_000, capMs: 60_000 }

export function retryDelayMs(
  { action, retryAfterMs = 0 }: ConnectorError,
  count: number,
  random: Random,
): number {
  // Nobody knows how soon a person mends what is held: no hint about that is believed for long.
  if (action === 'hold') return Math.max(Math.min(retryAfterMs, HELD.capMs), backoffMs(count, HELD, random))
  return Math.max(retryAfterMs, backoffMs(count, RETRY, random))
}
