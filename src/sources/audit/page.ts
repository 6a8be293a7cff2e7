// One page of the audit log: the request, what a walk needs to know of its entries, and what follows a page that fails.
import { TRANSACTION_BYTES } from '../../contracts/entries.ts'
import type { Entries } from '../../contracts/entries.ts'
import { ConnectorError } from '../../core/errors.ts'
import type { Finding, Priority, PageChunk, Quarantined } from '../../contracts/source.ts'
import { MINUTE_MS } from '../../core/time.ts'
import { BodySample, bufferBody, OneBehind, readGroups } from '../http/groups.ts'
import { isGone, isTooMuch, isUnreadable, withNextStep } from '../http/reply.ts'
import type { Group } from '../splitter/entries-builder.ts'
import { anchorAt, tryLatest, isOfAll, quarantinedBytes, reachUs } from './lookup.ts'
import { horizonUs } from './clock.ts'
import type { AuditCursor } from './cursor.ts'
import { isKnownMalformed } from './cursor.ts'
import { classify, recordSent } from './own-fetches.ts'
import { BAD_TRIES, isCut, probeAfter } from './skip.ts'
import type { QuarantinedPage } from './skip.ts'
import type { PagingStep, Parts } from './step.ts'
import { entryOptions, fromStart, lastChunk, middleChunk } from './step.ts'
import { forgetFailures, MAX_TAKE } from './walk.ts'
import type { Position, Walk } from './walk.ts'

/** A page that holds one entry, or `from` itself and one entry. */
const SINGLE_TAKE = 2
/** An outage looks like too much: smaller than this no page is asked for on its account. */
const LIGHT_TAKE = 100
/** A page that cannot be smaller is left after this many failures, if a page elsewhere is good at each third of them. */
export const LEAVE_TRIES = 3 * BAD_TRIES
/** After this many failures a page is left even if its last answer was cut. */
const CUT_TRIES = 6 * LEAVE_TRIES
/** A position that answers only with server errors may be left this long after the first of them. */
const LEAVE_AFTER_MS = 10 * MINUTE_MS
/** After this many good narrowed pages the usual `take` is tried again. */
const GOOD_PAGES = 20
/** An id by the specification (§2.1), and the short ids of tests. */
const PLAIN_ID = /^[\w-]{1,36}$/

/** What is kept of a page that is left as unreadable. */
interface Left {
  readonly quarantined: readonly Quarantined[]
  /** of so many elements that begin at or behind `walk.from`; undefined: nothing is kept */
  readonly take: number | undefined
}

interface Asked {
  readonly walk: Pick<Walk, 'from' | 'atLeast'>
  readonly priority: Priority
  readonly take: number
  /** called when the answer's head is in, before its body is read */
  answered?(serverAt: number | undefined, sentAt: number): void
}

interface PageRequest extends Asked {
  readonly walk: Walk
  /** entries at or after this instant (µs) end a drain */
  readonly stopUs: () => number | null
  /** false for a walk that begins behind the head */
  readonly passedHead: boolean
  /** The page is complete: changes the cursor, which then goes out with the page's last part. */
  complete(view: PageView): Partial<PageChunk>
  /** The page stays unreadable while others are good: the walk goes on behind it. */
  leave(take: number | undefined): void
  /** The API does not know `walk.from`, or answers to it with errors alone. Absent: that is thrown. */
  gone?(error: ConnectorError): Partial<PageChunk>
}

/** What is known of the answer once its head is in. */
interface Exchange {
  answered: boolean
  horizonUs: number
}

/** A page that holds one element which is not known yet. */
const singleTake = ({ atLeast = 0 }: Asked['walk']): number => Math.max(SINGLE_TAKE, atLeast)

const pathOf = ({ id }: Pick<Position, 'id'>, take: number) =>
  `/api/v1/logs/audit?from=${encodeURIComponent(id)}&take=${take}`

/** What a walk needs to know of a page to decide where to go next. */
export interface PageView {
  /** elements, the malformed ones too */
  count: number
  malformed: number
  /** the last entry that is not dated in the future */
  last: Position | null
  /** the last entry, however it is dated */
  lastOfAll: Position | null
  newestUs: number
  /** Infinity: no entry but in the future */
  oldestUs: number
  /** entries that follow the one at which the page begins */
  behind: number
  /** the page holds the head, or goes past it */
  passedHead: boolean
  /** entries behind the head: what a poll is for */
  beyond: number
  /** of these, fetches of our own */
  own: number
  /** the page's last entry is at or after the stop line */
  pastStop: boolean
  metLost: boolean
  pastLost: boolean
  /** where later polls may begin, oldest first */
  marks: Position[]
}

const freshView = (passedHead: boolean): PageView => ({
  ...{ count: 0, malformed: 0, behind: 0, beyond: 0, own: 0, newestUs: 0, oldestUs: Infinity, marks: [] },
  ...{ last: null, lastOfAll: null, passedHead, pastStop: false, metLost: false, pastLost: false },
})

/** Goes over a group in order and adds it to the view. Returns what a person should know of. */
function lookOver(
  { options, cursor }: PagingStep,
  { walk: { from }, stopUs }: PageRequest,
  view: PageView,
  { entries, quarantined }: Group,
  horizonUs: number,
): readonly Finding[] {
  const findings: Finding[] = []
  const { head, lost } = cursor
  view.count += entries.count + quarantined.length
  view.malformed += quarantined.length
  let lastIndex = -1
  for (let i = 0; i < entries.count; i++) {
    const at = entries.times[i] as number
    const kind = classify(cursor.fetches, entries, i, options)
    if (kind === 'foreign') findings.push({ kind: 'foreign_fetch', index: i })
    view.behind = isAt(from, entries, i) ? 0 : view.behind + 1
    // What is dated in the future is shipped, but reading does not continue from it.
    if (at > horizonUs) continue
    if (at > view.newestUs) view.newestUs = at
    if (at < view.oldestUs) view.oldestUs = at
    lastIndex = i
    if (lost !== null && at >= lost.at) {
      if (isAt(lost, entries, i)) view.metLost = true
      else if (at > lost.at) view.pastLost = true
    }
    if (head !== null && isAt(head, entries, i)) {
      view.passedHead = true
      view.beyond = 0
      view.own = 0
      // Entries before the head have left their marks already.
      view.marks = []
      continue
    }
    view.beyond++
    if (kind === 'own') {
      view.own++
      // Met for the first time.
      if (view.passedHead) options.reporter.ownFetch(Math.max(0, options.clock.now() - at / 1000))
    }
    if (isMark(entries.count - 1 - i)) view.marks.push({ id: entries.id(i), at })
  }
  if (entries.count > 0) view.lastOfAll = positionAt(entries, entries.count - 1)
  if (lastIndex >= 0) {
    view.last = positionAt(entries, lastIndex)
    const stopsAtUs = stopUs()
    view.pastStop = stopsAtUs !== null && view.last.at >= stopsAtUs
    if (head === null || view.last.at > head.at) view.passedHead = true
  }
  return findings
}

/** The last entry, and those that are 1, 2, 4, … before it: the nearer to the end, the closer together. */
const isMark = (fromEnd: number): boolean => (fromEnd & (fromEnd - 1)) === 0

const isAt = ({ id, at }: Position, entries: Entries, index: number): boolean =>
  entries.times[index] === at && entries.id(index) === id

const positionAt = (entries: Entries, index: number): Position => ({
  id: entries.id(index),
  at: entries.at(index),
})

/** Asks for the page: its entries as they come in. */
function groupsOf(step: PagingStep, request: Asked, exchange: Exchange, sample?: BodySample) {
  const { options, cursor, signal } = step
  const { walk, take, priority } = request
  return options.client.get(pathOf(walk.from, take), priority, signal, (answer) => {
    const at = answer.serverAt ?? answer.sentAt
    recordSent(cursor.fetches, at)
    recordSent(options.sentTimes, at)
    request.answered?.(answer.serverAt, answer.sentAt)
    exchange.answered = true
    exchange.horizonUs = horizonUs(step, answer.serverAt)
    // Only a page that is alone in its answer is worth its bytes: a larger one is asked for again in pieces.
    return readGroups(answer, entryOptions(step.options), take <= singleTake(walk) ? sample : undefined)
  })
}

/**
 * Reads one page from `walk.from`: it makes progress, finds nothing, or fails. A failure is tried again at the same place, until
 * pages elsewhere prove that it is this place which fails; a place that only fails with errors of the server then counts as gone
 * (`not_found`). What it throws else says nothing of this page.
 */
export async function* readPage(step: PagingStep, request: PageRequest): Parts {
  const { walk, take } = request
  const sample = new BodySample()
  const view = freshView(request.passedHead)
  const exchange = { answered: false, horizonUs: horizonUs(step) }
  const behind = new OneBehind()
  const opening = new Opening(view)
  const partOf = (group: Group) => {
    const findings = lookOver(step, request, view, group, exchange.horizonUs)
    return opening.release(group).map((one) => shippable(step, one, one === group ? findings : []))
  }
  let last: Partial<PageChunk> | undefined
  try {
    for await (const group of groupsOf(step, request, exchange, sample)) {
      for (const ready of behind.next(group)) for (const part of partOf(ready)) yield middleChunk(step, part)
    }
    const parts = behind.last ? partOf(behind.last) : []
    last = parts.pop()
    for (const part of parts) yield middleChunk(step, part)
    if (isTooSmall(walk, take, view)) {
      yield lastChunk(step, last)
      return
    }
    opening.end(step.cursor)
  } catch (error) {
    yield await failed(step, request, error, exchange.answered, sample)
    return
  }
  countGoodPage(walk)
  const outcome = request.complete(view)
  yield lastChunk(step, { ...last, ...outcome })
}

/** Throws what says nothing of this page: a host that cannot be reached, a refused key, a login page. */
async function failed(
  step: PagingStep,
  request: PageRequest,
  error: unknown,
  answered: boolean,
  sample: BodySample,
): Promise<PageChunk> {
  let gone = error
  try {
    if (!isGone(error)) return await failPage(step, request, failureOf(error, answered, request, sample))
  } catch (thrown) {
    gone = thrown
  }
  if (!isGone(gone) || !request.gone) throw gone
  return lastChunk(step, request.gone(gone as ConnectorError))
}

/**
 * A page that is full, and shows nothing to go on from: malformed elements alone name no place, nor does `from` itself, where a
 * server includes it. A larger page shows what follows.
 */
function isTooSmall(walk: Walk, take: number, { count, malformed, lastOfAll }: PageView): boolean {
  const isAlone = lastOfAll === null || (lastOfAll.id === walk.from.id && count - malformed === 1)
  if (!isAlone || count < take || take >= MAX_TAKE) return false
  if (malformed > 0) walk.atLeast = take + 1
  else if (take > 1) return false
  else walk.narrowTake = SINGLE_TAKE
  return true
}

/**
 * The malformed elements that a page begins with wait until an entry follows: an array in which nothing is
 * an entry may be an error of the server, such as `[null]` or `[{"error":…}]`.
 */
class Opening {
  readonly #view: PageView
  readonly #held: Group[] = []

  constructor(view: PageView) {
    this.#view = view
  }

  /** Groups that may go out now that `group` was looked at. Throws NoEntry if too much waits. */
  release(group: Group): readonly Group[] {
    this.#held.push(group)
    if (!isNoEntry(this.#view)) return this.#held.splice(0)
    const usedBytes = this.#quarantined.reduce((sum, { bytes }) => sum + bytes.length, 0)
    if (usedBytes > TRANSACTION_BYTES) throw new NoEntry(this.#quarantined)
    return []
  }

  /** The page is whole. Throws NoEntry, except for elements that were quarantined before. */
  end(cursor: AuditCursor): void {
    const quarantined = this.#quarantined
    if (isNoEntry(this.#view) && !isKnownMalformed(cursor, quarantined)) throw new NoEntry(quarantined)
  }

  get #quarantined(): readonly Quarantined[] {
    return this.#held.flatMap(({ quarantined }) => quarantined)
  }
}

const isNoEntry = ({ count, malformed }: PageView): boolean => count > 0 && malformed === count

class NoEntry extends ConnectorError {
  readonly quarantined: readonly Quarantined[]

  constructor(quarantined: readonly Quarantined[]) {
    super('bad_reply', 'GET /api/v1/logs/audit answered an array in which nothing is an audit entry')
    this.quarantined = quarantined
  }
}

interface Failure {
  readonly error: ConnectorError
  /** A page of this size or less is not narrowed, or only once a page elsewhere is good. */
  readonly leastTake: number
  /** what is kept where the page is left; undefined: the server answers with errors alone, and there is nothing to keep */
  readonly left: Left | undefined
}

/** Throws what says nothing of this page: a host that cannot be reached, a refused key, a login page. */
function failureOf(
  error: unknown,
  answered: boolean,
  { take, walk }: PageRequest,
  sample: BodySample,
): Failure {
  if (error instanceof NoEntry) {
    const { quarantined } = error
    return { error, leastTake: take, left: { quarantined, take: quarantined.length } }
  }
  // Only what the API itself sent as its page can be a bad page. What is too much may be an outage.
  if (isUnreadable(error) && answered) {
    const left = sample.isEmpty
      ? { quarantined: [], take: undefined }
      : { quarantined: [sample.quarantined('unreadable_page')], take }
    return { error, leastTake: singleTake(walk), left }
  }
  if (!isTooMuch(error, answered)) throw error
  return { error, leastTake: LIGHT_TAKE, left: undefined }
}

async function failPage(
  step: PagingStep,
  request: PageRequest,
  { error, left, leastTake }: Failure,
): Promise<PageChunk> {
  const { walk, take } = request
  const now = step.options.clock.now()
  walk.failingSince ??= now
  walk.badTries++
  const isWaitedFor = left ? isWhole(walk, left) : now - walk.failingSince >= LEAVE_AFTER_MS
  let outcome: Partial<PageChunk> | undefined
  let next = 'nothing is skipped, it is asked for again'
  if (take > leastTake) {
    next += `, then in smaller pages${left ? ', until the one entry is found that is at fault' : ''}`
    if (walk.badTries >= BAD_TRIES) narrow(walk, take)
  } else if (walk.badTries % BAD_TRIES === 0) {
    if (!(await isReadElsewhere(step, request, left ? 1 : take))) {
      // All pages fail: that is no fault of this one.
      forgetFailures(walk)
      if (left) walk.narrowTake = null
    } else if (!left && take > SINGLE_TAKE) narrow(walk, take)
    else if (walk.badTries >= LEAVE_TRIES && isWaitedFor) {
      forgetFailures(walk)
      walk.narrowTake = null
      if (!left) throw new NoAnswer(error)
      outcome = { quarantined: left.quarantined }
      request.leave(left.take)
      next =
        'it stays unreadable while other pages are good: its bytes are quarantined, and what follows is looked for by time'
    }
  }
  return lastChunk(step, { fault: withNextStep(error, `${nameOf(request)}: ${next}`), ...outcome })
}

/** False if an earlier answer held more, so this one was cut: the longest is to be quarantined. */
function isWhole(walk: Walk, left: Left): boolean {
  const bytes = quarantinedBytes(left)
  walk.mostBadBytes = Math.max(bytes, walk.mostBadBytes ?? 0)
  return !isCut(bytes, walk.mostBadBytes) || walk.badTries >= CUT_TRIES
}

/** A position that answered only with server errors for ten minutes, while other pages were good, counts as gone. */
export class NoAnswer extends ConnectorError {
  constructor(cause: ConnectorError) {
    super('not_found', `${cause.message}; it failed for ten minutes while other pages were good`, { cause })
  }
}

function narrow(walk: Walk, take: number): void {
  walk.badTries = 0
  walk.goodPages = 0
  walk.narrowTake = take > 100 ? 100 : take > 10 ? 10 : 1
}

/** Whether a page is good at another place: behind the entry that led here, or one found by time, or the newest. */
async function isReadElsewhere(
  step: PagingStep,
  { walk, priority }: PageRequest,
  take: number,
): Promise<boolean> {
  const elsewhere = [
    async () =>
      walk.before ??
      (await anchorAt(step, probeAfter(walk.from.at || reachUs(step)).atUs, priority)).position,
    async () => (await tryLatest(step, priority)).position,
  ]
  for (const find of elsewhere) if (await isReadAt(step, find, { walk, priority, take })) return true
  return false
}

async function isReadAt(
  step: PagingStep,
  find: () => Promise<Position | undefined>,
  { walk, priority, take }: Pick<PageRequest, 'walk' | 'priority' | 'take'>,
): Promise<boolean> {
  try {
    const place = await find()
    if (!place || place.id === walk.from.id) return false
    const page = { walk: { from: place }, priority, take }
    const exchange = { answered: false, horizonUs: 0 }
    let isGood = true
    for await (const { entries } of groupsOf(step, page, exchange)) isGood &&= entries.count > 0
    return isGood
  } catch (error) {
    if (!(error instanceof ConnectorError) || (isOfAll(error) && error.code !== 'unreachable')) throw error
    return false
  }
}

/** Whether what is kept as bytes is all that there is before this entry; the error where the page that would show it failed. */
export async function isRightBehind(
  step: PagingStep,
  { id }: Position,
  kept: QuarantinedPage | undefined,
  priority: Priority,
): Promise<boolean | ConnectorError> {
  if (!kept) return false
  const path = pathOf({ id: kept.from }, Math.min(kept.take + 1, MAX_TAKE))
  try {
    const bodies = step.options.client.get(path, priority, step.signal, async function* (answer) {
      yield await bufferBody(answer, TRANSACTION_BYTES)
    })
    for await (const body of bodies)
      return body !== undefined && Buffer.from(body).includes(JSON.stringify(id))
  } catch (error) {
    if (!(error instanceof ConnectorError) || isOfAll(error)) throw error
    return error
  }
  return false
}

/** The same text at each try, so that the log shows one problem. An id of any other kind may be content. */
function nameOf({ walk: { from }, take }: PageRequest): string {
  return `the page after ${PLAIN_ID.test(from.id) ? `entry ${from.id}` : 'the last entry'} (take=${take})`
}

/** Nothing before the start is shipped; findings name entries by index, so they fall with a group that is cut. */
function shippable(step: PagingStep, group: Group, findings: readonly Finding[]): Partial<PageChunk> {
  const shipped = fromStart(step, group)
  return shipped.entries === group.entries ? { ...group, findings } : shipped
}

function countGoodPage(walk: Walk): void {
  forgetFailures(walk)
  if (walk.narrowTake === null) return
  if (++walk.goodPages >= GOOD_PAGES) walk.narrowTake = null
}
