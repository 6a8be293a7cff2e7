// Shared by backfill, replay and reconcile: a span of a stream, read again from the API.
import { ConnectorError } from '../core/errors.ts'
import type { ErrorCode } from '../core/errors.ts'
import type { Pressure } from './journal.ts'
import type { Stream, SourceName } from './source.ts'

/** Pages are stored in the journal, queued for one sink, or only compared with the journal. */
export type RangeUse = 'keep' | 'send' | 'compare'

/** What the configuration lacks for a job. `sources`: its sink does not receive the stream. */
export type Missing = 'source' | 'sink' | 'sources'

/** The reason such a job does not run. */
export const missingText: Readonly<Record<Missing, string>> = {
  source: 'its source is not in the configuration of the daemon any more',
  sink: 'its sink is not in the configuration of the daemon any more',
  sources: "its source is not among the sink's `sources` any more",
}

/**
 * What a job waits for: another job of its stream, a permit of the rate limiter, the end of a 429,
 * room in the journal or memory, or missing configuration.
 */
export type WaitsFor = 'turn' | 'rate_limit' | 'limit' | 'room' | 'memory' | Missing

/** By the entries' own time, µs: included, excluded. */
export interface JobSpan {
  readonly fromUs: number
  readonly toUs: number
}

/**
 * A part of a span that could not be read: the API answered 400, or sent nothing readable although
 * it answered for other times.
 */
export interface Unread extends JobSpan {
  readonly why: 'refused' | 'unreadable'
}

// Jobs that the daemon runs: they survive restarts, and end when all is read or they are cancelled.

export const jobKinds = ['backfill', 'replay'] as const
export type JobKind = (typeof jobKinds)[number]

/** Backfill: read = new + known + filtered + quarantined; replay: sent + filtered + malformed. */
export interface JobCounts {
  /** elements that the API sent, each counted once */
  readonly read: number
  readonly new: number
  readonly known: number
  /** entries of types that the workspace does not want */
  readonly filtered: number
  /** malformed elements that were not quarantined before */
  readonly quarantined: number
  /** queued for the sink, whose own settings may still filter them */
  readonly sent: number
  /** of the sent: new to the journal, or with other content there: other sinks may lack them */
  readonly unknown: number
  /** malformed elements: not sent */
  readonly malformed: number
  /** possible gaps: places where entries may be missing */
  readonly gaps: number
}

export const noCounts: JobCounts = {
  ...{ read: 0, new: 0, known: 0, filtered: 0, quarantined: 0 },
  ...{ sent: 0, unknown: 0, malformed: 0, gaps: 0 },
}

/** Progress of a job, and what prevents it from continuing. */
export interface JobProgress {
  /** own time of the last entry read, µs; undefined: nothing yet */
  readonly atUs: number | undefined
  /** why the last try failed; it is retried */
  readonly error: { readonly code: ErrorCode; readonly message: string } | undefined
  readonly waitsFor: WaitsFor | undefined
  /** as text, if more is known */
  readonly waitReason?: string | undefined
}

export interface Job extends JobProgress {
  readonly kind: JobKind
  readonly stream: Stream
  /** the only receiver of a replay */
  readonly sink?: string
  /** as requested: the same request again joins this job */
  readonly asked: readonly JobSpan[]
  /** the spans that are read, one after the other, without overlap */
  readonly spans: readonly JobSpan[]
  /** epoch ms; unique for its stream and sink; the names of a replay's objects contain it */
  readonly startedAt: number
  readonly endedAt: number | undefined
  readonly counts: JobCounts
  /** once a span is read: its parts that could not be read */
  readonly unread: readonly Unread[]
}

export interface StartedJob extends Job {
  /** Already running, started by another command, though perhaps in the same instant. */
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

/** Requested but not read: live reading had not reached this part when the job started. */
export function leftOut({ asked, spans }: Pick<Job, 'asked' | 'spans'>): readonly JobSpan[] {
  return asked.flatMap(({ fromUs, toUs }) => {
    const read = spans.find((span) => span.fromUs === fromUs)
    const left = { fromUs: read?.toUs ?? fromUs, toUs }
    return left.fromUs < left.toUs ? [left] : []
  })
}

/** Selects jobs or streams; an absent field selects all. */
export interface JobFilter {
  readonly workspace?: string | undefined
  readonly source?: string | undefined
  readonly sink?: string | undefined
}

export const matches = (
  { workspace, source, sink }: JobFilter,
  job: { readonly stream: Stream; readonly sink?: string },
): boolean =>
  (workspace ?? job.stream.workspace) === job.stream.workspace &&
  (source ?? job.stream.source) === job.stream.source &&
  (sink ?? job.sink) === job.sink

export interface ReplayRequest {
  readonly sink: string
  /** epoch ms at which the command began: one for all its streams */
  readonly startedAt: number
  readonly reads: readonly { readonly stream: Stream; readonly spans: readonly JobSpan[] }[]
  /** dry run: only reports what would start */
  readonly dryRun?: boolean
}

/** At most one job per kind, stream and sink: a request for the same spans joins it. */
export interface Jobs {
  /** Streams whose span can be read again. */
  origins(): Promise<readonly Stream[]>
  /**
   * Starts one job for each matching stream: all or none. Throws ConnectorError `misconfigured` if
   * none matches, or a job over another span is running.
   */
  backfill(
    streams: { readonly workspace?: string; readonly source?: SourceName },
    span: JobSpan,
  ): Promise<readonly StartedJob[]>
  /**
   * Starts one job for each stream: all or none. Cuts off the part that live reading has not
   * reached, since it will be read anyway. Throws as `backfill` does, and for an unknown sink or
   * stream.
   */
  replay(request: ReplayRequest): Promise<readonly StartedJob[]>
  /** Running jobs, those that ended within a day, and those that wait for the configuration. */
  all(kind: JobKind): Promise<readonly Job[]>
  /** Cancels running and waiting jobs; returns how many. What they stored or queued stays. */
  cancel(kind: JobKind, which: JobFilter): Promise<number>
}

// Jobs may fill half of the journal's bound. The other half is for live reading, which stops when
// the whole journal is full.

const JOB_SHARE = 0.5

export const JOB_SHARE_IN_USE =
  'half of journal.max_bytes is in use, and the other half is reserved for live reading'

type Filling = Pick<Pressure, 'bytes' | 'capacityBytes'>

const isInUse = ({ bytes, capacityBytes }: Filling) => bytes >= capacityBytes * JOB_SHARE

/** As jobs see it: the journal is full once their share is. */
export const pressureForJobs = (pressure: Pressure): Pressure => ({ ...pressure, full: isInUse(pressure) })

/** Checks again: an answer may be larger than the room found before. Throws `journal_full`. */
export function assertJobShare(filling: Filling): void {
  if (!isInUse(filling)) return
  throw new ConnectorError(
    'journal_full',
    `No room in the journal for a backfill or replay: ${JOB_SHARE_IN_USE}; it continues when the sinks have accepted more entries`,
  )
}

// Reconcile: the daemon reads a span again and compares it with the journal. Nothing is stored.

export interface CompareRequest extends JobSpan {
  /** identifies the command */
  readonly job: string
  /** absent: all of them */
  readonly workspace?: string
}

/** fetched = known + changed + filtered + malformed + early + unknown. */
export interface ComparedDay {
  /** days since 1970 */
  readonly day: number
  readonly fetched: number
  /** in the journal, of any type */
  readonly known: number
  /** known id with other content than the last stored one: it would be stored as a new version */
  readonly changed: number
  /** unknown, and of a type that is not wanted */
  readonly filtered: number
  /** malformed: counted on the day where it was read if it has no readable time */
  readonly malformed: number
  /** unknown, and from before the start of live reading */
  readonly early: number
  readonly unknown: number
}

export const emptyDay = (day: number): ComparedDay => ({
  day,
  ...{ fetched: 0, known: 0, changed: 0, filtered: 0, malformed: 0, early: 0, unknown: 0 },
})

/** Both counts of one day. */
export function summed(a: ComparedDay, b: ComparedDay): ComparedDay {
  const sum = emptyDay(a.day) as { -readonly [name in keyof ComparedDay]: number }
  for (const name of Object.keys(sum) as (keyof ComparedDay)[])
    if (name !== 'day') sum[name] = a[name] + b[name]
  return sum
}

export interface ComparedStream {
  readonly stream: Stream
  /** in order */
  readonly days: readonly ComparedDay[]
  /** the first unknown entries */
  readonly unknown: readonly { readonly id: string; readonly day: number }[]
  /** places that could not be read completely */
  readonly gaps: number
  /** these places, if the source knows them */
  readonly unread: readonly Unread[]
  /** start of live reading, µs: it reads nothing before; absent: unknown, or it reads everything */
  readonly startUs?: number | undefined
  /** user of our key in the audit log; absent: none of our own fetches was found */
  readonly user?: string | undefined
}

/** All counts so far; progress of the last stream. Done with an error: it cannot be read. */
export interface Compared extends JobProgress {
  /** streams that have begun, in the order of the configuration */
  readonly streams: readonly ComparedStream[]
  readonly isDone: boolean
}

export interface Comparing {
  /**
   * Starts the comparison of this job, or continues to wait for it; answers within a second.
   * Throws ConnectorError `misconfigured` if another reconcile uses one of the streams, and
   * `aborted` if the daemon stops.
   */
  compare(request: CompareRequest): Promise<Compared>
  /** The command has ended: its streams are free at once, instead of after a timeout. */
  endCompare(job: string): Promise<void>
}
