// Paging forward from an entry, for the drain, lookback and jobs: the request, what follows a page that fails, and the
// error when a page does not advance.
import { TRANSACTION_BYTES } from '../../contracts/entries.ts'
import { ConnectorError } from '../../core/errors.ts'
import type { Finding, Priority, PageChunk, Quarantined } from '../../contracts/source.ts'
import { MINUTE_MS } from '../../core/time.ts'
import { BodySample, hold, OneBehind, readGroups } from '../http/groups.ts'
import { isTooMuch, isUnreadable, toldAs } from '../http/reply.ts'
import type { Group } from '../splitter/entries-builder.ts'
import { anchorAt, askLatestAlone, isOfAll, quarantinedBytes, reachUs } from './lookup.ts'
import { horizonUs } from './clock.ts'
import type { AuditCursor, Position, Walk } from './cursor.ts'
import { forgetFailures, isKnownMalformed } from './cursor.ts'
import { classify, noteSent } from './own-fetches.ts'
import type { Looker, PageView } from './page.ts'
import { freshView, lookOver } from './page.ts'
import type { QuarantinedPage } from './skip.ts'
import { BAD_TRIES, isCut, probeAfter } from './skip.ts'
import type { PagingStep, Parts } from './step.ts'
import { entryOptions, fromStart, lastChunk, MAX_TAKE, middleChunk } from './step.ts'

/** A page that holds one entry, or `from` itself and one entry. */
const ALONE_TAKE = 2
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
/** Page ends that are remembered, to see a feed that goes in circles. */
const ENDS_LENGTH = 8

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
  stopUs(): number | null
  /** false for a walk that begins behind the head */
  readonly passedHead: boolean
  /** The page is whole: changes the cursor, which then goes out with the page's last part. */
  whole(view: PageView): Partial<PageChunk>
  /** The page stays unreadable while others are good: the walk goes on behind it. */
  leave(left: Left): Partial<PageChunk>
}

/** What is known of the answer once its head is in. */
interface Exchange {
  answered: boolean
  horizonUs: number
}

/** A page that holds one element which is not known yet. */
const aloneTake = ({ atLeast = 0 }: Asked['walk']): number => Math.max(ALONE_TAKE, atLeast)

const pathOf = ({ id }: Pick<Position, 'id'>, take: number) =>
  `/api/v1/logs/audit?from=${encodeURIComponent(id)}&take=${take}`

/** Asks for the page: its entries as they come in. */
function groupsOf(step: PagingStep, request: Asked, exchange: Exchange, sample?: BodySample) {
  const { options, cursor, signal } = step
  const { walk, take, priority } = request
  return options.client.get(pathOf(walk.from, take), priority, signal, (answer) => {
    const at = answer.serverAt ?? answer.sentAt
    noteSent(cursor.fetches, at)
    noteSent(options.sentTimes, at)
    request.answered?.(answer.serverAt, answer.sentAt)
    exchange.answered = true
    exchange.horizonUs = horizonUs(step, answer.serverAt)
    // Only a page that is alone in its answer is worth its bytes: a larger one is asked for again in pieces.
    return readGroups(answer, entryOptions(step.options), take <= aloneTake(walk) ? sample : undefined)
  })
}

function lookerOf({ options, cursor }: PagingStep, request: PageRequest, exchange: Exchange): Looker {
  const fetching = {
    instance: options.instance,
    expected: options.expectedUserAgent,
    sentTimes: options.sentTimes,
  }
  return {
    cursor,
    get stopUs() {
      return request.stopUs()
    },
    get horizonUs() {
      return exchange.horizonUs
    },
    classify: (entries, index) => classify(cursor.fetches, entries, index, fetching),
    ownFetch: (atUs) => options.reporter.ownFetch(Math.max(0, options.clock.now() - atUs / 1000)),
  }
}

/**
 * Reads one page from `walk.from`: it makes progress, finds nothing, or fails. A failure is tried again at the same place, until
 * pages elsewhere prove that it is this place which fails; a place that only fails with errors of the server then counts as gone
 * (`not_found`). What it throws else says nothing of this page.
 */
export async function* readPage(step: PagingStep, request: PageRequest): Parts {
  const { walk, take } = request
  const { cursor } = step
  const sample = new BodySample()
  const view = freshView(request.passedHead)
  const exchange = { answered: false, horizonUs: horizonUs(step) }
  const looker = lookerOf(step, request, exchange)
  const behind = new OneBehind()
  const opening = new Opening(view)
  const partOf = (group: Group) => {
    const findings = lookOver(view, group, looker)
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
    if (isFullOfMalformed(walk, take, view)) {
      walk.atLeast = take + 1
      yield lastChunk(step, last)
      return
    }
    opening.end(cursor)
  } catch (error) {
    yield* failPage(step, request, failureOf(error, exchange.answered, request, sample))
    return
  }
  noteGoodPage(walk, take, view)
  const outcome = request.whole(view)
  yield lastChunk(step, { ...last, ...outcome })
}

/** How many elements to ask for, where `usual` are asked for of a place about which nothing is known. */
export const takeAt = ({ atLeast = 0, narrowTake }: Walk, usual: number): number =>
  Math.min(MAX_TAKE, Math.max(atLeast, narrowTake ?? usual))

/** Nothing but malformed elements up to the page's end: they name no place to go on from, and a larger page shows what follows them. */
function isFullOfMalformed({ from }: Walk, take: number, { count, malformed, lastOfAll }: PageView): boolean {
  const isAlone = lastOfAll === null || (lastOfAll.id === from.id && count - malformed === 1)
  return malformed > 0 && isAlone && count >= take && take < MAX_TAKE
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
    return { error, leastTake: aloneTake(walk), left }
  }
  if (!isTooMuch(error, answered)) throw error
  return { error, leastTake: LIGHT_TAKE, left: undefined }
}

async function* failPage(step: PagingStep, request: PageRequest, { error, left, leastTake }: Failure): Parts {
  const { walk, take } = request
  const now = step.options.clock.now()
  walk.failingSince ??= now
  walk.badTries++
  const isWaitedFor = left ? isWhole(walk, left) : now - walk.failingSince >= LEAVE_AFTER_MS
  let outcome: Partial<PageChunk> | undefined
  let next = 'it is asked for again'
  if (take > leastTake) {
    next += `, then in smaller pages${left ? ', until the one entry is found that is at fault' : ''}`
    if (walk.badTries >= BAD_TRIES) narrow(walk, take)
  } else if (walk.badTries % BAD_TRIES === 0) {
    if (!(await isReadElsewhere(step, request, left ? 1 : take))) {
      // All pages fail: that is no fault of this one.
      forgetFailures(walk)
      if (left) walk.narrowTake = null
    } else if (!left && take > ALONE_TAKE) narrow(walk, take)
    else if (walk.badTries >= LEAVE_TRIES && isWaitedFor) {
      forgetFailures(walk)
      walk.narrowTake = null
      if (!left) throw new NoAnswer(error)
      outcome = { quarantined: left.quarantined, ...request.leave(left) }
      next =
        'it stays unreadable while other pages are good: its bytes are quarantined, and what follows is looked for by time'
    }
  }
  yield lastChunk(step, { fault: toldAs(error, `${nameOf(request)}: ${next}`), ...outcome })
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
    async () => (await askLatestAlone(step, priority)).position,
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
      yield await hold(answer, TRANSACTION_BYTES)
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
  return `the page behind ${PLAIN_ID.test(from.id) ? `entry ${from.id}` : 'the last entry'} (take=${take})`
}

/** Nothing before the start is shipped; findings name entries by index, so they fall with a group that is cut. */
function shippable(step: PagingStep, group: Group, findings: readonly Finding[]): Partial<PageChunk> {
  const shipped = fromStart(step, group)
  return shipped.entries === group.entries ? { ...group, findings } : shipped
}

function noteGoodPage(walk: Walk, take: number, view: PageView): void {
  forgetFailures(walk)
  if (walk.narrowTake === null) return
  // Where `from` includes its own entry, one alone is no step forward.
  if (take === 1 && view.last?.id === walk.from.id) walk.narrowTake = ALONE_TAKE
  if (++walk.goodPages >= GOOD_PAGES) walk.narrowTake = null
}

/** A page that does not advance is asked for so often before the reader gives up. */
export const STUCK_PAGES = 3

/** The alarm. */
export const stuckPage = () =>
  new ConnectorError(
    'bad_reply',
    'A page of GET /api/v1/logs/audit does not advance: it ends where an earlier one did',
  )

/** Notes where a page ends. True when the feed goes in circles: one of the last pages ended there too. The caller raises the alarm. */
export function noteEnd(walk: Walk, view: PageView): boolean {
  const last = view.last
  if (!last) return false
  const circling = walk.ends.includes(last.id)
  walk.stuckPages = circling ? walk.stuckPages + 1 : 0
  if (!circling) walk.ends = [...walk.ends, last.id].slice(-ENDS_LENGTH)
  return circling
}
