// Reconcile in the daemon: each step reads a page of a span, keeps nothing, and returns what the journal knows of it.
import { emptyDay } from '../contracts/jobs.ts'
import type { Compared, ComparedDay, CompareQuery, Comparing } from '../contracts/jobs.ts'
import type { Journal } from '../contracts/journal.ts'
import { nothingAppended } from '../contracts/source.ts'
import type { PageChunk, Source } from '../contracts/source.ts'
import { within } from '../core/clock.ts'
import type { Clock } from '../core/clock.ts'
import { ConnectorError } from '../core/errors.ts'
import { epochDay } from '../core/time.ts'
import { userOf } from '../sources/audit/range-cursor.ts'
import { EntriesOnce } from '../sources/http/ordinals.ts'
import { notBegun, rangeOf, reported, reporting } from './range.ts'
import type { Progress, RangeReader } from './range.ts'

interface CompareOptions {
  readonly ranges: readonly RangeReader[]
  readonly journal: Pick<Journal, 'known' | 'cursor'>
  readonly clock: Clock
}

/** A step answers within this. A slower page is read on meanwhile, for the same step requested again. */
const STEP_MS = 20_000
const WAIT_MS = 5_000
/** A finished step waits this long to be fetched; later its counts would be outdated. */
const KEPT_MS = 2 * STEP_MS
/** Unknown entries named per step. */
const NAMED = 20

interface OpenStep {
  readonly job: string
  readonly asked: string
  readonly work: Promise<Compared>
  readonly stop: AbortController
  /** while and after it reads */
  readonly progress: Progress
}

type Counts = { -readonly [name in keyof ComparedDay]-?: number }

export class Comparisons implements Comparing {
  readonly #options: CompareOptions
  /** one a stream: another step of the same job ends the one before */
  readonly #steps = new Map<RangeReader, OpenStep>()
  readonly #turns: Turns

  constructor(options: CompareOptions) {
    this.#options = options
    this.#turns = new Turns(options.clock)
  }

  async compare(query: CompareQuery): Promise<Compared> {
    const { job, stream } = query
    const range = rangeOf(this.#options.ranges, stream)
    if (!this.#turns.mayStep(job, `${stream.workspace} ${stream.source}`))
      return { ...untouched(range, query), waitMs: WAIT_MS, waitsFor: 'turn' }
    try {
      return await this.#compare(range, query)
    } finally {
      this.#turns.answered(job)
    }
  }

  async endCompare(job: string): Promise<void> {
    this.#turns.end(job)
    for (const [range, step] of this.#steps) if (step.job === job) this.#drop(range, step)
  }

  async #compare(range: RangeReader, query: CompareQuery): Promise<Compared> {
    const { clock } = this.#options
    const progress: Progress = { ...notBegun }
    const source = range.open(query, reporting(range, progress), 'compare')
    if (source.plan(query.place).caughtUp) return { ...untouched(range, query), done: true }
    const open = this.#steps.get(range)
    const step = open?.asked === JSON.stringify(query) ? open : this.#begin(range, source, query, progress)
    const compared = await within(STEP_MS, clock, step.work).catch((error: unknown) => {
      this.#drop(range, step)
      throw error
    })
    const { waitsFor, waitReason, atUs } = step.progress
    if (compared === undefined) return { ...untouched(range, query), waitMs: 1, waitsFor, waitReason }
    this.#drop(range, step)
    return { ...compared, atUs }
  }

  /** No job is under way any more. */
  close(): void {
    for (const { stop } of this.#steps.values()) stop.abort(new ConnectorError('aborted', 'Stopping'))
  }

  #begin(range: RangeReader, source: Source, query: CompareQuery, progress: Progress): OpenStep {
    this.#steps
      .get(range)
      ?.stop.abort(new ConnectorError('aborted', 'The reconcile asked for something else'))
    const stop = new AbortController()
    const work = readStep(range, source, query, this.#options.journal, stop.signal)
    const step = { job: query.job, asked: JSON.stringify(query), stop, progress, work }
    this.#steps.set(range, step)
    void this.#lapse(range, step)
    return step
  }

  /** The command may be gone when the step ends. */
  async #lapse(range: RangeReader, step: OpenStep): Promise<void> {
    await step.work.catch(() => undefined)
    await this.#options.clock.sleep(KEPT_MS, step.stop.signal)
    this.#drop(range, step)
  }

  /** Keeps a step that has replaced this one. */
  #drop(range: RangeReader, step: OpenStep): void {
    step.stop.abort(new ConnectorError('aborted', 'The step is over'))
    if (this.#steps.get(range) === step) this.#steps.delete(range)
  }
}

function untouched(range: RangeReader, { place }: CompareQuery): Compared {
  const nothing = { days: [], unknown: [], gaps: 0, anew: false, waitMs: 0 }
  return { ...nothing, ...reported(notBegun), place, done: false, ...knownAt(range, place) }
}

/** What the place itself shows. Only the audit log names the user of the key. */
function knownAt({ stream, unread }: RangeReader, place: string | undefined) {
  return { unread: unread(place) ?? [], user: stream.source === 'audit' ? userOf(place) : undefined }
}

async function readStep(
  range: RangeReader,
  source: Source,
  query: CompareQuery,
  journal: CompareOptions['journal'],
  signal: AbortSignal,
): Promise<Compared> {
  const parts = source.read(query.place, signal)
  const outcomes = new Tally(query)
  let startUs: number | undefined
  let { place } = query
  let gaps = 0
  let anew = false
  let error: ConnectorError | undefined
  try {
    for (let next = await parts.next(); !next.done; next = await parts.next(nothingAppended)) {
      const part = next.value
      error ??= part.fault
      gaps += part.gaps
      place = part.cursor ?? place
      anew ||= part.void === 'walk'
      // A page that failed comes again: only what stays unreadable counts.
      if (error || part.void) outcomes.clear()
      if (part.void) continue
      const known = await journal.known(range.stream, part.entries)
      startUs ??= range.startUs(await journal.cursor(range.stream))
      outcomes.add(part, { known, startUs, wanted: range.wanted })
    }
  } finally {
    // Leaves the request of a page that could not be compared with the journal; its permit comes back.
    await parts.return(undefined)
  }
  const done = source.plan(place).caughtUp
  const read = { ...outcomes.compared(), gaps, anew, place, done, startUs, ...knownAt(range, place) }
  return { ...read, waitMs: 0, ...reported({ ...notBegun, error }) }
}

/** What a part's entries are compared with. */
interface Judging extends Pick<RangeReader, 'wanted'> {
  readonly known: Uint8Array
  readonly startUs: number | undefined
}

class Tally {
  readonly #days = new Map<number, Counts>()
  #unknown: { readonly id: string; readonly day: number }[] = []
  #once = new EntriesOnce()
  #day: number

  constructor({ fromUs }: CompareQuery) {
    this.#day = epochDay(fromUs)
  }

  clear(): void {
    this.#once = new EntriesOnce()
    this.#days.clear()
    this.#unknown = []
  }

  add({ entries, quarantined }: PageChunk, { known, startUs = -Infinity, wanted }: Judging): void {
    for (let i = 0; i < entries.count; i++) {
      if (this.#once.isRepeat(entries, i)) continue
      this.#day = epochDay(entries.at(i))
      const counts = this.#of(this.#day)
      counts.fetched++
      if (known[i] === 1) counts.known++
      else if (known[i] === 2) counts.changed++
      else if (!wanted(entries.type(i))) counts.filtered++
      else if (entries.at(i) < startUs) counts.early++
      else {
        counts.unknown++
        if (this.#unknown.length < NAMED) this.#unknown.push({ id: entries.id(i), day: this.#day })
      }
    }
    if (quarantined.length === 0) return
    const counts = this.#of(this.#day)
    counts.fetched += quarantined.length
    counts.malformed += quarantined.length
  }

  compared(): Pick<Compared, 'days' | 'unknown'> {
    return { days: [...this.#days.values()], unknown: this.#unknown }
  }

  #of(day: number): Counts {
    const known = this.#days.get(day)
    if (known) return known
    const counts: Counts = emptyDay(day)
    this.#days.set(day, counts)
    return counts
  }
}

// Which reconciles are under way: one per stream, as long as its command keeps asking.

/** Longer than the longest pause that a command makes between an answer and its next question. */
const GONE_MS = 40_000

interface Asker {
  /** the streams it has reached; they are its own until it ends */
  readonly streams: Set<string>
  /** by the clock that never jumps */
  heardAt: number
}

export class Turns {
  readonly #clock: Pick<Clock, 'elapsed'>
  readonly #askers = new Map<string, Asker>()

  constructor(clock: Pick<Clock, 'elapsed'>) {
    this.#clock = clock
  }

  /**
   * False: it must wait for another reconcile here. All go through the streams in the order of the configuration, so two never
   * wait for each other. Throws ConnectorError if it has not begun yet.
   */
  mayStep(job: string, stream: string): boolean {
    const now = this.#clock.elapsed()
    for (const [name, { heardAt }] of this.#askers) if (now - heardAt > GONE_MS) this.#askers.delete(name)
    const own = this.#askers.get(job)
    const isTaken = [...this.#askers].some(([name, { streams }]) => name !== job && streams.has(stream))
    if (isTaken && !own)
      throw new ConnectorError(
        'misconfigured',
        `Another reconcile is reading ${stream}: wait until it has ended, or stop it (Ctrl-C where it runs), then start again; one that was killed counts for ${GONE_MS / 1000} s more`,
      )
    const { streams } = own ?? { streams: new Set() }
    if (!isTaken) streams.add(stream)
    this.#askers.set(job, { streams, heardAt: now })
    return !isTaken
  }

  /** The command's time begins with the answer, which may have taken long. */
  answered(job: string): void {
    const own = this.#askers.get(job)
    if (own) own.heardAt = this.#clock.elapsed()
  }

  end(job: string): void {
    this.#askers.delete(job)
  }
}
