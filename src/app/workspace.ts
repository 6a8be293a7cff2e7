// The readers of one workspace, built from its part of the configuration: one for each enabled
// source, and the readers for jobs.
import { Canary } from '../canary/canary.ts'
import type { CanaryOptions } from '../canary/canary.ts'
import { stagesOf } from '../canary/round.ts'
import type { Destination } from '../canary/round.ts'
import { PROMPT_TYPE, isTraceSource, noticed, traceSources } from '../canary/traces.ts'
import type { TraceSource } from '../canary/traces.ts'
import type { SinkConfig, WorkspaceConfig } from '../config/schema.ts'
import { sinkLingerMs } from '../config/sink.ts'
import type { Intake } from '../contracts/journal.ts'
import type { SourceState } from '../contracts/reporter.ts'
import type { SourceName, Stream } from '../contracts/source.ts'
import type { Clock } from '../core/clock.ts'
import { globFilter, takesAll } from '../core/globs.ts'
import { MINUTE_MS } from '../core/time.ts'
import type { RangeReader } from '../jobs/range.ts'
import type { RateLimitStatus } from '../observability/status.ts'
import { prompted } from '../sources/assistant/assistant.ts'
import { AuditSource } from '../sources/audit/audit.ts'
import { openAuditCursor } from '../sources/audit/cursor.ts'
import type { SentTimes } from '../sources/audit/cursor.ts'
import { AuditRange } from '../sources/audit/range.ts'
import { paceOf } from '../sources/audit/step.ts'
import { openHistoryCursor, deliverableFromUs } from '../sources/history/cursor.ts'
import { HistorySource } from '../sources/history/history.ts'
import type { HistoryKind } from '../sources/history/history.ts'
import { HistoryRange, openRangeCursor, unreadOf } from '../sources/history/range.ts'
import type { Client } from '../sources/http/client.ts'
import type { SourceOptions } from '../sources/shared.ts'
import { VaultSource } from '../sources/vault/vault.ts'
import { Access, splitterLimits } from './access.ts'
import type { Reader, Shared, SharedWithReaders } from './access.ts'

/** Reading of one workspace under one key. */
export interface Reading {
  readonly workspace: string
  readonly readers: readonly Reader[]
  readonly canary: Canary | undefined
  /** sources whose past can be read again */
  readonly ranges: readonly RangeReader[]
  rateLimiters(): readonly RateLimitStatus[]
  close(): Promise<void>
}

export function openReading(shared: SharedWithReaders, workspace: WorkspaceConfig): Reading {
  const { environment } = shared
  const access = new Access(shared, workspace, environment.network('api'))
  const readers: Reader[] = []
  const ranges: RangeReader[] = []
  if (workspace.audit) {
    const sentTimes = { sent: [] }
    const reader = auditReader(access, workspace.audit, sentTimes)
    readers.push(reader)
    ranges.push(auditRange(access, reader, sentTimes))
  }
  for (const kind of ['usage', 'query'] as const) {
    const { history } = workspace
    if (history?.[kind] !== true) continue
    const reader = historyReader(access, history, kind)
    readers.push(reader)
    ranges.push(historyRange(access, history, kind, reader))
  }
  if (workspace.vault?.projects) readers.push(vaultReader(access, workspace.vault))
  const probe = openProbe(access, readers)
  return {
    workspace: workspace.name,
    readers: probe?.readers ?? readers,
    canary: probe?.canary,
    ranges,
    rateLimiters: () => access.rateLimiters(),
    close: () => access.close(),
  }
}

function auditReader(
  access: Access,
  audit: NonNullable<WorkspaceConfig['audit']>,
  sentTimes: SentTimes,
): Reader {
  const expected = access.workspace.expected_user_agents
  const keepKeysMs = access.shared.config.journal.dedup_retention
  const { intervalMs } = paceOf(audit.activity, audit.interval, 0)
  const open = (common: SourceOptions) =>
    new AuditSource({
      ...common,
      activity: audit.activity,
      intervalMs: audit.interval,
      start: audit.start,
      lookbackMs: Math.min(audit.lookback, keepKeysMs),
      keepKeysMs,
      instance: access.shared.instance,
      expectedUserAgent: expected.length > 0 ? globFilter(expected) : () => false,
      sentTimes,
    })
  return access.reader('audit', intervalMs, open, globFilter(audit.types))
}

function auditRange(access: Access, reader: Reader, sentTimes: SentTimes): RangeReader {
  const common = { ...rangeCommon(access, reader), instance: access.shared.instance, sentTimes }
  return {
    ...liveOf(reader),
    open: ({ fromUs, toUs }, reporter) => {
      const client = access.client('audit', reporter, access.shared.budgets.jobs)
      return new AuditRange({ ...common, expectedUserAgent: () => false, client, reporter, fromUs, toUs })
    },
    rateWait: () => access.rateWait('audit'),
    startUs: (live) => openAuditCursor(live, 0, common.stream.workspace).startUs ?? undefined,
    unread: () => undefined,
  }
}

/** Shared by live reading and jobs of a source. */
function liveOf({ source: { stream }, log, reporter, wanted, reads, keyWait }: Reader) {
  return { stream, log, reporter, wanted, reads, keyWait }
}

function rangeCommon({ shared: { config, environment } }: Access, { source: { stream }, log }: Reader) {
  return { stream, log, clock: environment.clock, ...splitterLimits(config) }
}

function historyReader(
  access: Access,
  history: NonNullable<WorkspaceConfig['history']>,
  kind: HistoryKind,
): Reader {
  const open = (common: SourceOptions) =>
    new HistorySource({
      ...common,
      kind,
      version: history.version,
      v1Until: history.v1_until,
      intervalMs: history.interval,
      start: history.start,
      lookbackMs: history.lookback,
      keepKeysMs: access.shared.config.journal.dedup_retention,
    })
  return access.reader(`history.${kind}`, history.interval, open)
}

function historyRange(
  access: Access,
  { version, v1_until: v1Until }: NonNullable<WorkspaceConfig['history']>,
  kind: HistoryKind,
  reader: Reader,
): RangeReader {
  const { journal, environment } = access.shared
  const common = { ...rangeCommon(access, reader), kind, version, v1Until }
  const { stream } = common
  const name = `${stream.workspace}:${stream.source}`
  const state = journal.state.scope('versions')
  const versions = { load: () => state.get(name), save: (read: string) => state.put(name, read) }
  return {
    ...liveOf(reader),
    open: ({ fromUs, toUs: endUs }, reporter, use) => {
      const client = access.client(stream.source, reporter, access.shared.budgets.jobs)
      const toUs = Math.min(endUs, environment.clock.now() * 1000)
      const live = () => journal.cursor(stream)
      return new HistoryRange({ ...common, client, reporter, fromUs, toUs, use, live, versions })
    },
    rateWait: () => access.rateWait(stream.source),
    startUs: (live) =>
      live === undefined
        ? undefined
        : deliverableFromUs(openHistoryCursor(live, stream.workspace, stream.source)),
    unread: (place) => unreadOf(openRangeCursor(place, stream)),
  }
}

function vaultReader(access: Access, { interval }: NonNullable<WorkspaceConfig['vault']>): Reader {
  const open = (common: SourceOptions) => new VaultSource({ ...common, intervalMs: interval })
  return access.reader('vault.projects', interval, open)
}

// The canary of one workspace, built from its part of the configuration: how it prompts, where its
// traces are searched, and how the readers pass it the entries read.

/**
 * Added to three times the slowest source's interval and the longest wait of a sink: allows for a
 * busy minute, a restart, a slow receiver.
 */
const TRACE_SLACK_MS = 3_600_000

interface Probe {
  readonly canary: Canary
  /** the same readers, with their parts shown to the canary */
  readonly readers: readonly Reader[]
}

/** Undefined if it is switched off, and in a single run, which would not wait for its traces. */
function openProbe(access: Access, readers: readonly Reader[]): Probe | undefined {
  const { shared, workspace } = access
  if (shared.mode.once || workspace.canary?.enabled !== true) return undefined
  const { environment, journal, registry, config } = shared
  const { clock, random } = environment
  const { name } = workspace
  const stream = { workspace: name, source: 'assistant' } as const
  // It reports its own state: it may pause far longer than its interval while it waits for traces.
  const reporter = registry.source(stream)
  const sources = searchable(readers.map((reader) => reader.source.stream.source))
  const sinks = config.sinks.flatMap((sink) => destinationOf(sink, sources, workspace))
  const searched = readers.filter(({ source }) =>
    (sources as readonly SourceName[]).includes(source.stream.source),
  )
  const readMs = Math.max(0, ...searched.map(({ intervalMs }) => intervalMs))
  const sendMs = Math.max(0, ...config.sinks.map(sinkLingerMs))
  const intervalMs = workspace.canary.interval
  const expected = stagesOf(sources, sinks)
  const canary = new Canary({
    workspace: name,
    intervalMs,
    boundMs: 3 * readMs + sendMs + TRACE_SLACK_MS,
    sources,
    sinks,
    journal,
    reporter,
    clock,
    random,
    keyWait: access.keyWait,
    canary: registry.canary(name, Math.max(intervalMs, readMs + sendMs), expected),
    log: environment.log.with(stream),
    ask: asking(shared, access.client('assistant', reporter)),
    ready: () => isReady(searched, journal, clock, (source) => registry.reading(source)?.state()),
  })
  const show = (reader: Reader): Reader => {
    const { source } = reader.source.stream
    if (!isTraceSource(source)) return reader
    return { ...reader, source: noticed(reader.source, (...landed) => canary.notice(source, ...landed)) }
  }
  return { canary, readers: readers.map(show) }
}

function asking({ environment, instance }: Shared, client: Client): CanaryOptions['ask'] {
  return ({ prompt, mark }, signal) => {
    const userAgent = `auditferry/${environment.version} (instance ${instance}; ${mark})`
    return prompted(client, { prompt, userAgent, random: environment.random }, signal)
  }
}

/** Only the audit entry or the query event reveal the user who identifies a usage event. */
function searchable(on: readonly SourceName[]): readonly TraceSource[] {
  const sources = traceSources.filter((source) => on.includes(source))
  return sources.length === 1 && sources[0] === 'history.usage' ? [] : sources
}

/** The first of the sources whose trace this sink receives. */
function destinationOf(
  sink: SinkConfig,
  sources: readonly TraceSource[],
  { audit }: WorkspaceConfig,
): readonly Destination[] {
  const wanted = globFilter(sink.types)(PROMPT_TYPE) && globFilter(audit?.types ?? ['*'])(PROMPT_TYPE)
  const source = sources.find(
    (one) => sink.sources.includes(one) && (one === 'audit' ? wanted : takesAll(sink.types)),
  )
  return source ? [{ name: sink.name, source }] : []
}

/**
 * Whether a prompt sent now would be found soon: each of `readers` that can read has caught up,
 * according to its persisted state. A blocked or failing one is not waited for: its trace is
 * reported as missing.
 * @internal for tests
 */
export async function isReady(
  readers: readonly Pick<Reader, 'source' | 'intervalMs'>[],
  journal: Pick<Intake, 'cursor'>,
  clock: Clock,
  stateOf: (stream: Stream) => SourceState | undefined,
): Promise<boolean> {
  for (const { source, intervalMs } of readers) {
    const state = stateOf(source.stream)
    if (state === 'blocked' || state === 'failing') continue
    const { caughtUp, dueAt } = source.plan(await journal.cursor(source.stream))
    // Overdue, as after a long downtime: it is no longer caught up.
    if (!caughtUp || clock.now() - dueAt > Math.max(intervalMs, MINUTE_MS)) return false
  }
  return true
}
