// Access to one workspace's API: its network and the rate limiters of its areas, shared by all its
// readers.
import { slowText } from '../config/lint.ts'
import type { Config, WorkspaceConfig } from '../config/schema.ts'
import type { Journal } from '../contracts/journal.ts'
import type { Transport } from '../contracts/platform.ts'
import type { SourceWatch } from '../contracts/reporter.ts'
import type { Source, SourceName } from '../contracts/source.ts'
import { serverTimeMs } from '../core/backoff.ts'
import type { Clock } from '../core/clock.ts'
import type { KeyWait, KeyWaits } from '../core/key-waits.ts'
import type { Log } from '../core/log.ts'
import type { Room } from '../core/memory-budget.ts'
import { MINUTE_MS, SECOND_MS } from '../core/time.ts'
import type { CollectOptions } from '../ingest/loop.ts'
import { keptReads } from '../ingest/read-times.ts'
import type { Board } from '../observability/status-registry.ts'
import type { RateLimitStatus } from '../observability/status.ts'
import type { Taps } from '../observability/taps.ts'
import { spanText, utcText } from '../observability/words.ts'
import { Client } from '../sources/http/client.ts'
import type { Budgeting } from '../sources/http/permits.ts'
import type { SourceOptions } from '../sources/shared.ts'
import type { Network, Outside } from './environment.ts'
import type { Area, Budgets } from './rate-limits.ts'

export interface Reader extends CollectOptions {
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

const clocksText = (workspace: string, aheadMs: number): string => {
  const apart = `${spanText(Math.abs(aheadMs) / SECOND_MS)} ${aheadMs > 0 ? 'ahead of' : 'behind'}`
  return `The clock of this machine is ${apart} that of ${workspace}’s API, so requests by time may find nothing: check this machine's clock first, then the API’s`
}

export class Access {
  readonly shared: SharedToRead
  readonly workspace: WorkspaceConfig
  readonly keyWait: KeyWait
  readonly #network: Network
  readonly #send: Transport
  readonly #budgets = new Map<Area, Budgeting>()

  constructor(shared: SharedToRead, workspace: WorkspaceConfig, network: Network) {
    this.shared = shared
    this.workspace = workspace
    this.#network = network
    const { base_url: url, api_key: key } = workspace
    // The current value of its file: another workspace may have read the new one first.
    this.keyWait = shared.keyWaits.of(() => `${new URL(url).host} ${key.fresh() ?? key.reveal()}`)
    const { clock, log } = shared.outside
    const about = workspace.name
    const warned = { code: 'clock_apart', about } as const
    const hear = (aheadMs: number | undefined) =>
      shared.board.warn(warned, aheadMs === undefined ? undefined : clocksText(about, aheadMs))
    this.#send = tellingClocks(network.send, clock, log.with({ workspace: about }), hear)
  }

  /** A client whose requests count for the given source. */
  client(source: SourceName, watch: SourceWatch, room = this.#roomOf(source)): Client {
    const { outside, instance } = this.shared
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

  #roomOf(source: SourceName): Room {
    return areaOf[source] === 'history' ? this.shared.longRoom : this.shared.room
  }

  /**
   * What a job of this source waits for if the rate limiter has no permit: the end of a 429, or its
   * share; and why, as text.
   */
  rateWait(source: SourceName): { readonly isLimited: boolean; readonly reason: string } {
    const area = areaOf[source]
    const { used, limitedUntil } = this.#budget(area)
    if (limitedUntil === undefined) {
      const { workspaces } = this.shared.config
      return { isLimited: false, reason: slowText(area, this.workspace, workspaces, used) }
    }
    const until = utcText(new Date(limitedUntil).toISOString())
    return { isLimited: true, reason: `the API answered 429. No request is sent until ${until}` }
  }

  #sending(source: SourceName): Transport {
    const send = this.#send
    const origin = { workspace: this.workspace.name, source }
    return this.shared.outside.tracing?.transport(origin, send) ?? send
  }

  /** `open` builds the source from the parts that all sources share. */
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
    // In a single run a source is silent after its end: that is no stall.
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
    const { keyWait } = this
    const loop = { source, journal, watch, reads, keyWait, log, clock, random, wanted, once: mode.once }
    return { ...loop, intervalMs, finished: false }
  }

  #budget(area: Area): Budgeting {
    const known = this.#budgets.get(area)
    if (known) return known
    const budget = this.shared.budgets.of(this.workspace, area)
    this.#budgets.set(area, budget)
    return budget
  }

  budgets(): readonly RateLimitStatus[] {
    const others = this.shared.budgets.sharedWith(this.workspace)
    return [...this.#budgets].map(([area, { used, limitedUntil }]) => ({
      area,
      used: used.places,
      limit: used.allowed,
      ...(used.allowed < used.limit && { lowered_from: used.limit }),
      ...(limitedUntil !== undefined && { limited_until: new Date(limitedUntil).toISOString() }),
      ...(others.length > 0 && { shared_with: others }),
    }))
  }

  async close(): Promise<void> {
    await Promise.all([...this.#budgets.values()].map((budget) => budget.close()))
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
  readonly pastAlone?: boolean
}

export interface Shared {
  readonly config: Config
  readonly outside: Outside
  readonly mode: Mode
  readonly journal: Journal
  readonly board: Board
  readonly instance: string
  readonly taps: Taps
}

export interface SharedToRead extends Shared {
  /** the readers' part of the memory budget */
  readonly room: Room
  /** the part of that for answers that may stream for hours */
  readonly longRoom: Room
  /** the part of that for jobs */
  readonly pastRoom: Room
  readonly budgets: Budgets
  /** for all workspaces: several may have the same key */
  readonly keyWaits: KeyWaits
}

export interface SharedToShip extends Shared {
  /** the part of this sink */
  readonly room: Room
}

// Warns if this machine's clock differs much from the API server's: reading continues, but requests
// by time then mean another time.

/** A smaller difference does not affect requests by time. */
const APART_MS = 10 * MINUTE_MS

/**
 * Passes every call on. Logs the difference once, and once more when the clocks agree again; with
 * each answer `hear` gets the ms by which this clock is ahead while they differ, otherwise
 * undefined.
 * @internal for tests
 */
export function tellingClocks(
  send: Transport,
  clock: Pick<Clock, 'now'>,
  log: Log,
  hear: (aheadMs: number | undefined) => void,
): Transport {
  let apart = false
  return async (request, signal) => {
    const reply = await send(request, signal)
    const serverAt = serverTimeMs(reply.headers)
    if (serverAt === undefined) return reply
    const aheadMs = clock.now() - serverAt
    const before = apart
    apart = Math.abs(aheadMs) > APART_MS
    hear(apart ? aheadMs : undefined)
    if (apart && !before)
      log.warn(
        'The clock of this machine and the API server’s are far apart: entries may be asked for at a wrong time, or be refused. Set the clock right; where it is right, it is the server’s, or that of something in between that answers from memory',
        { minutesAhead: Math.round(aheadMs / MINUTE_MS) },
      )
    if (before && !apart) log.info('The clock of this machine and the API server’s agree again')
    return reply
  }
}
