// The board: what every reader and shipper last told, kept for /status and counted for /metrics.
import type { Clock } from '../model/clock.ts'
import type { ConnectorError } from '../model/errors.ts'
import type { JournalStats } from '../model/journal.ts'
import type { Assurance } from '../model/sink.ts'
import { isSameOrigin } from '../model/source.ts'
import type { Origin } from '../model/source.ts'
import type { CanaryTrace, CanaryWatch, SinkWatch, SourceWatch } from '../model/watch.ts'
import type { Secret } from '../model/secret.ts'
import { messageOf } from './words.ts'
import { type BoardMemory, rememberSink, rememberSource } from './board-memory.ts'
import { openBoardCanary } from './board-canary.ts'
import { pastStatus, setPastGauges } from './board-past.ts'
import type { PastReads } from './board-past.ts'
import { lingersOf, partsOf, reportOf } from './board-report.ts'
import { openBoardSink } from './board-sink.ts'
import type { BoardSink } from './board-sink.ts'
import { openBoardSource } from './board-source.ts'
import type { BoardSource } from './board-source.ts'
import { openLastHour } from './last-hour.ts'
import { masker } from './mask.ts'
import type { Metrics } from './metrics.ts'
import { openRecentErrors } from './recent-errors.ts'
import type { BudgetStatus, JournalStatus, StatusReport } from './status.ts'
import { openWarnings } from './warnings.ts'
import type { Warnings } from './warnings.ts'

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
