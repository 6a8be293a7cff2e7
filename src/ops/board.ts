// The board: what every reader and shipper last told, kept for /status and counted for /metrics.
import type { Clock } from '../model/clock.ts'
import type { ConnectorError } from '../model/errors.ts'
import type { JournalStats } from '../model/journal.ts'
import type { FindingRecord } from '../model/set-aside.ts'
import type { Assurance } from '../model/sink.ts'
import { isSameOrigin } from '../model/source.ts'
import type { Origin } from '../model/source.ts'
import type { CanaryTrace, CanaryWatch, SinkWatch, SourceWatch } from '../model/watch.ts'
import type { Secret } from '../model/secret.ts'
import { isoFromUs } from '../model/time.ts'
import { messageOf } from './condition.ts'
import { type BoardMemory, rememberSink, rememberSource } from './board-memory.ts'
import { openBoardCanary } from './board-canary.ts'
import { rereadStatus, setRereadGauges } from './board-past.ts'
import type { Rereads } from './board-past.ts'
import { openBoardSink } from './board-sink.ts'
import type { BoardSink } from './board-sink.ts'
import { openBoardSource } from './board-source.ts'
import type { BoardSource } from './board-source.ts'
import { openHistory } from './history.ts'
import { masker } from './mask.ts'
import type { Metrics } from './metrics.ts'
import { openRecentErrors } from './recent-errors.ts'
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
import { openWarnings } from './warnings.ts'
import type { Warnings } from './warnings.ts'

interface BoardOptions extends Rereads {
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
  readonly budget?: (workspace: string) => readonly BudgetStatus[]
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
  refused(error: ConnectorError | undefined): void
  /** Of what is to be mended although no part fails of it. */
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

function workspacesOf(sources: readonly BoardSource[], budget: BoardOptions['budget']): WorkspaceStatus[] {
  const byName = Map.groupBy(sources, ({ origin }) => origin.workspace)
  return [...byName].map(([name, own]) => ({
    name,
    sources: own.map((source) => source.status()),
    ...(budget ? { budget: budget(name) } : {}),
  }))
}

/** Of its own bound the journal knows at once when there is room again, and readers a second later; of the disk they alone know. */
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

function setJournalGauges({ journal }: Metrics, status: JournalStatus): void {
  journal.entries.set(status.entries)
  journal.bytes.set(status.bytes)
  journal.capacity.set(status.capacity_bytes)
  journal.paused.set(status.paused ? 1 : 0)
  journal.quarantined.set(status.quarantined)
}

const assuranceOf = (told: Assurance | (() => Assurance)) => (typeof told === 'string' ? () => told : told)

function lingersOf(sinks: readonly BoardSink[]): Lingers {
  const seconds = new Map(sinks.map(({ name, lingerMs }) => [name, lingerMs / 1000]))
  return (name) => seconds.get(name) ?? 0
}

const iso = (at: number) => new Date(at).toISOString()

/** A configuration tells each of its faults in a line of its own. */
function firstFault(error: ConnectorError): string {
  const [first = '', ...more] = messageOf(error).split('\n')
  return more.length > 0 ? `${first} (and more: the log has all of it)` : first
}

/** Of the configuration that could not be taken, while there is one. */
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
  const history = openHistory(clock, () => currentStats().entries)
  const memory = { clock, history, errors: openRecentErrors(), mask: masker(options.secrets) }
  const refusal = openRefusal(memory)
  const warnings = openWarnings(clock, memory.mask, metrics)

  const look = () => {
    const stats = currentStats()
    const workspaces = workspacesOf(sources, budget)
    const told = { paused: isPaused(stats, workspaces), lost: lost ?? null, ...(path && { path }) }
    const journal = journalStatus(stats, told)
    return { stats, workspaces, journal, sinks: sinks.map((sink) => sink.status(stats)) }
  }

  metrics.onScrape(() => {
    const { stats, journal } = look()
    setJournalGauges(metrics, journal)
    setRereadGauges(metrics, sources, options)
    for (const source of sources) source.refresh()
    for (const sink of sinks) sink.refresh(stats)
  })

  return {
    ...{ startedAt, warn: warnings.tell },
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
    refused(error) {
      refusal.tell(error)
      metrics.configReloaded(!error)
    },
    journalLost: (why) => void (lost = why),
    reading: (origin) => sources.find((source) => isSameOrigin(source.origin, origin)),
    status() {
      const { stats, ...parts } = look()
      const began = { started_at: iso(startedAt), configured_at: iso(configuredAt) }
      const ok = isWell(parts.journal, parts.workspaces, parts.sinks)
      const told = { ...refusal.status(), warnings: warnings.status() }
      // The sentence has its place before the parts, also for who reads the report as it is.
      const report = { version, ...began, reported_at: iso(clock.now()), ok, sentence: '', ...parts, ...told }
      const sentence = sentenceOf(report, lingersOf(sinks))
      const findings = stats.lastFindings.map(findingStatus)
      const kept = { findings, errors: memory.errors.status(), history: history.status() }
      return { ...report, sentence, ...kept, ...rereadStatus(options, memory.mask) }
    },
  }
}
