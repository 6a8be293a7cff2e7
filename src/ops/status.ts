// What /status says: its shape, and the one sentence that a person reads first at three in the morning.
import type { ErrorCode } from '../model/errors.ts'
import type { FindingRecord } from '../model/set-aside.ts'
import type { Backfill, WaitsFor } from '../model/past.ts'
import type { Assurance } from '../model/sink.ts'
import type { SinkState, SourceState } from '../model/watch.ts'
import type { HistoryStatus } from './history.ts'
import type { ErrorStatus } from './recent-errors.ts'

/** ISO 8601; null until the first time. */
type Instant = string | null

export interface FaultStatus {
  readonly code: ErrorCode
  readonly message: string
  readonly since: string
}

export interface SourceStatus {
  readonly name: string
  readonly state: SourceState
  readonly last_success_at: Instant
  /** before this start too */
  readonly caught_up_at: Instant
  readonly head_at: Instant
  readonly cursor_at: Instant
  readonly lag_seconds: number
  /** while it works through a backlog: how far it came on the way from where it began to the head, 0 to 1 */
  readonly progress: number | null
  /** since this process started */
  readonly new_entries: number
  readonly gaps: number
  /** when a possible gap was last found, before this start too */
  readonly last_gap_at: Instant
  readonly findings: number
  readonly error: FaultStatus | null
}

/** Requests of one area in the last minute, against the limit. */
export interface BudgetStatus {
  readonly area: string
  readonly used: number
  readonly limit: number
}

export interface WorkspaceStatus {
  readonly name: string
  readonly sources: readonly SourceStatus[]
  readonly budget?: readonly BudgetStatus[]
}

/** When a sink last took something is not kept over a restart: here null is not never. */
export const noDelivery = 'none since start'

export interface SinkStatus {
  readonly name: string
  readonly type: string
  readonly assurance: Assurance
  readonly state: SinkState
  readonly owed_entries: number
  readonly lag_seconds: number
  /** since this process started; before that nobody kept it */
  readonly last_success_at: Instant
  /** since this process started */
  readonly accepted_entries: number
  readonly dead_letters: number
  readonly error: FaultStatus | null
}

export interface JournalStatus {
  readonly entries: number
  readonly bytes: number
  readonly capacity_bytes: number
  readonly paused: boolean
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
  /** why it does not come on just now; it is tried again */
  readonly error: Omit<FaultStatus, 'since'> | null
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

export interface StatusReport {
  readonly version: string
  readonly started_at: string
  readonly reported_at: string
  readonly ok: boolean
  readonly sentence: string
  readonly workspaces: readonly WorkspaceStatus[]
  readonly sinks: readonly SinkStatus[]
  readonly journal: JournalStatus
  /** when a changed configuration could not be taken, and the old one went on; null: never since the start */
  readonly config_refused_at: Instant
  readonly findings: readonly FindingStatus[]
  readonly backfills: readonly BackfillStatus[]
  readonly replays: readonly ReplayStatus[]
  /** newest first */
  readonly errors: readonly ErrorStatus[]
  readonly history: HistoryStatus
}

/** From here on a part that lags is worth a word. */
const NOTABLE_LAG_SECONDS = 60
const MAX_CLAUSES = 3

/** `14 s`, `5 min`, `3 h`, `4 days`: the largest unit that still says enough. */
export function spanText(seconds: number): string {
  if (seconds < 90) return `${Math.round(seconds)} s`
  if (seconds < 90 * 60) return `${Math.round(seconds / 60)} min`
  if (seconds < 48 * 3600) return `${Math.round(seconds / 3600)} h`
  return `${Math.round(seconds / 86_400)} days`
}

export const waitsForText: Readonly<Record<WaitsFor, string>> = {
  turn: 'its turn: another one that reads the same source comes first',
  budget: 'a place in the request budget: live reading comes first',
  room: "room in the journal: half of journal.max_bytes is in use, and the other half is live reading's",
}

/** Of what is read again. A trouble that passes is told while it lasts. */
export function rereadState({
  endedAt,
  error,
  waitsFor,
}: Pick<Backfill, 'endedAt' | 'error' | 'waitsFor'>): Pick<BackfillStatus, 'state' | 'waits_for' | 'error'> {
  if (endedAt !== undefined) return { state: 'done', waits_for: null, error: null }
  const going = waitsFor ? 'waiting' : 'running'
  return { state: error ? 'failed' : going, waits_for: waitsFor ?? null, error: error ?? null }
}

/** `history.usage` spends from the area `history`. */
export function budgetOf(
  { name }: Pick<SourceStatus, 'name'>,
  { budget }: Pick<WorkspaceStatus, 'budget'>,
): BudgetStatus | undefined {
  return budget?.find(({ area }) => area === name.split('.')[0])
}

const sizes = [
  ['GiB', 2 ** 30],
  ['MiB', 2 ** 20],
  ['KiB', 2 ** 10],
] as const

export function sizeText(bytes: number): string {
  for (const [unit, size] of sizes) if (bytes >= size) return `${(bytes / size).toFixed(1)} ${unit}`
  return `${bytes} B`
}

export function countText(count: number, noun: string): string {
  return `${count.toLocaleString('en-US')} ${count === 1 ? noun.replace(/ies$/, 'y').replace(/s$/, '') : noun}`
}

function secondsSince(instant: string, report: Told): number {
  return Math.max(0, (Date.parse(report.reported_at) - Date.parse(instant)) / 1000)
}

export type Told = Omit<
  StatusReport,
  'sentence' | 'findings' | 'backfills' | 'replays' | 'errors' | 'history'
>

function why(error: FaultStatus | null): string {
  return error ? `: ${error.message.replace(/[.\s]+$/, '')}` : ''
}

type Why = typeof why
const unsaid: Why = () => ''

function pausedClause({ sinks, workspaces }: Told): string {
  const debtor = sinks
    .filter(({ owed_entries }) => owed_entries > 0)
    .toSorted((a, b) => b.lag_seconds - a.lag_seconds || b.owed_entries - a.owed_entries)[0]
  const paused = workspaces.flatMap(({ sources }) => sources).find(({ state }) => state === 'paused')
  if (paused?.error && paused.error.code !== 'journal_full') return `Reading is paused${why(paused.error)}`
  if (!debtor) return 'Reading is paused: the journal is full'
  const owes = `${debtor.name} owes ${countText(debtor.owed_entries, 'entries')}, the oldest for ${spanText(debtor.lag_seconds)}`
  return `Reading is paused because the journal is full: ${owes}${debtor.error ? ` (${why(debtor.error).slice(2)})` : ''}`
}

function sourceClauses(report: Told, why: Why): string[] {
  return report.workspaces.flatMap(({ name: workspace, sources }) =>
    sources
      .filter(({ state }) => state === 'held' || state === 'failing')
      .map(({ name, state, error }) => {
        const since = error ? ` for ${spanText(secondsSince(error.since, report))}` : ''
        return `${workspace} ${name} has been ${state}${since}${why(error)}`
      }),
  )
}

function sinkClauses({ sinks }: Told, why: Why): string[] {
  return sinks
    .filter(({ state }) => state === 'held' || state === 'failing')
    .map(({ name, state, lag_seconds, owed_entries, error }) => {
      const behind = owed_entries > 0 ? `${spanText(lag_seconds)} behind` : state
      return `${name} is ${state === 'held' && owed_entries > 0 ? `held and ${behind}` : behind}${why(error)}`
    })
}

/** Told of an earlier process it says nothing of now: what has come since nobody has looked for. */
const isCaughtUp = ({ caught_up_at: at }: SourceStatus, { started_at: startedAt }: Told): boolean =>
  at !== null && Date.parse(at) >= Date.parse(startedAt)

function behindClauses(report: Told): string[] {
  const { workspaces, sinks } = report
  const slow = sinks
    .filter(({ lag_seconds }) => lag_seconds >= NOTABLE_LAG_SECONDS)
    .map(({ name, lag_seconds, owed_entries }) => {
      return `${name} is ${spanText(lag_seconds)} behind and catching up, ${countText(owed_entries, 'entries')} owed`
    })
  const reading = workspaces.flatMap(({ name: workspace, sources }) =>
    sources
      .filter((source) => source.lag_seconds >= NOTABLE_LAG_SECONDS || !isCaughtUp(source, report))
      .map(({ name, lag_seconds, state, last_success_at }) => {
        const waits = state === 'waiting' ? ', waiting for its request budget' : ''
        // A restart keeps the cursor, and with it the time of the next read.
        if (state === 'idle' && lag_seconds < 1) return `${workspace} ${name} waits for its next read`
        if (last_success_at === null || state === 'starting')
          return `${workspace} ${name} is starting${waits}`
        if (lag_seconds < 1) return `${workspace} ${name} is reading${waits}`
        return `${workspace} ${name} is ${spanText(lag_seconds)} behind and reading on${waits}`
      }),
  )
  return [...slow, ...reading]
}

function calmClause(report: Told): string {
  const last =
    report.sinks
      .map(({ last_success_at }) => last_success_at ?? '')
      .toSorted()
      .at(-1) ?? ''
  if (last === '') return 'All caught up, nothing to deliver since the start'
  return `All caught up: last delivery ${spanText(secondsSince(last, report))} ago`
}

function join(clauses: readonly string[]): string {
  const rest = clauses.length - MAX_CLAUSES
  return [...clauses.slice(0, MAX_CLAUSES), ...(rest > 0 ? [`and ${rest} more`] : [])].join('; ')
}

/** What is wrong comes first, then what lags; only a house in order is called caught up. */
export function sentenceOf(report: Told): string {
  const paused = report.journal.paused ? [pausedClause(report)] : []
  const wrong = [...paused, ...sourceClauses(report, why), ...sinkClauses(report, why)]
  if (wrong.length === 1) return join(wrong)
  // With several at fault the sentence says which; what each of them says stands in its row.
  if (wrong.length > 1)
    return join([...paused, ...sinkClauses(report, unsaid), ...sourceClauses(report, unsaid)])
  const behind = behindClauses(report)
  const parked = report.sinks.filter(({ dead_letters }) => dead_letters > 0)
  const letters = parked.map(
    ({ name, dead_letters }) => `${countText(dead_letters, 'dead letters')} at ${name}`,
  )
  const refused =
    report.config_refused_at === null ? [] : ['the changed configuration is refused, the old one goes on']
  return join([...refused, ...(behind.length > 0 ? behind : [calmClause(report)]), ...letters])
}
