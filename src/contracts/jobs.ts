// What backfill, replay and reconcile share: a span of a stream, read again from the API.
import { ConnectorError } from '../core/errors.ts'
import type { ErrorCode } from '../core/errors.ts'
import type { JournalStats } from './journal.ts'
import type { Origin, SourceName } from './source.ts'

/** What becomes of the pages: into the journal, queued for one sink, or only compared with the journal. */
export type RangeUse = 'keep' | 'send' | 'compare'

/** What the configuration lacks for a job to run. `sources`: the sink exists, and does not take the stream. */
export type Lacking = 'source' | 'sink' | 'sources'

/** Why such a job does not run. */
export const lackingText: Readonly<Record<Lacking, string>> = {
  source: 'its source is not in the configuration of the daemon any more',
  sink: 'its sink is not in the configuration of the daemon any more',
  sources: "its source is not among the sink's `sources` any more",
}

/** What a job waits for: another job of its stream, its share of the rate limit, the end of a 429, room in the journal or in memory, what it lacks. */
export type WaitsFor = 'turn' | 'rate_limit' | 'limit' | 'room' | 'memory' | Lacking

/** By the entries' own time, µs: included, excluded. */
export interface JobSpan {
  readonly fromUs: number
  readonly toUs: number
}

/** A part of a span that could not be read: the API answered 400, or nothing readable while it answered for other times. */
export interface Unread extends JobSpan {
  readonly why: 'refused' | 'unreadable'
}

// Jobs that the daemon runs: they survive restarts, and end when all is read or they are cancelled.

export const jobKinds = ['backfill', 'replay'] as const
export type JobKind = (typeof jobKinds)[number]

/** A backfill: read = new + known + filtered + quarantined. A replay: read = sent + filtered + malformed. */
export interface JobCounts {
  /** elements that the API showed, each once */
  readonly read: number
  readonly new: number
  readonly known: number
  /** of types that the workspace does not want */
  readonly filtered: number
  /** malformed elements that were not kept before */
  readonly quarantined: number
  /** queued for the sink, which may still leave out what its own settings do not want */
  readonly sent: number
  /** of the sent: not in the journal, or there with other content, so that other sinks may lack them too */
  readonly unknown: number
  /** no entries: not sent */
  readonly malformed: number
  /** places at which entries may have been left out */
  readonly gaps: number
}

export const noCounts: JobCounts = {
  ...{ read: 0, new: 0, known: 0, filtered: 0, quarantined: 0 },
  ...{ sent: 0, unknown: 0, malformed: 0, gaps: 0 },
}

/** How far a job is, and what keeps it from going on. */
export interface JobProgress {
  /** own time of what was read last, µs; undefined: nothing yet */
  readonly atUs: number | undefined
  /** why the last try failed; it is tried again */
  readonly error: { readonly code: ErrorCode; readonly message: string } | undefined
  readonly waitsFor: WaitsFor | undefined
  /** in words, where more is known of it */
  readonly waitReason?: string | undefined
}

export interface Job extends JobProgress {
  readonly kind: JobKind
  readonly origin: Origin
  /** the only receiver of a replay */
  readonly sink?: string
  /** as requested: the same request again joins this job */
  readonly asked: readonly JobSpan[]
  /** what of that is read, one after the other, none of it twice */
  readonly spans: readonly JobSpan[]
  /** epoch ms; distinguishes it from others of its stream and sink, and names the objects of a replay */
  readonly startedAt: number
  readonly endedAt: number | undefined
  readonly counts: JobCounts
  /** once a span is read: its parts that could not be */
  readonly unread: readonly Unread[]
}

export interface StartedJob extends Job {
  /** It was under way before, started by another command, though perhaps in the same instant. */
  readonly isJoined?: true
}

/** 0 to 1, by time; undefined: not known yet. */
export function progressOf({
  spans,
  atUs,
  endedAt,
}: Pick<Job, 'spans' | 'atUs' | 'endedAt'>): number | undefined {
  if (endedAt !== undefined) return 1
  const upTo = (at: number) =>
    spans.reduce((sum, { fromUs, toUs }) => sum + Math.min(Math.max(at - fromUs, 0), toUs - fromUs), 0)
  const whole = upTo(Infinity)
  return atUs === undefined || whole === 0 ? undefined : upTo(atUs) / whole
}

/** What of the spans asked for is not read: live reading had not come to it when the job started. */
export function leftOut({ asked, spans }: Pick<Job, 'asked' | 'spans'>): readonly JobSpan[] {
  return asked.flatMap(({ fromUs, toUs }) => {
    const read = spans.find((span) => span.fromUs === fromUs)
    const left = { fromUs: read?.toUs ?? fromUs, toUs }
    return left.fromUs < left.toUs ? [left] : []
  })
}

/** Which jobs or streams; what is absent means all. */
export interface JobFilter {
  readonly workspace?: string | undefined
  readonly source?: string | undefined
  readonly sink?: string | undefined
}

export const matches = (
  { workspace, source, sink }: JobFilter,
  job: { readonly origin: Origin; readonly sink?: string },
): boolean =>
  (workspace ?? job.origin.workspace) === job.origin.workspace &&
  (source ?? job.origin.source) === job.origin.source &&
  (sink ?? job.sink) === job.sink

export interface ReplayRequest {
  readonly sink: string
  /** epoch ms at which the command began: one for all its streams */
  readonly startedAt: number
  readonly reads: readonly { readonly origin: Origin; readonly spans: readonly JobSpan[] }[]
  /** only says what would start */
  readonly dryRun?: boolean
}

/** One job of a kind, a stream and a sink at a time: a request for the same spans joins it. */
export interface Jobs {
  /** Whose span can be read again. */
  origins(): Promise<readonly Origin[]>
  /** Starts one for each stream that matches: all or none. Throws ConnectorError `misconfigured` where none does, or one over another span is under way. */
  backfill(
    streams: { readonly workspace?: string; readonly source?: SourceName },
    span: JobSpan,
  ): Promise<readonly StartedJob[]>
  /** Starts one for each stream: all or none. What live reading has not come to yet is cut off: it comes anyway. Throws as `backfill` does, and for an unknown sink or stream. */
  replay(request: ReplayRequest): Promise<readonly StartedJob[]>
  /** Under way, ended within the last day, and those that wait for their source or sink to be in the configuration again. */
  all(kind: JobKind): Promise<readonly Job[]>
  /** Ends those under way and those that wait so; what they kept or queued stays. Returns how many. */
  cancel(kind: JobKind, which: JobFilter): Promise<number>
}

// The share of the journal that jobs may fill: half of its bound, since the other half is live reading's, which stops when all is full.

const JOB_SHARE = 0.5

export const JOB_SHARE_IN_USE = "half of journal.max_bytes is in use, and the other half is live reading's"

type Filling = Pick<JournalStats, 'bytes' | 'capacityBytes'>

const isInUse = ({ bytes, capacityBytes }: Filling) => bytes >= capacityBytes * JOB_SHARE

/** As jobs see them: the journal is full once their share is. */
export const statsForJobs = (stats: JournalStats): JournalStats => ({ ...stats, full: isInUse(stats) })

/** An answer may be larger than the room that was there when it was asked for. Throws ConnectorError `journal_full`. */
export function assertJobShare(filling: Filling): void {
  if (!isInUse(filling)) return
  throw new ConnectorError(
    'journal_full',
    `No room for jobs: ${JOB_SHARE_IN_USE}; they go on when the sinks have taken some`,
  )
}

// Reconcile: the command asks for step after step, each of which reads a page and compares it with the journal. Nothing is kept.

/** One step. */
export interface CompareQuery extends JobSpan {
  readonly origin: Origin
  /** as the last step returned it; undefined at first */
  readonly place: string | undefined
  /** distinguishes the command from another one over the same stream */
  readonly job: string
}

/** fetched = known + changed + filtered + malformed + early + unknown. */
export interface ComparedDay {
  /** days since 1970 */
  readonly day: number
  readonly fetched: number
  /** the journal has it, whatever its type */
  readonly known: number
  /** of a known id, with a content other than was kept of it last: it would be kept as a new version */
  readonly changed: number
  /** not known, and of a type that is not wanted */
  readonly filtered: number
  /** no entry: counted on the day where it was met if it has no readable time */
  readonly malformed: number
  /** not known, and from before the start of live reading; absent: a daemon of an older version */
  readonly early?: number
  readonly unknown: number
}

export const emptyDay = (day: number): Required<ComparedDay> => ({
  day,
  ...{ fetched: 0, known: 0, changed: 0, filtered: 0, malformed: 0, early: 0, unknown: 0 },
})

/** Both of one day. */
export function summed(a: ComparedDay, b: ComparedDay): Required<ComparedDay> {
  const sum = emptyDay(a.day) as { -readonly [name in keyof ComparedDay]-?: number }
  for (const name of Object.keys(sum) as (keyof ComparedDay)[])
    if (name !== 'day') sum[name] = (a[name] ?? 0) + (b[name] ?? 0)
  return sum
}

export interface Compared extends JobProgress {
  readonly days: readonly ComparedDay[]
  /** ids of some of the unknown ones */
  readonly unknown: readonly { readonly id: string; readonly day: number }[]
  readonly gaps: number
  /** all so far, as far as its source knows */
  readonly unread: readonly Unread[]
  /** the span is read from its start again: what earlier steps returned comes once more */
  readonly anew: boolean
  readonly place: string | undefined
  readonly done: boolean
  /** Nothing was read: the next step may be asked for after so long. */
  readonly waitMs: number
  /** nothing before it was ever to be read by live reading, µs; absent: not known, or all was */
  readonly startUs?: number | undefined
  /** who the key is to the audit log, where a fetch of ours was met */
  readonly user: string | undefined
}

export interface Comparing {
  /** One bounded step: a page, or none. Throws ConnectorError, `misconfigured` where another reconcile has the stream. */
  compare(query: CompareQuery): Promise<Compared>
  /** The job asks for nothing more: its streams are free for another at once, and not only once it has been silent. */
  endCompare(job: string): Promise<void>
}
