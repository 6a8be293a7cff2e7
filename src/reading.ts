// One workspace's reading built from its piece of the configuration: a reader for each source that is on, one budget for each area of the API.
import type { Collector } from './collect.ts'
import type { WorkspaceConfig } from './config/schema.ts'
import { keptReads } from './kept-reads.ts'
import { globFilter } from './model/globs.ts'
import type { Transport } from './model/http.ts'
import type { Source, SourceName } from './model/source.ts'
import type { SourceWatch } from './model/watch.ts'
import type { BudgetStatus } from './ops/status.ts'
import type { Network, Shared } from './outside.ts'
import { openProbe, type Probe } from './probing.ts'
import type { RangeReader } from './ranges.ts'
import { AuditRange } from './source/audit-range.ts'
import { AuditSource } from './source/audit.ts'
import { Budget } from './source/budget.ts'
import { Client } from './source/client.ts'
import { tellingClocks } from './source/clocks-apart.ts'
import { openPlace, unreadOf } from './source/history-range-place.ts'
import { HistoryRange } from './source/history-range.ts'
import { HistorySource } from './source/history.ts'
import type { HistoryKind } from './source/history.ts'
import type { SourceOptions } from './source/source-options.ts'
import { paceOf } from './source/tiers.ts'
import { VaultSource } from './source/vault.ts'

export interface Reader extends Collector {
  /** how often a read is due */
  readonly intervalMs: number
  /** of `run --once`: its loop came to its end */
  finished: boolean
}

/** What is read of one workspace under one key. */
export interface Reading {
  readonly workspace: string
  readonly readers: readonly Reader[]
  readonly canary: Probe<Reader>['canary'] | undefined
  /** whose past can be read again */
  readonly ranges: readonly RangeReader[]
  budgets(): readonly BudgetStatus[]
  close(): Promise<void>
}

/** The areas of the API have limits of their own (spec §8), shared by all that reads in one. */
type Area = keyof WorkspaceConfig['rate_limits']

const areaOf: Readonly<Record<SourceName, Area>> = {
  audit: 'audit',
  'history.usage': 'history',
  'history.query': 'history',
  'vault.projects': 'vault',
  assistant: 'assistant',
}

export function openReading(shared: Shared, workspace: WorkspaceConfig): Reading {
  const { outside } = shared
  const access = new Access(shared, workspace, outside.network())
  const readers: Reader[] = []
  const ranges: RangeReader[] = []
  if (workspace.audit) {
    const reader = auditReader(access, workspace.audit)
    readers.push(reader)
    ranges.push(auditRange(access, reader))
  }
  for (const kind of ['usage', 'query'] as const) {
    const { history } = workspace
    if (history?.[kind] !== true) continue
    const reader = historyReader(access, history, kind)
    readers.push(reader)
    ranges.push(historyRange(access, history, kind, reader))
  }
  if (workspace.vault?.projects) readers.push(vaultReader(access, workspace.vault))
  const probe = openProbe(shared, workspace, readers, (source, watch) => access.client(source, watch))
  return {
    workspace: workspace.name,
    readers: probe?.readers ?? readers,
    canary: probe?.canary,
    ranges,
    budgets: () => access.budgets(),
    close: () => access.close(),
  }
}

/** One workspace's API: the network to it and the budgets, which all of its sources share. */
class Access {
  readonly shared: Shared
  readonly workspace: WorkspaceConfig
  readonly #network: Network
  readonly #send: Transport
  readonly #budgets = new Map<Area, Budget>()

  constructor(shared: Shared, workspace: WorkspaceConfig, network: Network) {
    this.shared = shared
    this.workspace = workspace
    this.#network = network
    const { clock, log } = shared.outside
    this.#send = tellingClocks(network.send, clock, log.with({ workspace: workspace.name }))
  }

  /** A client whose requests are counted under the source that they are made for. */
  client(source: SourceName, watch: SourceWatch): Client {
    const { outside, room, instance } = this.shared
    return new Client({
      baseUrl: this.workspace.base_url,
      apiKey: this.workspace.api_key,
      transport: this.#sending(source),
      clock: outside.clock,
      budget: this.#budget(areaOf[source]),
      room,
      watch,
      userAgent: `auditferry/${outside.version} (instance ${instance})`,
    })
  }

  #sending(source: SourceName): Transport {
    const send = this.#send
    const origin = { workspace: this.workspace.name, source }
    return this.shared.outside.tracing?.transport(origin, send) ?? send
  }

  /** `open` builds the source of what all of them want. */
  reader(
    name: SourceName,
    intervalMs: number,
    wanted: (type: string) => boolean,
    open: (common: SourceOptions) => Source,
  ): Reader {
    const { outside, journal, board, mode, config } = this.shared
    const { clock, random } = outside
    const origin = { workspace: this.workspace.name, source: name }
    const log = outside.log.with({ workspace: origin.workspace, source: origin.source })
    // Read once, a source is silent from its end on: that is no stall.
    const reads = keptReads(origin, board.source(origin, mode.once ? undefined : intervalMs), {
      journal,
      clock,
    })
    const { watch } = reads
    const opened = open({
      origin,
      client: this.client(name, watch),
      clock,
      watch,
      log,
      once: mode.once,
      maxEntryBytes: config.journal.limits.max_entry_bytes,
      maxDepth: config.journal.limits.max_depth,
    })
    const source = outside.tracing?.source(opened) ?? opened
    const loop = { source, journal, watch, reads, log, clock, random, wanted, once: mode.once }
    return { ...loop, intervalMs, finished: false }
  }

  #budget(area: Area): Budget {
    const known = this.#budgets.get(area)
    if (known) return known
    const { journal, outside } = this.shared
    const { clock, random } = outside
    const note = `budget:${this.workspace.name}:${area}`
    const store = { load: () => journal.note(note), save: (state: string) => journal.putNote(note, state) }
    const budget = new Budget({ limit: this.workspace.rate_limits[area], clock, random, store })
    this.#budgets.set(area, budget)
    return budget
  }

  budgets(): readonly BudgetStatus[] {
    return [...this.#budgets].map(([area, { used }]) => ({ area, used: used.places, limit: used.allowed }))
  }

  async close(): Promise<void> {
    await Promise.all([...this.#budgets.values()].map((budget) => budget.close()))
    await this.#network.close()
  }
}

function auditReader(access: Access, audit: NonNullable<WorkspaceConfig['audit']>): Reader {
  const expected = access.workspace.expected_user_agents
  const { intervalMs } = paceOf(audit.activity, audit.interval, 0)
  return access.reader('audit', intervalMs, globFilter(audit.types), (common) => {
    return new AuditSource({
      ...common,
      activity: audit.activity,
      intervalMs: audit.interval,
      start: audit.start,
      sweepMs: audit.sweep,
      instance: access.shared.instance,
      expectedUserAgent: expected.length > 0 ? globFilter(expected) : () => false,
    })
  })
}

function auditRange(access: Access, reader: Reader): RangeReader {
  const common = { ...rangeCommon(access, reader), instance: access.shared.instance }
  const { origin, log } = common
  return {
    ...{ origin, log, watch: reader.watch, wanted: reader.wanted, reads: reader.reads },
    open: ({ fromUs, toUs }, watch) => {
      const client = access.client('audit', watch)
      return new AuditRange({ ...common, expectedUserAgent: () => false, client, watch, fromUs, toUs })
    },
    unread: () => undefined,
  }
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
  const { origin, log } = common
  const note = `versions:${origin.workspace}:${origin.source}`
  const versions = { load: () => journal.note(note), save: (read: string) => journal.putNote(note, read) }
  return {
    ...{ origin, log, watch: reader.watch, wanted: reader.wanted, reads: reader.reads },
    open: ({ fromUs, toUs: endUs }, watch, use) => {
      const client = access.client(origin.source, watch)
      const toUs = Math.min(endUs, outside.clock.now() * 1000)
      const live = () => journal.cursor(origin)
      return new HistoryRange({ ...common, client, watch, fromUs, toUs, use, live, versions })
    },
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
