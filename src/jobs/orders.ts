// Orders to read the past again, each kept in a note of the journal: what is under way over restarts, what ended lately, and who waits for the next one.
import type { ZodType } from 'zod'
import { lackingText } from '../contracts/jobs.ts'
import type { Lacking, PastSpan, PastUse, Unread, WaitsFor } from '../contracts/jobs.ts'
import type { Journal } from '../contracts/journal.ts'
import type { Note } from '../contracts/records.ts'
import { silentWatch } from '../contracts/reporter.ts'
import type { SourceState, SourceWatch } from '../contracts/reporter.ts'
import { isSameOrigin } from '../contracts/source.ts'
import type { Cursor, Origin, Source, SourceName } from '../contracts/source.ts'
import type { Clock } from '../core/clock.ts'
import { ConnectorError } from '../core/errors.ts'
import { jsonOf } from '../core/json.ts'
import type { KeyWait } from '../core/key-waits.ts'
import type { Log, LogFields } from '../core/log.ts'
import { DAY_MS } from '../core/time.ts'

/** One that ended is listed so long. */
const LISTED_MS = DAY_MS
/** And so long beside the next one in its place: who follows one looks every second, and for half a minute without an answer. */
const REPLACED_MS = 60_000
const MOST_NOTES = 10_000

/** An order and how it fares: from its begin, or from the note where a restart found it, until it is told no more. */
export interface Job<Order> extends Progress {
  order: Order
  readonly cancelled: AbortController
}

/** `atUs`: how far a note says that it was. */
export const jobOf = <Order>(order: Order, atUs?: number): Job<Order> => ({
  order,
  cancelled: new AbortController(),
  error: undefined,
  waitsFor: 'turn',
  waitReason: undefined,
  atUs,
})

interface Ending {
  /** epoch ms; absent: it is under way */
  readonly endedAt?: number
}

interface PastOrdersOptions<Order extends Ending, OwnJob extends Job<Order>> {
  readonly what: 'backfill' | 'replay'
  /** of all notes, and of no others */
  readonly prefix: string
  readonly nameOf: (order: Order) => string
  /** What a note holds; undefined: nothing of ours. */
  readonly read: (note: string) => OwnJob | undefined
  /** What the configuration has not, without which it waits in the journal. */
  readonly lacks: (order: Order) => Lacking | undefined
  readonly journal: Pick<Journal, 'notes' | 'putNote' | 'changeNotes'>
  readonly clock: Pick<Clock, 'now' | 'sleep'>
  readonly log: Log
  /** Whose it is, as the log is to tell. */
  readonly whose: (order: Order) => LogFields
}

/**
 * The name of an order's note is a place, and one job at a time is in it:
 *
 * | list        | who is in it                                          | who sees it                                       |
 * | ----------- | ----------------------------------------------------- | ------------------------------------------------- |
 * | `#jobs`     | has its place: under way, or ended                    | who reads: under way; all: for a day after an end |
 * | `#asleep`   | waits in the journal for its source or sink           | who asks or cancels                               |
 * | `#replaced` | ended, and another one has its place                  | who asks, for a minute after its end              |
 * | `#before`   | had ended in the place that one of `#jobs` has        | nobody, until that is cancelled: it is back then  |
 */
export class PastOrders<Order extends Ending, OwnJob extends Job<Order>> {
  readonly #options: PastOrdersOptions<Order, OwnJob>
  readonly #jobs = new Map<string, OwnJob>()
  readonly #asleep = new Map<string, OwnJob>()
  #replaced: OwnJob[] = []
  readonly #before = new Map<string, OwnJob>()
  #loaded: Promise<void> | undefined
  #wake: (() => void)[] = []

  constructor(options: PastOrdersOptions<Order, OwnJob>) {
    this.#options = options
  }

  /** Before anything else. */
  load(): Promise<void> {
    this.#loaded ??= this.#read()
    return this.#loaded
  }

  /** Under way, as it is now: what is begun later is not among them. */
  open(): readonly OwnJob[] {
    return [...this.#jobs.values()].filter(({ order }) => order.endedAt === undefined)
  }

  /** Under way, and lately ended. */
  listed(): readonly OwnJob[] {
    return [...this.#jobs.values()].filter(
      ({ order: { endedAt } }) => endedAt === undefined || this.#isWithin(LISTED_MS, endedAt),
    )
  }

  /** Those, the ones that lack something, and the ended ones that others took the places of a moment ago: who follows one hears how it ended. */
  listedToFollowers(): readonly OwnJob[] {
    this.#replaced = this.#replaced.filter(this.#isFresh)
    return [...this.#replaced, ...this.listed(), ...this.asleep()]
  }

  /** Under way once the configuration has what they lack. */
  asleep(): readonly OwnJob[] {
    return [...this.#asleep.values()]
  }

  readonly #isFresh = ({ order: { endedAt = 0 } }: OwnJob) => this.#isWithin(REPLACED_MS, endedAt)

  /** Or that far ahead: it ended by a clock that has since been set back. */
  #isWithin(spanMs: number, endedAt: number): boolean {
    return Math.abs(this.#options.clock.now() - endedAt) <= spanMs
  }

  /** The first that `choose` finds, as soon as there is one; undefined once `signal` aborts. */
  async next(
    choose: (open: readonly OwnJob[]) => OwnJob | undefined,
    signal: AbortSignal,
  ): Promise<OwnJob | undefined> {
    const stopped = () => signal.aborted
    while (!stopped()) {
      const job = choose(this.open())
      if (job) return job
      await this.#woken(signal)
    }
    return undefined
  }

  /** In the place of one that has ended. Where it cannot be kept it was not begun. `dropped`: notes that go with that. */
  async begin(job: OwnJob, dropped: readonly string[] = []): Promise<void> {
    const { journal, nameOf, what } = this.#options
    const name = nameOf(job.order)
    const before = this.#jobs.get(name)
    this.#jobs.set(name, job)
    try {
      await journal.changeNotes({ drop: dropped, put: [{ name, value: noteText(job.order, job) }] })
    } catch (error) {
      job.cancelled.abort(new ConnectorError('aborted', `The ${what} could not be kept`))
      if (this.isCurrent(job)) {
        if (before) this.#jobs.set(name, before)
        else this.#jobs.delete(name)
      }
      throw error
    }
    if (before?.order.endedAt !== undefined) {
      this.#before.set(name, before)
      this.#replaced = [...this.#replaced, before].filter(this.#isFresh)
    }
    for (const wake of this.#wake.splice(0)) wake()
  }

  /** False: it was under way no longer. `dropped`: notes that go with its own. */
  async cancel(job: OwnJob, dropped: readonly string[] = []): Promise<boolean> {
    const { journal, nameOf } = this.#options
    const name = nameOf(job.order)
    const isAsleep = this.#asleep.get(name) === job
    if (job.order.endedAt !== undefined || !(isAsleep || this.isCurrent(job))) return false
    this.#asleep.delete(name)
    const replaced = this.#replaced
    const before = this.#takeBack(name)
    const put = before ? [{ name, value: noteText(before.order, before) }] : []
    try {
      await journal.changeNotes({ drop: before ? dropped : [name, ...dropped], put })
    } catch (error) {
      // The next process would find it in the journal: here too it is under way on.
      if (isAsleep) this.#asleep.set(name, job)
      else this.#jobs.set(name, job)
      if (before) this.#before.set(name, before)
      this.#replaced = replaced
      throw error
    }
    job.cancelled.abort(this.#cancelled())
    return true
  }

  /** The place of a cancelled one is that of the one that had ended there, or nobody's. */
  #takeBack(name: string): OwnJob | undefined {
    const before = this.#before.get(name)
    this.#before.delete(name)
    this.#jobs.delete(name)
    if (before) this.#jobs.set(name, before)
    this.#replaced = this.#replaced.filter((job) => job !== before)
    return before
  }

  /** How far it is. One that was cancelled meanwhile must not come back. */
  async save(job: OwnJob, order: Order = job.order): Promise<void> {
    for (const { name, value } of this.noteOf(job, order)) await this.#options.journal.putNote(name, value)
  }

  /** The same of what no loop would write again, as the job's order from then on. False: `signal` came first, and nothing of it was kept. */
  async keep(job: OwnJob, order: Order, signal: AbortSignal): Promise<boolean> {
    const { clock } = this.#options
    const isKept = await keepUnlessStopped(() => this.save(job, order), job, clock, signal)
    if (isKept) job.order = order
    return isKept
  }

  /** To land with what the reading has come to by it: `order` as it is then. None of one that was cancelled meanwhile. */
  noteOf(job: OwnJob, order: Order): readonly Note[] {
    return this.isCurrent(job) ? [{ name: this.#options.nameOf(order), value: noteText(order, job) }] : []
  }

  isCurrent(job: OwnJob): boolean {
    return this.#jobs.get(this.#options.nameOf(job.order)) === job
  }

  /** Throws ConnectorError `aborted` for one that was cancelled meanwhile. */
  assertCurrent(job: OwnJob): void {
    if (!this.isCurrent(job)) throw this.#cancelled()
  }

  #cancelled(): ConnectorError {
    return new ConnectorError('aborted', `The ${this.#options.what} was cancelled`)
  }

  async #read(): Promise<void> {
    const { journal, prefix, nameOf, read, lacks, what, log, whose } = this.#options
    for (const { value } of await journal.notes(prefix, MOST_NOTES)) {
      const job = read(value)
      if (!job) continue
      const lacking = lacks(job.order)
      if (!lacking) this.#jobs.set(nameOf(job.order), job)
      else if (job.order.endedAt === undefined) {
        job.waitsFor = lacking
        log.warn(
          `A ${what} waits in the journal: ${lackingText[lacking]}. It goes on once that is there again; ${what} --cancel ends it`,
          whose(job.order),
        )
        this.#asleep.set(nameOf(job.order), job)
      }
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

// Writes a note for what reads the past, where no loop above would try again: a disk too full even for that is waited out.

const TRY_AGAIN_MS = 5_000

/** False: it was stopped first, and nothing of it was kept. Rejects with what must stop the process. */
export async function keepUnlessStopped(
  write: () => Promise<void>,
  progress: Progress,
  clock: Pick<Clock, 'sleep'>,
  signal: AbortSignal,
): Promise<boolean> {
  const stopped = () => signal.aborted
  while (!stopped()) {
    try {
      await write()
      progress.error = undefined
      return true
    } catch (error) {
      if (!(error instanceof ConnectorError) || error.action === 'exit') throw error
      progress.error = error
      await clock.sleep(TRY_AGAIN_MS, signal)
    }
  }
  return false
}

// How an order to read the past again is written into a note of the journal, with how far its reading is, and read out of it.

interface Noted<Stored> {
  readonly order: Omit<Stored, 'atUs'>
  readonly atUs: number | undefined
}

/** What a note holds; one that is not ours, or of another version, is as good as none. */
export function readNote<Stored extends { atUs?: number }>(
  schema: ZodType<Stored>,
  text: string,
): Noted<Stored> | undefined {
  const stored = jsonOf(schema, text)
  if (!stored) return undefined
  const { atUs, ...order } = stored
  return { order, atUs }
}

export const noteText = (order: object, { atUs }: Pick<Progress, 'atUs'>): string =>
  JSON.stringify({ ...order, atUs })

// How what reads the past fares, watched without disturbing what is told of its source's live reading.

export interface Progress {
  /** why it does not come on just now; it is tried again */
  error: ConnectorError | undefined
  waitsFor: WaitsFor | undefined
  /** in words, where more is known of it */
  waitReason: string | undefined
  /** the own time of what was read last, µs; undefined: nothing yet */
  atUs: number | undefined
}

export const notBegun: Progress = {
  error: undefined,
  waitsFor: undefined,
  waitReason: undefined,
  atUs: undefined,
}

/** Of a job in this state. @internal for tests */
export function waitOf(
  state: SourceState,
  { rateWait }: Pick<RangeReader, 'rateWait'>,
): Pick<Progress, 'waitsFor' | 'waitReason'> {
  if (state === 'paused') return { waitsFor: 'room', waitReason: undefined }
  if (state !== 'waiting') return { waitsFor: undefined, waitReason: undefined }
  const { isLimited, reason } = rateWait()
  return { waitsFor: isLimited ? 'limit' : 'rate_limit', waitReason: reason }
}

/** Counts requests and entries under the source, and says nothing of where its live reading is, nor that it lives. To wait for room is no failure. */
export function watching(
  { watch, rateWait }: Pick<RangeReader, 'watch' | 'rateWait'>,
  progress: Progress,
  more: Partial<SourceWatch> = {},
): SourceWatch {
  const { aside = watch } = watch
  return {
    ...silentWatch,
    request: (code, durationMs) => aside.request(code, durationMs),
    waited: (durationMs) => aside.waited(durationMs),
    waitsForMemory() {
      progress.waitsFor = 'memory'
      return () => (progress.waitsFor = undefined)
    },
    appended: (appended) => aside.appended(appended),
    gap: (count) => aside.gap(count),
    state(state, error) {
      Object.assign(progress, waitOf(state, { rateWait }))
      if (error?.code !== 'journal_full') progress.error = error ?? progress.error
    },
    success: () => (progress.error = undefined),
    cursor: (atUs) => (progress.atUs = atUs),
    ...more,
  }
}

// What a source must be able to do for its past to be read again, and what of the configuration an order lacks for that.

/** A source whose past can be read again. */
export interface RangeReader {
  readonly origin: Origin
  readonly watch: SourceWatch
  readonly log: Log
  readonly wanted: (type: string) => boolean
  /** where it is kept when the source last had a gap; absent: nowhere */
  readonly reads?: { notes(good: boolean, gaps: number): readonly Note[] } | undefined
  /** of the key that it is read with; absent: it is shared with nobody */
  readonly keyWait?: KeyWait | undefined
  /** Reads the span once; the cursor of its parts is a place in that span. */
  open(span: PastSpan, watch: SourceWatch, use: PastUse): Source
  /** What a job waits for when the rate limiter has no permit for it, and why, in words. `isLimited`: the end of a 429. */
  readonly rateWait: () => { readonly isLimited: boolean; readonly reason: string }
  /** By the cursor of live reading: nothing before it is wanted, µs; undefined: all is. */
  readonly startUs: (live: Cursor | undefined) => number | undefined
  /** What of the span stayed unread, by a place in it; undefined: only how often something may have been left out is known. */
  readonly unread: (place: string | undefined) => readonly Unread[] | undefined
}

/** A sink of the configuration. */
export interface Taker {
  readonly name: string
  readonly sources: readonly SourceName[]
}

/** Throws ConnectorError `misconfigured` where there is none. */
export function rangeOf(ranges: readonly RangeReader[], wanted: Origin): RangeReader {
  const range = ranges.find(({ origin }) => isSameOrigin(origin, wanted))
  if (range) return range
  throw new ConnectorError(
    'misconfigured',
    `${wanted.workspace} ${wanted.source} is not switched on, or its past cannot be read again`,
  )
}

export function lackingSource(
  ranges: readonly RangeReader[],
  { origin: wanted }: { readonly origin: Origin },
): 'source' | undefined {
  return ranges.some(({ origin }) => isSameOrigin(origin, wanted)) ? undefined : 'source'
}

/** What a sink lacks for a source to be sent to it. */
export function lackingTaker(
  sinks: readonly Taker[],
  { sink, origin }: { readonly sink: string; readonly origin: Origin },
): Lacking | undefined {
  const taker = sinks.find(({ name }) => name === sink)
  if (!taker) return 'sink'
  return taker.sources.includes(origin.source) ? undefined : 'sources'
}
