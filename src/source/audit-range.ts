// A span of the audit log's past, page by page: what `backfill`, `replay` and `reconcile` read. Its place is its own; the live cursor is not touched.
import { ConnectorError } from '../model/errors.ts'
import type { Appended } from '../model/journal.ts'
import type { Cursor, Origin, Part, Plan, Source } from '../model/source.ts'
import { anchorAt } from './audit-anchor.ts'
import type { Found } from './audit-anchor.ts'
import { freshCursor, walkFrom } from './audit-cursor.ts'
import type { Position, Walk } from './audit-cursor.ts'
import type { PageView } from './audit-page.ts'
import { probeAfter, readableAt, SECOND_US, unreadableAt } from './audit-probe.ts'
import type { RangePlace } from './audit-range-place.ts'
import { closePlace, freshPlace, noteTail, openPlace, within } from './audit-range-place.ts'
import type { AuditOptions, Step, Steps } from './audit-step.ts'
import { isGone, lastPart } from './audit-step.ts'
import { isStuck, readPage } from './audit-walk.ts'
import { MAX_TAKE } from './tiers.ts'

/** What stays unreadable at a place found by time is asked for so often before it is passed: it may be an outage. */
const UNREADABLE_TRIES = 10
const STUCK_PAGES = 3
/** A server's clock that is further off than this from ours is not believed. */
const CLOCKS_APART_MS = 3_600_000
/** In the second in which the walk began, or without a server's clock: so few entries, all our own fetches, are what it made itself. */
const OWN_ALONE = 3

export interface RangeOptions extends Omit<
  AuditOptions,
  'activity' | 'intervalMs' | 'start' | 'sweepMs' | 'once'
> {
  /** µs, included */
  readonly fromUs: number
  /** µs, excluded; what comes while the walk lasts is not of it */
  readonly toUs: number
}

/** A step of the range: the readers' step with a cursor of its own, thrown away afterwards, and the place that is kept. */
interface RangeStep extends Step {
  readonly place: RangePlace
}

/** `read` makes one request, in the lane `backfill`; the parts' cursor is the place of this walk and of no other. */
export class AuditRange implements Source {
  readonly origin: Origin
  readonly #options: RangeOptions

  constructor(options: RangeOptions) {
    this.#options = options
    this.origin = options.origin
  }

  plan(text: Cursor | undefined): Plan {
    const { clock, client } = this.#options
    const caughtUp = openPlace(text)?.done === true
    return { dueAt: Math.max(clock.now(), client.freeAt('backfill')), lane: 'backfill', caughtUp }
  }

  async *read(text: Cursor | undefined, signal: AbortSignal): Steps {
    const { clock, fromUs, toUs, watch } = this.#options
    const now = clock.now()
    const place = openPlace(text) ?? freshPlace(fromUs, Math.min(toUs, now * 1000), now)
    const cursor = { ...freshCursor(now), startUs: fromUs, fetches: place.fetches }
    const dummies = { activity: 'high', intervalMs: undefined, sweepMs: 0, once: true } as const
    const options: AuditOptions = { ...this.#options, ...dummies, start: { kind: 'time', atUs: fromUs } }
    const step: RangeStep = { options, cursor, headUs: 0, signal, place }
    const gapsBefore = place.gaps
    const page = new Set<string>()
    const finish = (part: Part): Part => {
      const entries = within(part.entries, place, page)
      // No finding: what happened back then was looked at by the live reader, or lies before its time.
      const own = { ...part, entries, findings: [] }
      if (part.cursor === undefined) return own
      if (!part.fault) noteTail(place, page)
      return { ...own, cursor: closePlace(place), gaps: place.gaps - gapsBefore }
    }
    const steps = place.done ? nothing(step) : choose(step)
    try {
      for (let next = await steps.next(); !next.done;) {
        const appended: Appended = yield finish(next.value)
        next = await steps.next(appended)
      }
    } finally {
      // A page that is not wanted any more gives its request back.
      await steps.return(undefined)
    }
    if (place.done) watch.cursor(toUs)
    else if (place.newestUs > 0) watch.cursor(place.newestUs)
  }
}

function choose(step: RangeStep): Steps {
  const { walk, checking } = step.place
  if (walk === null) return findPlace(step)
  return checking ? checkEnd(step, walk) : turnPage(step, walk)
}

async function* nothing(step: RangeStep): Steps {
  yield lastPart(step, undefined)
}

function noteClock({ place, options }: RangeStep, serverAt: number | undefined): void {
  if (place.untilTold || serverAt === undefined) return
  if (Math.abs(serverAt - options.clock.now()) > CLOCKS_APART_MS) {
    // Not believed as an end; but its entries are dated by it, those that the walk makes too.
    place.begunAtUs = Math.min(place.begunAtUs, serverAt * 1000)
    return
  }
  // What is dated after the first answer's second came after the walk had begun (law 7).
  place.untilTold = true
  place.untilUs = Math.min(place.untilUs, (Math.floor(serverAt / 1000) + 1) * SECOND_US)
}

/** By time: at the start, behind what cannot be read, and where the walk's entry is gone. */
async function* findPlace(step: RangeStep): Steps {
  const { place } = step
  const atUs = place.probe?.atUs ?? place.anchorUs
  const found = await anchorAt(step, atUs, 'backfill')
  noteClock(step, found.serverAt)
  const { position } = found
  if (found.unreadable) {
    yield passUnreadable(step, found, atUs)
    return
  }
  place.tries = 0
  if (!position || position.at >= place.untilUs) place.done = true
  else if (position.id === place.dead) pastDead(place)
  else if (position.at < place.newestUs) rewind(place, position)
  else if (place.probe && (place.probe = readableAt(place.probe) ?? null)) {
    // Readable, but perhaps not the first that is.
  } else place.walk = walkFrom(position)
  yield lastPart(step, place.walk ? found.group : undefined)
}

function passUnreadable(step: RangeStep, found: Found, atUs: number): Part {
  const { place } = step
  const { probe } = place
  if (found.unreadableUs === undefined && !probe && ++place.tries < UNREADABLE_TRIES) {
    const fault = new ConnectorError('bad_reply', 'The API answered an entry that cannot be read')
    return lastPart(step, undefined, { fault })
  }
  place.tries = 0
  if (!probe) place.gaps++
  place.probe = probe ? unreadableAt(probe, found.unreadableUs) : probeAfter(found.unreadableUs ?? atUs)
  if (place.probe.atUs >= place.untilUs) place.done = true
  return lastPart(step, found.group)
}

/** The entry that led nowhere is what stands at this time: on to the next second. Where `earliest` answers, no time gets past it. */
function pastDead(place: RangePlace): void {
  if (place.deadPassed) place.done = true
  place.gaps++
  place.deadPassed = true
  place.anchorUs = nextSecond(place.anchorUs)
}

/** Behind the reach of `search` the way on by time begins at the earliest entry again: once, and not for ever. */
function rewind(place: RangePlace, position: Position): void {
  if (place.rewound) {
    place.gaps++
    place.done = true
    return
  }
  place.rewound = true
  place.probe = null
  place.walk = walkFrom(position)
}

const nextSecond = (us: number) => (Math.floor(us / SECOND_US) + 1) * SECOND_US

async function* turnPage(step: RangeStep, walk: Walk): Steps {
  const { place } = step
  const take = walk.narrowTake ?? MAX_TAKE
  const parts = readPage(step, {
    walk,
    lane: 'backfill',
    take,
    stopUs: () => place.untilUs,
    passedHead: false,
    answered: (serverAt) => noteClock(step, serverAt),
    whole: (view) => advance(place, walk, view, take),
    bad: (sample) => {
      passFrom(place, walk)
      return { quarantined: [sample.quarantined('unreadable_page')] }
    },
  })
  try {
    yield* parts
  } catch (error) {
    if (!isGone(error)) throw error
    lose(place, walk)
    yield lastPart(step, undefined)
  }
}

function advance(place: RangePlace, walk: Walk, view: PageView, take: number): Partial<Part> {
  const { last, lastOfAll } = view
  if (view.count === 0 || (view.count === 1 && last?.id === walk.from.id)) {
    // One alone may be `from` itself: only a page with room for more says that nothing follows.
    if (view.count === 0 || take > 1) endOrDoubt(place, walk)
    return {}
  }
  place.doubted = false
  if (isStuck(walk, view)) {
    const fault = new ConnectorError('bad_reply', 'A page does not advance: it ends where an earlier one did')
    if (walk.stuckPages >= STUCK_PAGES) passFrom(place, walk)
    return { fault }
  }
  if (last) {
    place.newestUs = Math.max(place.newestUs, last.at)
    const oursFrom = place.untilTold ? place.untilUs - SECOND_US : place.begunAtUs - CLOCKS_APART_MS * 1000
    const mayBeOurs = last.at >= oursFrom
    const ownAlone = mayBeOurs && view.own === view.beyond && view.count <= OWN_ALONE
    if (last.at >= place.untilUs || ownAlone) place.done = true
    walk.from = last
  } else if (lastOfAll) walk.from = lastOfAll
  else passFrom(place, walk)
  return {}
}

/** Nothing follows: the end of the log, or an entry from which no page leads on any more (law 6). */
function endOrDoubt(place: RangePlace, walk: Walk): void {
  if (place.doubted) lose(place, walk)
  else place.checking = true
}

/** Held against `search`: is there something later, the page is read once more. What cannot be read is no end. */
async function* checkEnd(step: RangeStep, walk: Walk): Steps {
  const { place } = step
  const afterUs = Math.max(walk.from.at, place.newestUs)
  const { position, unreadable, unreadableUs } = await anchorAt(step, nextSecond(afterUs), 'backfill')
  const atUs = position ? position.at : unreadableUs
  if (unreadable && atUs === undefined && ++place.tries < UNREADABLE_TRIES) {
    const message = 'The API answered an entry that cannot be read where the end of the log was to be proven'
    yield lastPart(step, undefined, { fault: new ConnectorError('bad_reply', message) })
    return
  }
  place.tries = 0
  place.checking = false
  // Behind the reach of `search` it is the earliest entry that answers: no witness for anything later.
  const isLater = atUs === undefined ? unreadable : atUs > afterUs && atUs < place.untilUs
  if (isLater) place.doubted = true
  else place.done = true
  yield lastPart(step, undefined)
}

/** The walk's entry leads nowhere: its place is found again by time, its own second first. */
function lose(place: RangePlace, walk: Walk): void {
  place.dead = walk.from.id
  place.deadPassed = false
  place.anchorUs = Math.max(walk.from.at, place.newestUs)
  place.doubted = false
  place.walk = null
}

/** Past what stays unreadable right behind the walk's entry. */
function passFrom(place: RangePlace, walk: Walk): void {
  place.gaps++
  place.probe = probeAfter(Math.max(walk.from.at, place.newestUs))
  place.walk = null
}
