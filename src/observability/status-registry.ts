// The status registry: the last reports of every reader and dispatcher, kept for /status and
// counted for /metrics.
import type { JournalStats } from '../contracts/journal.ts'
import type { FindingRecord } from '../contracts/records.ts'
import type { CanaryTrace, CanaryReporter, SinkReporter, StreamReporter } from '../contracts/reporter.ts'
import type { Assurance } from '../contracts/sink.ts'
import { isSameStream } from '../contracts/source.ts'
import type { Stream } from '../contracts/source.ts'
import type { Clock } from '../core/clock.ts'
import type { ConnectorError } from '../core/errors.ts'
import type { Secret } from '../core/secret.ts'
import { isoFromUs } from '../core/time.ts'
import { openWarnings } from './condition.ts'
import type { Warnings } from './condition.ts'
import { masker } from './log.ts'
import type { Mask } from './log.ts'
import type { CanaryMetrics, Metrics } from './metrics.ts'
import { openLastHour, openRecentErrors } from './recent.ts'
import { openRegistrySink } from './sink-status.ts'
import type { RegistrySink } from './sink-status.ts'
import { iso, openRegistryStream } from './source-status.ts'
import type { RegistryStream } from './source-status.ts'
import type {
  BackfillStatus,
  RateLimitStatus,
  FindingStatus,
  JournalStatus,
  ReplayStatus,
  SourceStatus,
  StatusReport,
  WorkspaceStatus,
} from './status.ts'
import { sentenceOf } from './summary.ts'
import type { Lingers } from './summary.ts'

interface StatusRegistryOptions extends JobReads {
  readonly clock: Clock
  readonly metrics: Metrics
  /** May throw once the journal is closed: then the last value counts. */
  readonly journalStats: () => JournalStats
  /** absolute path */
  readonly journalPath?: string | undefined
  readonly version: string
  /** epoch ms of the start of the process; absent: now */
  readonly startedAt?: number | undefined
  /** Requests used of each area's rate limit, for one workspace. */
  readonly rateLimiter?: (workspace: string) => readonly RateLimitStatus[]
  /** Secrets that no error message may show. */
  readonly secrets?: () => readonly Secret[]
}

export interface StatusRegistry {
  /** epoch ms of the start of the process */
  readonly startedAt: number
  /** `intervalMs`: how often a read is due; silent for two of them and a minute means failing. */
  source(stream: Stream, intervalMs?: number): StreamReporter
  /** `lingerMs`: how long an entry may wait for its batch to fill. */
  sink(name: string, type: string, assurance: () => Assurance, lingerMs?: number): SinkReporter
  /** `intervalMs`: shortest time between two canaries; `expected`: where each is looked for. */
  canary(workspace: string, intervalMs: number, expected: readonly CanaryTrace[]): CanaryReporter
  /**
   * A changed configuration is invalid: reported until another one is loaded, or until undefined
   * says that the file is the current one again.
   */
  configRefused(error: ConnectorError | undefined): void
  /** Reports something to fix although no part fails. */
  readonly warn: Warnings['report']
  /** Why the next start would not find the journal; undefined: it would. */
  journalLost(why: string | undefined): void
  /** The status of its live reading; undefined: it is not read. */
  reading(stream: Stream): Pick<RegistryStream, 'readTo' | 'state'> | undefined
  status(): StatusReport
}

export const noStats: JournalStats = {
  entries: 0,
  bytes: 0,
  capacityBytes: 0,
  full: false,
  sinks: [],
  unconfigured: [],
  quarantined: 0,
  gaps: 0,
  findings: 0,
  lastFindings: [],
}

/** The journal's current statistics; the last ones after it is closed. */
function lastKnown(journalStats: () => JournalStats): () => JournalStats {
  let last = noStats
  return () => {
    try {
      last = journalStats()
    } catch {
      // A closing journal throws; its last statistics are the best available.
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

type Refused = Pick<StatusReport, 'config_refused_at' | 'config_refused_why'>

/** `message`: of a configuration error, which has one line per fault; undefined: there is none. */
function refusalOf(message: string | undefined, at: number): Refused {
  if (message === undefined) return { config_refused_at: null, config_refused_why: null }
  const [first = '', ...more] = message.split('\n')
  const why = more.length > 0 ? `${first} (and more: the log has all of it)` : first
  return { config_refused_at: iso(at), config_refused_why: why }
}

export function openStatusRegistry(options: StatusRegistryOptions): StatusRegistry {
  const { clock, metrics, version, backfills, replays } = options
  const configuredAt = clock.now()
  const startedAt = options.startedAt ?? configuredAt
  const mask = masker(options.secrets)
  const stats = lastKnown(options.journalStats)
  const lastHour = openLastHour(clock, () => stats().entries)
  const recent = { errors: openRecentErrors(clock, mask), lastHour }
  const warnings = openWarnings(clock, mask, metrics)
  const sources: RegistryStream[] = []
  const sinks: RegistrySink[] = []
  let lost: string | null = null
  let refused = refusalOf(undefined, configuredAt)
  metrics.configTaken(configuredAt)

  const current = () => partsOf(stats(), sources, sinks, lost, options)

  metrics.onScrape(() => {
    const { now, journal } = current()
    setJournalGauges(metrics, journal)
    setJobGauges(metrics, sources, options)
    for (const source of sources) source.refresh()
    for (const sink of sinks) sink.refresh(now)
  })

  return {
    startedAt,
    warn: warnings.report,
    source(stream, intervalMs) {
      const source = openRegistryStream(stream, intervalMs, { metrics: metrics.source, clock, recent })
      sources.push(source)
      return source.reporter
    },
    sink(name, type, assurance, lingerMs = 0) {
      const parts = { metrics: metrics.sink, clock, recent }
      const sink = openRegistrySink({ name, type, assurance, lingerMs }, parts)
      sinks.push(sink)
      return sink.reporter
    },
    canary: (...of) => openRegistryCanary(...of, metrics.canary),
    configRefused(error) {
      metrics.configReloaded(!error)
      refused = refusalOf(error && recent.errors.record('configuration', error).message, clock.now())
    },
    journalLost: (why) => void (lost = why ?? null),
    reading: (stream) => sources.find((source) => isSameStream(source.stream, stream)),
    status() {
      const { now, ...parts } = current()
      const began = { started_at: iso(startedAt), configured_at: iso(configuredAt) }
      const notices = { ...refused, warnings: warnings.status() }
      // The sentence comes before the parts, also for people who read the JSON.
      const about = { version, ...began, reported_at: iso(clock.now()), ok: isWell(parts), summary: '' }
      const report = { ...about, ...parts, ...notices, findings: now.lastFindings.map(findingStatus) }
      return {
        ...{ ...report, summary: sentenceOf(report, lingersOf(sinks)) },
        ...{ errors: recent.errors.status(), history: lastHour.status() },
        ...{ backfills: safely(backfills, mask), replays: safely(replays, mask) },
      }
    },
  }
}

function lingersOf(sinks: readonly RegistrySink[]): Lingers {
  const seconds = new Map(sinks.map(({ name, lingerMs }) => [name, lingerMs / 1000]))
  return (name) => seconds.get(name) ?? 0
}

// The canary of one workspace: what its loop reported, as metrics. Its state is that of a source,
// because it calls the API.

/** `expected`: everywhere a canary is looked for, except `request`. */
function openRegistryCanary(
  workspace: string,
  intervalMs: number,
  expected: readonly CanaryTrace[],
  metrics: CanaryMetrics,
): CanaryReporter {
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
    complete: (at) => metrics.lastSuccess.set({ workspace }, at / 1000),
  }
}

// Jobs that read the past again: in /status, and as metrics.

/** Jobs under way, waiting, or ended recently. */
interface JobReads {
  readonly backfills?: () => readonly BackfillStatus[]
  readonly replays?: () => readonly ReplayStatus[]
}

/** Replays of one source to several sinks are reported together. */
function setJobGauges(
  { backfill, replay }: Pick<Metrics, 'backfill' | 'replay'>,
  sources: readonly Pick<RegistryStream, 'stream'>[],
  { backfills, replays }: JobReads,
): void {
  const kinds = [[backfill, backfills?.() ?? []] as const, [replay, replays?.() ?? []] as const]
  for (const [gauges, reads] of kinds)
    for (const { stream } of sources) {
      const { workspace, source } = stream
      const its = reads.filter((one) => one.workspace === workspace && one.source === source)
      const sum = (key: 'read_entries' | 'gaps') => its.reduce((all, one) => all + one[key], 0)
      const own = { workspace, source }
      gauges.underWay.set(own, its.filter(({ state }) => state !== 'done').length)
      gauges.read.set(own, sum('read_entries'))
      gauges.gaps.set(own, sum('gaps'))
    }
}

/** The jobs, each with its error masked. */
function safely<One extends Pick<BackfillStatus, 'error'>>(
  reads: (() => readonly One[]) | undefined,
  mask: Mask,
): readonly One[] {
  const safe = ({ code, message }: NonNullable<One['error']>) => ({ code, message: mask(message) })
  return (reads?.() ?? []).map((one) => (one.error ? { ...one, error: safe(one.error) } : one))
}

// The reports of the parts, put together.

function workspacesOf(
  sources: readonly RegistryStream[],
  rateLimiter: StatusRegistryOptions['rateLimiter'],
): WorkspaceStatus[] {
  const byName = Map.groupBy(sources, ({ stream }) => stream.workspace)
  return [...byName].map(([name, own]) => ({
    name,
    sources: own.map((source) => source.status()),
    ...(rateLimiter ? { rate_limits: rateLimiter(name) } : {}),
  }))
}

/**
 * If the journal's own limit is the reason, the journal knows first when there is room; if the disk
 * is, only the readers know.
 */
function isPaused(stats: JournalStats, workspaces: readonly WorkspaceStatus[]): boolean {
  const forDisk = ({ state, error }: SourceStatus) =>
    state === 'paused' && error !== null && error.code !== 'journal_full'
  return stats.full || workspaces.some(({ sources }) => sources.some(forDisk))
}

export function isWell({
  journal,
  workspaces,
  sinks,
}: Pick<StatusReport, 'journal' | 'workspaces' | 'sinks'>): boolean {
  if (journal.paused || journal.lost !== null) return false
  const states = [...workspaces.flatMap(({ sources }) => sources), ...sinks]
  return states.every(({ state }) => state !== 'failing' && state !== 'blocked')
}

/** The status of each source and sink, and of the journal. */
function partsOf(
  now: JournalStats,
  sources: readonly RegistryStream[],
  sinks: readonly RegistrySink[],
  lost: string | null,
  { rateLimiter, journalPath: path }: StatusRegistryOptions,
) {
  const workspaces = workspacesOf(sources, rateLimiter)
  const { entries, bytes, capacityBytes, quarantined, gaps, findings, unconfigured } = now
  const journal: JournalStatus = {
    ...{ entries, bytes, capacity_bytes: capacityBytes, paused: isPaused(now, workspaces), lost },
    ...{ ...(path !== undefined && { path }), quarantined, gaps, findings, unconfigured },
  }
  return { now, workspaces, journal, sinks: sinks.map((sink) => sink.status(now)) }
}

/** Who fetched is content and stays in the entry: the report only identifies the entry. */
function findingStatus({ stream, kind, entryId, entryUs, foundAt }: FindingRecord): FindingStatus {
  const found = { entry_id: entryId, found_at: iso(foundAt) }
  return { ...stream, kind, ...found, entry_at: entryUs === undefined ? null : isoFromUs(entryUs) }
}
