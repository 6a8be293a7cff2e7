// A span of the audit log's past, page by page: what `backfill`, `replay` and `reconcile` read. Its cursor is its own; the live one is not touched.
import type { Appended, Cursor, PageChunk, Plan, Source, Stream } from '../../contracts/source.ts'
import { ConnectorError } from '../../core/errors.ts'
import { SECOND_US } from '../../core/time.ts'
import { CLOCKS_APART_MS, nextSecondUs } from './clock.ts'
import { freshAuditCursor } from './cursor.ts'
import { anchorAt, tryLatest, brokenEntry, REACH_MARGIN_US, reachUs } from './lookup.ts'
import type { Found } from './lookup.ts'
import { recordSent } from './own-fetches.ts'
import { isRightBehind, readPage } from './page.ts'
import type { PageView } from './page.ts'
import {
  closeRangeCursor,
  freshPage,
  freshRangeCursor,
  openRangeCursor,
  recordPage,
  within,
} from './range-cursor.ts'
import type { RangeCursor } from './range-cursor.ts'
import { probeAt, skip } from './skip.ts'
import { lastChunk } from './step.ts'
import type { PagingOptions, PagingStep, Parts } from './step.ts'
import { MAX_TAKE, moveOn, outcomeOf, recordEnd, STUCK_PAGES, stuckPage, takeAt } from './walk.ts'
import type { Position } from './walk.ts'

/** In the second in which the walk began, or without a server's clock: so few entries, all our own fetches, are what it made itself. */
const OWN_ONLY = 3

interface RangeOptions extends PagingOptions {
  /** µs, included */
  readonly fromUs: number
  /** µs, excluded; what comes while the walk lasts is not of it */
  readonly toUs: number
}

/** `read` makes one request, with priority `job`; the parts' cursor is the place of this walk and of no other. */
export class AuditRange implements Source {
  readonly stream: Stream
  readonly #options: RangeOptions
  #begun = false

  constructor(options: RangeOptions) {
    this.#options = options
    this.stream = options.stream
  }

  plan(text: Cursor | undefined): Plan {
    const { clock } = this.#options
    const caughtUp = openRangeCursor(text)?.done === true
    return { dueAt: clock.now(), priority: 'job', caughtUp }
  }

  async *read(text: Cursor | undefined, signal: AbortSignal): Parts {
    const { sentTimes, clock, fromUs, toUs, reporter } = this.#options
    const now = clock.now()
    const range = openRangeCursor(text) ?? freshRangeCursor(fromUs, Math.min(toUs, now * 1000), now)
    // What the process before this one asked for comes up in the feed too.
    if (!this.#begun) for (const at of range.fetches.sent) recordSent(sentTimes, at)
    this.#begun = true
    const cursor = { ...freshAuditCursor(now), startUs: fromUs, fetches: range.fetches }
    const step: RangeStep = { options: this.#options, cursor, headUs: 0, signal, range }
    const gapsBefore = range.gaps
    const page = freshPage()
    const finish = (part: PageChunk): PageChunk => {
      const entries = within(part.entries, range, page)
      // No findings: the live reader has looked at this span, or it is older than that reader.
      const own = { ...part, entries, findings: [] }
      if (part.cursor === undefined) return own
      if (!part.fault) recordPage(range, page)
      // Before it is kept: what is noted with it says how far it goes.
      if (range.done) reporter.cursor(toUs)
      else if (range.newestUs > 0) reporter.cursor(range.newestUs)
      return { ...own, cursor: closeRangeCursor(range), gaps: range.gaps - gapsBefore }
    }
    const steps = range.done ? nothing(step) : choose(step)
    try {
      for (let next = await steps.next(); !next.done;) {
        const appended: Appended = yield finish(next.value)
        next = await steps.next(appended)
      }
    } finally {
      // If reading stops in mid-page, its request is closed too.
      await steps.return(undefined)
    }
  }
}

function choose(step: RangeStep): Parts {
  const { state, probe } = step.range.walk
  if (state === 'find' || probe) return findPlace(step)
  return state === 'check_end' ? checkEnd(step) : turnPage(step)
}

async function* nothing(step: RangeStep): Parts {
  yield lastChunk(step)
}

function turnPage(step: RangeStep): Parts {
  const { range } = step
  const { walk } = range
  const take = takeAt(walk, MAX_TAKE)
  return readPage(step, {
    walk,
    priority: 'job',
    take,
    stopUs: () => range.untilUs,
    passedHead: false,
    answered: (serverAt) => recordClock(step, serverAt),
    complete: (view) => afterPage(range, view, take),
    leave: (elements) => skipFrom(range, elements),
    gone: () => {
      moveOn(walk, { is: 'gone' })
      recordDead(range)
      return {}
    },
  })
}

/** Decides where the walk goes on, and whether this was all. */
function afterPage(range: RangeCursor, view: PageView, take: number): Partial<PageChunk> {
  const { walk } = range
  const { count, last } = view
  const outcome = outcomeOf(walk, view)
  const isFull = count >= take
  if (outcome === 'malformed') moveOn(walk, { is: outcome, behindUs: readToUs(range), take: count, isFull })
  else if (outcome === 'nothing') {
    moveOn(walk, { is: outcome })
    if (walk.state === 'find') recordDead(range)
  } else if (isOvershot(range, view)) moveOn(walk, { is: 'unproven' })
  else if (recordEnd(walk, view)) {
    if (walk.stuckPages >= STUCK_PAGES) skipFrom(range, undefined)
    return { fault: stuckPage() }
  } else {
    if (last) recordProgress(range, view, last, isFull)
    moveOn(walk, { is: 'progress', at: (outcome === 'future' ? view.lastOfAll : last) ?? walk.from })
  }
  return {}
}

/** A server may answer with a wrong page: only the same answer again is the end of the span. */
function isOvershot(range: RangeCursor, { last, oldestUs }: PageView): boolean {
  const isBehind = last !== null && oldestUs >= range.untilUs
  const isFirst = isBehind && !range.overshot
  range.overshot = isBehind
  return isFirst
}

function recordProgress(range: RangeCursor, view: PageView, last: Position, isFull: boolean): void {
  range.newestUs = Math.max(range.newestUs, last.at)
  const oursFrom = range.untilByServer ? range.untilUs - SECOND_US : range.begunAtUs - CLOCKS_APART_MS * 1000
  const mayBeOurs = last.at >= oursFrom
  // After a narrowed page that is full, entries of others may follow.
  const isOwnOnly = mayBeOurs && view.own === view.beyond && view.count <= OWN_ONLY && !isFull
  if (last.at >= range.untilUs || isOwnOnly) range.done = true
}

/** Tries at a time that shows nothing readable before the walk passes it: it may be an outage. */
const TRIES = 10
/** How often the walk may return to an earlier entry without reading anything new. */
const MOST_AGAIN = 3

/** A step of the range: the readers' step with a cursor of its own, thrown away afterwards, and the cursor that is kept. */
interface RangeStep extends PagingStep {
  readonly range: RangeCursor
}

function recordClock({ range, options }: RangeStep, serverAt: number | undefined): void {
  if (range.untilByServer || serverAt === undefined) return
  if (Math.abs(serverAt - options.clock.now()) > CLOCKS_APART_MS) {
    // Not believed as an end; but its entries are dated by it, those that the walk makes too.
    range.begunAtUs = Math.min(range.begunAtUs, serverAt * 1000)
    return
  }
  range.untilByServer = true
  range.untilUs = Math.min(range.untilUs, nextSecondUs(serverAt * 1000))
}

/** By time: at the start, behind what cannot be read, and where the walk's entry is gone. */
async function* findPlace(step: RangeStep): Parts {
  const { range } = step
  const { walk } = range
  const probe = walk.probe ?? probeAt(readToUs(range))
  const found = await anchorAt(step, probe.atUs, 'job')
  recordClock(step, found.serverAt)
  const knownUs = range.newestUs || undefined
  const skipped = await skip(step, probe, found, { priority: 'job', knownUs, endUs: range.untilUs })
  if (skipped.next === 'again' || skipped.next === 'on') walk.probe = skipped.probe
  if (skipped.next === 'again' || skipped.next === 'outage') {
    yield lastChunk(step, { fault: brokenEntry() })
    return
  }
  if (skipped.next !== 'readable') range.gaps += skipped.gaps
  if (skipped.next === 'nothing' && !found.position && !found.unreadable) {
    yield await endByTime(step, probe.atUs)
    return
  }
  range.tries = 0
  if (skipped.next === 'readable') await goOnAt(step, skipped.position, probe.atUs)
  else if (skipped.next === 'nothing') {
    await countSkipped(step, found.position)
    range.done = true
  }
  const isRead = found.unreadable || (walk.state === 'page' && !walk.probe && !range.done)
  yield lastChunk(step, isRead ? skipped.group : undefined)
}

/** Goes on at the entry, if the walk was not there before. */
async function goOnAt(step: RangeStep, position: Position, atUs: number): Promise<void> {
  const { range } = step
  if (position.id === range.dead) meetDead(step, position, atUs)
  else if (position.at < range.newestUs) rewind(step, position, atUs)
  else {
    await countSkipped(step, position)
    moveOn(range.walk, { is: 'found', at: position })
  }
}

/** The quarantined bytes are skipped: a gap, unless `to` directly follows them. */
async function countSkipped(step: RangeStep, to: Position | undefined): Promise<void> {
  const { kept } = step.range.walk.probe ?? {}
  if (kept && !(to && (await isRightBehind(step, to, kept, 'job')) === true)) step.range.gaps++
}

/** There is nothing at this time or later. If `latest` contradicts that, asks again, and at last reports a gap. */
async function endByTime(step: RangeStep, atUs: number): Promise<PageChunk> {
  const { range } = step
  const { position, unreadable, failure } = await tryLatest(step, 'job')
  // Entries of this log were read, so a `latest` that shows nothing does not prove the end.
  const isContradicted = position ? position.at >= atUs : unreadable || failure || range.newestUs > 0
  if (isContradicted && ++range.tries < TRIES) {
    const message =
      'The API finds no audit entry by time, and `latest` does not confirm that there is none; it is asked again'
    return lastChunk(step, { fault: new ConnectorError('bad_reply', message) })
  }
  if (isContradicted) range.gaps++
  // In the very second of what is quarantined `search` finds no other.
  else if (position && position.id !== range.walk.probe?.kept?.from) await countSkipped(step, undefined)
  range.done = true
  return lastChunk(step)
}

/** `search` finds the entry that led nowhere: tries it some times more, then continues at the next second. */
function meetDead(step: RangeStep, position: Position, atUs: number): void {
  const { range } = step
  if (range.deadTries < MOST_AGAIN) {
    range.deadTries++
    walkAgain(range, position)
    return
  }
  range.gaps++
  // If `earliest` answers, no time gets past it.
  if (range.deadPassed) leap(step, atUs)
  else range.walk.probe = probeAt(nextSecondUs(Math.max(atUs, position.at)))
  range.deadPassed = true
}

/** `search` leads back before what was read: to the first entry of the same second or, before its reach, to the earliest of all. */
function rewind(step: RangeStep, position: Position, atUs: number): void {
  const { range } = step
  if (range.newestUs > range.rewoundUs) range.rewinds = 0
  range.rewoundUs = range.newestUs
  if (++range.rewinds > MOST_AGAIN) {
    range.gaps++
    leap(step, atUs)
    return
  }
  walkAgain(range, position)
}

/** What was sent up to here is left out until the walk is past it. */
function walkAgain(range: RangeCursor, position: Position): void {
  range.sentUs = range.newestUs
  moveOn(range.walk, { is: 'found', at: position })
}

/** Nothing leads on from here: what `search` reaches of the span is read all the same. */
function leap(step: RangeStep, atUs: number): void {
  const { range } = step
  const toUs = reachUs(step) + REACH_MARGIN_US
  if (toUs <= atUs || toUs >= range.untilUs) range.done = true
  range.walk.probe = probeAt(toUs)
}

/** Asks `search` for a later entry: if there is one, the page is read once more. An unreadable entry is no end. */
async function* checkEnd(step: RangeStep): Parts {
  const { range } = step
  const afterUs = readToUs(range)
  const { position, unreadable, unreadableUs, isPastSpan } = await laterThan(step, afterUs)
  const atUs = position ? position.at : unreadableUs
  // Entries were read, so `latest` can show nothing but by mistake.
  const isUnproven = atUs === undefined && !isPastSpan
  if (isUnproven && ++range.tries < TRIES) {
    const shown = unreadable ? 'an entry that cannot be read' : 'no entry'
    const message = `The end of the audit log could not be checked, because the API answered with ${shown}; it is checked again automatically`
    yield lastChunk(step, { fault: new ConnectorError('bad_reply', message) })
    return
  }
  // Nor does `search` reach so far back.
  if (isUnproven && !unreadable && nextSecondUs(afterUs) < reachUs(step)) range.gaps++
  range.tries = 0
  const isLater = atUs === undefined ? unreadable : atUs > afterUs
  if (isLater) moveOn(range.walk, { is: 'later' })
  else range.done = true
  yield lastChunk(step)
}

/** Before the reach of `search`, or if that finds nothing, `latest` decides: pages lead to the log's end, not the span's. */
async function laterThan(step: RangeStep, afterUs: number): Promise<Found & { isPastSpan?: boolean }> {
  const { range } = step
  if (nextSecondUs(afterUs) >= reachUs(step)) {
    const found = await anchorAt(step, nextSecondUs(afterUs), 'job')
    const atUs = found.position?.at ?? found.unreadableUs
    // The span's end is proven, if not the log's. What `search` left out of the last entry's own second it cannot prove.
    if (atUs !== undefined && atUs >= range.untilUs && nextSecondUs(afterUs) < range.untilUs)
      return { ...found, position: undefined, unreadable: false, unreadableUs: undefined, isPastSpan: true }
    if (found.position) return found
    const newest = await tryLatest(step, 'job')
    return found.unreadable && !newest.position ? found : newest
  }
  return tryLatest(step, 'job')
}

/** Up to here all is read, µs. */
const readToUs = ({ walk, newestUs }: RangeCursor): number => Math.max(walk.from.at, newestUs)

/** The walk's entry leads nowhere: its place is found again by time, its own second first. */
function recordDead(range: RangeCursor): void {
  const { id } = range.walk.from
  if (range.dead !== id) range.deadTries = 0
  range.dead = id
  range.deadPassed = false
}

/** Skips what stays unreadable right after the walk's entry, of which `take` elements are quarantined. */
function skipFrom(range: RangeCursor, take: number | undefined): void {
  if (take === undefined) range.gaps++
  moveOn(range.walk, { is: 'unreadable', behindUs: readToUs(range), take })
}
