// Paging forward from an entry, as the drain and the sweep both do it: the request, the narrowing around a bad page, and the alarm when a page does not advance.
import { ConnectorError } from '../../model/errors.ts'
import type { Finding, Lane, Part } from '../../model/source.ts'
import { readGroups } from '../answer/groups.ts'
import { BodySample } from '../answer/body-sample.ts'
import { OneBehind } from '../answer/one-behind.ts'
import type { Group } from '../cutting/group.ts'
import { isTooMuch, isUnreadable, toldAs } from '../answer/errors.ts'
import type { Walk } from './cursor.ts'
import type { Looker, PageView } from './page.ts'
import { freshView, lookOver } from './page.ts'
import type { PagingStep, Parts } from './step.ts'
import { BAD_TRIES } from './probe.ts'
import { horizonUs } from './clock.ts'
import { entryOptions, fromStart, lastPart, midPart } from './step.ts'
import { classify, noteSent } from './own-fetches.ts'

/** A page that holds one entry, or `from` itself and one entry. */
const ALONE_TAKE = 2
/** An outage looks like too much: smaller than this no page is asked for on its account. */
const LIGHT_TAKE = 100
/** After so many good narrowed pages the usual `take` is tried again. */
const GOOD_PAGES = 20
/** What an id is by the specification (§2.1), and what stands in its place in tests. */
const PLAIN_ID = /^[\w-]{1,36}$/
/** Page ends that are remembered, to see a feed that goes in circles. */
const ENDS_LENGTH = 8

interface PageRequest {
  readonly walk: Walk
  readonly lane: Lane
  readonly take: number
  /** entries at or after this instant (µs) end a drain */
  stopUs(): number | null
  /** false for a walk that begins behind the head */
  readonly passedHead: boolean
  /** told when the answer's head is in, before its body is read */
  answered?(serverAt: number | undefined, sentAt: number): void
  /** The page is whole: changes the cursor, which then goes out with the page's last part. */
  whole(view: PageView): Partial<Part>
  /** The page stays unreadable even alone: `sample` is all that there is of it. */
  bad(sample: BodySample): Partial<Part>
}

/** What is known of the answer once its head is in. */
interface Exchange {
  answered: boolean
  horizonUs: number
}

/** Asks for the page: its entries as they come in. */
function groupsOf(step: PagingStep, request: PageRequest, exchange: Exchange, sample: BodySample) {
  const { options, cursor, signal } = step
  const { walk, take, lane } = request
  const path = `/api/v1/logs/audit?from=${encodeURIComponent(walk.from.id)}&take=${take}`
  return options.client.get(path, lane, signal, (answer) => {
    const at = answer.serverAt ?? answer.sentAt
    noteSent(cursor.fetches, at)
    noteSent(options.sentTimes, at)
    request.answered?.(answer.serverAt, answer.sentAt)
    exchange.answered = true
    exchange.horizonUs = horizonUs(step, answer.serverAt)
    // Only a page that is alone in its answer is worth its bytes: a larger one is asked for again in pieces.
    return readGroups(answer, entryOptions(step.options), take <= ALONE_TAKE ? sample : undefined)
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
    ownFetch: (atUs) => options.watch.ownFetch(Math.max(0, options.clock.now() - atUs / 1000)),
  }
}

/** Reads one page from `walk.from`. What it throws is not about this page's content. */
export async function* readPage(step: PagingStep, request: PageRequest): Parts {
  const sample = new BodySample()
  const view = freshView(request.passedHead)
  const exchange = { answered: false, horizonUs: horizonUs(step) }
  const looker = lookerOf(step, request, exchange)
  const behind = new OneBehind()
  try {
    for await (const group of groupsOf(step, request, exchange, sample)) {
      for (const ready of behind.next(group))
        yield midPart(step, shippable(step, ready, lookOver(view, ready, looker)))
    }
  } catch (error) {
    // Only what the API itself sent as its page can be a bad page: a login page or an empty answer is an outage. What is too
    // much may be one too, so it counts against a large page alone.
    const isBad = isUnreadable(error) && exchange.answered
    if (!isBad && !(isTooMuch(error, exchange.answered) && request.take > LIGHT_TAKE)) throw error
    const outcome = noteBadTry(request) === 'hopeless' && !sample.isEmpty ? request.bad(sample) : undefined
    const next = nextText(outcome, request.take, isBad)
    yield lastPart(step, { fault: toldAs(error, `${nameOf(request)}: ${next}`), ...outcome })
    return
  }
  const pending = behind.last
  const findings = pending ? lookOver(view, pending, looker) : []
  noteGoodPage(request, view)
  const outcome = request.whole(view)
  const shipped = pending && shippable(step, pending, findings)
  yield lastPart(step, { ...shipped, ...outcome })
}

/** The same for each try, so that it is told as the same trouble. An id of any other kind may be content. */
function nameOf({ walk: { from }, take }: PageRequest): string {
  return `the page behind ${PLAIN_ID.test(from.id) ? `entry ${from.id}` : 'the last entry'} (take=${take})`
}

function nextText(bad: Partial<Part> | undefined, take: number, isBad: boolean): string {
  if (bad?.quarantined)
    return 'it stays unreadable: its bytes are quarantined, and what follows is looked for by time; once an entry is read there, it counts as a gap'
  if (bad) return 'it stays unreadable: what follows is looked for by time'
  if (take <= ALONE_TAKE) return 'it is asked for again'
  return `it is asked for again, then in smaller pages${isBad ? ', until the one entry is found that is at fault' : ''}`
}

/** Nothing before the start is shipped; findings name entries by index, so they fall with a group that is cut. */
function shippable(step: PagingStep, group: Group, findings: readonly Finding[]): Partial<Part> {
  const shipped = fromStart(step, group)
  return shipped.entries === group.entries ? { ...group, findings } : shipped
}

function noteGoodPage({ walk, take }: PageRequest, view: PageView): void {
  walk.badTries = 0
  if (walk.narrowTake === null) return
  // Where `from` includes its own entry, one alone is no step forward.
  if (take === 1 && view.last?.id === walk.from.id) walk.narrowTake = ALONE_TAKE
  if (++walk.goodPages >= GOOD_PAGES) walk.narrowTake = null
}

/** After three tries the page is asked for in smaller pieces; hopeless where there is none smaller, which only bad answers can show. */
function noteBadTry({ walk, take }: PageRequest): 'again' | 'hopeless' {
  walk.badTries++
  if (walk.badTries < BAD_TRIES) return 'again'
  walk.badTries = 0
  walk.goodPages = 0
  walk.narrowTake = take > 100 ? 100 : take > 10 ? 10 : take > ALONE_TAKE ? 1 : null
  return take <= ALONE_TAKE ? 'hopeless' : 'again'
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
