// The format of /status.
import type { ErrorCode } from '../core/errors.ts'
import type { FindingRecord } from '../contracts/records.ts'
import { progressOf } from '../contracts/jobs.ts'
import type { Job, WaitsFor } from '../contracts/jobs.ts'
import { sinkWarnings } from '../contracts/sink-kind.ts'
import type { Assurance } from '../contracts/sink.ts'
import type { SinkState, SourceState } from '../contracts/reporter.ts'
import { isoFromUs } from '../core/time.ts'
import type { ErrorStatus, LastHourStatus } from './recent.ts'

/** ISO 8601; null before the first time. */
type Instant = string | null

export interface FaultStatus {
  readonly code: ErrorCode
  readonly message: string
  /** start of the trouble, which may have had another code then */
  readonly since: string
  /** absent: unknown, or a try is under way */
  readonly next_try_at?: string
}

export interface SourceStatus {
  readonly name: string
  readonly state: SourceState
  readonly last_success_at: Instant
  /** kept across restarts */
  readonly caught_up_at: Instant
  readonly head_at: Instant
  readonly cursor_at: Instant
  /** how often a read is due; absent: unknown, or read only once */
  readonly interval_seconds?: number
  /** when the canary is sent next; absent: unknown, or no canary */
  readonly due_at?: string
  /** an answer waits because other answers use all the memory for answers; absent: none waits */
  readonly waits_for_memory_since?: string
  /** one answer is being received; absent: none is */
  readonly answer_comes_since?: string
  /** while reading is paused and due: the time since all was read, or since the last entry read */
  readonly lag_seconds: number
  /** while it reads a backlog: how far it is from the start of the backlog to the head, 0 to 1 */
  readonly progress: number | null
  /** since this process started */
  readonly new_entries: number
  /** since this process started: of a type that `types` excludes, so not stored */
  readonly filtered_entries: number
  readonly gaps: number
  /** when a possible gap was last found; kept across restarts */
  readonly last_gap_at: Instant
  readonly findings: number
  readonly error: FaultStatus | null
}

/** Requests of one area in the last minute, against the limit. */
export interface RateLimitStatus {
  readonly area: string
  readonly used: number
  readonly limit: number
  /** the configured limit; fewer requests are sent since a 429; absent: all may be sent */
  readonly lowered_from?: number
  /** the API answered 429: no request is sent before this; absent: no limit is active */
  readonly limited_until?: string
  /** other workspaces with the same key and host, whose requests `used` includes; absent: none */
  readonly shared_with?: readonly string[]
}

export interface WorkspaceStatus {
  readonly name: string
  readonly sources: readonly SourceStatus[]
  readonly rate_limits?: readonly RateLimitStatus[]
  /** the replica that reads it; absent: the one that reports */
  readonly replica?: string
}

type Begin = Pick<StatusReport, 'started_at' | 'configured_at'>

/** The start of the period of counts that neither a restart nor a reload keeps. */
export const sinceText = ({ started_at, configured_at }: Begin): string =>
  configured_at === started_at ? 'since the start' : 'since the reload'

/** The last delivery is not kept across restarts and reloads, so null does not mean never. */
export const noDelivery = (report: Begin): string => `none ${sinceText(report)}`

/** A value of an earlier process or configuration does not count: nothing was checked since. */
export const isCaughtUp = (
  { caught_up_at: at }: Pick<SourceStatus, 'caught_up_at'>,
  { configured_at: configuredAt }: Pick<StatusReport, 'configured_at'>,
): boolean => at !== null && Date.parse(at) >= Date.parse(configuredAt)

type Lag = Pick<SourceStatus, 'state' | 'last_success_at' | 'lag_seconds'>

/** The lag is unknown for a source that has read nothing yet, or does not read now. */
export const isLagUnknown = ({ state, last_success_at, lag_seconds }: Lag): boolean =>
  lag_seconds < 1 && (last_success_at === null || ['blocked', 'failing', 'paused'].includes(state))

export interface SinkStatus {
  readonly name: string
  readonly type: string
  readonly assurance: Assurance
  readonly state: SinkState
  /** while it collects: when the entries are sent at the latest; absent: it does not collect */
  readonly next_upload_at?: string
  /** pending, including entries that the sink will filter */
  readonly pending_entries: number
  readonly lag_seconds: number
  /** since this process started; not kept across restarts */
  readonly last_success_at: Instant
  /** since this process started */
  readonly accepted_entries: number
  /** since this process started: excluded by the sink's settings */
  readonly filtered_entries: number
  readonly dead_letters: number
  /** dead letters since the last accepted entry; absent: none, or not since this process started */
  readonly rejecting?: { readonly since: string; readonly entries: number }
  readonly error: FaultStatus | null
}

export interface JournalStatus {
  readonly entries: number
  readonly bytes: number
  readonly capacity_bytes: number
  readonly paused: boolean
  /** why the next start would not find it, such as a removed file; null: it would */
  readonly lost: string | null
  /** absolute path in the daemon; absent: a daemon of an older version */
  readonly path?: string
  readonly quarantined: number
  readonly gaps: number
  readonly findings: number
  /** sinks that left the configuration while they still had a position */
  readonly unconfigured: readonly string[]
}

/** An entry that a person should look up in the SIEM. Newest first, only a few. */
export interface FindingStatus {
  readonly workspace: string
  readonly source: string
  readonly kind: FindingRecord['kind']
  readonly entry_id: string
  /** the entry's own time; null: not kept */
  readonly entry_at: Instant
  readonly found_at: string
}

/** A job that reads a time span again, beside live reading. */
export interface BackfillStatus {
  readonly workspace: string
  readonly source: string
  readonly from: string
  readonly to: string
  readonly state: 'waiting' | 'running' | 'done' | 'failing'
  /** 0 to 1, by time; null: not known yet */
  readonly progress: number | null
  /** in addition to an error: what the next try waits for */
  readonly waits_for: WaitsFor | null
  /** details of the wait, if known */
  readonly wait_reason: string | null
  /** why it does not continue now; it is retried */
  readonly error: Omit<FaultStatus, 'since' | 'next_try_at'> | null
  readonly read_entries: number
  readonly new_entries: number
  /** possible gaps: places where entries may be missing */
  readonly gaps: number
}

/** A span that is read again from the API for one sink; a replay's spans are reported as one. */
export interface ReplayStatus extends Omit<BackfillStatus, 'new_entries'> {
  readonly sink: string
  /** stored in the journal for that sink */
  readonly sent_entries: number
}

/**
 * `secret_unread`, `file_unread`: a restart would fail without it. `clock_apart`: our clock differs
 * much from that of the API. `file_removed`, `file_cut`: the file of a `file` sink lost its lines;
 * reported for one day.
 */
export const warningCodes = ['secret_unread', 'file_unread', 'clock_apart', ...sinkWarnings] as const

/** Something to fix although no part fails; `ok` does not change. */
export interface WarningStatus {
  readonly code: (typeof warningCodes)[number]
  /** such as `acme api_key`, or a workspace */
  readonly about: string
  readonly message: string
  readonly since: string
}

/** A shard of the journal, in use by a workspace. */
export interface ShardStatus {
  readonly shard: number
  /** the replica that works on it; null: none does now */
  readonly holder: string | null
  /** how often it was acquired */
  readonly epoch: number
  /** since when its last holder has or had it; null: no replica ever had it */
  readonly since: Instant
  /** how often the lease of a holder ended without being released */
  readonly takeovers: number
  /** the holder is the replica that reports */
  readonly here: boolean
  /** age of what is reported of it here; null: nothing is */
  readonly reported_at: Instant
}

export interface StatusReport {
  readonly version: string
  /** start of the process */
  readonly started_at: string
  /** when the current configuration was loaded, at the start or by a reload */
  readonly configured_at: string
  readonly reported_at: string
  readonly ok: boolean
  readonly summary: string
  readonly workspaces: readonly WorkspaceStatus[]
  readonly sinks: readonly SinkStatus[]
  readonly journal: JournalStatus
  /** absent: the journal is not in PostgreSQL */
  readonly shards?: readonly ShardStatus[]
  /** when a changed configuration was rejected; null: not since the current one was loaded */
  readonly config_refused_at: Instant
  /** its first fault, and the number of others; null: none is rejected */
  readonly config_refused_why: string | null
  readonly warnings: readonly WarningStatus[]
  readonly findings: readonly FindingStatus[]
  readonly backfills: readonly BackfillStatus[]
  readonly replays: readonly ReplayStatus[]
  /** newest first */
  readonly errors: readonly ErrorStatus[]
  readonly history: LastHourStatus
}

/** A trouble that passes is listed while it lasts. */
function jobStatusOf(job: Job): Omit<BackfillStatus, 'new_entries'> {
  const { stream, spans, counts, error = null, waitsFor = null, waitReason = null } = job
  const isDone = job.endedAt !== undefined
  const trouble = isDone
    ? { waits_for: null, wait_reason: null, error: null }
    : { waits_for: waitsFor, wait_reason: waitReason, error }
  return {
    ...{ workspace: stream.workspace, source: stream.source },
    ...{ from: isoFromUs(spans[0]?.fromUs ?? 0), to: isoFromUs(spans.at(-1)?.toUs ?? 0) },
    state: isDone ? 'done' : error ? 'failing' : waitsFor ? 'waiting' : 'running',
    ...{ ...trouble, progress: progressOf(job) ?? null, read_entries: counts.read, gaps: counts.gaps },
  }
}

export const backfillStatusOf = (job: Job): BackfillStatus => ({
  ...jobStatusOf(job),
  new_entries: job.counts.new,
})

/** Undefined: live reading has not come to any of it. */
export function replayStatusOf(job: Job): ReplayStatus | undefined {
  const { spans, sink, counts } = job
  if (spans.length === 0 || sink === undefined) return undefined
  return { ...jobStatusOf(job), sink, sent_entries: counts.sent }
}

/** `history.usage` uses the limit of the area `history`. */
export function rateLimitOf(
  { name }: Pick<SourceStatus, 'name'>,
  { rate_limits }: Pick<WorkspaceStatus, 'rate_limits'>,
): RateLimitStatus | undefined {
  return rate_limits?.find(({ area }) => area === name.split('.')[0])
}
