// A span of the audit log's past, page by page: what `backfill`, `replay` and `reconcile` read. Its place is its own; the live cursor is not touched.
import type { Appended, Cursor, Stream, PageChunk, Plan, Source } from '../../contracts/source.ts'
import { SECOND_US } from '../../core/time.ts'
import { isGone } from '../http/reply.ts'
import { freshAuditCursor, goOn } from './cursor.ts'
import type { Walk } from './cursor.ts'
import type { PageView } from './page.ts'
import type { RangePlace } from './range-place.ts'
import { closePlace, freshPage, freshPlace, notePage, openPlace, within } from './range-place.ts'
import { checkEnd, endOrDoubt, findPlace, lose, noteClock, passFrom } from './range-way.ts'
import type { RangeStep } from './range-way.ts'
import { CLOCKS_APART_MS } from './clock.ts'
import type { PagingOptions, Parts } from './step.ts'
import { lastChunk, MAX_TAKE } from './step.ts'
import { noteEnd, readPage, STUCK_PAGES, stuckPage, takeAt } from './walk.ts'
import { noteSent } from './own-fetches.ts'

/** In the second in which the walk began, or without a server's clock: so few entries, all our own fetches, are what it made itself. */
const OWN_ALONE = 3

interface RangeOptions extends PagingOptions {
  /** µs, included */
  readonly fromUs: number
  /** µs, excluded; what comes while the walk lasts is not of it */
  readonly toUs: number
}

/** `read` makes one request, in the priority `past`; the parts' cursor is the place of this walk and of no other. */
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
    const caughtUp = openPlace(text)?.done === true
    return { dueAt: clock.now(), priority: 'job', caughtUp }
  }

  async *read(text: Cursor | undefined, signal: AbortSignal): Parts {
    const { sentTimes, clock, fromUs, toUs, reporter } = this.#options
    const now = clock.now()
    const place = openPlace(text) ?? freshPlace(fromUs, Math.min(toUs, now * 1000), now)
    // What the process before this one asked for comes up in the feed too.
    if (!this.#begun) for (const at of place.fetches.sent) noteSent(sentTimes, at)
    this.#begun = true
    const cursor = { ...freshAuditCursor(now), startUs: fromUs, fetches: place.fetches }
    const step: RangeStep = { options: this.#options, cursor, headUs: 0, signal, place }
    const gapsBefore = place.gaps
    const page = freshPage()
    const finish = (part: PageChunk): PageChunk => {
      const entries = within(part.entries, place, page)
      // No findings: the live reader has looked at this span, or it is older than that reader.
      const own = { ...part, entries, findings: [] }
      if (part.cursor === undefined) return own
      if (!part.fault) notePage(place, page)
      // Before it is kept: what is noted with it says how far it goes.
      if (place.done) reporter.cursor(toUs)
      else if (place.newestUs > 0) reporter.cursor(place.newestUs)
      return { ...own, cursor: closePlace(place), gaps: place.gaps - gapsBefore }
    }
    const steps = place.done ? nothing(step) : choose(step)
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
  const { walk, checking } = step.place
  if (walk === null) return findPlace(step)
  return checking ? checkEnd(step, walk) : turnPage(step, walk)
}

async function* nothing(step: RangeStep): Parts {
  yield lastChunk(step)
}

async function* turnPage(step: RangeStep, walk: Walk): Parts {
  const { place } = step
  const take = takeAt(walk, MAX_TAKE)
  const parts = readPage(step, {
    walk,
    priority: 'job',
    take,
    stopUs: () => place.untilUs,
    passedHead: false,
    answered: (serverAt) => noteClock(step, serverAt),
    whole: (view) => afterPage(place, walk, view, take),
    leave: ({ take: kept }) => {
      passFrom(place, walk, kept)
      return {}
    },
  })
  try {
    yield* parts
  } catch (error) {
    if (!isGone(error)) throw error
    lose(place, walk)
    yield lastChunk(step)
  }
}

/** A whole page: decides where the walk goes on, and whether this was all. */
function afterPage(place: RangePlace, walk: Walk, view: PageView, take: number): Partial<PageChunk> {
  const { last, lastOfAll } = view
  const isFull = view.count >= take
  const isKnown = last === null && lastOfAll === null && !isFull
  if (view.count === 0 || isKnown || (view.count === 1 && last?.id === walk.from.id)) {
    endOrDoubt(place, walk)
    return {}
  }
  place.doubted = false
  // A server may answer with a wrong page: only the same answer again is the end of the span.
  const overshoots = last !== null && view.oldestUs >= place.untilUs
  if (overshoots && !place.overshot) {
    place.overshot = true
    return {}
  }
  place.overshot = overshoots
  const inCircles = noteEnd(walk, view)
  if (inCircles) {
    if (walk.stuckPages >= STUCK_PAGES) passFrom(place, walk)
    return { fault: stuckPage() }
  }
  if (last) {
    place.newestUs = Math.max(place.newestUs, last.at)
    const oursFrom = place.untilTold ? place.untilUs - SECOND_US : place.begunAtUs - CLOCKS_APART_MS * 1000
    const mayBeOurs = last.at >= oursFrom
    // After a narrowed page that is full, entries of others may follow.
    const ownAlone = mayBeOurs && view.own === view.beyond && view.count <= OWN_ALONE && !isFull
    if (last.at >= place.untilUs || ownAlone) place.done = true
    goOn(walk, last)
  } else if (lastOfAll) goOn(walk, lastOfAll)
  else passFrom(place, walk, view.count)
  return {}
}
