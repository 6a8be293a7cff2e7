// The board: what every reader and shipper last told, kept for /status and counted for /metrics.
import type { JournalStats } from '../contracts/journal.ts'
import type { FindingRecord } from '../contracts/records.ts'
import type { CanaryTrace, CanaryWatch, SinkWatch, SourceWatch } from '../contracts/reporter.ts'
import type { Assurance } from '../contracts/sink.ts'
import { isSameOrigin } from '../contracts/source.ts'
import type { Origin } from '../contracts/source.ts'
import type { Clock } from '../core/clock.ts'
import type { ConnectorError } from '../core/errors.ts'
import type { Secret } from '../core/secret.ts'
import { isoFromUs } from '../core/time.ts'
import { openWarnings } from './condition.ts'
import type { Warnings } from './condition.ts'
import { masker } from './log.ts'
import type { Mask } from './log.ts'
import type { CanaryMetrics, Metrics } from './metrics.ts'
import { openLastHour, openRecentErrors, rememberSink, rememberSource } from './recent.ts'
import type { BoardMemory } from './recent.ts'
import { openBoardSink } from './sink-status.ts'
import type { BoardSink } from './sink-status.ts'
import { openBoardSource } from './source-status.ts'
import type { BoardSource } from './source-status.ts'
import type {
  BackfillStatus,
  RateLimitStatus,
  FindingStatus,
  JournalStatus,
  ReplayStatus,
  SinkStatus,
  SourceStatus,
  StatusReport,
  WorkspaceStatus,
} from './status.ts'
import { sentenceOf } from './summary.ts'
import type { Lingers } from './summary.ts'
import { messageOf } from './words.ts'

interface BoardOptions extends PastReads {
  readonly clock: Clock
  readonly metrics: Metrics
  /** May throw once the journal is closed: then the last word counts. */
  readonly journalStats: () => JournalStats
  /** as a whole path */
  readonly journalPath?: string | undefined
  readonly version: string
  /** epoch ms at which the process started; absent: now */
  readonly startedAt?: number | undefined
  /** Requests used of each area's budget, for one workspace. */
  readonly budget?: (workspace: string) => readonly RateLimitStatus[]
  /** What no error's words may show, wherever they came from. */
  readonly secrets?: () => readonly Secret[]
}

export interface Board {
  /** epoch ms, of the process */
  readonly startedAt: number
  /** `intervalMs`: how often a read is due; a source silent for more than two of them, and a minute, is told as failing. */
  source(origin: Origin, intervalMs?: number): SourceWatch
  /** `lingerMs`: how long an entry may wait on purpose before it is sent. */
  sink(name: string, type: string, assurance: Assurance | (() => Assurance), lingerMs?: number): SinkWatch
  /** `intervalMs`: how often one is to come back, at the best; `expected`: where it is looked for. */
  canary(workspace: string, intervalMs: number, expected: readonly CanaryTrace[]): CanaryWatch
  /** A changed configuration cannot be taken: told until another one is, or undefined comes: the file holds the one that runs again. */
  configRefused(error: ConnectorError | undefined): void
  /** Tells what is to be mended although no part fails of it. */
  readonly warn: Warnings['tell']
  /** Why the next start would not find the journal; undefined: it would. */
  journalLost(why: string | undefined): void
  /** How live reading of it fares; undefined: nobody reads it. */
  reading(origin: Origin): Pick<BoardSource, 'readTo' | 'isHeld'> | undefined
  status(): StatusReport
}

const nothing: JournalStats = {
  entries: 0,
  bytes: 0,
  capacityBytes: 0,
  full: false,
  sinks: [],
  strangers: [],
  quarantined: 0,
  gaps: 0,
  findings: 0,
  lastFindings: [],
}

/** The journal's own word; its last one once it is closed. */
function lastKnown(journalStats: () => JournalStats): () => JournalStats {
  let last = nothing
  return () => {
    try {
      last = journalStats()
    } catch {
      // A journal that is being closed answers nobody; what it said last is still the best there is.
    }
    return last
  }
}

function setJournalGauges({ journal }: Metrics, status: JournalStatus): void {
  journal.entries.set(status.entries)
  journal.bytes.set(status.bytes)
  journal.capacity.set(status.capacity_bytes)
  journal.paused.set(status.paused ? 1 : 0)
  journal.quarantined.set(status.quarantined)
}

const assuranceOf = (given: Assurance | (() => Assurance)) =>
  typeof given === 'string' ? () => given : given

const iso = (at: number) => new Date(at).toISOString()

/** A configuration tells each of its faults in a line of its own. */
function firstFault(error: ConnectorError): string {
  const [first = '', ...more] = messageOf(error).split('\n')
  return more.length > 0 ? `${first} (and more: the log has all of it)` : first
}

/** Remembers the configuration that could not be taken, while there is one. */
function openRefusal({ clock, errors, mask }: BoardMemory) {
  const none = { config_refused_at: null, config_refused_why: null }
  let refused: { config_refused_at: string | null; config_refused_why: string | null } = none
  return {
    tell(error: ConnectorError | undefined) {
      refused = none
      if (!error) return
      const at = clock.now()
      refused = { config_refused_at: iso(at), config_refused_why: mask(firstFault(error)) }
      errors.tell('configuration', error, at)
    },
    status: () => refused,
  }
}

export function openBoard(options: BoardOptions): Board {
  const { clock, metrics, journalStats, journalPath: path, version, budget } = options
  const configuredAt = clock.now()
  const startedAt = options.startedAt ?? configuredAt
  let lost: string | undefined
  metrics.configTaken(configuredAt)
  const sources: BoardSource[] = []
  const sinks: BoardSink[] = []
  const currentStats = lastKnown(journalStats)
  const lastHour = openLastHour(clock, () => currentStats().entries)
  const memory = { clock, lastHour, errors: openRecentErrors(), mask: masker(options.secrets) }
  const refusal = openRefusal(memory)
  const warnings = openWarnings(clock, memory.mask, metrics)

  const look = () => partsOf(currentStats(), { sources, sinks, budget, path, lost })

  metrics.onScrape(() => {
    const { stats, journal } = look()
    setJournalGauges(metrics, journal)
    setPastGauges(metrics, sources, options)
    for (const source of sources) source.refresh()
    for (const sink of sinks) sink.refresh(stats)
  })

  return {
    startedAt,
    warn: warnings.tell,
    source(origin, intervalMs) {
      const source = openBoardSource(origin, intervalMs, metrics.source, clock)
      sources.push(source)
      return rememberSource(`${origin.workspace} ${origin.source}`, source.watch, memory)
    },
    sink(name, type, assurance, lingerMs = 0) {
      const facts = { name, type, assurance: assuranceOf(assurance), lingerMs }
      const sink = openBoardSink(facts, metrics.sink, clock)
      sinks.push(sink)
      return rememberSink(name, sink.watch, memory)
    },
    canary: (...of) => openBoardCanary(...of, metrics.canary),
    configRefused(error) {
      refusal.tell(error)
      metrics.configReloaded(!error)
    },
    journalLost: (why) => void (lost = why),
    reading: (origin) => sources.find((source) => isSameOrigin(source.origin, origin)),
    status() {
      const began = { started_at: iso(startedAt), configured_at: iso(configuredAt) }
      const when = { version, ...began, reported_at: iso(clock.now()) }
      const notices = { ...refusal.status(), warnings: warnings.status() }
      const kept = { errors: memory.errors.status(), history: memory.lastHour.status() }
      const past = pastStatus(options, memory.mask)
      return reportOf(look(), when, notices, { ...kept, ...past }, lingersOf(sinks))
    },
  }
}

// One workspace's canary as the board knows it: what its conductor told, as metrics. Its state is that of a source, as it asks the API.

/** `expected`: each place in which one is looked for, `request` not among them. */
function openBoardCanary(
  workspace: string,
  intervalMs: number,
  expected: readonly CanaryTrace[],
  metrics: CanaryMetrics,
): CanaryWatch {
  const labels = ({ stage, sink }: CanaryTrace) => ({
    workspace,
    stage,
    ...(sink === undefined ? {} : { sink }),
  })
  const idOf = ({ stage, sink }: CanaryTrace) => `${stage} ${sink ?? ''}`
  metrics.interval.set({ workspace }, intervalMs / 1000)
  metrics.lastSuccess.set({ workspace }, 0)
  const missing = (traces: readonly CanaryTrace[]) => {
    const gone = new Set(traces.map(idOf))
    for (const trace of expected) metrics.missing.set(labels(trace), gone.has(idOf(trace)) ? 1 : 0)
  }
  missing([])
  return {
    seen: (trace, ms) => metrics.seconds.set(labels(trace), ms / 1000),
    missing,
    whole: (at) => metrics.lastSuccess.set({ workspace }, at / 1000),
  }
}

// What the board says of the past that is read again: in /status, and as metrics.

/** Under way, waiting, and those that ended lately. */
interface PastReads {
  readonly backfills?: () => readonly BackfillStatus[]
  readonly replays?: () => readonly ReplayStatus[]
}

/** Replays of a source to several sinks are told together. */
function setPastGauges(
  { backfill, replay }: Pick<Metrics, 'backfill' | 'replay'>,
  sources: readonly Pick<BoardSource, 'origin'>[],
  { backfills, replays }: PastReads,
): void {
  const kinds = [[backfill, backfills?.() ?? []] as const, [replay, replays?.() ?? []] as const]
  for (const [gauges, reads] of kinds)
    for (const { origin } of sources) {
      const { workspace, source } = origin
      const its = reads.filter((one) => one.workspace === workspace && one.source === source)
      const sum = (of: (one: (typeof reads)[number]) => number) => its.reduce((all, one) => all + of(one), 0)
      const own = { workspace, source }
      gauges.underWay.set(
        own,
        sum(({ state }) => (state === 'done' ? 0 : 1)),
      )
      gauges.read.set(
        own,
        sum((one) => one.read_entries),
      )
      gauges.gaps.set(
        own,
        sum((one) => one.gaps),
      )
    }
}

/** What is read again, each with its error as it may be shown. */
function safely<One extends Pick<BackfillStatus, 'error'>>(
  reads: (() => readonly One[]) | undefined,
  mask: Mask,
): readonly One[] {
  const safe = ({ code, message }: NonNullable<One['error']>) => ({ code, message: mask(message) })
  return (reads?.() ?? []).map((one) => (one.error ? { ...one, error: safe(one.error) } : one))
}

function pastStatus(
  { backfills, replays }: PastReads,
  mask: Mask,
): Pick<StatusReport, 'backfills' | 'replays'> {
  return { backfills: safely(backfills, mask), replays: safely(replays, mask) }
}

// What the board says at one moment, put together of what its parts tell. Pure, save that it asks them.

type BudgetOf = ((workspace: string) => readonly RateLimitStatus[]) | undefined

function workspacesOf(sources: readonly BoardSource[], budget: BudgetOf): WorkspaceStatus[] {
  const byName = Map.groupBy(sources, ({ origin }) => origin.workspace)
  return [...byName].map(([name, own]) => ({
    name,
    sources: own.map((source) => source.status()),
    ...(budget ? { rate_limits: budget(name) } : {}),
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
  return states.every(({ state }) => state !== 'failing' && state !== 'blocked')
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
function partsOf(stats: JournalStats, { sources, sinks, budget, path, lost }: Asked): Parts {
  const workspaces = workspacesOf(sources, budget)
  const beside = { paused: isPaused(stats, workspaces), lost: lost ?? null, ...(path && { path }) }
  const journal = journalStatus(stats, beside)
  return { stats, workspaces, journal, sinks: sinks.map((sink) => sink.status(stats)) }
}

function lingersOf(sinks: readonly BoardSink[]): Lingers {
  const seconds = new Map(sinks.map(({ name, lingerMs }) => [name, lingerMs / 1000]))
  return (name) => seconds.get(name) ?? 0
}

type When = Pick<StatusReport, 'version' | 'started_at' | 'configured_at' | 'reported_at'>
type Notices = Pick<StatusReport, 'config_refused_at' | 'config_refused_why' | 'warnings'>
type Kept = Pick<StatusReport, 'errors' | 'history' | 'backfills' | 'replays'>

/** The whole of /status. The sentence has its place before the parts, also for who reads the report as it is. */
function reportOf(
  { stats, ...parts }: Parts,
  when: When,
  notices: Notices,
  kept: Kept,
  lingers: Lingers,
): StatusReport {
  const ok = isWell(parts.journal, parts.workspaces, parts.sinks)
  const findings = stats.lastFindings.map(findingStatus)
  const report = { ...when, ok, summary: '', ...parts, ...notices, findings }
  return { ...report, summary: sentenceOf(report, lingers), ...kept }
}
