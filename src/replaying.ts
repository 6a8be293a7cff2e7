// Reading spans of the past again for one sink alone: what the journal no longer keeps comes from the API, marked as a replay, whether it is known or not.
import { collect } from './collect.ts'
import type { Collector } from './collect.ts'
import type { Clock, Random } from './model/clock.ts'
import { ConnectorError } from './model/errors.ts'
import { nothingAppended } from './model/journal.ts'
import type { Append, Journal } from './model/journal.ts'
import type { PastSpan } from './model/past.ts'
import type { ApiReplay, ReplayOrder, Replays } from './model/replays.ts'
import { isSameOrigin } from './model/source.ts'
import type { Origin } from './model/source.ts'
import { DAY_MS } from './model/time.ts'
import { assertRoom, quietly, rangeOf, statsForPast } from './ranges.ts'
import type { RangeReader } from './ranges.ts'
import { nameOf, none, NOTE, otherSpan, pagePrefix, readOrder, readPageNote, toldOf } from './replay-order.ts'
import type { Order } from './replay-order.ts'
import { added, begun, notesOf, pageNameOf, sift } from './replay-page.ts'
import type { Running } from './replay-page.ts'

export interface ReplaysOptions {
  readonly ranges: readonly RangeReader[]
  readonly sinks: readonly string[]
  readonly journal: Journal
  readonly clock: Clock
  readonly random: Random
  /** how far live reading is, µs; undefined: not told yet */
  readonly readTo: (origin: Origin) => number | undefined
}

/** One that ended is told so long. */
const TOLD_MS = DAY_MS
const MOST_NOTES = 10_000
/** Of an answer with more entries, the rest comes once more where it breaks off behind them: some 50 MB remember these. */
const MOST_MARKS = 500_000
/** A note holds one mark at least. */
const MOST_PAGES = MOST_MARKS + 1_000

/** One a sink and source, in notes of the journal; of each source one at a time is read. Without `run` they wait. */
export class ApiReplays implements Replays {
  readonly #options: ReplaysOptions
  readonly #running = new Map<string, Running>()
  #loaded: Promise<void> | undefined
  #wake: (() => void)[] = []

  constructor(options: ReplaysOptions) {
    this.#options = options
  }

  async begin(order: ReplayOrder): Promise<ApiReplay> {
    await this.#load()
    const { sink, origin } = order
    this.#assertKnown(order)
    const name = nameOf(sink, origin)
    const asked = JSON.stringify(order.spans)
    const stale = await this.#pageNotes(order)
    const active = this.#running.get(name)
    if (active && active.order.endedAt === undefined) {
      if (active.order.asked === asked) return toldOf(active.order, active)
      throw otherSpan(order)
    }
    const running = begun({
      ...{ v: 1, sink, origin, asked, spans: this.#read(order), span: 0, runAt: order.runAt, counts: none },
    })
    running.isLoaded = true
    this.#running.set(name, running)
    try {
      // What one before it left behind would hide entries from this one.
      const put = [{ name, value: JSON.stringify(running.order) }]
      await this.#options.journal.changeNotes({ drop: stale.map((note) => note.name), put })
    } catch (error) {
      this.#takeBack(running, active)
      throw error
    }
    for (const wake of this.#wake.splice(0)) wake()
    return toldOf(running.order, running)
  }

  async replays() {
    await this.#load()
    return this.list()
  }

  async cancelReplays(sink: string | undefined): Promise<number> {
    await this.#load()
    let count = 0
    const { journal } = this.#options
    for (const [name, running] of [...this.#running]) {
      const { order, cancelled, pages } = running
      if (order.endedAt !== undefined || (sink ?? order.sink) !== order.sink) continue
      // Begun since the word was given.
      if (this.#running.get(name) !== running) continue
      this.#running.delete(name)
      cancelled.abort(new ConnectorError('aborted', 'The replay was cancelled'))
      await journal.changeNotes({ drop: [name, ...pages], put: [] })
      const left = await this.#pageNotes(order)
      if (left.length > 0 && !this.#running.has(name))
        await journal.changeNotes({ drop: left.map((note) => note.name), put: [] })
      count++
    }
    return count
  }

  /** Under way, and lately ended. */
  list(): readonly ApiReplay[] {
    const now = this.#options.clock.now()
    const all = [...this.#running.values()].filter(({ order }) => now - (order.endedAt ?? now) <= TOLD_MS)
    return all.map((running) => toldOf(running.order, running))
  }

  /** Until `signal` aborts. Rejects only with what must stop the process. */
  async run(signal: AbortSignal): Promise<void> {
    await this.#load()
    await Promise.all(this.#options.ranges.map((range) => this.#conduct(range, signal)))
  }

  #assertKnown({ sink, origin }: ReplayOrder): void {
    const { ranges, sinks } = this.#options
    if (!sinks.includes(sink))
      throw new ConnectorError('misconfigured', `There is no sink ${sink} in the configuration of the daemon`)
    rangeOf(ranges, origin)
  }

  /** As far as live reading is: what comes behind is new to every sink, and not this replay's. */
  #read({ origin, spans }: ReplayOrder): PastSpan[] {
    const { clock, readTo } = this.#options
    const nowUs = clock.now() * 1000
    const endUs = Math.min(nowUs, (readTo(origin) ?? nowUs) + 1)
    return spans
      .map(({ fromUs, toUs }) => ({ fromUs, toUs: Math.min(toUs, endUs) }))
      .filter(({ fromUs, toUs }) => fromUs < toUs)
  }

  async #conduct(range: RangeReader, signal: AbortSignal): Promise<void> {
    const stopped = () => signal.aborted
    while (!stopped()) {
      const running = this.#next(range.origin)
      if (!running) {
        await this.#woken(signal)
        continue
      }
      await this.#loadPages(running)
      const ended = await this.#walk(range, running, AbortSignal.any([signal, running.cancelled.signal]))
      if (!ended) continue
      running.order = { ...running.order, endedAt: this.#options.clock.now() }
      running.error = undefined
      await this.#save(running)
      range.log.info('A replay from the API has come to its end', {
        sink: running.order.sink,
        ...running.order.counts,
      })
    }
  }

  /** False: it was broken off. */
  async #walk(range: RangeReader, running: Running, signal: AbortSignal): Promise<boolean> {
    const isOver = () => signal.aborted
    for (let span = running.order.spans[running.order.span]; span;) {
      await collect(this.#collector(range, running, span), signal)
      if (isOver()) return false
      await this.#forgetPages(running)
      const { counts, place } = running.order
      const gaps = counts.gaps + (range.unread(place)?.length ?? 0)
      running.order = { ...running.order, counts: { ...counts, gaps }, span: running.order.span + 1 }
      delete running.order.place
      delete running.order.voided
      await this.#save(running)
      span = running.order.spans[running.order.span]
    }
    return true
  }

  async #forgetPages(running: Running): Promise<void> {
    if (running.pages.length > 0) await this.#options.journal.changeNotes({ drop: running.pages, put: [] })
    running.pages = []
    running.sent.clear()
  }

  #collector(range: RangeReader, running: Running, span: PastSpan): Collector {
    const { clock, random, journal } = this.#options
    const { log, wanted } = range
    const told = quietly(range.watch, {
      state: (state, error) => {
        running.waiting = state === 'waiting' || state === 'idle' || state === 'paused'
        // To wait for room is no failure.
        if (error?.code !== 'journal_full') running.error = error ?? running.error
      },
      success: () => (running.error = undefined),
      cursor: (atUs) => (running.order = { ...running.order, atUs }),
      // Nothing is taken in, and what is missing here is no gap of live reading.
      appended: () => undefined,
      gap: () => undefined,
    })
    const books: Collector['journal'] = {
      cursor: async () => running.order.place,
      stats: () => statsForPast(journal),
      append: (part) => this.#resend(running, range, span, part),
    }
    return {
      source: range.open(span, told, 'send'),
      watch: told,
      log,
      clock,
      random,
      wanted,
      once: true,
      journal: books,
    }
  }

  /** Entries and place land together: nothing of a page comes twice, however its reading is broken off. */
  async #resend(running: Running, { origin, wanted }: RangeReader, span: PastSpan, part: Append) {
    const { journal } = this.#options
    const seen = sift(running.sent, part, span)
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
    const marks = !isWhole && running.sent.size < MOST_MARKS ? seen.marks : []
    const page = marks.length === 0 ? undefined : pageNameOf(running)
    const notes = notesOf(next, isWhole ? running.pages : [], page, marks)
    if (entries.count > 0) assertRoom(journal)
    this.#assertCurrent(running)
    await journal.resend({ sink: order.sink, origin, runAt: order.runAt, entries, notes })
    running.order = { ...next, ...(running.order.atUs === undefined ? {} : { atUs: running.order.atUs }) }
    if (isWhole) {
      running.pages = []
      running.sent.clear()
    } else if (page !== undefined) running.pages.push(page)
    for (const mark of marks) running.sent.add(mark)
    return nothingAppended
  }

  /** One that was cancelled meanwhile must not come back. */
  #assertCurrent(running: Running): void {
    const { sink, origin } = running.order
    if (this.#running.get(nameOf(sink, origin)) !== running)
      throw new ConnectorError('aborted', 'The replay was cancelled')
  }

  /** It could not be kept, so it was not begun. */
  #takeBack(running: Running, before: Running | undefined): void {
    const { sink, origin } = running.order
    const name = nameOf(sink, origin)
    running.cancelled.abort(new ConnectorError('aborted', 'The replay could not be kept'))
    if (this.#running.get(name) !== running) return
    if (before) this.#running.set(name, before)
    else this.#running.delete(name)
  }

  #pageNotes({ sink, origin }: Pick<Order, 'sink' | 'origin'>) {
    return this.#options.journal.notes(pagePrefix(sink, origin), MOST_PAGES)
  }

  async #loadPages(running: Running): Promise<void> {
    if (running.isLoaded) return
    for (const { name, value } of await this.#pageNotes(running.order)) {
      running.pages.push(name)
      for (const mark of readPageNote(value)) running.sent.add(mark)
    }
    running.isLoaded = true
  }

  #next(origin: Origin): Running | undefined {
    const open = [...this.#running.values()].filter(
      ({ order }) => order.endedAt === undefined && isSameOrigin(order.origin, origin),
    )
    return open.sort((one, other) => one.order.runAt - other.order.runAt)[0]
  }

  async #save(running: Running): Promise<void> {
    const { sink, origin } = running.order
    const name = nameOf(sink, origin)
    if (this.#running.get(name) !== running) return
    await this.#options.journal.putNote(name, JSON.stringify(running.order))
  }

  #load(): Promise<void> {
    this.#loaded ??= this.#readNotes()
    return this.#loaded
  }

  async #readNotes(): Promise<void> {
    const { journal, ranges, sinks } = this.#options
    for (const { name, value } of await journal.notes(NOTE, MOST_NOTES)) {
      const order = readOrder(value)
      const range = order && ranges.find(({ origin }) => isSameOrigin(origin, order.origin))
      // Of a source or a sink that is switched off just now: it waits in the journal.
      if (!order || !range || !sinks.includes(order.sink)) continue
      this.#running.set(name, begun(order))
    }
  }

  #woken(signal: AbortSignal): Promise<void> {
    return new Promise((resolve) => {
      const over = () => {
        signal.removeEventListener('abort', over)
        resolve()
      }
      signal.addEventListener('abort', over, { once: true })
      this.#wake.push(over)
    })
  }
}
