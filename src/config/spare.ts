// What the polls of a workspace leave of its requests: late entries are found by reading again, from what is to spare (law 6).
import { MINUTE_MS } from '../model/time.ts'
import type { WorkspaceConfig } from './workspace.ts'

/** Reading again leaves the last quarter of the limit alone, so polls that take half of it leave it another quarter. */
const MOST_SHARE = 0.5

interface Polls {
  readonly area: 'audit' | 'history'
  readonly intervalMs: number
  readonly requests: number
  readonly again: string
}

function pollsOf({ audit, history }: WorkspaceConfig): readonly Polls[] {
  const polls: Polls[] = []
  if (audit?.interval !== undefined && audit.sweep > 0)
    polls.push({ area: 'audit', intervalMs: audit.interval, requests: 1, again: 'sweep' })
  if (history && history.reread > 0) {
    const requests = Number(history.usage) + Number(history.query)
    polls.push({ area: 'history', intervalMs: history.interval, requests, again: 'reread' })
  }
  return polls
}

/** Where an interval is so short that late entries would be found late, or never: the area, and what is wrong with its interval. */
export function crowdedOf(
  workspace: WorkspaceConfig,
): readonly { readonly area: string; readonly why: string }[] {
  return pollsOf(workspace).flatMap(({ area, intervalMs, requests, again }) => {
    const limit = workspace.rate_limits[area]
    const leastMs = (requests * MINUTE_MS) / (limit * MOST_SHARE)
    if (intervalMs >= leastMs) return []
    const perMinute = Math.round((requests * MINUTE_MS) / intervalMs)
    const least = `${Math.ceil(leastMs / 1000)}s`
    const why = `${perMinute} polls a minute of ${limit} requests (rate_limits.${area}) leave too little to read again (${again}): late entries would be found late or not at all; want ${least} or more`
    return [{ area, why }]
  })
}
