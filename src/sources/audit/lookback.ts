// Lookback: reads the trailing span again for entries that became visible behind the cursor (invariant 6).
// It uses spare permits only, and dedup drops what is known.
import { believed } from '../../core/clock.ts'
import type { PageChunk } from '../../contracts/source.ts'
import { ConnectorError } from '../../core/errors.ts'
import { HOUR_MS, MINUTE_MS } from '../../core/time.ts'
import { isUnreadable } from '../http/reply.ts'
import { anchorAt, brokenEntry } from './lookup.ts'
import { SET_BACK_MS } from './clock.ts'
import type { AuditCursor, Lookback } from './cursor.ts'
import { readPage } from './page.ts'
import type { PageView } from './page.ts'
import { probeAt, skip } from './skip.ts'
import type { Probe } from './skip.ts'
import type { AuditOptions, Step, Parts } from './step.ts'
import { lastChunk } from './step.ts'
import { MAX_TAKE, moveOn, outcomeOf, recordEnd, STUCK_PAGES, stuckPage, takeAt, walkFrom } from './walk.ts'
import type { Walk } from './walk.ts'

/** Full lookbacks per span length: an entry late by 3/4 of the span is certainly found. */
const FULL_PER_SPAN = 4
const FULL_MAX_MS = 6 * 60 * MINUTE_MS
/** The shortest time between two: four within a span of seconds would use up the rate limit. */
const FULL_MIN_MS = MINUTE_MS
const QUICK_MIN_MS = 5 * MINUTE_MS

/**
 * When lookback reads next, epoch ms. Infinity if it is off, the head has not begun, or none is under way or due until
 * `lastDueAt`.
 */
export function lookbackDueAt(options: AuditOptions, cursor: AuditCursor, lastDueAt = Infinity): number {
  if (options.lookbackMs === 0 || cursor.head === null) return Infinity
  const { walk, fullDueAt, quickDueAt } = cursor.lookback
  const now = options.clock.now()
  const quickAt = cursor.lateUs > 0 ? believed(quickDueAt, QUICK_MIN_MS + options.lookbackMs, now) : Infinity
  const dueAt = walk ? now : Math.min(believed(fullDueAt, FULL_MAX_MS, now), quickAt)
  if (!walk && dueAt > lastDueAt) return Infinity
  return dueAt > now ? dueAt : options.client.announce('lookback')
}

/** Begins a lookback, reads one page of it, or skips an entry that cannot be read: one request, rarely two. */
export function lookbackStep(step: Step): Parts {
  const { walk } = step.cursor.lookback
  if (walk) return walk.probe ? findPlace(step, walk, walk.probe) : lookbackPage(step, walk)
  const fromUs = planLookback(step)
  return findPlace(step, walkFrom({ id: '', at: fromUs }), probeAt(fromUs))
}

/** Ids are dropped from the dedup index while a lookback lasts. */
const KEYS_MARGIN_MS = HOUR_MS

/** How late the full lookback is, ms. A `fullDoneAt` in the future was written before the clock was set back: infinitely late. */
function lateByMs({ fullDoneAt }: Lookback, everyMs: number, atMs: number): number {
  if (!fullDoneAt) return 0
  return fullDoneAt > atMs + SET_BACK_MS ? Infinity : Math.max(0, atMs - fullDoneAt - everyMs)
}

/** Twice the lateness seen. */
function spanOfQuick({ lookbackMs }: AuditOptions, lateMs: number): number {
  return Math.min(lookbackMs, 2 * lateMs + QUICK_MIN_MS)
}

/** A full lookback that comes late, after a downtime, goes back as far as it would have on time. */
function spanOfFull({ lookbackMs }: AuditOptions, lookback: Lookback, everyMs: number, atMs: number): number {
  return lookbackMs + lateByMs(lookback, everyMs, atMs)
}

/**
 * Chooses the lookback that comes now and when the next ones are due: the whole span when it is due; between two of them a
 * quick one, the more often the less late entries come. Returns where it begins, µs. None goes back further than ids are
 * remembered, counted from the server's last clock if that is later than ours, which may be slow.
 */
function planLookback({ options, cursor }: Step): number {
  const now = options.clock.now()
  const atMs = Math.max(now, cursor.fetches.sent.at(-1) ?? 0)
  const { lookback } = cursor
  // As `lookbackDueAt` decides: otherwise a full lookback due by a clock that was set back since is due at once forever.
  const isFull = believed(lookback.fullDueAt, FULL_MAX_MS, now) <= now
  const everyMs = Math.max(FULL_MIN_MS, Math.min(options.lookbackMs / FULL_PER_SPAN, FULL_MAX_MS))
  const lateMs = cursor.lateUs / 1000
  if (isFull) {
    lookback.fullDueAt = now + everyMs
    lookback.fullDoneAt ??= atMs - everyMs
    lookback.fullBeganAt = atMs
  }
  // No later than `lookbackDueAt` allows either.
  const quickMs = Math.max(QUICK_MIN_MS, Math.round(lateMs / 2))
  lookback.quickDueAt = now + Math.min(quickMs, QUICK_MIN_MS + options.lookbackMs)
  lookback.untilUs = cursor.headUs
  const knownMs = Math.max(options.lookbackMs, options.keepKeysMs - KEYS_MARGIN_MS)
  const spanMs = isFull
    ? Math.min(spanOfFull(options, lookback, everyMs, atMs), knownMs)
    : spanOfQuick(options, lateMs)
  return Math.max((now - spanMs) * 1000, (atMs - knownMs) * 1000, cursor.startUs ?? 0)
}

/** The lookback is over. If it was given up, the next full one begins where this one began. */
function endLookback(lookback: Lookback, isWhole: boolean): void {
  if (isWhole && lookback.fullBeganAt !== undefined) lookback.fullDoneAt = lookback.fullBeganAt
  delete lookback.fullBeganAt
  lookback.walk = null
}

/** Live reading waits for no lookback, and the next one comes on time. For `run --once` it stays due. */
function giveUp({ options, cursor: { lookback } }: Step, error: ConnectorError): ConnectorError | undefined {
  const isFull = lookback.fullBeganAt !== undefined
  endLookback(lookback, false)
  if (!options.once) return undefined
  // Before this run began, however long it took to fail.
  lookback[isFull ? 'fullDueAt' : 'quickDueAt'] = 0
  return error
}

const nothingFound = () =>
  new ConnectorError(
    'bad_reply',
    'The check for late audit entries failed: the API shows no entries where there must be some. The next check tries again',
  )

/** By time: where the lookback begins, and past what cannot be read. The next lookback tries that again. */
async function* findPlace(step: Step, walk: Walk, probe: Probe): Parts {
  const { lookback, head } = step.cursor
  const endUs = lookback.untilUs
  try {
    const found = await anchorAt(step, probe.atUs, 'lookback')
    const skipped = await skip(step, probe, found, { priority: 'lookback', knownUs: head?.at, endUs })
    let fault: ConnectorError | undefined
    if (skipped.next === 'again' || skipped.next === 'on') lookback.walk = { ...walk, probe: skipped.probe }
    else if (skipped.next === 'readable') lookback.walk = walkFrom(skipped.position)
    else if (skipped.next === 'outage') fault = giveUp(step, brokenEntry())
    else if (found.position || found.unreadable || probe.atUs >= endUs) endLookback(lookback, true)
    // Nothing where there must be something is no answer to go by.
    else fault = giveUp(step, nothingFound())
    yield lastChunk(step, { ...('group' in skipped && skipped.group), fault })
  } catch (error) {
    if (!isUnreadable(error)) throw error
    yield lastChunk(step, { fault: giveUp(step, error) })
  }
}

function lookbackPage(step: Step, walk: Walk): Parts {
  const take = takeAt(walk, MAX_TAKE)
  return readPage(step, {
    walk,
    priority: 'lookback',
    take,
    stopUs: () => null,
    passedHead: false,
    complete: (view) => afterPage(step, walk, view, take),
    leave: (take) => moveOn(walk, { is: 'unreadable', behindUs: walk.from.at, take }),
    // Purged meanwhile: the next lookback finds its own start.
    gone: () => ({ fault: giveUp(step, nothingFound()) }),
  })
}

function afterPage(step: Step, walk: Walk, view: PageView, take: number): Partial<PageChunk> {
  const { lookback } = step.cursor
  const outcome = outcomeOf(walk, view)
  const { count, last } = view
  if (count === 0) return { fault: giveUp(step, nothingFound()) }
  if (outcome === 'malformed' && count >= take)
    moveOn(walk, { is: 'malformed', behindUs: walk.from.at, take: count, isFull: true })
  else if (!last || outcome === 'malformed' || outcome === 'future' || view.newestUs >= lookback.untilUs)
    endLookback(lookback, true)
  else if (recordEnd(walk, view)) {
    if (walk.stuckPages >= STUCK_PAGES) giveUp(step, stuckPage())
    return { fault: stuckPage() }
  } else moveOn(walk, { is: 'progress', at: last })
  return {}
}
