// The server's clock as the history's answers tell it: how far behind ours it is, and up to where may be asked.
import type { Log } from '../model/log.ts'
import { DAY_MS, HOUR_MS, MINUTE_MS, SECOND_MS } from '../model/time.ts'
import type { HistoryCursor } from './history-cursor.ts'

const CLOCKS_APART_MS = 30 * DAY_MS

/**
 * Up to here an API that refuses an end still to come may be asked, epoch ms: by the slower of both clocks, and a second
 * less, since the server's is told in whole ones and the request takes its time.
 */
export function askableTo({ serverBehindMs, endsBehindMs = 0 }: HistoryCursor, now: number): number {
  return Math.floor((now - serverBehindMs - endsBehindMs) / SECOND_MS) * SECOND_MS - SECOND_MS
}

/** Where the server does not tell its clock it may be behind all the same: by a summer time that it missed and somewhat more. */
export const ENDS_BEHIND_MS = [0, 10_000, MINUTE_MS, 10 * MINUTE_MS, HOUR_MS + 10 * MINUTE_MS] as const

/** Returns by how much it is behind, as it says. */
export function noteServer(cursor: HistoryCursor, serverAt: number | undefined, now: number): number {
  const behindMs = serverAt === undefined ? 0 : now - serverAt - SECOND_MS
  // Further off than this it is the server's clock that is wrong, or a cache that answers.
  cursor.serverBehindMs = behindMs > 0 && behindMs < CLOCKS_APART_MS ? behindMs : 0
  return behindMs
}

/** Where it is ours that is ahead, days are read that have not come, and that is seen nowhere else. */
export function noteClocks(log: Log, cursor: HistoryCursor, behindMs: number): void {
  const apart = behindMs >= CLOCKS_APART_MS
  if (apart && cursor.clocksApart !== true)
    log.warn(
      'The clock of this machine is more than 30 days ahead of the API server’s and is believed all the same: where it is wrong, nothing of the history is found until it is set right',
      { daysAhead: Math.round(behindMs / DAY_MS) },
    )
  cursor.clocksApart = apart
}
