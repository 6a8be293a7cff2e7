// What /status says: its shape.
import type { ErrorCode } from '../core/errors.ts'
import type { FindingRecord } from '../contracts/records.ts'
import type { Backfill, WaitsFor } from '../contracts/jobs.ts'
import type { Assurance } from '../contracts/sink.ts'
import type { SinkState, SourceState } from '../contracts/reporter.ts'
import type { ErrorStatus, LastHourStatus } from './recent.ts'

/** ISO 8601; null until the first time. */
type Instant = string | null

export interface FaultStatus {
  readonly code: ErrorCode
  readonly message: string
  /** of the trouble: it may have begun with another code */
  readonly since: string
  /** absent: not known, or it is being tried */
  readonly next_try_at?: string
}

export interface SourceStatus {
  readonly name: string
  readonly state: SourceState
  readonly last_success_at: Instant
  /** before this start too */
  readonly caught_up_at: Instant
  readonly head_at: Instant
  readonly cursor_at: Instant
  /** how often a read is due; absent: not known, or only once */
  readonly interval_seconds?: number
  /** when the canary asks next; absent: not known, or no canary */
  readonly due_at?: string
  /** the API has answered, and other answers hold all the memory that there is for them; absent: it does not wait for that */
  readonly waits_for_memory_since?: string
  /** one answer is being read, and its bytes still come; absent: none is */
  readonly answer_comes_since?: string
  /** while reading is paused, and was due: how long ago all was read, or the last that is */
  readonly lag_seconds: number
  /** while it works through a backlog: how far it came on the way from where it began to the head, 0 to 1 */
  readonly progress: number | null
  /** since this process started */
  readonly new_entries: number
  /** since this process started: of a type that `types` leaves out, and so not kept */
  readonly filtered_entries: number
  readonly gaps: number
  /** when a possible gap was last found, before this start too */
  readonly last_gap_at: Instant
  readonly findings: number
  readonly error: FaultStatus | null
}

/** Requests of one area in the last minute, against the limit. */
export interface RateLimitStatus {
  readonly area: string
  readonly used: number
  readonly limit: number
  /** the limit as it is set, of which less is asked since a 429; absent: all of it may be */
  readonly lowered_from?: number
  /** the API answered 429: nothing is asked before; absent: it did not, or that is over */
  readonly limited_until?: string
  /** the other workspaces that have this budget too, by one key on one host: `used` is of all together; absent: nobody */
  readonly shared_with?: readonly string[]
}

export interface WorkspaceStatus {
  readonly name: string
  readonly sources: readonly SourceStatus[]
  readonly rate_limits?: readonly RateLimitStatus[]
}

type Begin = Pick<StatusReport, 'started_at' | 'configured_at'>

/** From where on is told what neither a start nor a new configuration leaves. */
export const sinceText = ({ started_at, configured_at }: Begin): string =>
  configured_at === started_at ? 'since the start' : 'since the reload'

/** When a sink last took something is not kept over those: here null is not never. */
export const noDelivery = (report: Begin): string => `none ${sinceText(report)}`

/** Told of an earlier process or configuration it says nothing of now: what has come since nobody has looked for. */
export const isCaughtUp = (
  { caught_up_at: at }: Pick<SourceStatus, 'caught_up_at'>,
  { configured_at: configuredAt }: Pick<StatusReport, 'configured_at'>,
): boolean => at !== null && Date.parse(at) >= Date.parse(configuredAt)

type Lag = Pick<SourceStatus, 'state' | 'last_success_at' | 'lag_seconds'>

/** No lag is told of a source that has read nothing yet, or does not look now: how far it is behind is not known then. */
export const isLagUnknown = ({ state, last_success_at, lag_seconds }: Lag): boolean =>
  lag_seconds < 1 && (last_success_at === null || ['blocked', 'failing', 'paused'].includes(state))

export interface SinkStatus {
  readonly name: string
  readonly type: string
  readonly assurance: Assurance
  readonly state: SinkState
  /** while it collects: when that goes out at the latest; absent: it does not collect */
  readonly next_upload_at?: string
  /** not settled yet, with those among them that the sink will pass by */
  readonly pending_entries: number
  readonly lag_seconds: number
  /** since this process started; before that nobody kept it */
  readonly last_success_at: Instant
  /** since this process started */
  readonly accepted_entries: number
  /** since this process started: passed by, since the sink is not to have them */
  readonly filtered_entries: number
  readonly dead_letters: number
  readonly error: FaultStatus | null
}

export interface JournalStatus {
  readonly entries: number
  readonly bytes: number
  readonly capacity_bytes: number
  readonly paused: boolean
  /** why the next start would not find it, such as a file that was removed; null: it would */
  readonly lost: string | null
  /** where its daemon has it, as a whole path; absent: a daemon of an older version */
  readonly path?: string
  readonly quarantined: number
  readonly gaps: number
  readonly findings: number
  /** sinks that left the config while they still had a position */
  readonly strangers: readonly string[]
}

/** An entry that a person should look up: where it is stored, it says who and from where. Newest first, a few. */
export interface FindingStatus {
  readonly workspace: string
  readonly source: string
  readonly kind: FindingRecord['kind']
  readonly entry_id: string
  /** the entry's own time; null: not kept */
  readonly entry_at: Instant
  readonly found_at: string
}

/** A span of time that is read again on somebody's word, beside what is read anyway. */
export interface BackfillStatus {
  readonly workspace: string
  readonly source: string
  readonly from: string
  readonly to: string
  readonly state: 'waiting' | 'running' | 'done' | 'failed'
  /** 0 to 1, by time; null where it cannot be told yet */
  readonly progress: number | null
  /** beside an error: what the next try waits for */
  readonly waits_for: WaitsFor | null
  /** in words, where more is known of it */
  readonly wait_reason: string | null
  /** why it does not come on just now; it is tried again */
  readonly error: Omit<FaultStatus, 'since' | 'next_try_at'> | null
  readonly read_entries: number
  readonly new_entries: number
  /** places at which entries may have been left out */
  readonly gaps: number
}

/** A span that is read again from the API for one sink alone; several spans of one replay are told as one. */
export interface ReplayStatus extends Omit<BackfillStatus, 'new_entries'> {
  readonly sink: string
  /** put into the journal for that sink */
  readonly sent_entries: number
}

/**
 * `secret_unread`, `file_unread`: a restart would not have it. `clock_apart`: ours is far from the one of a workspace's API.
 * `file_removed`, `file_cut`: of a `file` sink, with what stood in it; told for a day.
 */
export const warningCodes = [
  'secret_unread',
  'file_unread',
  'clock_apart',
  'file_removed',
  'file_cut',
] as const

/** What is to be mended although no part fails of it, and `ok` stays as it is. */
export interface WarningStatus {
  readonly code: (typeof warningCodes)[number]
  /** such as `acme api_key`, or a workspace */
  readonly about: string
  readonly message: string
  readonly since: string
}

export interface StatusReport {
  readonly version: string
  /** of the process */
  readonly started_at: string
  /** when the configuration that runs now was taken, at the start or by a reload */
  readonly configured_at: string
  readonly reported_at: string
  readonly ok: boolean
  readonly summary: string
  readonly workspaces: readonly WorkspaceStatus[]
  readonly sinks: readonly SinkStatus[]
  readonly journal: JournalStatus
  /** when a changed configuration could not be taken, and the old one went on; null: not since this one was taken */
  readonly config_refused_at: Instant
  /** its first fault, and how many more there are; null: none is refused */
  readonly config_refused_why: string | null
  readonly warnings: readonly WarningStatus[]
  readonly findings: readonly FindingStatus[]
  readonly backfills: readonly BackfillStatus[]
  readonly replays: readonly ReplayStatus[]
  /** newest first */
  readonly errors: readonly ErrorStatus[]
  readonly history: LastHourStatus
}

type PastState = Pick<BackfillStatus, 'state' | 'waits_for' | 'wait_reason' | 'error' | 'progress'>

type PastRead = Pick<Backfill, 'fromUs' | 'toUs' | 'atUs' | 'endedAt' | 'error' | 'waitsFor' | 'waitReason'>

/** How it is with a span that is read again. A trouble that passes is told while it lasts. */
export function pastState(read: PastRead): PastState {
  const { endedAt, error, waitsFor, waitReason = null, atUs, fromUs, toUs } = read
  if (endedAt !== undefined)
    return { state: 'done', waits_for: null, wait_reason: null, error: null, progress: 1 }
  const going = waitsFor ? 'waiting' : 'running'
  const progress = atUs === undefined ? null : Math.min(1, Math.max(0, (atUs - fromUs) / (toUs - fromUs)))
  const state = error ? 'failed' : going
  return { state, waits_for: waitsFor ?? null, wait_reason: waitReason, error: error ?? null, progress }
}

/** `history.usage` spends from the area `history`. */
export function budgetOf(
  { name }: Pick<SourceStatus, 'name'>,
  { rate_limits }: Pick<WorkspaceStatus, 'rate_limits'>,
): RateLimitStatus | undefined {
  return rate_limits?.find(({ area }) => area === name.split('.')[0])
}
