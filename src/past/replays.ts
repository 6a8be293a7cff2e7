// Reading spans of the past again for one sink alone: what the journal no longer keeps comes from the API, marked as a replay, whether it is known or not.
import { collect } from '../collect/loop.ts'
import type { CollectOptions } from '../collect/loop.ts'
import type { Clock, Random } from '../model/clock.ts'
import { ConnectorError } from '../model/errors.ts'
import { nothingAppended } from '../model/appended.ts'
import type { Append, Journal } from '../model/journal.ts'
import type { Log } from '../model/log.ts'
import type { PastSpan } from '../model/past.ts'
import { assertPastShare, statsForPast } from '../model/past-share.ts'
import { joinedBy } from '../model/api-replay.ts'
import type { ApiReplay, BegunReplay, ReplayOrder, Replays } from '../model/api-replay.ts'
import { isSameOrigin } from '../model/source.ts'
import type { Origin } from '../model/source.ts'
import { keepUnlessStopped } from './keep.ts'
import { PastOrders } from './orders.ts'
import { notBegun, watching } from './progress.ts'
import { lackingSource, lackingTaker, rangeOf } from './ranges.ts'
import type { RangeReader, Taker } from './ranges.ts'
import { added, nameOf, none, NOTE, readOrder, reportOf } from './replay-order.ts'
import type { StoredReplay } from './replay-order.ts'
import { replayJobOf, SentPages, unsentOf } from './replay-page.ts'
import type { ReplayJob } from './replay-page.ts'

export interface ReplaysOptions {
  readonly ranges: readonly RangeReader[]
  readonly sinks: readonly Taker[]
  readonly journal: Journal
  readonly clock: Clock
  readonly random: Random
  readonly log: Log
  /** how far live reading is, µs; undefined: it has read nothing yet */
  readonly readTo: (origin: Origin) => Promise<number | undefined>
  /** entries of answers under way that are remembered as sent; half a million unless told */
  readonly mostMarks?: number
}

/** One a sink and source, in notes of the journal; of each source one at a time is read. Without `run` they wait. */
export class ApiReplays implements Replays {
  readonly #options: ReplaysOptions
  readonly #orders: PastOrders<StoredReplay, ReplayJob>
  readonly #pages: SentPages

  constructor(options: ReplaysOptions) {
    const { journal, clock, log, ranges, sinks, mostMarks } = options
    this.#options = options
    const read = (note: string) => {
      const noted = readOrder(note)
      return noted && replayJobOf(noted.order, noted.atUs)
    }
    const lacks = (order: StoredReplay) => lackingSource(ranges, order) ?? lackingTaker(sinks, order)
    const whose = ({ origin, sink }: StoredReplay) => ({ ...origin, sink })
    this.#orders = new PastOrders({
      what: 'replay',
      prefix: NOTE,
      nameOf,
      read,
      lacks,
      journal,
      clock,
      log,
      whose,
    })
    this.#pages = new SentPages({ journal, mostMarks, open: () => this.#orders.open() })
  }

  async begin(order: ReplayOrder): Promise<BegunReplay> {
    await this.#orders.load()
    this.#assertKnown(order)
    const stale = await this.#pages.notesOf(order)
    const readTo = await this.#options.readTo(order.origin)
    const joined = joinedBy(this.list(), order)
    if (joined) return { ...joined, isJoined: true }
    const job = replayJobOf(this.#fresh(order, readTo))
    job.isLoaded = true
    // What one before it left behind would hide entries from this one.
    await this.#orders.begin(job, stale)
    return reportOf(job.order, job)
  }

  async preview(order: ReplayOrder): Promise<ApiReplay> {
    this.#assertKnown(order)
    const fresh = this.#fresh(order, await this.#options.readTo(order.origin))
    return reportOf(fresh, notBegun)
  }

  async replays() {
    await this.#orders.load()
    return this.#orders.listedToFollowers().map((job) => reportOf(job.order, job))
  }

  async cancelReplays(sink: string | undefined): Promise<number> {
    await this.#orders.load()
    let count = 0
    for (const job of [...this.#orders.open(), ...this.#orders.asleep()]) {
      const { order, pageNotes } = job
      if ((sink ?? order.sink) !== order.sink || !(await this.#orders.cancel(job, pageNotes))) continue
      count++
      const left = await this.#pages.notesOf(order)
      // They are the next one's, where that has begun meanwhile.
      if (left.length > 0 && !this.#active(order))
        await this.#options.journal.changeNotes({ drop: left, put: [] })
    }
    return count
  }

  /** Under way, and lately ended. */
  list(): readonly ApiReplay[] {
    return this.#orders.listed().map((job) => reportOf(job.order, job))
  }

  /** Until `signal` aborts. Rejects only with what must stop the process. */
  async run(signal: AbortSignal): Promise<void> {
    await this.#orders.load()
    await Promise.all(this.#options.ranges.map((range) => this.#conduct(range, signal)))
  }

  #assertKnown({ sink, origin }: ReplayOrder): void {
    const { ranges, sinks } = this.#options
    const lacking = lackingTaker(sinks, { sink, origin })
    if (lacking === 'sink')
      throw new ConnectorError('misconfigured', `There is no sink ${sink} in the configuration of the daemon`)
    rangeOf(ranges, origin)
    if (lacking)
      throw new ConnectorError(
        'misconfigured',
        `The sink ${sink} of the daemon does not take ${origin.source}`,
      )
  }

  #fresh(order: ReplayOrder, readTo: number | undefined): StoredReplay {
    const { sink, origin, runAt } = order
    const asked = JSON.stringify(order.spans)
    return { v: 1, sink, origin, asked, spans: this.#cut(order, readTo), span: 0, runAt, counts: none }
  }

  /** Cuts the spans where live reading is: what comes behind is new to every sink, and not this replay's. */
  #cut({ spans }: ReplayOrder, readTo: number | undefined): PastSpan[] {
    const nowUs = this.#options.clock.now() * 1000
    const endUs = Math.min(nowUs, (readTo ?? nowUs) + 1)
    return spans
      .map(({ fromUs, toUs }) => ({ fromUs, toUs: Math.min(toUs, endUs) }))
      .filter(({ fromUs, toUs }) => fromUs < toUs)
  }

  async #conduct(range: RangeReader, signal: AbortSignal): Promise<void> {
    const next = () => this.#orders.next((open) => oldestOf(open, range.origin), signal)
    for (let job = await next(); job; job = await next()) {
      await this.#pages.load(job)
      const until = AbortSignal.any([signal, job.cancelled.signal])
      if (!(await this.#readSpans(range, job, until))) continue
      const ended = { ...job.order, endedAt: this.#options.clock.now() }
      if (!(await this.#orders.keep(job, ended, until))) continue
      range.log.info('A replay from the API has come to its end', {
        sink: job.order.sink,
        ...job.order.counts,
      })
    }
  }

  /** False: it was broken off. */
  async #readSpans(range: RangeReader, job: ReplayJob, signal: AbortSignal): Promise<boolean> {
    for (let span = job.order.spans[job.order.span]; span;) {
      await collect(this.#collectOptions(range, job, span), signal)
      const { clock } = this.#options
      if (!(await keepUnlessStopped(() => this.#pages.forget(job), job, clock, signal))) return false
      const { counts, place } = job.order
      const gaps = counts.gaps + (range.unread(place)?.length ?? 0)
      const next = { ...job.order, counts: { ...counts, gaps }, span: job.order.span + 1 }
      delete next.place
      delete next.voided
      if (!(await this.#orders.keep(job, next, signal))) return false
      span = job.order.spans[job.order.span]
    }
    return true
  }

  #collectOptions(range: RangeReader, job: ReplayJob, span: PastSpan): CollectOptions {
    const { clock, random, journal } = this.#options
    const { log, wanted, keyWait } = range
    const watch = watching(range, job, {
      // Nothing is taken in, and what is missing here is no gap of live reading.
      appended: () => undefined,
      gap: () => undefined,
    })
    const source = range.open(span, watch, 'send')
    const books: CollectOptions['journal'] = {
      cursor: async () => job.order.place,
      stats: () => statsForPast(journal.stats()),
      append: (part) => this.#resend(job, range, span, part),
    }
    return { source, watch, log, clock, random, wanted, keyWait, once: true, journal: books }
  }

  /** Entries and place land together: nothing of a page comes twice, however its reading is broken off. */
  async #resend(job: ReplayJob, { origin, wanted }: RangeReader, span: PastSpan, part: Append) {
    const { journal } = this.#options
    const seen = unsentOf(job, part, span)
    const picked = seen.fresh.filter((i) => wanted(seen.entries.type(i)))
    const entries = picked.length === seen.entries.count ? seen.entries : seen.entries.pick(picked)
    const known = await journal.known(origin, entries)
    const { order } = job
    const next = {
      ...order,
      counts: added(order.counts, {
        read: seen.fresh.length + seen.malformed,
        sent: entries.count,
        filtered: seen.fresh.length - entries.count,
        unknown: known.filter((one) => one !== 1).length,
        malformed: seen.malformed,
        gaps: part.gaps,
      }),
      ...(part.cursor === undefined ? {} : { place: part.cursor }),
      // What was told of this answer can come again, where anything was; where the whole walk begins anew, what comes behind it can too.
      ...(part.void === 'walk' || (part.void && job.sent.size + seen.marks.length > 0)
        ? { voided: true as const }
        : {}),
    }
    const isWhole = part.cursor !== undefined && next.voided === undefined
    if (entries.count > 0) assertPastShare(journal.stats())
    this.#orders.assertCurrent(job)
    await this.#pages.land(job, { order: next, marks: seen.marks, isWhole }, async (notes) => {
      await journal.resend({ sink: order.sink, origin, runAt: order.runAt, entries, notes })
      job.order = next
    })
    return nothingAppended
  }

  #active({ sink, origin }: Pick<StoredReplay, 'sink' | 'origin'>): ReplayJob | undefined {
    return this.#orders.open().find(({ order }) => order.sink === sink && isSameOrigin(order.origin, origin))
  }
}

const oldestOf = (open: readonly ReplayJob[], origin: Origin): ReplayJob | undefined =>
  open
    .filter(({ order }) => isSameOrigin(order.origin, origin))
    .sort((one, other) => one.order.runAt - other.order.runAt)[0]
