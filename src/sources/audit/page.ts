// One page of the audit log: its request, what a walk needs to know of it, and its failures.
import { TRANSACTION_BYTES } from '../../contracts/entries.ts'
import type { Entries } from '../../contracts/entries.ts'
import { ConnectorError } from '../../core/errors.ts'
import type { Finding, Priority, PageChunk, Quarantined } from '../../contracts/source.ts'
import { MINUTE_MS } from '../../core/time.ts'
import type { Answer } from '../http/client.ts'
import { BodySample, bufferBody, OneBehind, readGroups } from '../http/groups.ts'
import { isGone, isTooMuch, isUnreadable, withNextStep } from '../http/reply.ts'
import type { Group } from '../splitter/entries-builder.ts'
import { classify, isKnownMalformed, recordSent } from './cursor.ts'
import type { AuditCursor } from './cursor.ts'
import { anchorAt, tryLatest, isOfAll, quarantinedBytes, reachUs } from './lookup.ts'
import { BAD_TRIES, isCut, probeAfter } from './skip.ts'
import type { QuarantinedPage } from './skip.ts'
import { entryOptions, fromStart, horizonUs, lastChunk, middleChunk } from './step.ts'
import type { PagingStep, Parts } from './step.ts'
import { forgetFailures, MAX_TAKE } from './walk.ts'
import type { Position, Walk } from './walk.ts'

/** A page of one entry; a server may include `from` itself. */
const SINGLE_TAKE = 2
/** Narrowing ends here if the answers seem too large: an outage looks the same. */
const LIGHT_TAKE = 100
/** The smallest page is left after so many failures, if other pages are good meanwhile. */
export const LEAVE_TRIES = 3 * BAD_TRIES
/** After so many failures a page is left even if its last answer was cut. */
const CUT_TRIES = 6 * LEAVE_TRIES
/** A position with server errors only may be left this long after the first one. */
const LEAVE_AFTER_MS = 10 * MINUTE_MS
/** After so many good narrowed pages the usual `take` is tried again. */
const GOOD_PAGES = 20
/** An id by the specification (§2.1), and the short ids of tests. */
const PLAIN_ID = /^[\w-]{1,36}$/

/** What to keep of a page that is left as unreadable. */
interface Left {
  readonly quarantined: readonly Quarantined[]
  /** elements quarantined, from `walk.from` on; undefined: none */
  readonly take: number | undefined
}

interface Asked {
  readonly walk: Pick<Walk, 'from' | 'atLeast'>
  readonly priority: Priority
  readonly take: number
}

interface PageRequest extends Asked {
  readonly walk: Walk
  /** The walk has passed the head already; absent: it has not. */
  readonly passedHead?: boolean
  /** called before the body is read */
  answered?(serverAt: number | undefined, sentAt: number): void
  /** The page is complete: changes the cursor, which the page's last chunk stores. */
  complete(view: PageView): Partial<PageChunk>
  /** The page stays unreadable while others are good: the walk continues after it. */
  leave(take: number | undefined): void
  /** The API does not know `walk.from`, or answers with errors only. Absent: that is thrown. */
  readonly gone?: (error: ConnectorError) => Partial<PageChunk>
}

/** A page of one element that is not known yet. */
const singleTake = ({ atLeast = 0 }: Asked['walk']): number => Math.max(SINGLE_TAKE, atLeast)

const pathOf = ({ id }: Pick<Position, 'id'>, take: number) =>
  `/api/v1/logs/audit?from=${encodeURIComponent(id)}&take=${take}`

/** What a walk needs to know of a page. */
export interface PageView {
  /** elements, malformed ones included */
  count: number
  malformed: number
  /** the last entry that is not dated in the future */
  last: Position | null
  /** the last entry, even if dated in the future */
  lastOfAll: Position | null
  newestUs: number
  /** Infinity: only future-dated entries */
  oldestUs: number
  /** entries after `walk.from` */
  after: number
  /** the page reaches the head */
  passedHead: boolean
  /** entries after the head */
  beyond: number
  /** of these, own fetches */
  own: number
  metLost: boolean
  pastLost: boolean
  /** where later polls may begin, oldest first */
  marks: Position[]
}

const freshView = (passedHead: boolean): PageView => ({
  ...{ count: 0, malformed: 0, after: 0, beyond: 0, own: 0, newestUs: 0, oldestUs: Infinity, marks: [] },
  ...{ last: null, lastOfAll: null, passedHead, metLost: false, pastLost: false },
})

function lookOver(
  { options, cursor }: PagingStep,
  from: Position,
  view: PageView,
  { entries, quarantined }: Group,
  futureUs: number,
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
    view.after = isAt(from, entries, i) ? 0 : view.after + 1
    if (at > futureUs) continue
    lastIndex = i
    if (at > view.newestUs) view.newestUs = at
    if (at < view.oldestUs) view.oldestUs = at
    if (lost !== null && at >= lost.at) {
      if (isAt(lost, entries, i)) view.metLost = true
      else if (at > lost.at) view.pastLost = true
    }
    if (head !== null && isAt(head, entries, i)) {
      view.passedHead = true
      view.beyond = 0
      view.own = 0
      // Earlier pages left the marks before the head.
      view.marks = []
      continue
    }
    view.beyond++
    if (kind === 'own') {
      view.own++
      // Only fetches after the head are new.
      if (view.passedHead) options.reporter.ownFetch(Math.max(0, options.clock.now() - at / 1000))
    }
    if (isMark(entries.count - 1 - i)) view.marks.push({ id: entries.id(i), at })
  }
  if (entries.count > 0) view.lastOfAll = positionAt(entries, entries.count - 1)
  if (lastIndex >= 0) {
    view.last = positionAt(entries, lastIndex)
    if (head === null || view.last.at > head.at) view.passedHead = true
  }
  return findings
}

/** The last entry, and those 1, 2, 4, … before it: closer together near the end. */
const isMark = (fromEnd: number): boolean => (fromEnd & (fromEnd - 1)) === 0

const isAt = ({ id, at }: Position, entries: Entries, index: number): boolean =>
  entries.times[index] === at && entries.id(index) === id

const positionAt = (entries: Entries, index: number): Position => ({
  id: entries.id(index),
  at: entries.at(index),
})

function groupsOf(
  { options, cursor, signal }: PagingStep,
  { walk, take, priority }: Asked,
  onAnswer?: (answer: Answer) => void,
  sample?: BodySample,
) {
  return options.client.get(pathOf(walk.from, take), priority, signal, (answer) => {
    const at = answer.serverAt ?? answer.sentAt
    recordSent(cursor.fetches, at)
    recordSent(options.sentTimes, at)
    onAnswer?.(answer)
    // Only the smallest page is quarantined as bytes: a larger one is requested again in pieces.
    return readGroups(answer, entryOptions(options), take <= singleTake(walk) ? sample : undefined)
  })
}

/** Reads the page at `walk.from`, or handles its failure. Throws errors of any request. */
export async function* readPage(step: PagingStep, request: PageRequest): Parts {
  const { walk, take, passedHead = false } = request
  const sample = new BodySample()
  const view = freshView(passedHead)
  const behind = new OneBehind()
  const opening = new Opening()
  let answered = false
  let futureUs = Infinity
  const onAnswer = ({ serverAt, sentAt }: Answer) => {
    request.answered?.(serverAt, sentAt)
    answered = true
    futureUs = horizonUs(step, serverAt)
  }
  const chunksOf = (group: Group) => {
    const findings = lookOver(step, walk.from, view, group, futureUs)
    return opening.release(group, view).map((one) => shippable(step, one, one === group ? findings : []))
  }
  let last: Partial<PageChunk> | undefined
  try {
    for await (const group of groupsOf(step, request, onAnswer, sample)) {
      for (const ready of behind.next(group))
        for (const chunk of chunksOf(ready)) yield middleChunk(step, chunk)
    }
    const chunks = behind.last ? chunksOf(behind.last) : []
    last = chunks.pop()
    for (const chunk of chunks) yield middleChunk(step, chunk)
    if (isTooSmall(walk, take, view)) {
      yield lastChunk(step, last)
      return
    }
    opening.end(view, step.cursor)
  } catch (error) {
    yield isGone(error)
      ? leaveGone(step, request, error as ConnectorError)
      : await failPage(step, request, failureOf(error, answered, request, sample))
    return
  }
  forgetFailures(walk)
  if (walk.narrowTake !== null && ++walk.goodPages >= GOOD_PAGES) walk.narrowTake = null
  const outcome = request.complete(view)
  yield lastChunk(step, { ...last, ...outcome })
}

/** A full page of malformed elements, or of `from` alone: only a larger page shows what follows. */
function isTooSmall(walk: Walk, take: number, { count, malformed, lastOfAll }: PageView): boolean {
  const isAlone = lastOfAll === null || (lastOfAll.id === walk.from.id && count - malformed === 1)
  if (!isAlone || count < take || take >= MAX_TAKE) return false
  if (malformed > 0) walk.atLeast = take + 1
  else if (take > 1) return false
  else walk.narrowTake = SINGLE_TAKE
  return true
}

/** Keeps back malformed elements until an entry follows: an array of them may be a server error. */
class Opening {
  readonly #waiting: Group[] = []

  /** Adds a group; returns those to ship now. Throws NoEntry if too much is kept back. */
  release(group: Group, view: PageView): readonly Group[] {
    this.#waiting.push(group)
    if (!isNoEntry(view)) return this.#waiting.splice(0)
    const usedBytes = this.#quarantined.reduce((sum, { bytes }) => sum + bytes.length, 0)
    if (usedBytes > TRANSACTION_BYTES) throw new NoEntry(this.#quarantined)
    return []
  }

  /** The page is complete. Throws NoEntry, except for elements already quarantined. */
  end(view: PageView, cursor: AuditCursor): void {
    const quarantined = this.#quarantined
    if (isNoEntry(view) && !isKnownMalformed(cursor, quarantined)) throw new NoEntry(quarantined)
  }

  get #quarantined(): readonly Quarantined[] {
    return this.#waiting.flatMap(({ quarantined }) => quarantined)
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
  /** A page of this size is not narrowed, or only while other pages are good. */
  readonly leastTake: number
  /** undefined: there are only server errors, so nothing to keep */
  readonly left: Left | undefined
}

/** Throws errors of any request: an unreachable host, a refused key, a login page. */
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
  const { cursor } = step
  // Every lookback would wait at the same entry again, while live reading waits for the lookback.
  if (!left && walk.from.id === cursor.deadAt) return leaveGone(step, request, new NoAnswer(error))
  const now = step.options.clock.now()
  walk.failingSince ??= now
  walk.badTries++
  const isWaitedFor = left ? isWhole(walk, left) : now - walk.failingSince >= LEAVE_AFTER_MS
  let outcome: Partial<PageChunk> | undefined
  let next = 'is not read yet. Nothing is skipped: it is requested again'
  if (take > leastTake) {
    next += `, then in smaller pages${left ? ', until the one entry is found that is at fault' : ''}`
    if (walk.badTries >= BAD_TRIES) narrow(walk, take)
  } else if (walk.badTries % BAD_TRIES === 0) {
    if (!(await isReadElsewhere(step, request, left ? 1 : take))) {
      // All pages fail: this one is not at fault.
      forgetFailures(walk)
      if (left) walk.narrowTake = null
    } else if (!left && take > SINGLE_TAKE) narrow(walk, take)
    else if (walk.badTries >= LEAVE_TRIES && isWaitedFor) {
      forgetFailures(walk)
      walk.narrowTake = null
      if (!left) {
        cursor.deadAt = walk.from.id
        return leaveGone(step, request, new NoAnswer(error))
      }
      outcome = { quarantined: left.quarantined }
      request.leave(left.take)
      next =
        'stays unreadable while other pages are good: its bytes are quarantined, and what follows is looked for by time'
    }
  }
  return lastChunk(step, { fault: withNextStep(error, `${nameOf(request)} ${next}`), ...outcome })
}

function leaveGone(step: PagingStep, { gone }: PageRequest, error: ConnectorError): PageChunk {
  if (!gone) throw error
  return lastChunk(step, gone(error))
}

/** False if the answer is cut: an earlier one was longer, and that one is to be quarantined. */
function isWhole(walk: Walk, left: Left): boolean {
  const bytes = quarantinedBytes(left)
  walk.mostBadBytes = Math.max(bytes, walk.mostBadBytes ?? 0)
  return !isCut(bytes, walk.mostBadBytes) || walk.badTries >= CUT_TRIES
}

/** Other pages were good: such a position counts as gone. */
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

/** Whether a page is good at the entry before `from`, at one found by time, or at the newest. */
async function isReadElsewhere(
  step: PagingStep,
  { walk, priority }: PageRequest,
  take: number,
): Promise<boolean> {
  const places = [
    async () =>
      walk.before ??
      (await anchorAt(step, probeAfter(walk.from.at || reachUs(step)).atUs, priority)).position,
    async () => (await tryLatest(step, priority)).position,
  ]
  for (const find of places) {
    try {
      const from = await find()
      if (!from || from.id === walk.from.id) continue
      let isGood = true
      for await (const { entries } of groupsOf(step, { walk: { from }, priority, take }))
        isGood &&= entries.count > 0
      if (isGood) return true
    } catch (error) {
      if (!(error instanceof ConnectorError) || (isOfAll(error) && error.code !== 'unreachable')) throw error
    }
  }
  return false
}

/** Whether entry `id` directly follows the quarantined page; the error if that is unknown. */
export async function isRightAfter(
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

/** The same at each try, so that the log shows one problem. Other ids may be content. */
function nameOf({ walk: { from }, take }: PageRequest): string {
  return `the page after ${PLAIN_ID.test(from.id) ? `entry ${from.id}` : 'the last entry'} (take=${take})`
}

/** Findings name entries by index, so they are dropped with a group that is cut. */
function shippable(step: PagingStep, group: Group, findings: readonly Finding[]): Partial<PageChunk> {
  const shipped = fromStart(step, group)
  return shipped.entries === group.entries ? { ...group, findings } : shipped
}
