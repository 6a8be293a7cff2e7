// Access to one workspace's API: its network and the rate limiters of its areas, shared by all its
// readers.
import { slowText } from '../config/lint.ts'
import type { Config, WorkspaceConfig } from '../config/schema.ts'
import type { Journal } from '../contracts/journal.ts'
import type { Transport } from '../contracts/platform.ts'
import type { StreamReporter } from '../contracts/reporter.ts'
import type { Source, SourceName } from '../contracts/source.ts'
import { serverTimeMs } from '../core/backoff.ts'
import type { Clock } from '../core/clock.ts'
import type { KeyWait, KeyWaits } from '../core/key-waits.ts'
import type { Log } from '../core/log.ts'
import type { MemoryBudget, MemoryBudgets } from '../core/memory-budget.ts'
import { MINUTE_MS, SECOND_MS } from '../core/time.ts'
import type { IngestOptions } from '../ingest/loop.ts'
import { openReadTimes } from '../ingest/read-times.ts'
import type { StatusRegistry } from '../observability/status-registry.ts'
import type { RateLimitStatus } from '../observability/status.ts'
import type { Taps } from '../observability/taps.ts'
import { spanText, utcText } from '../observability/words.ts'
import { Client } from '../sources/http/client.ts'
import type { RateLimiting } from '../sources/http/permits.ts'
import type { SourceOptions } from '../sources/shared.ts'
import type { SplitterLimits } from '../sources/splitter/splitter.ts'
import type { Network, Environment } from './environment.ts'
import type { Area, RateLimiters } from './rate-limits.ts'

export interface Reader extends IngestOptions {
  /** how often a read is due */
  readonly intervalMs: number
  /** of `run --once`: its loop has ended */
  finished: boolean
}

const areaOf: Readonly<Record<SourceName, Area>> = {
  audit: 'audit',
  'history.usage': 'history',
  'history.query': 'history',
  'vault.projects': 'vault',
  assistant: 'assistant',
}

export function splitterLimits({ journal: { limits } }: Config): SplitterLimits {
  return { maxEntryBytes: limits.max_entry_bytes, maxDepth: limits.max_depth }
}

const clocksText = (workspace: string, aheadMs: number): string => {
  const apart = `${spanText(Math.abs(aheadMs) / SECOND_MS)} ${aheadMs > 0 ? 'ahead of' : 'behind'}`
  return `The clock of this machine is ${apart} that of ${workspace}’s API, so requests by time may find nothing: check this machine's clock first, then the API’s`
}

export class Access {
  readonly shared: SharedWithReaders
  readonly workspace: WorkspaceConfig
  readonly keyWait: KeyWait
  readonly #network: Network
  readonly #send: Transport
  readonly #rateLimiters = new Map<Area, RateLimiting>()

  constructor(shared: SharedWithReaders, workspace: WorkspaceConfig, network: Network) {
    this.shared = shared
    this.workspace = workspace
    this.#network = network
    const { base_url: url, api_key: key } = workspace
    // The current value of its file: another workspace may have read the new one first.
    this.keyWait = shared.keyWaits.of(() => `${new URL(url).host} ${key.fresh() ?? key.reveal()}`)
    const { clock, log } = shared.environment
    const about = workspace.name
    const warned = { code: 'clock_apart', about } as const
    const onDifference = (aheadMs: number | undefined) =>
      shared.registry.warn(warned, aheadMs === undefined ? undefined : clocksText(about, aheadMs))
    this.#send = warningOfClocks(network.send, clock, log.with({ workspace: about }), onDifference)
  }

  /** A client whose requests count for the given source. */
  client(source: SourceName, reporter: StreamReporter, memory?: MemoryBudget): Client {
    const { environment, instance, budgets } = this.shared
    const area = areaOf[source]
    return new Client({
      baseUrl: this.workspace.base_url,
      apiKey: this.workspace.api_key,
      transport: this.#sending(source),
      clock: environment.clock,
      rateLimiter: this.#rateLimiter(area),
      memory: memory ?? (area === 'history' ? budgets.long : budgets.reading),
      reporter,
      userAgent: `auditferry/${environment.version} (instance ${instance})`,
    })
  }

  /**
   * What a job of this source waits for if the rate limiter has no permit: the end of a 429, or its
   * share; and why, as text.
   */
  rateWait(source: SourceName): { readonly isLimited: boolean; readonly reason: string } {
    const area = areaOf[source]
    const { used, limitedUntil } = this.#rateLimiter(area)
    if (limitedUntil === undefined) {
      const { workspaces } = this.shared.config
      return { isLimited: false, reason: slowText(area, this.workspace, workspaces, used) }
    }
    const until = utcText(new Date(limitedUntil).toISOString())
    return { isLimited: true, reason: `the API answered 429. No request is sent until ${until}` }
  }

  #sending(source: SourceName): Transport {
    const send = this.#send
    const stream = { workspace: this.workspace.name, source }
    return this.shared.environment.tracing?.transport(stream, send) ?? send
  }

  /** `open` builds the source from the parts that all sources share. */
  reader(
    name: SourceName,
    intervalMs: number,
    open: (common: SourceOptions) => Source,
    wanted: (type: string) => boolean = () => true,
  ): Reader {
    const { environment, journal, registry, mode, config } = this.shared
    const { clock, random } = environment
    const stream = { workspace: this.workspace.name, source: name }
    const log = environment.log.with({ workspace: stream.workspace, source: stream.source })
    // In a single run a source is silent after its end: that is no stall.
    const reads = openReadTimes(stream, registry.source(stream, mode.once ? undefined : intervalMs), {
      state: journal.state,
      clock,
    })
    const { reporter } = reads
    const opened = open({
      stream,
      client: this.client(name, reporter),
      clock,
      reporter,
      log,
      once: mode.once,
      ...splitterLimits(config),
    })
    const source = environment.tracing?.source(opened) ?? opened
    const { keyWait } = this
    const loop = { source, journal, reporter, reads, keyWait, log, clock, random, wanted, once: mode.once }
    return { ...loop, intervalMs, finished: false }
  }

  #rateLimiter(area: Area): RateLimiting {
    const known = this.#rateLimiters.get(area)
    if (known) return known
    const rateLimiter = this.shared.rateLimiters.of(this.workspace, area)
    this.#rateLimiters.set(area, rateLimiter)
    return rateLimiter
  }

  rateLimiters(): readonly RateLimitStatus[] {
    const others = this.shared.rateLimiters.sharedWith(this.workspace)
    return [...this.#rateLimiters].map(([area, { used, limitedUntil }]) => ({
      area,
      used: used.permits,
      limit: used.allowed,
      ...(used.allowed < used.limit && { lowered_from: used.limit }),
      ...(limitedUntil !== undefined && { limited_until: new Date(limitedUntil).toISOString() }),
      ...(others.length > 0 && { shared_with: others }),
    }))
  }

  async close(): Promise<void> {
    await Promise.all([...this.#rateLimiters.values()].map((rateLimiter) => rateLimiter.close()))
    await this.#network.close()
  }
}

// Shared by the parts of the daemon.

export interface Mode {
  /** read everything available now, deliver it, exit */
  readonly once: boolean
  /** epoch ms at which the process started, if it ran another configuration before; absent: now */
  readonly startedAt?: number
  /** opened for jobs only, without live reading */
  readonly jobsOnly?: boolean
  /** one of several apps in this process; absent: the only one */
  readonly shard?: ShardMode
}

interface ShardMode {
  readonly number: number
  /** of the process, which all its apps share */
  readonly memory: MemoryBudgets
}

export interface Shared {
  readonly config: Config
  readonly environment: Environment
  readonly mode: Mode
  readonly journal: Journal
  readonly registry: StatusRegistry
  readonly instance: string
  readonly taps: Taps
}

export interface SharedWithReaders extends Shared {
  readonly budgets: MemoryBudgets
  readonly rateLimiters: RateLimiters
  /** for all workspaces: several may have the same key */
  readonly keyWaits: KeyWaits
}

export interface SharedWithSinks extends Shared {
  /** the part of this sink */
  readonly memory: MemoryBudget
}

// Warns if this machine's clock differs much from the API server's: reading continues, but requests
// by time then mean another time.

/** A smaller difference does not affect requests by time. */
const APART_MS = 10 * MINUTE_MS

/**
 * Passes every call on. Logs the difference once, and once more when the clocks agree again; with
 * each answer `onDifference` gets the ms by which this clock is ahead while they differ, otherwise
 * undefined.
 * @internal for tests
 */
export function warningOfClocks(
  send: Transport,
  clock: Pick<Clock, 'now'>,
  log: Log,
  onDifference: (aheadMs: number | undefined) => void,
): Transport {
  let apart = false
  return async (request, signal) => {
    const reply = await send(request, signal)
    const serverAt = serverTimeMs(reply.headers)
    if (serverAt === undefined) return reply
    const aheadMs = clock.now() - serverAt
    const before = apart
    apart = Math.abs(aheadMs) > APART_MS
    onDifference(apart ? aheadMs : undefined)
    if (apart && !before)
      log.warn(
        'The clocks of this machine and of the API server differ by more than 10 minutes, so requests by time may miss entries or be refused. Check the clock of this machine first, then the server’s, then any caching proxy in between',
        { minutesAhead: Math.round(aheadMs / MINUTE_MS) },
      )
    if (before && !apart) log.info('The clocks of this machine and of the API server agree again')
    return reply
  }
}
