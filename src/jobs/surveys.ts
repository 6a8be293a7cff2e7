// Walks over a span of the past that keep nothing: each step reads a page and says what the journal knows of it.
import { emptyDay } from '../contracts/jobs.ts'
import type { SurveyDay, SurveyQuery, Surveyed, Surveys } from '../contracts/jobs.ts'
import type { Journal } from '../contracts/journal.ts'
import { nothingAppended } from '../contracts/source.ts'
import type { Part, Source } from '../contracts/source.ts'
import { within } from '../core/clock.ts'
import type { Clock } from '../core/clock.ts'
import { ConnectorError } from '../core/errors.ts'
import { epochDay } from '../core/time.ts'
import { userOf } from '../sources/audit/range-place.ts'
import { EntriesOnce } from '../sources/http/ordinals.ts'
import { notBegun, rangeOf, watching } from './orders.ts'
import type { Progress, RangeReader } from './orders.ts'

interface SurveyOptions {
  readonly ranges: readonly RangeReader[]
  readonly journal: Pick<Journal, 'known' | 'cursor'>
  readonly clock: Clock
}

/** A step answers within this; a page that takes longer is read on meanwhile, and told to whoever asks for it again. */
const STEP_MS = 20_000
const WAIT_MS = 5_000
/** What was read and not fetched is told to whoever asks within this; later it would tell of another day. */
const KEPT_MS = 2 * STEP_MS
/** So many of the unknown are told by name, a step. */
const NAMED = 20

/** What was asked for, while and after it is read. */
interface OpenStep {
  readonly walk: string
  readonly asked: string
  readonly work: Promise<Surveyed>
  readonly stop: AbortController
  /** while and after it reads */
  readonly progress: Progress
}

type Counts = { -readonly [name in keyof SurveyDay]-?: number }

export class ApiSurveys implements Surveys {
  readonly #options: SurveyOptions
  /** one a source: another question of the same walk ends the one before */
  readonly #steps = new Map<RangeReader, OpenStep>()
  readonly #walks: Walks

  constructor(options: SurveyOptions) {
    this.#options = options
    this.#walks = new Walks(options.clock)
  }

  async survey(query: SurveyQuery): Promise<Surveyed> {
    const { walk, origin } = query
    const range = rangeOf(this.#options.ranges, origin)
    if (!this.#walks.mayStep(walk, `${origin.workspace} ${origin.source}`))
      return { ...untouched(range, query), waitMs: WAIT_MS, waitsFor: 'turn' }
    try {
      return await this.#survey(range, query)
    } finally {
      this.#walks.answered(walk)
    }
  }

  async endSurvey(walk: string): Promise<void> {
    this.#walks.end(walk)
    for (const [range, step] of this.#steps) if (step.walk === walk) this.#drop(range, step)
  }

  async #survey(range: RangeReader, query: SurveyQuery): Promise<Surveyed> {
    const { clock } = this.#options
    const progress: Progress = { ...notBegun }
    const watch = watching(range, progress)
    const source = range.open(query, watch, 'tell')
    if (source.plan(query.place).caughtUp) return { ...untouched(range, query), done: true }
    const asked = JSON.stringify(query)
    const known = this.#steps.get(range)
    const step = known?.asked === asked ? known : this.#begin(range, source, query, progress)
    const surveyed = await within(STEP_MS, clock, step.work).catch((error: unknown) => {
      this.#drop(range, step)
      throw error
    })
    if (surveyed === undefined) {
      const { waitsFor, waitReason } = step.progress
      return { ...untouched(range, query), waitMs: 1, waitsFor, waitReason }
    }
    this.#drop(range, step)
    return { ...surveyed, atUs: step.progress.atUs }
  }

  /** No walk is under way any more. */
  close(): void {
    for (const { stop } of this.#steps.values()) stop.abort(new ConnectorError('aborted', 'Stopping'))
  }

  #begin(range: RangeReader, source: Source, query: SurveyQuery, progress: Progress): OpenStep {
    this.#steps.get(range)?.stop.abort(new ConnectorError('aborted', 'The walk asked for something else'))
    const stop = new AbortController()
    const asked = JSON.stringify(query)
    const step = {
      walk: query.walk,
      asked,
      stop,
      progress,
      work: readStep(range, source, query, this.#options.journal, stop.signal),
    }
    this.#steps.set(range, step)
    void this.#lapse(range, step)
    return step
  }

  /** Whoever asked may be gone when it ends. */
  async #lapse(range: RangeReader, step: OpenStep): Promise<void> {
    await step.work.catch(() => undefined)
    await this.#options.clock.sleep(KEPT_MS, step.stop.signal)
    this.#drop(range, step)
  }

  /** Another one that has taken its place stays. */
  #drop(range: RangeReader, step: OpenStep): void {
    step.stop.abort(new ConnectorError('aborted', 'The step is over'))
    if (this.#steps.get(range) === step) this.#steps.delete(range)
  }
}

/** A step that waits for nothing, and does not know how far it is. */
const idle = { waitsFor: undefined, atUs: undefined }

function untouched(range: RangeReader, { place }: SurveyQuery): Surveyed {
  const empty = { days: [], unknown: [], gaps: 0, anew: false, waitMs: 0, fault: undefined, ...idle }
  return { ...empty, place, done: false, ...knownAt(range, place) }
}

/** What the place itself tells. Only the audit log names who fetched it. */
function knownAt({ origin, unread }: RangeReader, place: string | undefined) {
  return { unread: unread(place) ?? [], user: origin.source === 'audit' ? userOf(place) : undefined }
}

async function readStep(
  range: RangeReader,
  source: Source,
  query: SurveyQuery,
  journal: SurveyOptions['journal'],
  signal: AbortSignal,
): Promise<Surveyed> {
  const parts = source.read(query.place, signal)
  const tally = new Tally(query)
  let startUs: number | undefined
  let { place } = query
  let gaps = 0
  let anew = false
  let fault: ConnectorError | undefined
  try {
    for (let next = await parts.next(); !next.done; next = await parts.next(nothingAppended)) {
      const part = next.value
      fault ??= part.fault
      gaps += part.gaps
      place = part.cursor ?? place
      anew ||= part.void === 'walk'
      // A page that failed comes again: only what stays unreadable counts.
      if (fault || part.void) tally.clear()
      if (part.void) continue
      const known = await journal.known(range.origin, part.entries)
      startUs ??= range.startUs(await journal.cursor(range.origin))
      tally.add(part, { known, startUs, wanted: range.wanted })
    }
  } finally {
    // Leaves the request of a page that could not be held against the journal; its place in the budget comes back.
    await parts.return(undefined)
  }
  const done = source.plan(place).caughtUp
  const why = fault && { code: fault.code, message: fault.message }
  const step = { ...tally.surveyed(), gaps, anew, place, done, waitMs: 0, fault: why, ...idle, startUs }
  return { ...step, ...knownAt(range, place) }
}

/** What a part's entries are held against. */
interface Judging extends Pick<RangeReader, 'wanted'> {
  readonly known: Uint8Array
  readonly startUs: number | undefined
}

class Tally {
  readonly #days = new Map<number, Counts>()
  #unknown: { readonly id: string; readonly day: number }[] = []
  #once = new EntriesOnce()
  #day: number

  constructor({ fromUs }: SurveyQuery) {
    this.#day = epochDay(fromUs)
  }

  clear(): void {
    this.#once = new EntriesOnce()
    this.#days.clear()
    this.#unknown = []
  }

  add({ entries, quarantined }: Part, { known, startUs = -Infinity, wanted }: Judging): void {
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

  surveyed(): Pick<Surveyed, 'days' | 'unknown'> {
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

// Which walks that keep nothing are under way: one a source, for as long as whoever asks for it is there.

/** Longer than the longest pause that an asker makes between an answer and its next question. */
const GONE_MS = 40_000

interface Walk {
  /** each that it has come to: it may tell of them together, so they are its own until it ends */
  readonly sources: Set<string>
  /** by the clock that never jumps */
  heardAt: number
}

export class Walks {
  readonly #clock: Pick<Clock, 'elapsed'>
  readonly #walks = new Map<string, Walk>()

  constructor(clock: Pick<Clock, 'elapsed'>) {
    this.#clock = clock
  }

  /**
   * False: it is under way and has to wait here for another. Two that each wait for what the other has would wait for ever: all
   * go through the sources in the one order in which they are told. Throws ConnectorError where it would only begin.
   */
  mayStep(walk: string, source: string): boolean {
    const now = this.#clock.elapsed()
    for (const [name, { heardAt }] of this.#walks) if (now - heardAt > GONE_MS) this.#walks.delete(name)
    const own = this.#walks.get(walk)
    const isTaken = [...this.#walks].some(([name, { sources }]) => name !== walk && sources.has(source))
    if (isTaken && !own)
      throw new ConnectorError(
        'misconfigured',
        `${source} is walked by another reconcile just now: wait until it has ended, or stop it (Ctrl-C where it runs), then begin again; one that was killed counts for ${GONE_MS / 1000} s more`,
      )
    const { sources } = own ?? { sources: new Set() }
    if (!isTaken) sources.add(source)
    this.#walks.set(walk, { sources, heardAt: now })
    return !isTaken
  }

  /** An answer may have taken long: the asker's time begins with it. */
  answered(walk: string): void {
    const own = this.#walks.get(walk)
    if (own) own.heardAt = this.#clock.elapsed()
  }

  end(walk: string): void {
    this.#walks.delete(walk)
  }
}
