// What the polls of a workspace leave of its requests: late entries are found by reading again, and the past is read, from what is to spare (law 6).
import type { Lane } from '../model/source.ts'
import { MINUTE_MS } from '../model/time.ts'
import { untouchedShare } from '../source/budget/budget.ts'
import { askingAsOne } from './key-id.ts'
import type { WorkspaceConfig } from './workspace.ts'

/** Reading again leaves the last quarter of the limit alone, so polls that take half of it leave it another quarter; the past, a tenth. */
const MOST_SHARE = 0.5
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
 * Where intervals are so short that late entries would be found late, or never, and that the past hardly comes on: the area, and what
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
    const below = (lane: Lane) => Math.floor(limit * (1 - untouchedShare[lane]))
    const reread =
      again === undefined
        ? ''
        : ` reading again (${again}) has its turn only while fewer than ${below('sweep')} are used, so late entries would be found late or not at all;`
    const why = `polls take some ${Math.round(perMinute)} of the ${limit} requests a minute (rate_limits.${area})${together}:${reread} backfill, replay and reconcile have their turn only while fewer than ${below('past')} are used, so they would hardly come on; want ${least}`
    return [{ area, why }]
  })
}

const sum = (numbers: readonly number[]): number => numbers.reduce((total, one) => total + one, 0)
