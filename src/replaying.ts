// Reading spans of the past again for one sink alone: what the journal no longer keeps comes from the API, marked as a replay, whether it is known or not.
import { collect } from './collect.ts'
import type { Collector } from './collect.ts'
import type { Clock, Random } from './model/clock.ts'
import { ConnectorError } from './model/errors.ts'
import { nothingAppended } from './model/journal.ts'
import type { Append, Journal } from './model/journal.ts'
import type { PastSpan } from './model/past.ts'
import { underWay } from './model/replays.ts'
import type { ApiReplay, BegunReplay, ReplayOrder, Replays } from './model/replays.ts'
import { isSameOrigin } from './model/source.ts'
import type { Origin } from './model/source.ts'
import { PastOrders } from './past-orders.ts'
import { assertRoom, lackingSource, rangeOf, statsForPast, watching } from './ranges.ts'
import type { RangeReader } from './ranges.ts'
import { added, nameOf, none, NOTE, readOrder, toldOf } from './replay-order.ts'
import type { StoredReplay } from './replay-order.ts'
import { begun, SentPages, unsentOf } from './replay-page.ts'
import type { ReplayWalk } from './replay-page.ts'

export interface ReplaysOptions {
  readonly ranges: readonly RangeReader[]
  readonly sinks: readonly string[]
  readonly journal: Journal
  readonly clock: Clock
  readonly random: Random
  /** how far live reading is, µs; undefined: it has read nothing yet */
  readonly readTo: (origin: Origin) => Promise<number | undefined>
  /** entries of answers under way that are remembered as sent; half a million unless told */
  readonly mostMarks?: number
}

/** One a sink and source, in notes of the journal; of each source one at a time is read. Without `run` they wait. */
export class ApiReplays implements Replays {
  readonly #options: ReplaysOptions
  readonly #orders: PastOrders<StoredReplay, ReplayWalk>
  readonly #pages: SentPages

  constructor(options: ReplaysOptions) {
    const { journal, clock, ranges, sinks, mostMarks } = options
    this.#options = options
    const read = (note: string) => {
      const order = readOrder(note)
      return order && begun(order)
    }
    const lacks = (order: StoredReplay) =>
      lackingSource(ranges, order) ?? (sinks.includes(order.sink) ? undefined : 'sink')
    this.#orders = new PastOrders({ what: 'replay', prefix: NOTE, nameOf, read, lacks, journal, clock })
    this.#pages = new SentPages({ journal, mostMarks, open: () => this.#orders.open() })
  }

  async begin(order: ReplayOrder): Promise<BegunReplay> {
    await this.#orders.load()
    this.#assertKnown(order)
    const stale = await this.#pages.notesOf(order)
    const readTo = await this.#options.readTo(order.origin)
    const joined = underWay(this.list(), order)
    if (joined) return { ...joined, isJoined: true }
    const running = begun(this.#fresh(order, readTo))
    running.isLoaded = true
    // What one before it left behind would hide entries from this one.
    await this.#orders.begin(running, stale)
    return toldOf(running.order, running)
  }

  async preview(order: ReplayOrder): Promise<ApiReplay> {
    this.#assertKnown(order)
    const fresh = this.#fresh(order, await this.#options.readTo(order.origin))
    return toldOf(fresh, { error: undefined, waitsFor: undefined })
  }

  async replays() {
    await this.#orders.load()
    return this.#orders.toldToFollowers().map((running) => toldOf(running.order, running))
  }

  async cancelReplays(sink: string | undefined): Promise<number> {
    await this.#orders.load()
    let count = 0
    for (const running of [...this.#orders.open(), ...this.#orders.asleep()]) {
      const { order, pageNotes } = running
      if ((sink ?? order.sink) !== order.sink || !(await this.#orders.cancel(running, pageNotes))) continue
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
    return this.#orders.told().map((running) => toldOf(running.order, running))
  }

  /** Until `signal` aborts. Rejects only with what must stop the process. */
  async run(signal: AbortSignal): Promise<void> {
    await this.#orders.load()
    await Promise.all(this.#options.ranges.map((range) => this.#conduct(range, signal)))
  }

  #assertKnown({ sink, origin }: ReplayOrder): void {
    const { ranges, sinks } = this.#options
    if (!sinks.includes(sink))
      throw new ConnectorError('misconfigured', `There is no sink ${sink} in the configuration of the daemon`)
    rangeOf(ranges, origin)
  }

  #fresh(order: ReplayOrder, readTo: number | undefined): StoredReplay {
    const { sink, origin, runAt } = order
    const asked = JSON.stringify(order.spans)
    return { v: 1, sink, origin, asked, spans: this.#cut(order, readTo), span: 0, runAt, counts: none }
  }

  /** As far as live reading is: what comes behind is new to every sink, and not this replay's. */
  #cut({ spans }: ReplayOrder, readTo: number | undefined): PastSpan[] {
    const nowUs = this.#options.clock.now() * 1000
    const endUs = Math.min(nowUs, (readTo ?? nowUs) + 1)
    return spans
      .map(({ fromUs, toUs }) => ({ fromUs, toUs: Math.min(toUs, endUs) }))
      .filter(({ fromUs, toUs }) => fromUs < toUs)
  }

  async #conduct(range: RangeReader, signal: AbortSignal): Promise<void> {
    const next = () => this.#orders.next((open) => oldestOf(open, range.origin), signal)
    for (let running = await next(); running; running = await next()) {
      await this.#pages.load(running)
      const ended = await this.#walk(range, running, AbortSignal.any([signal, running.cancelled.signal]))
      if (!ended) continue
      running.order = { ...running.order, endedAt: this.#options.clock.now() }
      running.error = undefined
      await this.#orders.save(running)
      range.log.info('A replay from the API has come to its end', {
        sink: running.order.sink,
        ...running.order.counts,
      })
    }
  }

  /** False: it was broken off. */
  async #walk(range: RangeReader, running: ReplayWalk, signal: AbortSignal): Promise<boolean> {
    const isOver = () => signal.aborted
    for (let span = running.order.spans[running.order.span]; span;) {
      await collect(this.#collector(range, running, span), signal)
      if (isOver()) return false
      await this.#pages.forget(running)
      const { counts, place } = running.order
      const gaps = counts.gaps + (range.unread(place)?.length ?? 0)
      running.order = { ...running.order, counts: { ...counts, gaps }, span: running.order.span + 1 }
      delete running.order.place
      delete running.order.voided
      await this.#orders.save(running)
      span = running.order.spans[running.order.span]
    }
    return true
  }

  #collector(range: RangeReader, running: ReplayWalk, span: PastSpan): Collector {
    const { clock, random, journal } = this.#options
    const { log, wanted } = range
    const watch = watching(range, running, {
      cursor: (atUs) => (running.order = { ...running.order, atUs }),
      // Nothing is taken in, and what is missing here is no gap of live reading.
      appended: () => undefined,
      gap: () => undefined,
    })
    const source = range.open(span, watch, 'send')
    const books: Collector['journal'] = {
      cursor: async () => running.order.place,
      stats: () => statsForPast(journal),
      append: (part) => this.#resend(running, range, span, part),
    }
    return { source, watch, log, clock, random, wanted, once: true, journal: books }
  }

  /** Entries and place land together: nothing of a page comes twice, however its reading is broken off. */
  async #resend(running: ReplayWalk, { origin, wanted }: RangeReader, span: PastSpan, part: Append) {
    const { journal } = this.#options
    const seen = unsentOf(running, part, span)
    const picked = seen.fresh.filter((i) => wanted(seen.entries.type(i)))
    const entries = picked.length === seen.entries.count ? seen.entries : seen.entries.pick(picked)
    const known = await journal.known(origin, entries)
    const { order } = running
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
      // Of an answer of which nothing was told nothing can come again; of a walk, what comes behind it can.
      ...(part.void === 'walk' || (part.void && running.sent.size + seen.marks.length > 0)
        ? { voided: true as const }
        : {}),
    }
    const isWhole = part.cursor !== undefined && next.voided === undefined
    if (entries.count > 0) assertRoom(journal)
    this.#orders.assertCurrent(running)
    await this.#pages.land(running, { order: next, marks: seen.marks, isWhole }, async (notes) => {
      await journal.resend({ sink: order.sink, origin, runAt: order.runAt, entries, notes })
      running.order = { ...next, ...(running.order.atUs === undefined ? {} : { atUs: running.order.atUs }) }
    })
    return nothingAppended
  }

  #active({ sink, origin }: Pick<StoredReplay, 'sink' | 'origin'>): ReplayWalk | undefined {
    return this.#orders.open().find(({ order }) => order.sink === sink && isSameOrigin(order.origin, origin))
  }
}

const oldestOf = (open: readonly ReplayWalk[], origin: Origin): ReplayWalk | undefined =>
  open
    .filter(({ order }) => isSameOrigin(order.origin, origin))
    .sort((one, other) => one.order.runAt - other.order.runAt)[0]
