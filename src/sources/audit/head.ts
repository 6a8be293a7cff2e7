// The head reader: drains what is new, page by page, until a stop rule of invariant 7.
import type { ConnectorError } from '../../core/errors.ts'
import type { PageChunk } from '../../contracts/source.ts'
import { SECOND_US } from '../../core/time.ts'
import type { AuditCursor, Drain } from './cursor.ts'
import { recordOverlap, overlapStart } from './cursor.ts'
import { NoAnswer, readPage } from './page.ts'
import type { PageView } from './page.ts'
import {
  askHead,
  checkEnd,
  endDrain,
  findHead,
  giveUpDrain,
  settleLost,
  skipFrom,
  skipUnreadable,
  warnOfDeadCursor,
} from './head-checks.ts'
import { BAD_TRIES } from './skip.ts'
import { CLOCKS_APART_MS, currentPace, MOST_FUTURE, nextSecondUs } from './step.ts'
import type { Parts, Step } from './step.ts'
import { MAX_TAKE, moveOn, outcomeOf, recordEnd, STUCK_PAGES, takeAt, walkFrom } from './walk.ts'
import type { Position } from './walk.ts'

/** A smaller page lowers the largest size seen: a server may change its cap. */
const FADING = 0.98
/** A drain of so many pages is long: it asks once where the head is, to report its lag. */
const ASK_HEAD_PAGES = 3

/** One step of the state machine in `walk.ts`. */
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
    // The very first drain takes full pages, whatever the tier.
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
    passedHead: drain.passedHead,
    answered: (serverAt, sentAt) => drawStopLine(drain, serverAt, sentAt),
    complete: (view) => afterPage(step, drain, view, take),
    leave: (elements) => skipFrom(step, drain, elements),
    gone: (error) => leaveEntry(step, drain, error),
  })
}

/** An older stop line is drawn again: an outage or a full journal has delayed the drain. */
const LINE_OLD_MS = 300_000

/** The end of the first `Date`'s second (invariant 7); by our clock if `Date` is far behind it. */
function drawStopLine(drain: Drain, serverAt: number | undefined, sentAt: number): void {
  const byServer = serverAt !== undefined && serverAt > sentAt - CLOCKS_APART_MS
  const startAt = byServer ? serverAt : sentAt
  if (drain.untilUs !== null && startAt - drain.untilUs / 1000 < LINE_OLD_MS) return
  drain.untilByServer = byServer
  drain.untilUs = nextSecondUs(startAt * 1000)
}

/** The entry is gone: in the overlap the drain continues at the head; the head is found by time. */
function leaveEntry(step: Step, drain: Drain, error: ConnectorError): Partial<PageChunk> {
  const head = step.cursor.head as Position
  if (drain.from.id !== head.id) {
    backToHead(step.cursor, drain, head)
    return {}
  }
  step.options.log.warn(
    'The page after the last entry read cannot be read; the position is looked up again by time',
    { code: error.code, error: error.message },
  )
  if (error instanceof NoAnswer) drain.askedAgain = BAD_TRIES
  moveOn(drain, { is: 'gone' })
  return {}
}

/** The overlap leads nowhere: later polls do not use it either. */
function backToHead(cursor: AuditCursor, drain: Drain, head: Position): void {
  cursor.overlap = []
  moveOn(drain, { is: 'found', at: head })
  drain.passedHead = true
}

function afterPage(step: Step, drain: Drain, view: PageView, take: number): Partial<PageChunk> {
  const gaps = settleLost(step, view)
  const outcome = outcomeOf(drain, view)
  const isEmpty = outcome === 'nothing' || outcome === 'repeated'
  if (!isEmpty || view.malformed > 0) drain.emptyAnswers = 0
  if (isEmpty) emptyPage(step, drain)
  else if (outcome === 'malformed') skipFrom(step, drain, view.count, view.count >= take)
  else if (outcome === 'progress') return { gaps, ...advance(step, drain, view, view.last as Position, take) }
  // The end, unless so many are future-dated that our clock must be wrong.
  else if (view.count - view.malformed < MOST_FUTURE || !isFull(step, view, take)) endDrain(step, drain)
  else return { gaps, ...advance(step, drain, view, view.lastOfAll as Position, take) }
  return { gaps }
}

/** Continues at the page's `last` entry; moves the head too, once that is passed. */
function advance(step: Step, drain: Drain, view: PageView, last: Position, take: number): Partial<PageChunk> {
  const fault = recordEnd(drain, last)
  if (fault) return raiseAlarm(step, drain, fault)
  const { cursor } = step
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

/** Full by `take`, or by the cap that the server seems to have. */
function isFull({ cursor }: Step, { count, beyond }: PageView, take: number): boolean {
  // One entry, and perhaps `from` itself: the fetch of the previous page, which each fetch adds.
  const isSingle = count <= 2 && beyond <= 1
  return count >= (isSingle ? take : Math.min(take, cursor.largestPage))
}

// The stop rules. Own fetches alone are the end if the page was not full or this drain made them:
// a server that caps pages may show those of an earlier drain, followed by entries of others.
function isEnd({ passedHead, untilUs, untilByServer }: Drain, view: PageView, full: boolean): boolean {
  if (!passedHead || view.beyond === 0) return false
  const stopUs = untilUs ?? Infinity
  if (view.own === view.beyond) return !full || view.newestUs >= stopUs - SECOND_US
  return view.last !== null && view.last.at >= stopUs && (untilByServer || !full)
}

/** An empty page never resets a cursor: a dead one looks the same (invariant 6). */
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

function raiseAlarm(step: Step, drain: Drain, fault: ConnectorError): Partial<PageChunk> {
  if (drain.stuckPages < STUCK_PAGES) return { fault }
  if (!drain.passedHead) backToHead(step.cursor, drain, step.cursor.head as Position)
  else {
    step.options.log.error(`${fault.message}; trying again at the next poll`)
    giveUpDrain(step, drain)
  }
  return { fault }
}
