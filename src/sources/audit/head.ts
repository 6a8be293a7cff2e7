// The head reader: drains what is new after the last id, page by page, until a stop rule of invariant 7 ends the drain.
import type { ConnectorError } from '../../core/errors.ts'
import type { PageChunk } from '../../contracts/source.ts'
import { SECOND_US } from '../../core/time.ts'
import { isGone } from '../http/reply.ts'
import type { AuditCursor, Drain, Position } from './cursor.ts'
import { forgetFailures, goOn, jumpTo, leaveTrail, overlapStart, walkFrom } from './cursor.ts'
import type { PageView } from './page.ts'
import { askLatest, endDrain, giveUpDrain, leaveEmptyPage } from './end.ts'
import { askHead, followProbe, passByTime, reanchor, settleLost } from './recover.ts'
import { CLOCKS_APART_MS, MOST_FUTURE, nextSecondUs } from './clock.ts'
import type { Step, Parts } from './step.ts'
import { currentPace, lastChunk, MAX_TAKE } from './step.ts'
import { NoAnswer, noteEnd, readPage, STUCK_PAGES, stuckPage, takeAt } from './walk.ts'
import { BAD_TRIES } from './skip.ts'

/** The largest page seen counts for so much less after each smaller one: a server may change its mind. */
const FADING = 0.98
/** After so many pages a drain counts as long. */
const ASK_HEAD_PAGES = 3

/*
 * A drain's states (`doubt`), and what one step does in each:
 *
 *   none         reads a page           → none (more may come, or it failed), ended (a stop rule), ask_latest (an empty page, or
 *                                         one of malformed elements alone); cursor_gone when the API does not know the head
 *   ask_latest   asks `latest`          → ended (nothing newer), read_again (there is), none (after an empty page, if `latest`
 *                                         proves nothing), at last ended or cursor_gone by `search`
 *   read_again   reads the page again   → as none, or cursor_gone (still empty although there is more), or passed by time
 *                                         (still nothing but malformed elements)
 *   cursor_gone  finds a place by time  → none, ended (nothing there)
 *
 * `probe` comes first: an unreadable entry is skipped by time. A page that fails changes no state: `walk.ts` decides when
 * it is left. A position of the trail that is gone or shows nothing falls back to the head first. A long drain asks once
 * where the head is.
 */
export function drainStep(step: Step): Parts {
  const { cursor } = step
  const drain = (cursor.drain ??= beginDrain(step, cursor.head as Position))
  cursor.caughtUp = false
  if (drain.probe) return followProbe(step, drain, drain.probe)
  if (drain.doubt === 'ask_latest') return askLatest(step, drain)
  if (drain.doubt === 'cursor_gone') return reanchor(step, drain)
  if (drain.pages === ASK_HEAD_PAGES) return askHead(step, drain)
  return drainPage(step, drain)
}

function beginDrain({ options, cursor }: Step, head: Position): Drain {
  const from = overlapStart(cursor, head)
  return {
    ...walkFrom(from),
    probe: cursor.probe,
    untilUs: null,
    untilByServer: false,
    passedHead: from.id === head.id,
    // The first drain of all takes full pages, whatever the tier.
    backlog: options.once || cursor.polledAt === 0,
    doubt: 'none',
    reanchored: false,
    entries: 0,
    pages: 0,
  }
}

async function* drainPage(step: Step, drain: Drain): Parts {
  const usual = drain.backlog ? MAX_TAKE : currentPace(step).take
  const take = takeAt(drain, usual)
  try {
    yield* readPage(step, {
      walk: drain,
      priority: 'live',
      take,
      stopUs: () => drain.untilUs,
      passedHead: drain.passedHead,
      answered: (serverAt, sentAt) => drawStopLine(drain, serverAt, sentAt),
      whole: (view) => afterPage(step, drain, view, take),
      leave: ({ take: kept }) => {
        passByTime(step, drain, kept)
        return {}
      },
    })
  } catch (error) {
    if (!isGone(error)) throw error
    yield* leaveEntry(step, drain, error as ConnectorError)
  }
}

/** A stop line this old belongs to a drain that an outage or a full journal delayed: much has come since. */
const LINE_OLD_MS = 300_000

/** The end of the second of the first answer's `Date` (invariant 7). If that is far behind ours, ours counts, on short pages only. */
function drawStopLine(drain: Drain, serverAt: number | undefined, sentAt: number): void {
  const byServer = serverAt !== undefined && serverAt > sentAt - CLOCKS_APART_MS
  const startAt = byServer ? serverAt : sentAt
  if (drain.untilUs !== null && startAt - drain.untilUs / 1000 < LINE_OLD_MS) return
  drain.untilByServer = byServer
  drain.untilUs = nextSecondUs(startAt * 1000)
}

/** The entry at which the page begins is gone: a position of the trail falls back to the head, the head to time. */
async function* leaveEntry(step: Step, drain: Drain, error: ConnectorError): Parts {
  const { cursor, options } = step
  const head = cursor.head as Position
  // The failures belong to this position.
  forgetFailures(drain)
  if (drain.from.id !== head.id) backToHead(cursor, drain, head)
  else {
    options.log.warn('The page at the cursor cannot be read; finding the cursor again by time', {
      code: error.code,
      error: error.message,
    })
    if (error instanceof NoAnswer) drain.askedAgain = BAD_TRIES
    drain.doubt = 'cursor_gone'
  }
  yield lastChunk(step)
}

/** An older position of the trail leads nowhere, now and at the next polls. */
function backToHead(cursor: AuditCursor, drain: Drain, head: Position): void {
  cursor.trail = []
  drain.ends = []
  drain.stuckPages = 0
  jumpTo(drain, head)
  drain.passedHead = true
}

/** A whole page: decides whether it leads on, and whether this was all. */
function afterPage(step: Step, drain: Drain, view: PageView, take: number): Partial<PageChunk> {
  const gaps = settleLost(step, view)
  const empty = isEmpty(drain, view, step.cursor.head)
  if (!empty || view.malformed > 0) drain.emptyAnswers = 0
  if (empty) {
    // Besides malformed elements the page holds at most `from` itself, which a server may include.
    if (view.malformed > 0 && view.count - view.malformed <= 1) passMalformed(step, drain, view, take)
    else emptyPage(step, drain)
    return { gaps }
  }
  const full = isFull(step, view, take)
  if (view.lastOfAll && isFutureAlone(drain, view)) {
    // Only entries dated in the future: the end, unless there are so many that our clock must be wrong.
    if (view.count - view.malformed < MOST_FUTURE || !full) {
      endDrain(step, drain)
      return { gaps }
    }
    view.last = view.lastOfAll
  }
  if (!view.last) {
    passMalformed(step, drain, view, take)
    return { gaps }
  }
  const inCircles = noteEnd(drain, view)
  if (inCircles) return { gaps, ...raiseAlarm(step, drain) }
  advance(step.cursor, drain, view, view.last)
  if (view.count >= take) drain.backlog = true
  if (isEnd(drain, view, full)) endDrain(step, drain)
  return { gaps }
}

/** Continues after the page; moves the cursor too, once the head is passed. */
function advance(cursor: AuditCursor, drain: Drain, view: PageView, last: Position): void {
  drain.doubt = 'none'
  drain.pages++
  drain.passedHead ||= view.passedHead
  goOn(drain, last)
  if (drain.passedHead) {
    cursor.head = last
    cursor.headUs = Math.max(cursor.headUs, view.newestUs)
    drain.entries += view.beyond - view.own
    leaveTrail(cursor, view.marks)
  }
  cursor.largestPage = Math.max(2, view.count, Math.floor(cursor.largestPage * FADING))
}

/**
 * Malformed elements alone name no position to continue from. If more follows, they are skipped by time. A page that is
 * not full proves nothing, so it is checked against `latest` first, like an empty one.
 */
function passMalformed(step: Step, drain: Drain, { count }: PageView, take: number): void {
  if (count >= take || drain.doubt === 'read_again') passByTime(step, drain, count)
  else drain.doubt = 'ask_latest'
}

/** Learns how much a server that caps its pages calls full. A narrowed page is full with what it was asked for. */
function isFull({ cursor }: Step, { count, beyond }: PageView, take: number): boolean {
  // A single entry, and `from` itself where that is included: as much as the fetch of the page before makes.
  const isLone = count <= 2 && beyond <= 1
  return count >= (isLone ? take : Math.min(take, cursor.largestPage))
}

/** Nothing follows where the page began: a server that includes `from` answers with that entry alone. */
function isEmpty(drain: Drain, view: PageView, head: Position | null): boolean {
  if (view.count === 0) return true
  return view.beyond === 0 && drain.from.id === head?.id && !isFutureAlone(drain, view)
}

/** Nothing but what is dated in the future, beside `from` itself where that is included. */
function isFutureAlone({ from }: Drain, { last, lastOfAll }: PageView): boolean {
  return lastOfAll !== null && lastOfAll.id !== from.id && (last === null || last.id === from.id)
}

/**
 * The stop rules. Own fetches alone are the end if the page was not full, or if this drain made them: a server that
 * caps its pages may show only the fetches of an earlier drain, followed by entries of others.
 */
function isEnd(drain: Drain, view: PageView, full: boolean): boolean {
  if (!drain.passedHead || view.beyond === 0) return false
  const ours = drain.untilUs !== null && view.newestUs >= drain.untilUs - SECOND_US
  if (view.own === view.beyond) return !full || ours
  return view.pastStop && (drain.untilByServer || !full)
}

/** An empty page never resets a cursor. It is checked against `latest`, because a dead cursor looks the same (invariant 6). */
function emptyPage(step: Step, drain: Drain): void {
  const head = step.cursor.head as Position
  if (drain.from.id !== head.id) backToHead(step.cursor, drain, head)
  else if (drain.doubt === 'read_again') {
    leaveEmptyPage(step, drain)
  } else {
    drain.emptyAnswers = (drain.emptyAnswers ?? 0) + 1
    drain.doubt = 'ask_latest'
  }
}

function raiseAlarm(step: Step, drain: Drain): Partial<PageChunk> {
  const fault = stuckPage()
  if (drain.stuckPages < STUCK_PAGES) return { fault }
  if (!drain.passedHead) backToHead(step.cursor, drain, step.cursor.head as Position)
  else {
    step.options.log.error(`${fault.message}; trying again at the next poll`)
    giveUpDrain(step, drain)
  }
  return { fault }
}
