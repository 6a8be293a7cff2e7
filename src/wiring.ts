// One reader and one delivery, each built from its piece of the configuration: what app.ts makes many of.
import { createHash } from 'node:crypto'
import type { Collector } from './collect.ts'
import type { Config, SinkConfig, WorkspaceConfig } from './config/schema.ts'
import { formatNamed } from './formats/named.ts'
import { ConnectorError } from './model/errors.ts'
import type { Clock, Random } from './model/clock.ts'
import type { Disk } from './model/disk.ts'
import { globFilter } from './model/globs.ts'
import type { Transport } from './model/http.ts'
import type { Journal, Run } from './model/journal.ts'
import type { Log } from './model/log.ts'
import type { Room } from './model/room.ts'
import type { SinkDeps, SinkKind, TlsOptions } from './model/sink-kind.ts'
import type { CheckResult } from './model/sink.ts'
import type { Origin } from './model/source.ts'
import type { Board } from './ops/board.ts'
import type { BudgetStatus } from './ops/status.ts'
import type { ShipperOptions } from './ship.ts'
import { sinkKinds } from './sinks/index.ts'
import { AuditSource } from './source/audit.ts'
import { Budget } from './source/budget.ts'
import { Client } from './source/client.ts'
import { paceOf } from './source/tiers.ts'

/** The world as the daemon may touch it. */
export interface Outside {
  readonly version: string
  readonly clock: Clock
  readonly random: Random
  readonly log: Log
  readonly disk: Disk
  network(tls?: TlsOptions): { readonly send: Transport; close(): Promise<void> }
  print(bytes: Uint8Array): Promise<void>
  compress(bytes: Uint8Array): Promise<Uint8Array>
}

export interface Mode {
  /** read what is there now, deliver it, be done */
  readonly once: boolean
}

/** What all parts share. */
export interface Shared {
  readonly config: Config
  readonly outside: Outside
  readonly mode: Mode
  readonly journal: Journal
  readonly board: Board
  readonly room: Room
  readonly instance: string
}

export interface Reader extends Collector {
  readonly origin: Origin
  /** of `run --once`: its loop came to its end */
  finished: boolean
  budgetStatus(): BudgetStatus
  check(signal: AbortSignal): Promise<readonly CheckResult[]>
  close(): Promise<void>
}

export function openReader(shared: Shared, workspace: WorkspaceConfig): Reader {
  const { outside, journal, board, room, mode, config, instance } = shared
  const { clock, random } = outside
  const { audit } = workspace
  if (!audit) throw new Error('this workspace has no audit log')
  const origin: Origin = { workspace: workspace.name, source: 'audit' }
  const log = outside.log.with({ workspace: origin.workspace, source: origin.source })
  const watch = board.source(origin, paceOf(audit.activity, audit.interval, 0).intervalMs)
  const note = `budget:${workspace.name}:audit`
  const store = { load: () => journal.note(note), save: (state: string) => journal.putNote(note, state) }
  const budget = new Budget({ limit: workspace.rate_limits.audit, clock, random, store })
  const network = outside.network()
  const client = new Client({
    baseUrl: workspace.base_url,
    apiKey: workspace.api_key,
    transport: network.send,
    clock,
    budget,
    room,
    watch,
    userAgent: `auditferry/${outside.version} (instance ${instance})`,
  })
  const expected = workspace.expected_user_agents
  const source = new AuditSource({
    origin,
    client,
    clock,
    watch,
    log,
    activity: audit.activity,
    intervalMs: audit.interval,
    start: audit.start,
    sweepMs: audit.sweep,
    once: mode.once,
    instance,
    expectedUserAgent: expected.length > 0 ? globFilter(expected) : () => false,
    maxEntryBytes: config.journal.limits.max_entry_bytes,
    maxDepth: config.journal.limits.max_depth,
  })
  return {
    origin,
    source,
    journal,
    watch,
    log,
    clock,
    random,
    wanted: globFilter(audit.types),
    once: mode.once,
    finished: false,
    budgetStatus: () => ({ area: 'audit', used: budget.used.places, limit: budget.used.allowed }),
    check: (signal) => checkApi(client, workspace, signal),
    close: async () => {
      await budget.close()
      await network.close()
    },
  }
}

/** One request that changes nothing: tells whether address, key and permission are right. */
async function checkApi(
  client: Client,
  { name }: WorkspaceConfig,
  signal: AbortSignal,
): Promise<readonly CheckResult[]> {
  const what = `${name}: audit log API`
  try {
    const answers = client.get('/api/v1/logs/audit/latest', 'live', signal, async function* ({ body }) {
      for await (const chunk of body) yield chunk.length
    })
    for await (const bytes of answers) if (bytes === 0) continue
    return [{ what, ok: true, message: 'answers, and accepts the key' }]
  } catch (error) {
    if (!(error instanceof ConnectorError)) throw error
    const empty = error.code === 'not_found'
    return [
      { what, ok: empty, message: empty ? 'answers, and accepts the key; the log is empty' : error.message },
    ]
  }
}

export interface Shipping extends ShipperOptions {
  close(): Promise<void>
}

export function openShipping(shared: Shared, config: SinkConfig, over: () => boolean): Shipping {
  const { outside, journal, board, room } = shared
  const { clock, random } = outside
  const log = outside.log.with({ sink: config.name })
  const networks: ReturnType<Outside['network']>[] = []
  const deps: SinkDeps = {
    clock,
    random,
    log,
    disk: outside.disk,
    transport: (tls) => {
      const network = outside.network(tls)
      networks.push(network)
      return network.send
    },
    print: (bytes) => outside.print(bytes),
    compress: (bytes) => outside.compress(bytes),
    hostOf: (name) => hostOf(shared.config, name),
  }
  const kind = sinkKinds[config.type] as unknown as SinkKind<never>
  const sink = kind.open(config.name, config as never, deps)
  return {
    sink,
    journal,
    format: formatNamed(config.format),
    limits: {
      maxEntries: config.batch.max_entries,
      maxBytes: config.batch.max_bytes,
      lingerMs: config.batch.linger,
    },
    wanted: wantedBy(config),
    shape: createHash('sha256').update(`${config.format}\n${sink.shape}`).digest('hex').slice(0, 16),
    watch: board.sink(config.name, config.type, sink.assurance),
    log,
    clock,
    random,
    room,
    over,
    close: async () => {
      await sink.close()
      await Promise.all(networks.map((network) => network.close()))
    },
  }
}

function hostOf(config: Config, workspace: string): string {
  const url = config.workspaces.find(({ name }) => name === workspace)?.base_url
  return url === undefined ? workspace : new URL(url).hostname
}

/** The sink's own sources and types; what is addressed to one sink alone is nobody else's. */
function wantedBy(config: SinkConfig): (run: Run, index: number) => boolean {
  const sources = new Set<string>(config.sources)
  const types = globFilter(config.types)
  const everything = config.types.length === 1 && config.types[0] === '*'
  const known = new Map<string, boolean>()
  const typeWanted = (type: string): boolean => {
    let answer = known.get(type)
    if (answer === undefined) {
      answer = types(type)
      // Types come from outside: what is remembered of them stays bounded.
      if (known.size < 10_000) known.set(type, answer)
    }
    return answer
  }
  return (run, index) => {
    if (run.onlySink !== undefined) return run.onlySink === config.name
    if (!sources.has(run.origin.source)) return false
    return everything || typeWanted(run.entries.type(index))
  }
}
