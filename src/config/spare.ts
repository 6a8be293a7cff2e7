// What the polls of a workspace leave of its requests to lookback and jobs (law 6), and what a job that waits for the rate limit can say of that.
import { MINUTE_MS } from '../model/time.ts'
import { guaranteedOf } from '../source/budget/budget.ts'
import { askingAsOne } from './key-id.ts'
import type { WorkspaceConfig } from './workspace.ts'

/** Lookback leaves the last quarter of the limit alone, so polls that take half of it leave it another quarter; jobs, a tenth. */
const MOST_SHARE = 0.5
/** Jobs leave so much of it alone: live reading that takes more of it takes theirs. */
const LEFT_BY_JOBS = 0.4
/** A poll that finds much asks for more than usual: so many times the usual is still polling, and more is a backlog. */
const BUSY_POLLS = 2
/** A page with something new, and `latest`, which proves that it was the last. */
const AUDIT_REQUESTS = 2

interface Polls {
  readonly area: 'audit' | 'history'
  readonly intervalMs: number
  /** of one poll */
  readonly requests: number
  /** the key by which late entries are found; undefined: nothing is read again */
  readonly again: string | undefined
}

function pollsOf({ audit, history }: WorkspaceConfig): readonly Polls[] {
  const polls: Polls[] = []
  if (audit?.interval !== undefined)
    polls.push({
      area: 'audit',
      intervalMs: audit.interval,
      requests: AUDIT_REQUESTS,
      again: audit.sweep > 0 ? 'sweep' : undefined,
    })
  if (history)
    polls.push({
      area: 'history',
      intervalMs: history.interval,
      requests: Number(history.usage) + Number(history.query),
      again: history.reread > 0 ? 'reread' : undefined,
    })
  return polls
}

/** A minute's requests of one area. */
const rateOf = ({ intervalMs, requests }: Polls): number => (requests * MINUTE_MS) / intervalMs

/**
 * Where intervals are so short that lookback and jobs have little more than their guaranteed requests: the area, and what
 * is wrong with its interval. `all` may have others that share its key, and so its requests.
 */
export function crowdedOf(
  workspace: WorkspaceConfig,
  all: readonly WorkspaceConfig[],
): readonly { readonly area: string; readonly why: string }[] {
  const sharing = askingAsOne(workspace, all)
  return pollsOf(workspace).flatMap(({ area, again }) => {
    const limit = Math.min(...sharing.map(({ rate_limits: limits }) => limits[area]))
    const polls = sharing.flatMap(pollsOf).filter((one) => one.area === area)
    const perMinute = sum(polls.map(rateOf))
    if (perMinute <= limit * MOST_SHARE) return []
    const leastMs = (sum(polls.map(({ requests }) => requests)) * MINUTE_MS) / (limit * MOST_SHARE)
    const others = sharing.filter(({ name }) => name !== workspace.name).map(({ name }) => name)
    const together = others.length > 0 ? ` together with ${others.join(', ')} (one key)` : ''
    const least = `${Math.ceil(leastMs / 1000)}s or more${others.length > 0 ? ' at each' : ''}`
    const little = `guaranteed ${guaranteedOf(limit)} requests a minute`
    const slow =
      again === undefined
        ? `backfill, replay and reconcile get little more than their ${little}`
        : `lookback (${again}) gets little more than its ${little}, so late entries arrive later, and backfill, replay and reconcile are slow`
    const why = `polls take some ${Math.round(perMinute)} of the ${limit} requests a minute (rate_limits.${area})${together}: ${slow}; set ${least}`
    return [{ area, why }]
  })
}

/** Of the last minute: requests, those of live reading among them, what may be used just now, and the configured limit. */
interface MinuteUse {
  readonly places: number
  readonly live: number
  readonly allowed: number
  readonly limit: number
}

/** Why a job waits for the rate limit, and which setting would leave it more. */
export function slowText(
  area: string,
  workspace: WorkspaceConfig,
  all: readonly WorkspaceConfig[],
  { places, live, allowed, limit }: MinuteUse,
): string {
  const lowered = allowed < limit ? ` (${limit} before the API answered 429)` : ''
  const most = `${allowed} requests/min${lowered}`
  if (live <= allowed * LEFT_BY_JOBS)
    return places >= allowed
      ? `all ${most} are used`
      : `${places} of ${most} are used, the rest is kept for live polling`
  const sharing = askingAsOne(workspace, all)
  const polls = sharing.flatMap((one) => pollsOf(one).filter((poll) => poll.area === area))
  const backlog = `live reading uses ${live} of ${most} to read a backlog. Jobs get at least ${guaranteedOf(allowed)} until that is read`
  if (sum(polls.map(rateOf)) * BUSY_POLLS < live) return backlog
  const names = sharing.length > 1 ? ` of ${sharing.map(({ name }) => name).join(', ')} (one key)` : ''
  return `live polling uses ${live} of ${most}. Increase ${area}.interval${names} to leave more`
}

const sum = (numbers: readonly number[]): number => numbers.reduce((total, one) => total + one, 0)
