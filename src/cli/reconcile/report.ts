// The report of `reconcile` as data: a row per stream and day, and per sink, stream and day. Pure.
import type { AccountReport, AccountRow, DayRange } from '../../contracts/accounts.ts'
import { emptyDay } from '../../contracts/jobs.ts'
import type { ComparedDay, ComparedStream, Unread } from '../../contracts/jobs.ts'
import { isSameStream } from '../../contracts/source.ts'
import { DAY_MS, DAY_US, dayStart, dayText, isoFromUs } from '../../core/time.ts'
import { REREAD_MAX_MS } from '../../sources/history/due.ts'
import type { Start } from '../../sources/shared.ts'

/**
 * `missing`: the API shows entries that the journal lacks, or a sink's account lacks some.
 * `changed`: nothing is missing, but content differs. `surplus`: more is known than was ever
 * stored. `moving`: the day is not over. `early`: over before live reading began, and nothing of it
 * was stored.
 */
type Result = 'even' | 'missing' | 'changed' | 'surplus' | 'moving' | 'early'

export const isJudged = ({ result }: { readonly result: Result }): boolean =>
  result !== 'moving' && result !== 'early'

export interface ReadRow extends Omit<ComparedDay, 'day' | 'early'> {
  readonly workspace: string
  readonly source: string
  /** UTC, such as 2026-01-31 */
  readonly day: string
  /** unknown, because older than the start of live reading */
  readonly before_start: number
  /** from the journal's accounts */
  readonly kept: number
  /** stored but no longer shown; or stored again: as a version, or after its key was forgotten */
  readonly no_longer_shown: number
  /** `keys`: each entry was looked up; `counts`: only numbers, as keys may be forgotten */
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
  /** true: through the running daemon; false: with the journal opened by this command */
  readonly daemon_running: boolean
  readonly sources: readonly {
    readonly workspace: string
    readonly source: string
    readonly host: string | null
    /** user of the key in the audit log; null: none of our own fetches was found */
    readonly user: string | null
    /** places where the API could not be read completely */
    readonly gaps: number
    /** those places, if known: `refused` with a 400, or `unreadable` */
    readonly unread: readonly { readonly from: string; readonly to: string; readonly why: Unread['why'] }[]
    /** start of live reading; null: unknown, or the first entry that exists */
    readonly start: string | null
    /** lookback reads the days from here on again; null: none */
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
  /** by workspace: days of the history that lookback reads again */
  readonly lookback: ReadonlyMap<string, LookbackDays>
  readonly days: DayRange
  readonly nowMs: number
  /** all keys of entries from here on are stored */
  readonly keysSinceMs: number
  readonly streams: readonly ComparedStream[]
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
    // A report about today only proves nothing.
    ok: isWhole && judged.length > 0 && judged.every(({ result }) => result === 'even'),
  }
}

function sourceOf({ hosts, lookback, nowMs }: Findings, counts: ComparedStream) {
  const { stream, user, gaps, unread, unknown, startUs } = counts
  const { workspace, source } = stream
  const rereadMs = source === 'audit' ? undefined : lookbackFrom(lookback.get(workspace), startUs, nowMs)
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

function readRows(findings: Findings, counts: ComparedStream): ReadRow[] {
  const { fromDay, toDay } = findings.days
  return Array.from({ length: toDay - fromDay }, (_, i) => {
    const day = fromDay + i
    return readRow(findings, counts, counts.days.find((one) => one.day === day) ?? emptyDay(day))
  })
}

function readRow(
  { accountReport, nowMs, keysSinceMs }: Findings,
  { stream, startUs = -Infinity }: ComparedStream,
  { day, early, ...shown }: ComparedDay,
): ReadRow {
  const accounts = accountReport.kept.find((row) => row.day === day && isSameStream(row.stream, stream))
  const kept = accounts?.kept ?? 0
  const isEarly = (day + 1) * DAY_US <= startUs
  // A backfill read such a day, so it must be complete.
  const before = isEarly && kept > 0 ? 0 : early
  const counts = { ...shown, unknown: shown.unknown + early - before }
  // Without unknown entries, each one was looked up and found.
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

// Days of the history that lookback will read again: no backfill is needed for them.

interface Workspace {
  readonly name: string
  readonly history?: { readonly lookback: number; readonly start: Start } | undefined
}

/** From the configuration, epoch ms. */
interface LookbackDays {
  /** full days within `lookback` */
  readonly fromMs: number
  /** live reading began at this time or earlier */
  readonly startMs: number
}

export function lookbackDays(
  { workspaces }: { readonly workspaces: readonly Workspace[] },
  nowMs: number,
): ReadonlyMap<string, LookbackDays> {
  const found = workspaces.flatMap(({ name, history }) => {
    if (!history || history.lookback === 0) return []
    // The oldest day may leave the span before the next lookback.
    const fromMs = dayStart(nowMs - history.lookback + REREAD_MAX_MS)
    return [[name, { fromMs, startMs: startedBy(history.start, nowMs) }] as const]
  })
  return new Map(found)
}

/**
 * First day that is read again, epoch ms; undefined: none. Not before the day on which reading
 * began, since lookback requests whole days. `startUs`: the start from the journal, which has
 * priority over the configuration. @internal for tests
 */
export function lookbackFrom(
  reread: LookbackDays | undefined,
  startUs: number | undefined,
  nowMs: number,
): number | undefined {
  if (!reread) return undefined
  const from = Math.max(reread.fromMs, dayStart(startUs === undefined ? reread.startMs : startUs / 1000))
  return from + DAY_MS > nowMs ? undefined : from
}

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
