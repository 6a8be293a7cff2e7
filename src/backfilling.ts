// Reading spans of the past again beside the readers: backfills that go on after a restart, and walks that keep nothing.
import { added, none, readOrder } from './backfill-order.ts'
import type { Order } from './backfill-order.ts'
import { collect } from './collect.ts'
import type { Collector } from './collect.ts'
import type { Clock, Random } from './model/clock.ts'
import { ConnectorError } from './model/errors.ts'
import type { Journal } from './model/journal.ts'
import type { Backfill, Past, PastChoice, PastSpan, SurveyQuery } from './model/past.ts'
import type { Origin } from './model/source.ts'
import { DAY_MS } from './model/time.ts'
import { assertRoom, quietly, statsForPast } from './ranges.ts'
import type { RangeReader } from './ranges.ts'
import { Surveys } from './surveying.ts'

export interface BackfillOptions {
  readonly ranges: readonly RangeReader[]
  readonly journal: Journal
  readonly clock: Clock
  readonly random: Random
}

/** One that ended is told on the status page so long. */
const TOLD_MS = DAY_MS
const NOTE = 'backfill:'

interface Running {
  readonly order: Order
  readonly cancelled: AbortController
  error: ConnectorError | undefined
  waiting: boolean
}

const nameOf = ({ workspace, source }: Origin) => `${NOTE}${workspace}:${source}`
const isMeant = ({ workspace, source }: PastChoice, origin: Origin) =>
  (workspace ?? origin.workspace) === origin.workspace && (source ?? origin.source) === origin.source

/** One backfill a source, each in a note of the journal. `run` reads them; without it they wait. */
export class Backfills implements Past {
  readonly #options: BackfillOptions
  readonly #surveys: Surveys
  readonly #running = new Map<string, Running>()
  #loaded: Promise<void> | undefined
  #wake: (() => void)[] = []

  constructor(options: BackfillOptions) {
    this.#options = options
    this.#surveys = new Surveys(options)
  }

  async origins() {
    return this.#options.ranges.map(({ origin }) => origin)
  }

  async backfill(choice: PastChoice, span: PastSpan): Promise<readonly Backfill[]> {
    await this.#load()
    const meant = this.#options.ranges.filter(({ origin }) => isMeant(choice, origin))
    if (meant.length === 0)
      throw new ConnectorError(
        'misconfigured',
        'No source that is switched on and can be read again is meant',
      )
    const now = this.#options.clock.now()
    const until = { fromUs: span.fromUs, toUs: Math.min(span.toUs, now * 1000) }
    for (const { origin } of meant) this.#refuseOther(origin, until)
    for (const { origin } of meant) {
      if (this.#active(origin)) continue
      const order: Order = { v: 1, origin, ...until, begunAt: now, counts: none }
      const running = { order, cancelled: new AbortController(), error: undefined, waiting: true }
      const before = this.#running.get(nameOf(origin))
      this.#running.set(nameOf(origin), running)
      await this.#save(running).catch((error: unknown) => {
        this.#takeBack(running, before)
        throw error
      })
    }
    for (const wake of this.#wake.splice(0)) wake()
    return this.list().filter(({ origin }) => meant.some((range) => range.origin === origin))
  }

  async backfills() {
    await this.#load()
    return this.list()
  }

  async cancelBackfill(choice: PastChoice): Promise<number> {
    await this.#load()
    let count = 0
    for (const [name, { order, cancelled }] of this.#running) {
      if (order.endedAt !== undefined || !isMeant(choice, order.origin)) continue
      this.#running.delete(name)
      cancelled.abort(new ConnectorError('aborted', 'The backfill was cancelled'))
      await this.#options.journal.changeNotes({ drop: [name], put: [] })
      count++
    }
    return count
  }

  survey(query: SurveyQuery) {
    return this.#surveys.step(query)
  }

  /** Under way, and lately ended. */
  list(): readonly Backfill[] {
    const now = this.#options.clock.now()
    const all = [...this.#running.values()].filter(({ order }) => now - (order.endedAt ?? now) <= TOLD_MS)
    return all.map(({ order, error, waiting }) => {
      const { origin, fromUs, toUs, begunAt, endedAt, atUs, counts, unread = [] } = order
      const why = error && { code: error.code, message: error.message }
      return { origin, fromUs, toUs, begunAt, endedAt, atUs, counts, unread, error: why, waiting }
    })
  }

  /** Until `signal` aborts. Rejects only with what must stop the process. */
  async run(signal: AbortSignal): Promise<void> {
    await this.#load()
    await Promise.all(this.#options.ranges.map((range) => this.#conduct(range, signal)))
  }

  /** No walk is under way any more. */
  close(): void {
    this.#surveys.close()
  }

  async #conduct(range: RangeReader, signal: AbortSignal): Promise<void> {
    const stopped = () => signal.aborted
    while (!stopped()) {
      const running = this.#active(range.origin)
      if (!running) {
        await this.#woken(signal)
        continue
      }
      const { order, cancelled } = running
      await collect(this.#collector(range, running), AbortSignal.any([signal, cancelled.signal]))
      if (stopped()) return
      if (cancelled.signal.aborted) continue
      order.endedAt = this.#options.clock.now()
      const unread = range.unread(order.place)
      if (unread) {
        // What was passed at first may have been read in the end.
        order.unread = unread
        order.counts = { ...order.counts, gaps: unread.length }
      }
      running.error = undefined
      delete order.place
      await this.#save(running)
      range.log.info('A backfill has come to its end', {
        ...order.counts,
      })
    }
  }

  #collector(range: RangeReader, running: Running): Collector {
    const { clock, random } = this.#options
    const { order } = running
    const { log, wanted } = range
    const watch = quietly(range.watch, {
      state: (state, error) => {
        running.waiting = state === 'waiting' || state === 'idle' || state === 'paused'
        // To wait for room is no failure.
        if (error?.code !== 'journal_full') running.error = error ?? running.error
      },
      success: () => (running.error = undefined),
      cursor: (atUs) => (order.atUs = atUs),
    })
    const source = range.open(order, watch, 'keep')
    return { source, watch, log, clock, random, wanted, once: true, journal: this.#books(range, running) }
  }

  /** The journal as the loop of reading sees it here: its cursor is the walk's place, and half of its room is live reading's. */
  #books({ reads }: RangeReader, running: Running): Collector['journal'] {
    const { journal } = this.#options
    const { order } = running
    return {
      cursor: async () => order.place,
      stats: () => statsForPast(journal),
      append: async (part) => {
        const { cursor, ...rest } = part
        if (part.entries.count + part.quarantined.length > 0) assertRoom(journal)
        // A read of the past says nothing of when the source was last read, but a gap is one of the source.
        const notes = reads?.notes(false, part.gaps)
        const appended = await journal.append({ ...rest, cursor: undefined, notes })
        order.counts = added(order.counts, part, appended)
        if (cursor === undefined) return appended
        // A crash before this reads the page again, and knows its entries.
        order.place = cursor
        await this.#save(running)
        return appended
      },
    }
  }

  #active(origin: Origin): Running | undefined {
    const running = this.#running.get(nameOf(origin))
    return running?.order.endedAt === undefined ? running : undefined
  }

  #refuseOther(origin: Origin, { fromUs, toUs }: PastSpan): void {
    const order = this.#active(origin)?.order
    if (!order || (order.fromUs === fromUs && order.toUs === toUs)) return
    throw new ConnectorError(
      'misconfigured',
      `A backfill of ${origin.workspace} ${origin.source} over another span is under way: wait for it (backfill --status) or end it (backfill --cancel)`,
    )
  }

  async #save(running: Running): Promise<void> {
    const name = nameOf(running.order.origin)
    // Cancelled meanwhile: it must not come back.
    if (this.#running.get(name) !== running) return
    await this.#options.journal.putNote(name, JSON.stringify(running.order))
  }

  /** It could not be kept, so it was not begun. */
  #takeBack(running: Running, before: Running | undefined): void {
    const name = nameOf(running.order.origin)
    running.cancelled.abort(new ConnectorError('aborted', 'The backfill could not be kept'))
    if (this.#running.get(name) !== running) return
    if (before) this.#running.set(name, before)
    else this.#running.delete(name)
  }

  #load(): Promise<void> {
    this.#loaded ??= this.#read()
    return this.#loaded
  }

  async #read(): Promise<void> {
    for (const { name, value } of await this.#options.journal.notes(NOTE, 1000)) {
      const order = readOrder(value)
      const known = this.#options.ranges.find(({ origin }) => nameOf(origin) === name)
      // Of a source that is switched off just now: it waits in the journal.
      if (!known || !order) continue
      const running = { order: { ...order, origin: known.origin }, cancelled: new AbortController() }
      this.#running.set(name, { ...running, error: undefined, waiting: true })
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
