// The server's clock, as the history's answers tell it: how far it is behind ours.
import type { Log } from '../../model/log.ts'
import { DAY_MS, MINUTE_MS, SECOND_MS } from '../../model/time.ts'
import type { HistoryCursor } from './cursor.ts'

/** Further off than this it is the server's clock that is wrong, or a cache that answers. */
const MOST_BEHIND_MS = 30 * DAY_MS

/** By so much a server that does not tell its clock may be behind, and is read all the same where it refuses an end still to come. */
const UNTOLD_MS = MINUTE_MS

/**
 * A window that ends here, epoch ms, is asked for with no end still to come: by the slower of both clocks, of which the
 * server's is told in whole seconds, with the margin of a second that is asked for. The second, where that is not told.
 */
export function passedAt(
  { serverBehindMs }: HistoryCursor,
  now: number,
): readonly [told: number, untold: number] {
  const told = Math.floor((now - serverBehindMs) / SECOND_MS) * SECOND_MS - 2 * SECOND_MS
  return [told, told - UNTOLD_MS]
}

/** Returns by how much it is behind, as it says, ms; what is kept of that is what may be believed. */
export function noteServer(cursor: HistoryCursor, serverAt: number | undefined, now: number): number {
  const behindMs = serverAt === undefined ? 0 : now - serverAt - SECOND_MS
  cursor.serverBehindMs = behindMs > 0 && behindMs < MOST_BEHIND_MS ? behindMs : 0
  return behindMs
}

/** Where it is ours that is ahead, days are read that have not come, and that is seen nowhere else. */
export function noteClocks(log: Log, cursor: HistoryCursor, behindMs: number): void {
  const apart = behindMs >= MOST_BEHIND_MS
  if (apart && cursor.clocksApart !== true)
    log.warn(
      'The clock of this machine is more than 30 days ahead of the API server’s and is believed all the same: where it is wrong, nothing of the history is found until it is set right',
      { daysAhead: Math.round(behindMs / DAY_MS) },
    )
  cursor.clocksApart = apart
}
