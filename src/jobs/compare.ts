// Reconcile in the daemon: reads a span of each stream again, like a job, and compares it with the
// journal. Stores nothing: a comparison is only in memory and ends with its command.
import { emptyDay, matches, summed } from '../contracts/jobs.ts'
import type {
  Compared,
  ComparedDay,
  ComparedStream,
  CompareRequest,
  Comparing,
  JobSpan,
} from '../contracts/jobs.ts'
import type { Intake } from '../contracts/journal.ts'
import { nothingAppended } from '../contracts/source.ts'
import type { Appended, Cursor, PageChunk, Source } from '../contracts/source.ts'
import { within } from '../core/clock.ts'
import type { Clock, Random } from '../core/clock.ts'
import { overlay } from '../core/overlay.ts'
import { ConnectorError, isAbort } from '../core/errors.ts'
import { epochDay } from '../core/time.ts'
import { runIngest } from '../ingest/loop.ts'
import { userOf } from '../sources/audit/range.ts'
import { EntriesOnce } from '../sources/http/ordinals.ts'
import { notBegun, reported, reporting } from './range.ts'
import type { Progress, RangeReader } from './range.ts'

interface CompareOptions {
  readonly ranges: readonly RangeReader[]
  readonly journal: Intake
  readonly clock: Clock
  readonly random: Random
}

/** Unknown entries of a stream that are named. */
const MOST_NAMED = 20
/** A request is answered within this time, with the counts so far. */
const ANSWER_MS = 1_000
/** Without a request for this long the command is gone: its comparison ends. */
const GONE_MS = 40_000
/** Failures in a row that end it; more if unreadable (`bad`): the history halves its windows. */
const MOST_FAILURES = { silent: 8, bad: 32 } as const

export class Comparisons implements Comparing {
  readonly #options: CompareOptions
  /** by job id */
  readonly #all = new Map<string, Comparison>()

  constructor(options: CompareOptions) {
    this.#options = options
  }

  async compare(request: CompareRequest): Promise<Compared> {
    const { clock } = this.#options
    const comparison = this.#all.get(request.job) ?? this.#start(request)
    comparison.askedAt = Infinity
    try {
      await within(ANSWER_MS, clock, comparison.over)
    } finally {
      comparison.askedAt = clock.elapsed()
    }
    return comparison.compared()
  }

  async endCompare(job: string): Promise<void> {
    this.#end(job, 'The reconcile has ended')
  }

  /** The process stops, or takes a new configuration. */
  close(): void {
    for (const job of this.#all.keys()) this.#end(job, 'Stopping')
  }

  #start({ job, workspace, ...span }: CompareRequest): Comparison {
    this.#endGone()
    const ranges = this.#options.ranges.filter((range) => matches({ workspace }, range))
    if (ranges.length === 0)
      throw new ConnectorError(
        'misconfigured',
        'no source that can be read again is switched on for this selection: check --workspace and the configuration',
      )
    const others = [...this.#all.values()].flatMap((comparison) => comparison.ranges)
    const taken = ranges.find((range) => others.includes(range))?.stream
    if (taken)
      throw new ConnectorError(
        'misconfigured',
        `Another reconcile is reading ${taken.workspace} ${taken.source}: wait until it has ended, or stop it (Ctrl-C where it runs), then start again. If it was killed, wait ${GONE_MS / 1000} s`,
      )
    const comparison = new Comparison(ranges, span, { ...this.#options, beforeRead: () => this.#endGone() })
    this.#all.set(job, comparison)
    return comparison
  }

  #endGone(): void {
    const now = this.#options.clock.elapsed()
    for (const [job, { askedAt }] of this.#all)
      if (now - askedAt > GONE_MS) this.#end(job, 'The command no longer asks')
  }

  #end(job: string, why: string): void {
    this.#all.get(job)?.stop(new ConnectorError('aborted', why))
    this.#all.delete(job)
  }
}

interface ComparisonOptions extends CompareOptions {
  /** called before each page */
  readonly beforeRead: () => void
}

/** Reads its streams one after the other, since they share the rate limit anyway. */
class Comparison {
  readonly ranges: readonly RangeReader[]
  /** Resolves even if a stream cannot be read; rejects after `stop`, or with an internal error. */
  readonly over: Promise<void>
  /** by the monotonic clock; Infinity: a request is waiting for its answer */
  askedAt = Infinity
  readonly #span: JobSpan
  readonly #options: ComparisonOptions
  readonly #stop = new AbortController()
  readonly #counts: StreamCounts[] = []
  #progress: Progress = notBegun
  #isDone = false

  constructor(ranges: readonly RangeReader[], span: JobSpan, options: ComparisonOptions) {
    this.ranges = ranges
    this.#span = span
    this.#options = options
    this.over = this.#run()
    // Between two requests nothing awaits it.
    this.over.catch(() => undefined)
  }

  stop(why: ConnectorError): void {
    this.#stop.abort(why)
  }

  compared(): Compared {
    const streams = this.#counts.map((counts) => counts.compared())
    return { ...reported(this.#progress), streams, isDone: this.#isDone }
  }

  async #run(): Promise<void> {
    const { clock, random, journal } = this.#options
    for (const range of this.ranges) {
      const { stream, log, wanted } = range
      const progress = { ...notBegun }
      this.#progress = progress
      const reporter = reporting(range, progress, 'compare')
      const source = range.open(this.#span, reporter, 'compare')
      const counts = new StreamCounts(range, this.#span, journal)
      this.#counts.push(counts)
      await runIngest(
        {
          ...{ reporter, log, clock, random, wanted, once: true },
          source: { stream, plan: (place) => source.plan(place), read: this.#reader(source, counts) },
          journal: overlay<Intake>(journal, {
            cursor: async () => undefined,
            // Nothing is stored, so a full journal does not matter.
            pressure: () => ({ ...journal.pressure(), bytes: 0, full: false }),
            append: async () => nothingAppended,
          }),
        },
        this.#stop.signal,
      )
      const why = this.#stop.signal.reason as ConnectorError | undefined
      if (why && isAbort(why)) throw why
      this.#progress = { ...notBegun, error: why }
      if (why) break
    }
    this.#isDone = true
  }

  /** Counts each page, and stops when too many in a row have failed. */
  #reader(source: Source, counts: StreamCounts): Source['read'] {
    const { workspace, source: name } = source.stream
    let failures = 0
    const failed = (error: unknown, most: number): void => {
      if (!(error instanceof ConnectorError)) return
      if (error.action !== 'retry') this.stop(error)
      else if (++failures >= most)
        this.stop(
          new ConnectorError(
            error.code,
            `${workspace} ${name} could not be read to the end: ${error.message}`,
          ),
        )
    }
    const { beforeRead } = this.#options
    return async function* (place, signal) {
      beforeRead()
      signal.throwIfAborted()
      try {
        const fault = yield* counts.page(source.read(place, signal))
        if (fault) failed(fault, MOST_FAILURES.bad)
        else failures = 0
      } catch (error) {
        failed(error, MOST_FAILURES.silent)
        throw error
      }
    }
  }
}

type Counts = { -readonly [name in keyof ComparedDay]: number }

/** Of one page, or of all pages so far. */
class Findings {
  readonly days = new Map<number, Counts>()
  readonly unknown: ComparedStream['unknown'][number][] = []
  gaps = 0

  day(day: number): Counts {
    const counts: Counts = this.days.get(day) ?? emptyDay(day)
    this.days.set(day, counts)
    return counts
  }

  clear(): void {
    this.days.clear()
    this.unknown.length = 0
  }

  nameUnknown(entries: Findings['unknown']): void {
    this.unknown.push(...entries.slice(0, Math.max(0, MOST_NAMED - this.unknown.length)))
  }

  add(page: Findings): void {
    for (const counts of page.days.values()) this.days.set(counts.day, summed(this.day(counts.day), counts))
    this.nameUnknown(page.unknown)
    this.gaps += page.gaps
  }
}

class StreamCounts {
  readonly #range: RangeReader
  readonly #journal: CompareOptions['journal']
  #found = new Findings()
  #place: Cursor | undefined
  #user: string | undefined
  #startUs: number | undefined
  /** day of the last entry, for malformed elements, which have no time */
  #day: number

  constructor(range: RangeReader, { fromUs }: JobSpan, journal: CompareOptions['journal']) {
    this.#range = range
    this.#journal = journal
    this.#day = epochDay(fromUs)
  }

  compared(): ComparedStream {
    const { stream, unread: unreadAt } = this.#range
    const { days, unknown, gaps } = this.#found
    const unread = unreadAt(this.#place) ?? []
    return {
      ...{ stream, unknown, unread, gaps: gaps + unread.length, user: this.#user, startUs: this.#startUs },
      days: [...days.values()].toSorted((a, b) => a.day - b.day),
    }
  }

  /** Passes a page on, and counts it once it is complete. Returns its fault. */
  async *page(
    chunks: ReturnType<Source['read']>,
  ): AsyncGenerator<PageChunk, ConnectorError | undefined, Appended> {
    const page = new Findings()
    let once = new EntriesOnce()
    let fault: ConnectorError | undefined
    let place = this.#place
    let isRestart = false
    try {
      for (let next = await chunks.next(); !next.done; next = await chunks.next(yield next.value)) {
        const chunk = next.value
        fault ??= chunk.fault
        isRestart ||= chunk.void === 'walk'
        place = chunk.cursor ?? place
        // A page that failed comes again: only what stays unreadable counts.
        if (fault || chunk.void) {
          page.clear()
          once = new EntriesOnce()
        }
        page.gaps += chunk.gaps
        if (!chunk.void) await this.#count(chunk, page, once)
      }
    } finally {
      // Ends the request of a page that could not be compared; its permit is returned.
      await chunks.return(undefined)
    }
    if (isRestart) this.#found = page
    else this.#found.add(page)
    this.#place = place
    if (this.#range.stream.source === 'audit') this.#user = userOf(place) ?? this.#user
    return fault
  }

  async #count({ entries, quarantined }: PageChunk, page: Findings, once: EntriesOnce): Promise<void> {
    const { stream, wanted, startUs } = this.#range
    const known = await this.#journal.known(stream, entries)
    this.#startUs ??= startUs(await this.#journal.cursor(stream))
    for (let i = 0; i < entries.count; i++) {
      if (once.isRepeat(entries, i)) continue
      this.#day = epochDay(entries.at(i))
      const counts = page.day(this.#day)
      counts.fetched++
      if (known[i] === 1) counts.known++
      else if (known[i] === 2) counts.changed++
      else if (!wanted(entries.type(i))) counts.filtered++
      else if (entries.at(i) < (this.#startUs ?? -Infinity)) counts.early++
      else {
        counts.unknown++
        page.nameUnknown([{ id: entries.id(i), day: this.#day }])
      }
    }
    if (quarantined.length === 0) return
    const counts = page.day(this.#day)
    counts.fetched += quarantined.length
    counts.malformed += quarantined.length
  }
}
