// Lookback: reads the trailing span again for entries that became visible late (invariant 6).
// It uses spare permits only, and the dedup index drops known entries.
import { believed } from '../../core/clock.ts'
import type { PageChunk } from '../../contracts/source.ts'
import type { ConnectorError } from '../../core/errors.ts'
import { HOUR_MS, MINUTE_MS } from '../../core/time.ts'
import { isUnreadable } from '../http/reply.ts'
import { anchorAt, brokenEntry } from './lookup.ts'
import type { AuditCursor, Lookback } from './cursor.ts'
import { NoAnswer, readPage } from './page.ts'
import type { PageView } from './page.ts'
import { probeAt, skip } from './skip.ts'
import type { Probe } from './skip.ts'
import { badReply, lastChunk, SET_BACK_MS } from './step.ts'
import type { AuditOptions, Step, Parts } from './step.ts'
import { MAX_TAKE, moveOn, outcomeOf, recordEnd, STUCK_PAGES, takeAt, walkFrom } from './walk.ts'
import type { Walk } from './walk.ts'

/** Full lookbacks per span: an entry late by up to 3/4 of the span is certainly found. */
const FULL_PER_SPAN = 4
const FULL_MAX_MS = 6 * 60 * MINUTE_MS
/** A span of seconds would otherwise use up the rate limit. */
const FULL_MIN_MS = MINUTE_MS
const QUICK_MIN_MS = 5 * MINUTE_MS
/** The dedup index drops ids while a lookback runs. */
const KEYS_MARGIN_MS = HOUR_MS

/** When lookback reads next, epoch ms. Infinity: it is off, or none is due until `lastDueAt`. */
export function lookbackDueAt(options: AuditOptions, cursor: AuditCursor, lastDueAt = Infinity): number {
  if (options.lookbackMs === 0 || cursor.head === null) return Infinity
  const { walk, fullDueAt, quickDueAt } = cursor.lookback
  const now = options.clock.now()
  const quickAt = cursor.lateUs > 0 ? believed(quickDueAt, QUICK_MIN_MS + options.lookbackMs, now) : Infinity
  const dueAt = walk ? now : Math.min(believed(fullDueAt, FULL_MAX_MS, now), quickAt)
  if (!walk && dueAt > lastDueAt) return Infinity
  return dueAt > now ? dueAt : options.client.announce('lookback')
}

/** Begins a lookback, reads a page of it, or skips an unreadable entry: one request, rarely two. */
export function lookbackStep(step: Step): Parts {
  const { walk } = step.cursor.lookback
  if (walk) return walk.probe ? findPlace(step, walk, walk.probe) : lookbackPage(step, walk)
  const fromUs = planLookback(step)
  return findPlace(step, walkFrom({ id: '', at: fromUs }), probeAt(fromUs))
}

/** How late the full lookback is. Infinity: the clock was set back since the last one. */
function lateByMs({ fullDoneAt }: Lookback, everyMs: number, atMs: number): number {
  if (!fullDoneAt) return 0
  return fullDoneAt > atMs + SET_BACK_MS ? Infinity : Math.max(0, atMs - fullDoneAt - everyMs)
}

/**
 * Chooses this lookback and when the next ones are due. A full one covers the whole span; between two of
 * them a quick one covers twice the lateness seen. Returns where it begins, µs: never before the ids that
 * the dedup index remembers, counted from the later of our clock and the server's last one.
 */
function planLookback({ options, cursor }: Step): number {
  const { lookbackMs, keepKeysMs } = options
  const now = options.clock.now()
  const atMs = Math.max(now, cursor.fetches.sent.at(-1) ?? 0)
  const { lookback } = cursor
  // As in `lookbackDueAt`: else it would stay due forever after the clock was set back.
  const isFull = believed(lookback.fullDueAt, FULL_MAX_MS, now) <= now
  const everyMs = Math.max(FULL_MIN_MS, Math.min(lookbackMs / FULL_PER_SPAN, FULL_MAX_MS))
  const lateMs = cursor.lateUs / 1000
  if (isFull) {
    lookback.fullDueAt = now + everyMs
    lookback.fullDoneAt ??= atMs - everyMs
    lookback.fullBeganAt = atMs
  }
  // Not later than `lookbackDueAt` allows either.
  const quickMs = Math.max(QUICK_MIN_MS, Math.round(lateMs / 2))
  lookback.quickDueAt = now + Math.min(quickMs, QUICK_MIN_MS + lookbackMs)
  lookback.untilUs = cursor.headUs
  const knownMs = Math.max(lookbackMs, keepKeysMs - KEYS_MARGIN_MS)
  // A full lookback that is late, after a downtime, begins where it would have on time.
  const spanMs = isFull
    ? Math.min(lookbackMs + lateByMs(lookback, everyMs, atMs), knownMs)
    : Math.min(lookbackMs, 2 * lateMs + QUICK_MIN_MS)
  return Math.max((now - spanMs) * 1000, (atMs - knownMs) * 1000, cursor.startUs ?? 0)
}

/** After one that was given up, the next full one begins at the same place. */
function endLookback(lookback: Lookback, isWhole: boolean): void {
  if (isWhole && lookback.fullBeganAt !== undefined) lookback.fullDoneAt = lookback.fullBeganAt
  delete lookback.fullBeganAt
  lookback.walk = null
}

/** The next lookback comes on time. For `run --once` this one stays due. */
function giveUp({ options, cursor: { lookback } }: Step, error: ConnectorError): ConnectorError | undefined {
  const isFull = lookback.fullBeganAt !== undefined
  endLookback(lookback, false)
  if (!options.once) return undefined
  // Due before this run began.
  lookback[isFull ? 'fullDueAt' : 'quickDueAt'] = 0
  return error
}

const nothingFound = () =>
  badReply(
    'The check for late audit entries failed: the API shows no entries where there must be some. The next check tries again',
  )

/** Searches where to begin, and past unreadable entries. */
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
    // Before the end there must be entries.
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
    complete: (view) => afterPage(step, walk, view, take),
    leave: (take) => moveOn(walk, { is: 'unreadable', readToUs: walk.from.at, take }),
    gone: (error) => {
      // Purged meanwhile: the next lookback searches its start again.
      if (!(error instanceof NoAnswer)) return { fault: giveUp(step, nothingFound()) }
      moveOn(walk, { is: 'unreadable', readToUs: walk.from.at, take: undefined })
      return {}
    },
  })
}

function afterPage(step: Step, walk: Walk, view: PageView, take: number): Partial<PageChunk> {
  const { lookback } = step.cursor
  const outcome = outcomeOf(walk, view)
  const { count, last } = view
  if (count === 0) return { fault: giveUp(step, nothingFound()) }
  if (outcome === 'malformed' && count >= take)
    moveOn(walk, { is: 'unreadable', readToUs: walk.from.at, take: count })
  else if (!last || outcome === 'malformed' || outcome === 'future' || view.newestUs >= lookback.untilUs)
    endLookback(lookback, true)
  else {
    const fault = recordEnd(walk, last)
    if (!fault) moveOn(walk, { is: 'progress', at: last })
    else if (walk.stuckPages >= STUCK_PAGES) giveUp(step, fault)
    return { fault }
  }
  return {}
}
