// The head reader: drains what is new after the last id, page by page, until a stop rule of invariant 7 ends the drain.
import type { ConnectorError } from '../../core/errors.ts'
import type { PageChunk } from '../../contracts/source.ts'
import { SECOND_US } from '../../core/time.ts'
import type { AuditCursor, Drain } from './cursor.ts'
import { recordOverlap, overlapStart } from './cursor.ts'
import { CLOCKS_APART_MS, MOST_FUTURE, nextSecondUs } from './clock.ts'
import { NoAnswer, readPage } from './page.ts'
import type { PageView } from './page.ts'
import {
  askHead,
  checkEnd,
  endDrain,
  findHead,
  giveUpDrain,
  settleLost,
  skipMalformed,
  skipFrom,
  skipUnreadable,
  warnOfDeadCursor,
} from './head-checks.ts'
import { BAD_TRIES } from './skip.ts'
import { currentPace } from './step.ts'
import type { Parts, Step } from './step.ts'
import { MAX_TAKE, moveOn, outcomeOf, recordEnd, STUCK_PAGES, stuckPage, takeAt, walkFrom } from './walk.ts'
import type { Position } from './walk.ts'

/** The largest page seen counts for so much less after each smaller one: a server may change its mind. */
const FADING = 0.98
/** After so many pages a drain counts as long. */
const ASK_HEAD_PAGES = 3

/** One step of the machine in `walk.ts`. A long drain asks once where the head is. */
export function drainStep(step: Step): Parts {
  const { cursor } = step
  const drain = (cursor.drain ??= beginDrain(step, cursor.head as Position))
  cursor.caughtUp = false
  if (drain.probe) return skipUnreadable(step, drain, drain.probe)
  if (drain.state === 'check_end') return checkEnd(step, drain)
  if (drain.state === 'find') return findHead(step, drain)
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
    reanchored: false,
    entries: 0,
    pages: 0,
  }
}

function drainPage(step: Step, drain: Drain): Parts {
  const take = takeAt(drain, drain.backlog ? MAX_TAKE : currentPace(step).take)
  return readPage(step, {
    walk: drain,
    priority: 'live',
    take,
    stopUs: () => drain.untilUs,
    passedHead: drain.passedHead,
    answered: (serverAt, sentAt) => drawStopLine(drain, serverAt, sentAt),
    complete: (view) => afterPage(step, drain, view, take),
    leave: (elements) => skipFrom(step, drain, elements),
    gone: (error) => leaveEntry(step, drain, error),
  })
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

/** The entry at which the page begins is gone: a position of the overlap falls back to the head, the head to time. */
function leaveEntry(step: Step, drain: Drain, error: ConnectorError): Partial<PageChunk> {
  const head = step.cursor.head as Position
  if (drain.from.id !== head.id) backToHead(step.cursor, drain, head)
  else {
    step.options.log.warn(
      'The page after the last entry read cannot be read; the position is looked up again by time',
      {
        code: error.code,
        error: error.message,
      },
    )
    if (error instanceof NoAnswer) drain.askedAgain = BAD_TRIES
    moveOn(drain, { is: 'gone' })
  }
  return {}
}

/** An older position leads nowhere, now and at the next polls. */
function backToHead(cursor: AuditCursor, drain: Drain, head: Position): void {
  cursor.overlap = []
  moveOn(drain, { is: 'found', at: head })
  drain.passedHead = true
}

/** Decides whether the page leads on, and whether this was all. */
function afterPage(step: Step, drain: Drain, view: PageView, take: number): Partial<PageChunk> {
  const gaps = settleLost(step, view)
  const outcome = outcomeOf(drain, view)
  const isEmpty = outcome === 'nothing' || outcome === 'repeated'
  if (!isEmpty || view.malformed > 0) drain.emptyAnswers = 0
  if (isEmpty) emptyPage(step, drain)
  else if (outcome === 'malformed') skipMalformed(step, drain, view.count, view.count >= take)
  else if (outcome === 'progress') return { gaps, ...advance(step, drain, view, take) }
  // The end, unless there are so many that our clock must be wrong.
  else if (view.count - view.malformed < MOST_FUTURE || !isFull(step, view, take)) endDrain(step, drain)
  else return { gaps, ...advance(step, drain, { ...view, last: view.lastOfAll }, take) }
  return { gaps }
}

/** Continues after the page; moves the head too, once that is passed. */
function advance(step: Step, drain: Drain, view: PageView, take: number): Partial<PageChunk> {
  if (recordEnd(drain, view)) return raiseAlarm(step, drain)
  const { cursor } = step
  const last = view.last as Position
  const full = isFull(step, view, take)
  drain.pages++
  drain.passedHead ||= view.passedHead
  moveOn(drain, { is: 'progress', at: last })
  if (view.count >= take) drain.backlog = true
  if (drain.passedHead) {
    cursor.head = last
    cursor.headUs = Math.max(cursor.headUs, view.newestUs)
    drain.entries += view.beyond - view.own
    recordOverlap(cursor, view.marks)
  }
  cursor.largestPage = Math.max(2, view.count, Math.floor(cursor.largestPage * FADING))
  if (isEnd(drain, view, full)) endDrain(step, drain)
  return {}
}

/** Learns how much a server that caps its pages calls full. A narrowed page is full with what it was asked for. */
function isFull({ cursor }: Step, { count, beyond }: PageView, take: number): boolean {
  // A single entry, and `from` itself where that is included: as much as the fetch of the page before makes.
  const isSingle = count <= 2 && beyond <= 1
  return count >= (isSingle ? take : Math.min(take, cursor.largestPage))
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
  if (drain.from.id !== head.id) {
    backToHead(step.cursor, drain, head)
    return
  }
  moveOn(drain, { is: 'nothing' })
  if (drain.state === 'find') warnOfDeadCursor(step)
  else drain.emptyAnswers = (drain.emptyAnswers ?? 0) + 1
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
