// One reader and one delivery, each built from its piece of the configuration: what app.ts makes many of.
import { createHash } from 'node:crypto'
import { dirname, join } from 'node:path'
import type { Collector } from './collect.ts'
import type { Config, SinkConfig, WorkspaceConfig } from './config/schema.ts'
import { formatNamed } from './formats/named.ts'
import type { Clock, Random } from './model/clock.ts'
import type { Disk } from './model/disk.ts'
import { globFilter } from './model/globs.ts'
import type { Transport } from './model/http.ts'
import type { Journal, Run } from './model/journal.ts'
import type { Log } from './model/log.ts'
import type { Room } from './model/room.ts'
import type { ObjectSink, Sink } from './model/sink.ts'
import type { SinkDeps } from './model/sink-kind.ts'
import type { Connect, Connection, OpenDatagrams, TlsOptions } from './model/socket.ts'
import type { Origin } from './model/source.ts'
import type { Board } from './ops/board.ts'
import type { BudgetStatus } from './ops/status.ts'
import type { LoopOptions, Stepper } from './ship/loop.ts'
import { ObjectShipper } from './ship/objects.ts'
import { Shipper } from './ship/shipper.ts'
import { kindOf } from './sinks/index.ts'
import { AuditSource } from './source/audit.ts'
import { Budget } from './source/budget.ts'
import { Client } from './source/client.ts'
import { paceOf } from './source/tiers.ts'

/** How long a part may take to close before the rest goes on without it. */
const CLOSE_MS = 500
/** Of a single run: how soon an open object notices that nothing more will come. */
const LOOK_AGAIN_MS = 1_000

/** The world as the daemon may touch it. */
export interface Outside {
  readonly version: string
  readonly clock: Clock
  readonly random: Random
  readonly log: Log
  readonly disk: Disk
  network(tls?: TlsOptions): { readonly send: Transport; close(): Promise<void> }
  readonly connect: Connect
  readonly datagrams: OpenDatagrams
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
  close(): Promise<void>
}

export function openReader(shared: Shared, workspace: WorkspaceConfig): Reader {
  const { outside, journal, board, room, mode, config, instance } = shared
  const { clock, random } = outside
  const { audit } = workspace
  if (!audit) throw new Error('this workspace has no audit log')
  const origin: Origin = { workspace: workspace.name, source: 'audit' }
  const log = outside.log.with({ workspace: origin.workspace, source: origin.source })
  // Read once, a source is silent from its end on: that is no stall.
  const intervalMs = mode.once ? undefined : paceOf(audit.activity, audit.interval, 0).intervalMs
  const watch = board.source(origin, intervalMs)
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
    close: async () => {
      await budget.close()
      await network.close()
    },
  }
}

export interface Shipping extends LoopOptions {
  readonly sink: Sink | ObjectSink
  readonly shipper: Stepper
  /** hosts, files or the bucket that it delivers to, for the log; '' where the type says it all */
  readonly to: string
  close(): Promise<void>
}

export function openShipping(shared: Shared, config: SinkConfig, over: () => boolean): Shipping {
  const { outside, journal, board, room, mode } = shared
  const { clock, random } = outside
  const log = outside.log.with({ sink: config.name })
  const opened = openSink(shared.config, config, outside, log)
  const { sink } = opened
  const watch = board.sink(config.name, config.type, sink.assurance)
  const loop: LoopOptions = { sink, journal, watch, log, clock, random, over }
  const [format, wanted] = [formatNamed(config.format), wantedBy(config)]
  const { max_entries: maxEntries, max_bytes: maxBytes, linger: lingerMs } = config.batch
  const limits = { maxEntries, maxBytes, lingerMs }
  const lookAgainMs = mode.once ? LOOK_AGAIN_MS : Infinity
  const shipper = takesObjects(sink)
    ? new ObjectShipper({
        ...loop,
        sink,
        format,
        wanted,
        room,
        lookAgainMs,
        shape: objectShape(config, sink),
      })
    : new Shipper({ ...loop, sink, format, wanted, room, limits, shape: hashOf([config.format, sink.shape]) })
  const to = kindOf(config.type).to(config).join(', ')
  return { ...loop, sink, shipper, to, close: () => opened.close() }
}

const takesObjects = (sink: Sink | ObjectSink): sink is ObjectSink => 'objects' in sink

const hashOf = (settings: readonly string[]): string =>
  createHash('sha256').update(settings.join('\n')).digest('hex').slice(0, 16)

/** An object is named by all that it holds: other entries make another object. */
const objectShape = ({ format, sources, types }: SinkConfig, { shape }: ObjectSink): string =>
  hashOf([format, shape, ...sources, ...types])

/** A sink with networks of its own; connects to nothing yet. */
export function openSink(
  whole: Config,
  config: SinkConfig,
  outside: Outside,
  log: Log,
): { readonly sink: Sink | ObjectSink; close(): Promise<void> } {
  const { clock, random } = outside
  const networks: ReturnType<Outside['network']>[] = []
  let connections: Connection[] = []
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
    connect: async (...to) => {
      const connection = await outside.connect(...to)
      connections = [...connections.filter(({ gone }) => !gone), connection]
      return connection
    },
    datagrams: (to) => outside.datagrams(to),
    print: (bytes) => outside.print(bytes),
    compress: (bytes) => outside.compress(bytes),
    hostOf: (name) => hostOf(whole, name),
    spoolFolder: join(dirname(whole.journal.path), 'spool', config.name),
  }
  const sink = kindOf(config.type).open(config.name, config, deps)
  return {
    sink,
    close: async () => {
      // A sink that hangs must not keep its connections open, nor the process with them.
      await within(CLOSE_MS, clock, sink.close()).catch(() => undefined)
      for (const connection of connections) connection.destroy()
      await Promise.allSettled(networks.map((network) => network.close()))
    },
  }
}

/** Resolves with what `work` gives, or with undefined after `ms`: the work itself goes on where it cannot be stopped. */
export async function within<T>(ms: number, clock: Clock, work: Promise<T>): Promise<T | undefined> {
  const ended = new AbortController()
  try {
    return await Promise.race([work, clock.sleep(ms, ended.signal).then(() => undefined)])
  } finally {
    ended.abort()
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
