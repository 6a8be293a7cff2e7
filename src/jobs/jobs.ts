// Backfills and replays: each reads spans of a stream again, beside live reading. A backfill keeps
// what is new, a replay sends every page to one sink.
import {
  JOB_SHARE_IN_USE,
  assertJobShare,
  jobKinds,
  matches,
  noCounts,
  pressureForJobs,
} from '../contracts/jobs.ts'
import type {
  Job,
  JobCounts,
  JobFilter,
  JobKind,
  JobSpan,
  Jobs,
  ReplayRequest,
  StartedJob,
} from '../contracts/jobs.ts'
import type { Append, Intake, Redelivery, HasState } from '../contracts/journal.ts'
import { isSameStream, nothingAppended } from '../contracts/source.ts'
import type { Appended, Stream, Source } from '../contracts/source.ts'
import type { Clock, Random } from '../core/clock.ts'
import { ConnectorError } from '../core/errors.ts'
import type { Log } from '../core/log.ts'
import { overlay } from '../core/overlay.ts'
import { isoFromUs } from '../core/time.ts'
import { runIngest } from '../ingest/loop.ts'
import type { IngestOptions } from '../ingest/loop.ts'
import type { StatusRegistry } from '../observability/status-registry.ts'
import { missingFor, reporting } from './range.ts'
import type { JobSink, RangeReader } from './range.ts'
import { jobOf, stateOf } from './record.ts'
import type { JobRecord, JobState } from './record.ts'
import { SentPages, unsentOf } from './sent-pages.ts'
import { JobTable, keepUnlessStopped } from './table.ts'

export interface JobsOptions {
  readonly ranges: readonly RangeReader[]
  readonly sinks: readonly JobSink[]
  readonly journal: Intake & Redelivery & HasState
  readonly clock: Clock
  readonly random: Random
  readonly log: Log
  /** how far live reading is, µs; undefined: it has read nothing yet */
  readonly readTo: (stream: Stream) => Promise<number | undefined>
  /** entries of answers under way that are remembered as sent; half a million unless given */
  readonly mostMarks?: number
}

const PAUSED_TEXT = `A backfill or replay is paused: ${JOB_SHARE_IN_USE}`

/** How far live reading is; right after a start, by the cursor that the last process saved. */
export const liveReadTo =
  (
    journal: Pick<Intake, 'cursor'>,
    registry: Pick<StatusRegistry, 'reading'>,
    sources: readonly Pick<Source, 'stream' | 'plan'>[],
  ): JobsOptions['readTo'] =>
  async (stream) => {
    const reported = () => registry.reading(stream)?.readTo()
    if (reported() !== undefined) return reported()
    const source = sources.find((each) => isSameStream(each.stream, stream))
    source?.plan(await journal.cursor(stream))
    return reported()
  }

/** Reads one job of each kind and stream at a time, once `run` is called. */
export class StreamJobs implements Jobs {
  readonly #options: JobsOptions
  readonly #table: JobTable
  readonly #pages: SentPages

  constructor(options: JobsOptions) {
    const { journal, clock, log, mostMarks } = options
    this.#options = options
    this.#table = new JobTable({
      state: journal.state,
      clock,
      log,
      lacks: (record) => missingFor(options, record),
    })
    this.#pages = new SentPages({ state: journal.state, mostMarks, open: () => this.#table.open() })
  }

  async origins() {
    return this.#options.ranges.map(({ stream }) => stream)
  }

  async backfill(streams: JobFilter, { fromUs, toUs }: JobSpan): Promise<readonly StartedJob[]> {
    await this.#table.load()
    const meant = this.#options.ranges.filter((range) => matches(streams, range))
    if (meant.length === 0)
      throw new ConnectorError(
        'misconfigured',
        'No source that is switched on and can be read again matches: check --workspace, --source and the configuration',
      )
    const now = this.#options.clock.now()
    const spans = [{ fromUs, toUs: Math.min(toUs, now * 1000) }]
    return this.#start(
      meant.map(({ stream }) => fresh({ kind: 'backfill', stream, asked: spans, spans, startedAt: now })),
    )
  }

  async replay({ sink, startedAt, reads, dryRun }: ReplayRequest): Promise<readonly StartedJob[]> {
    await this.#table.load()
    for (const { stream } of reads) this.#assertKnown(sink, stream)
    const jobs: JobState[] = []
    for (const { stream, spans: asked } of reads) {
      const spans = this.#cut(asked, await this.#options.readTo(stream))
      const job = fresh({ kind: 'replay', stream, sink, asked, spans, startedAt })
      // State that an earlier replay left behind would hide entries from this one.
      job.pageEntries = await this.#pages.entriesOf(job.record)
      job.isLoaded = true
      jobs.push(job)
    }
    return dryRun === true ? jobs.map(jobOf) : this.#start(jobs)
  }

  /** Joins running jobs over the same spans. No await before they are in the table: no race. */
  async #start(wanted: readonly JobState[]): Promise<readonly StartedJob[]> {
    const started = wanted.map((job) => {
      const active = this.#active(job.record)
      if (active && JSON.stringify(active.record.asked) !== JSON.stringify(job.record.asked))
        throw otherSpan(active.record)
      return active ?? job
    })
    const begun = started.filter((job) => wanted.includes(job))
    const stale = begun.flatMap(({ pageEntries }) => pageEntries.splice(0))
    const seen = started.map((job) =>
      begun.includes(job) ? jobOf(job) : { ...jobOf(job), isJoined: true as const },
    )
    await this.#table.start(begun, stale)
    return seen
  }

  async all(kind: JobKind): Promise<readonly Job[]> {
    await this.#table.load()
    return ofKind(kind, this.#table.all()).map(jobOf)
  }

  async cancel(kind: JobKind, which: JobFilter): Promise<number> {
    await this.#table.load()
    const meant = ofKind(kind, [...this.#table.open(), ...this.#table.lacking()])
    let count = 0
    for (const job of meant.filter(({ record }) => matches(which, record))) {
      if (!(await this.#table.cancel(job, job.pageEntries))) continue
      count++
      const left = kind === 'replay' ? await this.#pages.entriesOf(job.record) : []
      // If another job has started meanwhile, they belong to that one.
      if (left.length > 0 && !this.#active(job.record))
        await this.#options.journal.state.change({ drop: left, put: [] })
    }
    return count
  }

  /** Running jobs, and those that ended within a day. */
  list(kind?: JobKind): readonly Job[] {
    return ofKind(kind, this.#table.listed()).map(jobOf)
  }

  /** Until `signal` aborts. Rejects only with an error that ends all loops. */
  async run(signal: AbortSignal): Promise<void> {
    const { clock } = this.#options
    await keepUnlessStopped(() => this.#table.load(), { error: undefined }, clock, signal)
    const { ranges } = this.#options
    await Promise.all(jobKinds.flatMap((kind) => ranges.map((range) => this.#readAll(kind, range, signal))))
  }

  #assertKnown(sink: string, stream: Stream): void {
    const lacking = missingFor(this.#options, { stream, sink })
    const faults = {
      source: `${stream.workspace} ${stream.source} is not switched on, or its past cannot be read again`,
      sink: `There is no sink ${sink} in the configuration of the daemon`,
      sources: `The sink ${sink} of the daemon does not take ${stream.source}`,
    }
    if (lacking) throw new ConnectorError('misconfigured', faults[lacking])
  }

  /** Cuts the spans at live reading: later entries are new to every sink anyway. */
  #cut(spans: readonly JobSpan[], readTo: number | undefined): JobSpan[] {
    const nowUs = this.#options.clock.now() * 1000
    const endUs = Math.min(nowUs, (readTo ?? nowUs) + 1)
    return spans
      .map(({ fromUs, toUs }) => ({ fromUs, toUs: Math.min(toUs, endUs) }))
      .filter(({ fromUs, toUs }) => fromUs < toUs)
  }

  #active(record: Pick<JobRecord, 'kind' | 'stream' | 'sink'>): JobState | undefined {
    const { workspace, source } = record.stream
    const which = { workspace, source, sink: record.sink }
    return ofKind(record.kind, this.#table.open()).find((job) => matches(which, job.record))
  }

  /** The oldest first. */
  async #readAll(kind: JobKind, range: RangeReader, signal: AbortSignal): Promise<void> {
    const oldest = (open: readonly JobState[]) =>
      ofKind(kind, open)
        .filter(({ record }) => isSameStream(record.stream, range.stream))
        .toSorted((one, other) => one.record.startedAt - other.record.startedAt)[0]
    const next = () => this.#table.next(oldest, signal)
    for (let job = await next(); job; job = await next()) {
      const { clock } = this.#options
      if (kind === 'replay') await keepUnlessStopped(() => this.#pages.load(job), job, clock, signal)
      const until = AbortSignal.any([signal, job.cancelled.signal])
      while (job.record.endedAt === undefined && (await this.#readSpan(range, job, until)));
      if (job.record.endedAt === undefined) continue
      const { sink, counts } = job.record
      range.log.info(`A ${kind} has come to its end`, { ...(sink !== undefined && { sink }), ...counts })
    }
  }

  /** False: stopped before the end of the span. The last span ends the job. */
  async #readSpan(range: RangeReader, job: JobState, signal: AbortSignal): Promise<boolean> {
    const { clock } = this.#options
    const span = job.record.spans[job.record.span]
    if (span) {
      await runIngest(this.#ingestOptions(range, job, span), signal)
      if (!(await keepUnlessStopped(() => this.#pages.forget(job), job, clock, signal))) return false
    }
    const record: JobRecord = { ...job.record, span: job.record.span + 1 }
    const unread = span && range.unread(record.place)
    if (unread) {
      // A backfill may have read later what it skipped first.
      const before = record.kind === 'backfill' ? 0 : record.counts.gaps
      record.counts = { ...record.counts, gaps: before + unread.length }
      record.unread = [...record.unread, ...unread]
    }
    delete record.place
    delete record.voided
    if (record.span >= record.spans.length) record.endedAt = clock.now()
    return this.#table.keep(job, record, signal)
  }

  /** The cursor is the job's place in the span; the journal is full once the jobs' share is. */
  #ingestOptions(range: RangeReader, job: JobState, span: JobSpan): IngestOptions {
    const { clock, random, journal } = this.#options
    const { log, wanted, keyWait } = range
    const isKept = job.record.kind === 'backfill'
    const use = isKept ? 'keep' : 'send'
    const reporter = reporting(range, job, use)
    return {
      ...{ reporter, log, clock, random, wanted, keyWait, once: true, pausedText: PAUSED_TEXT },
      source: range.open(span, reporter, use),
      journal: overlay<Intake>(journal, {
        cursor: async () => job.record.place,
        pressure: () => pressureForJobs(journal.pressure()),
        append: (part) => (isKept ? this.#keep(job, range, part) : this.#send(job, range, span, part)),
      }),
    }
  }

  async #keep(job: JobState, { reads }: RangeReader, part: Append): Promise<Appended> {
    const { journal } = this.#options
    const { cursor: place = job.record.place, ...rest } = part
    if (part.entries.count + part.quarantined.length > 0) assertJobShare(journal.pressure())
    // A job does not change when the source was last read, but a gap counts for the source.
    const now = reads?.state(false, part.gaps) ?? []
    const grown = ({ added, late, known, filtered, quarantined }: Appended): JobRecord =>
      withPage(job.record, place, {
        read: part.entries.count + part.quarantined.length,
        new: added + late,
        ...{ known, filtered, quarantined, gaps: part.gaps },
      })
    // In the page's transaction: else, after a crash, what it found would count as known.
    const state = (appended: Appended) => [...now, ...this.#table.entriesOf(job, grown(appended))]
    const appended = await journal.append({ ...rest, cursor: undefined, state })
    job.record = grown(appended)
    return appended
  }

  /** Entries and progress land in one transaction, so nothing of a page is sent twice. */
  async #send(
    job: JobState,
    { stream, wanted }: RangeReader,
    span: JobSpan,
    part: Append,
  ): Promise<Appended> {
    const { journal } = this.#options
    const seen = unsentOf(job, part, span)
    const picked = seen.fresh.filter((i) => wanted(seen.entries.type(i)))
    const entries = picked.length === seen.entries.count ? seen.entries : seen.entries.pick(picked)
    const known = await journal.known(stream, entries)
    const record = withPage(job.record, part.cursor ?? job.record.place, {
      read: seen.fresh.length + seen.malformed,
      sent: entries.count,
      filtered: seen.fresh.length - entries.count,
      unknown: known.filter((one) => one !== 1).length,
      malformed: seen.malformed,
      gaps: part.gaps,
    })
    // What this answer returned can come again; so can what follows, if the span starts over.
    if (part.void === 'walk' || (part.void && job.sent.size + seen.marks.length > 0)) record.voided = true
    const isWhole = part.cursor !== undefined && record.voided === undefined
    if (entries.count > 0) assertJobShare(journal.pressure())
    this.#table.assertCurrent(job)
    await this.#pages.land(job, { record, marks: seen.marks, isWhole }, async (state) => {
      const { sink = '', startedAt: runAt } = record
      await journal.resend({ sink, stream, runAt, entries, state })
      job.record = record
    })
    return nothingAppended
  }
}

const fresh = (
  job: Pick<JobRecord, 'kind' | 'stream' | 'startedAt'> & Pick<Job, 'sink' | 'asked' | 'spans'>,
): JobState =>
  stateOf({
    ...job,
    asked: [...job.asked],
    spans: [...job.spans],
    v: 2,
    span: 0,
    counts: noCounts,
    unread: [],
  })

const ofKind = (kind: JobKind | undefined, jobs: readonly JobState[]): readonly JobState[] =>
  jobs.filter(({ record }) => (kind ?? record.kind) === record.kind)

/** The record after a page chunk has landed. */
function withPage(record: JobRecord, place: string | undefined, more: Partial<JobCounts>): JobRecord {
  const counts = { ...record.counts }
  for (const name of Object.keys(more) as (keyof JobCounts)[]) counts[name] += more[name] ?? 0
  return { ...record, counts, ...(place !== undefined && { place }) }
}

/** Names the running job's span: one relative to now has moved since. */
function otherSpan({ kind, stream, sink, asked }: JobRecord): ConnectorError {
  const to = sink === undefined ? '' : ` to ${sink}`
  const from = isoFromUs(asked[0]?.fromUs ?? 0)
  const until = isoFromUs(asked.at(-1)?.toUs ?? 0)
  return new ConnectorError(
    'misconfigured',
    `A ${kind} of ${stream.workspace} ${stream.source}${to} is already running, for the span from ${from} to ${until}. Wait until it is done (auditferry ${kind} --status), or cancel it (auditferry ${kind} --cancel), then start this one`,
  )
}
