// The shards that this replica holds, each with an app of its own. Replicas share the shards out
// evenly, and each reports on all of them.
import { journalSettings } from '../config/journal.ts'
import type { Config, WorkspaceConfig } from '../config/schema.ts'
import { sinkLingerMs } from '../config/sink.ts'
import { keyIdOf } from '../config/workspace.ts'
import type { Journal } from '../contracts/journal.ts'
import { FailureBackoff, backoffMs, logFailure } from '../core/backoff.ts'
import { within } from '../core/clock.ts'
import { ConnectorError, isRetried } from '../core/errors.ts'
import { openMemoryBudgets } from '../core/memory-budget.ts'
import type { MemoryBudgets } from '../core/memory-budget.ts'
import type { ShardsByWorkspace } from '../journal/postgres/assignment.ts'
import { turnOf } from '../journal/postgres/balance.ts'
import type { Holdings } from '../journal/postgres/balance.ts'
import type { JournalOptions } from '../journal/postgres/core.ts'
import type { Replicas, ReplicaView, ShardAnswer, Question } from '../journal/postgres/replicas.ts'
import { endedCounters, mergedMetrics, openMetrics } from '../observability/metrics.ts'
import type { Metrics, MetricValues, ShardMetrics } from '../observability/metrics.ts'
import { mergedStatus } from '../observability/shard-status.ts'
import type { ShardPart } from '../observability/shard-status.ts'
import { noStats, openStatusRegistry } from '../observability/status-registry.ts'
import type { StatusRegistry } from '../observability/status-registry.ts'
import type { StatusReport } from '../observability/status.ts'
import { openApp } from './app.ts'
import type { App } from './app.ts'
import type { Environment } from './environment.ts'

/** What the replicas share, as the shards of one process use it. @internal */
export type SharedByReplicas = Pick<
  Replicas,
  'holder' | 'assign' | 'view' | 'report' | 'reports' | 'questions' | 'answer'
>

interface ShardStore {
  /** undefined: another replica holds it */
  acquire(shard: number, options: JournalOptions): Promise<Journal | undefined>
}

export interface ShardsOptions {
  readonly config: Config
  readonly environment: Environment
  readonly store: ShardStore
  readonly replicas: SharedByReplicas
  /** most shards that workspaces are divided into */
  readonly shards: number
  /** epoch ms at which the process started, if it ran another configuration before; absent: now */
  readonly startedAt?: number
  /** Answers a question about a shard that reached another replica. */
  readonly answer: (app: App, question: Question) => Promise<ShardAnswer>
}

/** One shard is taken or freed per turn. */
const TURN_MS = 1_000
/** A shard that is free for longer is taken by any replica: perhaps others cannot open it. */
const OVERDUE_MS = 15_000
/** After a shard that could not be opened, this replica counts for so long as one that cannot work. */
const UNWELL_MS = 60_000
const QUESTIONS_MS = 1_000
const REPORT_MS = 5_000
const RETRY = { baseMs: 1_000, capMs: 5_000 }
/** A stop waits this long for a shard that is being opened. */
const STOP_MS = 5_000

const texts = {
  failed:
    'The database of the journal does not answer: this replica stops reading and delivering when its leases end. It is asked again; no restart is needed',
  blocked: 'The database of the journal refuses this replica. It is asked again automatically',
}

export class Shards {
  readonly config: Config
  readonly registry: Pick<StatusRegistry, 'startedAt' | 'configRefused' | 'status'>
  readonly metrics: Pick<Metrics, 'contentType' | 'render'>
  readonly #options: ShardsOptions
  readonly #apps = new Map<number, App>()
  readonly #stopping = new AbortController()
  readonly #failed = Promise.withResolvers<never>()
  readonly #memory: () => MemoryBudgets
  readonly #gauges: ShardMetrics
  #turns: Promise<void> = Promise.resolve()
  #stopped: Promise<void> | undefined
  #shardOf: ShardsByWorkspace = new Map()
  #view: ReplicaView = { live: [], shards: [] }
  #unwellUntil = -Infinity
  /** by shard: since when this replica has seen it free, monotonic ms */
  readonly #freeSince = new Map<number, number>()
  /** of shards that other replicas hold */
  readonly #reports = new Map<number, { readonly at: number; readonly report: StatusReport }>()
  /** by shard: counters of its apps that have ended */
  readonly #ended = new Map<number, MetricValues>()
  #fault: ConnectorError | undefined

  constructor(options: ShardsOptions) {
    const { config, environment, startedAt } = options
    const { clock, version } = environment
    const metrics = openMetrics({ version })
    const own = openStatusRegistry({ clock, metrics, version, startedAt, journalStats: () => noStats })
    this.config = config
    this.#options = options
    this.#failed.promise.catch(() => undefined)
    this.#gauges = metrics.shards()
    metrics.onScrape(() => this.#setGauges())
    this.registry = { ...own, status: () => this.#status(own.status()) }
    this.metrics = {
      contentType: metrics.contentType,
      render: () =>
        mergedMetrics(
          metrics,
          [...this.#apps.values()].map(({ metrics: each }) => each),
          [...this.#ended.values()],
        ),
    }
    let memory: MemoryBudgets | undefined
    this.#memory = () => (memory ??= openMemoryBudgets(config.sinks.length * this.used.length))
  }

  /** that this replica holds */
  get held(): ReadonlyMap<number, App> {
    return this.#apps
  }

  /**
   * that have or had a workspace, in order; none before the database has answered. Entries of one
   * that left the configuration may still be pending.
   */
  get used(): readonly number[] {
    return [...new Set(this.#shardOf.values())].toSorted((one, other) => one - other)
  }

  /** False: others need not leave shards to it. */
  get isWell(): boolean {
    return this.#options.environment.clock.elapsed() >= this.#unwellUntil
  }

  shardOf(workspace: string): number | undefined {
    return this.#shardOf.get(workspace)
  }

  /** Rejects with errors that must stop the process. Resolves after `stop`. */
  async run(): Promise<void> {
    const { signal } = this.#stopping
    this.#turns = this.#takeTurns(signal)
    await Promise.race([this.#failed.promise, Promise.all([this.#turns, this.#serve(signal)])])
  }

  /** A lost database is no reason to restart the process. */
  async alive(): Promise<boolean> {
    return true
  }

  /** Stops all apps in parallel, and frees their shards. May be called more than once. */
  stop(): Promise<void> {
    this.#stopped ??= this.#stop()
    return this.#stopped
  }

  async #stop(): Promise<void> {
    this.#stopping.abort()
    const { clock, log } = this.#options.environment
    // Each shard logs its own end.
    if (this.#apps.size === 0) log.info('Stopping: this replica holds no shard')
    // A shard that is being opened now is freed there.
    const turns = within(
      STOP_MS,
      clock,
      this.#turns.catch(() => undefined),
    )
    await Promise.all([turns, ...[...this.#apps.values()].map((app) => app.stop())])
  }

  async #takeTurns(signal: AbortSignal): Promise<void> {
    const { clock, log, random } = this.#options.environment
    const failures = new FailureBackoff(() => clock.elapsed())
    while (!signal.aborted) {
      let waitMs = TURN_MS
      try {
        await this.#turn(signal)
        this.#fault = undefined
        if (failures.succeeded()) log.info('The database of the journal answers again')
      } catch (error) {
        const { failure, delayMs } = logFailure(log, texts, failures, error, (_, count) =>
          backoffMs(count, RETRY, random),
        )
        this.#fault = failure
        waitMs = delayMs
      }
      await clock.sleep(waitMs, signal)
    }
  }

  async #turn(signal: AbortSignal): Promise<void> {
    const { config, environment, shards, replicas } = this.#options
    if (this.#shardOf.size === 0)
      this.#shardOf = await replicas.assign(workspacesByKey(config.workspaces), shards)
    this.#view = await replicas.view()
    if (signal.aborted) return
    const turn = turnOf(this.#holdings())
    if (turn.action === 'nothing') return
    const shard = turn.shards[Math.floor(environment.random() * turn.shards.length)]
    if (shard === undefined) return
    if (turn.action === 'acquire') {
      await this.#acquire(shard, signal)
      return
    }
    environment.log.info('A shard is freed for a replica that has fewer', { shard })
    await this.#free(shard)
  }

  #holdings(): Holdings {
    const { environment, replicas } = this.#options
    const now = environment.clock.elapsed()
    const mine = new Set(this.#apps.keys())
    const { live, shards } = this.#view
    const holders = new Map(
      shards.flatMap(({ shard, holder }) => (holder === undefined ? [] : [[shard, holder] as const])),
    )
    for (const shard of this.used)
      if (mine.has(shard) || holders.has(shard)) this.#freeSince.delete(shard)
      else if (!this.#freeSince.has(shard)) this.#freeSince.set(shard, now)
    const overdue = [...this.#freeSince].filter(([, since]) => now - since >= OVERDUE_MS)
    return {
      ...{ me: replicas.holder, mine, used: this.used, live, holders },
      overdue: new Set(overdue.map(([shard]) => shard)),
    }
  }

  async #acquire(shard: number, signal: AbortSignal): Promise<void> {
    const { store } = this.#options
    const environment = this.#environmentOf(shard)
    const { clock, log } = environment
    let journal: Journal | undefined
    try {
      journal = await store.acquire(shard, { ...journalSettings(this.config), clock, log })
      if (!journal) return
      const app = await this.#open(shard, journal, environment)
      this.#apps.set(shard, app)
      if (signal.aborted) {
        await app.stop()
        return
      }
      if (this.#row(shard)?.lapsed === true) {
        this.#gauges.takeovers.inc()
        log.warn('A shard is taken over: the lease of its last holder ended without being released')
      }
      app.run().catch((error: unknown) => void this.#over(shard, error))
    } catch (error) {
      await journal?.close()
      if (isYield(error)) return
      this.#unwellUntil = clock.elapsed() + UNWELL_MS
      throw error
    }
  }

  #open(shard: number, journal: Journal, environment: Environment): Promise<App> {
    const workspaces = this.config.workspaces.filter(({ name }) => this.#shardOf.get(name) === shard)
    const mode = {
      once: false,
      startedAt: this.registry.startedAt,
      shard: { number: shard, memory: this.#memory() },
    }
    return openApp({ ...this.config, workspaces }, environment, mode, async () => journal)
  }

  #environmentOf(shard: number): Environment {
    const { environment } = this.#options
    return { ...environment, log: environment.log.with({ shard }) }
  }

  /** The run of a shard has ended with an error. */
  async #over(shard: number, error: unknown): Promise<void> {
    if (!isYield(error)) {
      this.#failed.reject(error)
      return
    }
    try {
      await this.#free(shard)
    } catch (failure) {
      this.#failed.reject(failure)
    }
  }

  async #free(shard: number): Promise<void> {
    const app = this.#apps.get(shard)
    if (!app) return
    await app.stop()
    const ended = await endedCounters(this.#ended.get(shard) ?? [], app.metrics)
    // A lost lease and a turn may both have come here.
    if (this.#apps.get(shard) !== app) return
    this.#ended.set(shard, ended)
    this.#reports.set(shard, { at: this.#options.environment.clock.now(), report: app.registry.status() })
    this.#apps.delete(shard)
  }

  // What other replicas ask and report, and the reports of this one.

  async #serve(signal: AbortSignal): Promise<void> {
    const { environment, replicas } = this.#options
    const { clock } = environment
    let reportAt = -Infinity
    while (!signal.aborted) {
      try {
        const held = [...this.#apps.keys()]
        if (held.length > 0) for (const asked of await replicas.questions(held)) void this.#answer(asked)
        if (this.used.length > 0 && clock.elapsed() >= reportAt) {
          reportAt = clock.elapsed() + REPORT_MS
          await this.#exchangeReports()
        }
      } catch (error) {
        // The turns log it.
        if (!isRetried(error)) throw error
      }
      await clock.sleep(QUESTIONS_MS, signal)
    }
  }

  async #answer({ id, shard, ...question }: Question & { id: number; shard: number }): Promise<void> {
    const { answer, replicas } = this.#options
    const app = this.#apps.get(shard)
    if (!app) return
    try {
      await replicas.answer(id, await answer(app, question))
    } catch (error) {
      // The replica that asks gives up in its own time.
      if (!(error instanceof ConnectorError)) this.#failed.reject(error)
    }
  }

  async #exchangeReports(): Promise<void> {
    const { replicas, environment } = this.#options
    const { clock } = environment
    for (const [shard, app] of this.#apps) await replicas.report(shard, JSON.stringify(app.registry.status()))
    const others = this.used.filter((shard) => !this.#apps.has(shard))
    if (others.length === 0) return
    for (const { shard, ageMs, report } of await replicas.reports(others))
      this.#reports.set(shard, { at: clock.now() - ageMs, report: JSON.parse(report) as StatusReport })
  }

  #row(shard: number) {
    return this.#view.shards.find((row) => row.shard === shard)
  }

  #status(own: StatusReport): StatusReport {
    const { config } = this
    const lingers = new Map(config.sinks.map((sink) => [sink.name, sinkLingerMs(sink) / 1000]))
    return mergedStatus(
      own,
      this.used.map((shard) => this.#partOf(shard, own)),
      {
        workspaces: config.workspaces.map(({ name }) => name),
        lingers: (sink) => lingers.get(sink) ?? 0,
        fault: this.#fault?.message,
      },
    )
  }

  #partOf(shard: number, own: StatusReport): ShardPart {
    const app = this.#apps.get(shard)
    const row = this.#row(shard)
    const foreign = this.#reports.get(shard)
    const here = app !== undefined
    const me = this.#options.replicas.holder
    const at = foreign && new Date(foreign.at).toISOString()
    return {
      status: {
        shard,
        // The row may be older than the end of the lease.
        holder: here ? me : row?.holder === me ? null : (row?.holder ?? null),
        epoch: row?.epoch ?? 0,
        since: row ? new Date(row.since).toISOString() : null,
        takeovers: row?.takeovers ?? 0,
        here,
        reported_at: here ? own.reported_at : (at ?? null),
      },
      report: here ? app.registry.status() : foreign?.report,
    }
  }

  #setGauges(): void {
    this.#gauges.held.reset()
    this.#gauges.epoch.reset()
    for (const shard of this.used) {
      const isHeld = this.#apps.has(shard)
      this.#gauges.held.set({ shard }, isHeld ? 1 : 0)
      if (isHeld) this.#gauges.epoch.set({ shard }, this.#row(shard)?.epoch ?? 0)
    }
  }
}

const isYield = (error: unknown) => error instanceof ConnectorError && error.action === 'yield'

/** Names of workspaces, those with the same key on the same host together: they share a rate limit. */
export const workspacesByKey = (workspaces: readonly WorkspaceConfig[]): readonly (readonly string[])[] =>
  [...Map.groupBy(workspaces, keyIdOf).values()].map((group) => group.map(({ name }) => name))
