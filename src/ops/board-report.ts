// What the board says at one moment, put together of what its parts tell. Pure, save that it asks them.
import type { FindingRecord } from '../model/set-aside.ts'
import type { JournalStats } from '../model/journal.ts'
import { isoFromUs } from '../model/time.ts'
import type { BoardSink } from './board-sink.ts'
import type { BoardSource } from './board-source.ts'
import { type Lingers, sentenceOf } from './sentence.ts'
import type {
  BudgetStatus,
  FindingStatus,
  JournalStatus,
  SinkStatus,
  SourceStatus,
  StatusReport,
  WorkspaceStatus,
} from './status.ts'

type BudgetOf = ((workspace: string) => readonly BudgetStatus[]) | undefined

function workspacesOf(sources: readonly BoardSource[], budget: BudgetOf): WorkspaceStatus[] {
  const byName = Map.groupBy(sources, ({ origin }) => origin.workspace)
  return [...byName].map(([name, own]) => ({
    name,
    sources: own.map((source) => source.status()),
    ...(budget ? { budget: budget(name) } : {}),
  }))
}

/** Where the journal's own bound is the reason, the journal knows first when there is room again; where the disk is, only the readers know. */
function isPaused(stats: JournalStats, workspaces: readonly WorkspaceStatus[]): boolean {
  const forDisk = ({ state, error }: SourceStatus) =>
    state === 'paused' && error !== null && error.code !== 'journal_full'
  return stats.full || workspaces.some(({ sources }) => sources.some(forDisk))
}

function isWell(
  journal: JournalStatus,
  workspaces: readonly WorkspaceStatus[],
  sinks: readonly SinkStatus[],
): boolean {
  if (journal.paused || journal.lost !== null) return false
  const states = [...workspaces.flatMap(({ sources }) => sources), ...sinks]
  return states.every(({ state }) => state !== 'failing' && state !== 'held')
}

type BesideStats = Pick<JournalStatus, 'paused' | 'lost' | 'path'>

function journalStatus(stats: JournalStats, beside: BesideStats): JournalStatus {
  const { entries, bytes, capacityBytes, quarantined, gaps, findings, strangers } = stats
  const counted = { quarantined, gaps, findings, strangers }
  return { entries, bytes, capacity_bytes: capacityBytes, ...beside, ...counted }
}

/** Who it was is content, and stays where the entry is: here stands what it takes to find it there. */
function findingStatus({ origin, kind, entryId, entryUs, foundAt }: FindingRecord): FindingStatus {
  const found = { entry_id: entryId, found_at: new Date(foundAt).toISOString() }
  return { ...origin, kind, ...found, entry_at: entryUs === undefined ? null : isoFromUs(entryUs) }
}

interface Asked {
  readonly sources: readonly BoardSource[]
  readonly sinks: readonly BoardSink[]
  readonly budget?: BudgetOf
  readonly path?: string | undefined
  readonly lost: string | undefined
}

interface Parts extends Pick<StatusReport, 'workspaces' | 'journal' | 'sinks'> {
  readonly stats: JournalStats
}

/** How each source and sink is, and the journal. */
export function partsOf(stats: JournalStats, { sources, sinks, budget, path, lost }: Asked): Parts {
  const workspaces = workspacesOf(sources, budget)
  const beside = { paused: isPaused(stats, workspaces), lost: lost ?? null, ...(path && { path }) }
  const journal = journalStatus(stats, beside)
  return { stats, workspaces, journal, sinks: sinks.map((sink) => sink.status(stats)) }
}

export function lingersOf(sinks: readonly BoardSink[]): Lingers {
  const seconds = new Map(sinks.map(({ name, lingerMs }) => [name, lingerMs / 1000]))
  return (name) => seconds.get(name) ?? 0
}

type When = Pick<StatusReport, 'version' | 'started_at' | 'configured_at' | 'reported_at'>
type Notices = Pick<StatusReport, 'config_refused_at' | 'config_refused_why' | 'warnings'>
type Kept = Pick<StatusReport, 'errors' | 'history' | 'backfills' | 'replays'>

/** The whole of /status. The sentence has its place before the parts, also for who reads the report as it is. */
export function reportOf(
  { stats, ...parts }: Parts,
  when: When,
  notices: Notices,
  kept: Kept,
  lingers: Lingers,
): StatusReport {
  const ok = isWell(parts.journal, parts.workspaces, parts.sinks)
  const findings = stats.lastFindings.map(findingStatus)
  const report = { ...when, ok, sentence: '', ...parts, ...notices, findings }
  return { ...report, sentence: sentenceOf(report, lingers), ...kept }
}
