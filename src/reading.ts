// One workspace's reading built from its piece of the configuration: a reader for each source that is on, and what reads its past again.
import { Access } from './access.ts'
import type { Reader } from './access.ts'
import type { WorkspaceConfig } from './config/schema.ts'
import { globFilter } from './model/globs.ts'
import type { BudgetStatus } from './ops/status.ts'
import type { SharedToRead } from './parts.ts'
import type { RangeReader } from './past/ranges.ts'
import { openProbe, type CanaryProbe } from './probing.ts'
import { openAuditCursor } from './source/audit/cursor.ts'
import { AuditRange } from './source/audit/range.ts'
import { AuditSource } from './source/audit/audit.ts'
import { openHistoryCursor, shippableFromUs } from './source/history/cursor.ts'
import { openPlace, unreadOf } from './source/history/range-place.ts'
import { HistoryRange } from './source/history/range.ts'
import { HistorySource } from './source/history/history.ts'
import type { HistoryKind } from './source/history/history.ts'
import type { SentTimes } from './source/audit/own-fetches.ts'
import { paceOf } from './source/audit/tiers.ts'
import { VaultSource } from './source/vault/vault.ts'

/** What is read of one workspace under one key. */
export interface Reading {
  readonly workspace: string
  readonly readers: readonly Reader[]
  readonly canary: CanaryProbe<Reader>['canary'] | undefined
  /** whose past can be read again */
  readonly ranges: readonly RangeReader[]
  budgets(): readonly BudgetStatus[]
  close(): Promise<void>
}

export function openReading(shared: SharedToRead, workspace: WorkspaceConfig): Reading {
  const { outside } = shared
  const access = new Access(shared, workspace, outside.network('api'))
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
  const probe = openProbe(shared, workspace, readers, access)
  return {
    workspace: workspace.name,
    readers: probe?.readers ?? readers,
    canary: probe?.canary,
    ranges,
    budgets: () => access.budgets(),
    close: () => access.close(),
  }
}

function auditReader(
  access: Access,
  audit: NonNullable<WorkspaceConfig['audit']>,
  sentTimes: SentTimes,
): Reader {
  const expected = access.workspace.expected_user_agents
  const keepKeysMs = access.shared.config.journal.keep_keys
  const { intervalMs } = paceOf(audit.activity, audit.interval, 0)
  return access.reader('audit', intervalMs, globFilter(audit.types), (common) => {
    return new AuditSource({
      ...common,
      activity: audit.activity,
      intervalMs: audit.interval,
      start: audit.start,
      sweepMs: Math.min(audit.sweep, keepKeysMs),
      keepKeysMs,
      instance: access.shared.instance,
      expectedUserAgent: expected.length > 0 ? globFilter(expected) : () => false,
      sentTimes,
    })
  })
}

function auditRange(access: Access, reader: Reader, sentTimes: SentTimes): RangeReader {
  const common = { ...rangeCommon(access, reader), instance: access.shared.instance, sentTimes }
  return {
    ...liveOf(reader),
    open: ({ fromUs, toUs }, watch) => {
      const client = access.client('audit', watch, access.shared.pastRoom)
      return new AuditRange({ ...common, expectedUserAgent: () => false, client, watch, fromUs, toUs })
    },
    rateWait: () => access.rateWait('audit'),
    startUs: (live) => openAuditCursor(live, 0, common.origin.workspace).startUs ?? undefined,
    unread: () => undefined,
  }
}

/** What the past of a source shares with its live reading. */
function liveOf({ source: { origin }, log, watch, wanted, reads, keyWait }: Reader) {
  return { origin, log, watch, wanted, reads, keyWait }
}

function rangeCommon({ shared: { config, outside } }: Access, { source: { origin }, log }: Reader) {
  const { max_entry_bytes: maxEntryBytes, max_depth: maxDepth } = config.journal.limits
  return { origin, log, clock: outside.clock, maxEntryBytes, maxDepth }
}

function historyReader(
  access: Access,
  history: NonNullable<WorkspaceConfig['history']>,
  kind: HistoryKind,
): Reader {
  return access.reader(
    `history.${kind}`,
    history.interval,
    () => true,
    (common) => {
      return new HistorySource({
        ...common,
        kind,
        version: history.version,
        v1Until: history.v1_until,
        intervalMs: history.interval,
        start: history.start,
        rereadMs: history.reread,
        keepKeysMs: access.shared.config.journal.keep_keys,
      })
    },
  )
}

function historyRange(
  access: Access,
  { version, v1_until: v1Until }: NonNullable<WorkspaceConfig['history']>,
  kind: HistoryKind,
  reader: Reader,
): RangeReader {
  const { journal, outside } = access.shared
  const common = { ...rangeCommon(access, reader), kind, version, v1Until }
  const { origin } = common
  const note = `versions:${origin.workspace}:${origin.source}`
  const versions = { load: () => journal.note(note), save: (read: string) => journal.putNote(note, read) }
  return {
    ...liveOf(reader),
    open: ({ fromUs, toUs: endUs }, watch, use) => {
      const client = access.client(origin.source, watch, access.shared.pastRoom)
      const toUs = Math.min(endUs, outside.clock.now() * 1000)
      const live = () => journal.cursor(origin)
      return new HistoryRange({ ...common, client, watch, fromUs, toUs, use, live, versions })
    },
    rateWait: () => access.rateWait(origin.source),
    startUs: (live) =>
      live === undefined
        ? undefined
        : shippableFromUs(openHistoryCursor(live, origin.workspace, origin.source)),
    unread: (place) => unreadOf(openPlace(place, origin)),
  }
}

function vaultReader(access: Access, { interval }: NonNullable<WorkspaceConfig['vault']>): Reader {
  return access.reader(
    'vault.projects',
    interval,
    () => true,
    (common) => new VaultSource({ ...common, intervalMs: interval }),
  )
}
