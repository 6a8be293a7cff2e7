// What `reconcile` found, as data: one row a source and day, one a sink, source and day, and whether all of it comes out even. Pure.
import type { AccountReport, AccountRow, DayRange } from '../../contracts/accounts.ts'
import { emptyDay } from '../../contracts/jobs.ts'
import type { ComparedDay, Unread } from '../../contracts/jobs.ts'
import { isSameStream } from '../../contracts/source.ts'
import { DAY_MS, DAY_US, dayStart, dayText, isoFromUs } from '../../core/time.ts'
import { REREAD_MAX_MS } from '../../sources/history/due.ts'
import type { Start } from '../../sources/shared.ts'
import type { StreamCounts } from './compare.ts'

/**
 * `even`: it comes out even. `missing`: the API shows what is not here, or a sink's books lack something. `changed`: all is here, some
 * of it with other content. `surplus`: more is told as known than was ever counted as kept. `moving`: the day is not over, nothing is judged.
 * `early`: it was over before live reading began, and nothing of it was ever kept: nothing is judged.
 */
type Result = 'even' | 'missing' | 'changed' | 'surplus' | 'moving' | 'early'

export const isJudged = ({ result }: { readonly result: Result }): boolean =>
  result !== 'moving' && result !== 'early'

export interface ReadRow extends Omit<ComparedDay, 'day' | 'early'> {
  readonly workspace: string
  readonly source: string
  /** such as 2026-01-31, UTC */
  readonly day: string
  /** not known, and by right: from before live reading began */
  readonly before_start: number
  /** as the journal's books have it */
  readonly kept: number
  /** kept, and not shown by the API any more; or kept more than once: as versions, or after its key was forgotten */
  readonly no_longer_shown: number
  /** `keys`: each entry was looked up; `counts`: keys of this day may be forgotten, only numbers are compared */
  readonly proven_by: 'keys' | 'counts'
  readonly result: Result
}

export interface SinkRow extends Omit<AccountRow, 'stream' | 'day'> {
  readonly workspace: string
  readonly source: string
  readonly day: string
  readonly result: Result
}

export interface ReconcileReport {
  readonly version: string
  readonly instance: string | null
  readonly journal: string
  readonly from: string
  /** excluded */
  readonly to: string
  readonly made_at: string
  /** through the running daemon, or with the journal to itself */
  readonly daemon_running: boolean
  readonly sources: readonly {
    readonly workspace: string
    readonly source: string
    readonly host: string | null
    /** of the key, as the audit log names it; null: no fetch of ours was met */
    readonly user: string | null
    /** places at which the API could not be read whole */
    readonly gaps: number
    /** which these are, where that is known: `refused` with a 400, or `unreadable` */
    readonly unread: readonly { readonly from: string; readonly to: string; readonly why: Unread['why'] }[]
    /** where live reading began: nothing before was to be read; null: with the first entry there is, or it is not known */
    readonly start: string | null
    /** days from here on are read again by live reading itself; null: none is */
    readonly read_again_from: string | null
    readonly unknown: readonly { readonly id: string; readonly day: string }[]
  }[]
  readonly read: readonly ReadRow[]
  readonly sinks: readonly SinkRow[]
  readonly keys_since: string
  readonly ok: boolean
}

interface Findings {
  readonly version: string
  readonly instance: string | undefined
  readonly journal: string
  readonly running: boolean
  /** by workspace */
  readonly hosts: ReadonlyMap<string, string>
  /** by workspace: which days of the history live reading reads again */
  readonly reread: ReadonlyMap<string, Reread>
  readonly days: DayRange
  readonly nowMs: number
  /** keys of entries from here on are all kept */
  readonly keysSinceMs: number
  readonly streams: readonly StreamCounts[]
  readonly accountReport: AccountReport
}

const iso = (ms: number) => new Date(ms).toISOString()

export function reportOf(findings: Findings): ReconcileReport {
  const { days, nowMs, streams, keysSinceMs, instance } = findings
  const read = streams.flatMap((one) => readRows(findings, one))
  const sinks = sinkRows(findings)
  const judged = [...read, ...sinks].filter(isJudged)
  const isWhole = streams.every(({ gaps }) => gaps === 0)
  return {
    version: findings.version,
    instance: instance ?? null,
    journal: findings.journal,
    from: iso(days.fromDay * DAY_MS),
    to: iso(days.toDay * DAY_MS),
    made_at: iso(nowMs),
    daemon_running: findings.running,
    sources: streams.map((one) => sourceOf(findings, one)),
    read,
    sinks,
    keys_since: iso(keysSinceMs),
    // A report on nothing but today proves nothing.
    ok: isWhole && judged.length > 0 && judged.every(({ result }) => result === 'even'),
  }
}

function sourceOf({ hosts, reread, nowMs }: Findings, counts: StreamCounts) {
  const { stream, user, gaps, unread, unknown, startUs } = counts
  const { workspace, source } = stream
  const rereadMs = source === 'audit' ? undefined : rereadFrom(reread.get(workspace), startUs, nowMs)
  return {
    workspace,
    source,
    host: hosts.get(workspace) ?? null,
    user: user ?? null,
    gaps,
    unread: unread.map(({ fromUs, toUs, why }) => ({ from: isoFromUs(fromUs), to: isoFromUs(toUs), why })),
    start: startUs === undefined ? null : isoFromUs(startUs),
    read_again_from: rereadMs === undefined ? null : dayText(rereadMs),
    unknown: unknown.map(({ id, day }) => ({ id, day: dayText(day * DAY_MS) })),
  }
}

function readRows(findings: Findings, counts: StreamCounts): ReadRow[] {
  const { fromDay, toDay } = findings.days
  return Array.from({ length: toDay - fromDay }, (_, i) => {
    const day = fromDay + i
    return readRow(findings, counts, counts.days.find((one) => one.day === day) ?? emptyDay(day))
  })
}

function readRow(
  { accountReport, nowMs, keysSinceMs }: Findings,
  { stream, startUs = -Infinity }: StreamCounts,
  { day, early = 0, ...shown }: ComparedDay,
): ReadRow {
  const accounts = accountReport.kept.find((row) => row.day === day && isSameStream(row.stream, stream))
  const kept = accounts?.kept ?? 0
  const isEarly = (day + 1) * DAY_US <= startUs
  // Somebody had such a day read all the same: then it is to be whole.
  const before = isEarly && kept > 0 ? 0 : early
  const counts = { ...shown, unknown: shown.unknown + early - before }
  // Where nothing is unknown, each was looked up and found.
  const byKeys = day * DAY_MS >= keysSinceMs || counts.unknown === 0
  const found = counts.known + counts.changed
  const here = byKeys ? found : found + counts.unknown
  const isMissing = byKeys ? counts.unknown > 0 : here > kept
  const even = counts.changed > 0 ? 'changed' : here > kept ? 'surplus' : 'even'
  const judged = isEarly && kept === 0 && found === 0 ? 'early' : isMissing ? 'missing' : even
  return {
    workspace: stream.workspace,
    source: stream.source,
    day: dayText(day * DAY_MS),
    ...counts,
    before_start: before,
    kept,
    no_longer_shown: Math.max(0, kept - here),
    proven_by: byKeys ? 'keys' : 'counts',
    result: isMoving(day, nowMs) ? 'moving' : judged,
  }
}

const isMoving = (day: number, nowMs: number) => (day + 1) * DAY_MS > nowMs

function sinkRows({ accountReport, nowMs }: Findings): SinkRow[] {
  return accountReport.rows.map(({ stream, day, ...row }) => {
    const result = row.missing > 0 ? 'missing' : row.missing < 0 ? 'surplus' : 'even'
    return {
      workspace: stream.workspace,
      source: stream.source,
      ...row,
      day: dayText(day * DAY_MS),
      result: isMoving(day, nowMs) ? 'moving' : result,
    }
  })
}

// Which days of the history live reading is sure to read again by itself, so that nobody is sent to fetch what comes anyway.

interface Workspace {
  readonly name: string
  readonly history?: { readonly lookback: number; readonly start: Start } | undefined
}

/** What the configuration says of it, epoch ms. */
interface Reread {
  /** whole days from here on are within `lookback` */
  readonly fromMs: number
  /** live reading began then or earlier */
  readonly startMs: number
}

/** By workspace. */
export function rereadOf(
  { workspaces }: { readonly workspaces: readonly Workspace[] },
  nowMs: number,
): ReadonlyMap<string, Reread> {
  const found = workspaces.flatMap(({ name, history }) => {
    if (!history || history.lookback === 0) return []
    // The oldest of the span was perhaps read a moment ago, and is out of it before the next time.
    const fromMs = dayStart(nowMs - history.lookback + REREAD_MAX_MS)
    return [[name, { fromMs, startMs: startedBy(history.start, nowMs) }] as const]
  })
  return new Map(found)
}

/**
 * From this day on, epoch ms; undefined: none of these days is over. Not before the day that reading began on, which is asked for
 * from its midnight on each time. `startUs`: when it began, as the journal has it, since what is configured later has no effect.
 * @internal for tests
 */
export function rereadFrom(
  reread: Reread | undefined,
  startUs: number | undefined,
  nowMs: number,
): number | undefined {
  if (!reread) return undefined
  const from = Math.max(reread.fromMs, dayStart(startUs === undefined ? reread.startMs : startUs / 1000))
  return from + DAY_MS > nowMs ? undefined : from
}

/** Reading began then or earlier, however long ago it began. */
function startedBy(start: Start, nowMs: number): number {
  switch (start.kind) {
    case 'earliest':
      return 0
    case 'latest':
      return nowMs
    case 'span':
      return nowMs - start.ms
    case 'time':
      return start.atUs / 1000
  }
}
