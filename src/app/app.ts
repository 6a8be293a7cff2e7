// The whole daemon, built from a parsed configuration; touches neither process nor network before
// it runs.
import { resolve } from 'node:path'
import { journalSettings, journalWorkspaces } from '../config/journal.ts'
import { sourcesOf } from '../config/schema.ts'
import type { Config } from '../config/schema.ts'
import type { Comparing, Jobs } from '../contracts/jobs.ts'
import type { ConfiguredWorkspace, Journal, HasState } from '../contracts/journal.ts'
import { randomDigits, within } from '../core/clock.ts'
import type { Clock } from '../core/clock.ts'
import { ConnectorError, isRetried } from '../core/errors.ts'
import { KeyWaits } from '../core/key-waits.ts'
import { openMemoryBudgets } from '../core/memory-budget.ts'
import type { MemoryBudgets } from '../core/memory-budget.ts'
import { secretsIn } from '../core/secret.ts'
import { probe, runDispatcher } from '../delivery/loop.ts'
import { runIngest } from '../ingest/loop.ts'
import { Comparisons } from '../jobs/compare.ts'
import { StreamJobs, liveReadTo } from '../jobs/jobs.ts'
import { openJournal } from '../journal/sqlite/open.ts'
import type { JournalOptions } from '../journal/sqlite/open.ts'
import { openMetrics } from '../observability/metrics.ts'
import type { Metrics } from '../observability/metrics.ts'
import { openStatusRegistry } from '../observability/status-registry.ts'
import type { StatusRegistry } from '../observability/status-registry.ts'
import { backfillStatusOf, replayStatusOf } from '../observability/status.ts'
import { Taps } from '../observability/taps.ts'
import type { Mode, Reader, Shared } from './access.ts'
import { UnreadSecrets } from './checks.ts'
import { clearLeftovers, openSinkDelivery } from './delivery.ts'
import type { Coming, SinkDelivery } from './delivery.ts'
import type { Environment } from './environment.ts'
import { RateLimiters } from './rate-limits.ts'
import { openReading } from './workspace.ts'
import type { Reading } from './workspace.ts'

/** The journal must answer a small query within this time to count as alive. */
const ALIVE_MS = 2_000

export interface App {
  readonly config: Config
  readonly registry: StatusRegistry
  readonly metrics: Metrics
  readonly journal: Journal
  /** lines sent to its sinks, for `auditferry tap` */
  readonly taps: Pick<Taps, 'next'>
  /** Backfills and replays: run by `run`, except with `once`. */
  readonly jobs: Jobs
  /** The comparisons of reconcile. */
  readonly comparing: Comparing
  /**
   * Starts every loop; rejects with errors that must stop the process. Resolves after `stop`; with
   * `once`, `singleRun` reports when to call it.
   */
  run(): Promise<void>
  singleRun(): SingleRun
  /** The journal answers. */
  alive(): Promise<boolean>
  /**
   * Stops reading and sending and closes the journal, within 8 s even if parts hang. May be called
   * more than once.
   */
  stop(): Promise<void>
}

type Open = (options: JournalOptions) => Promise<Journal>

/**
 * Throws ConnectorError if the journal cannot be opened. `open` is for another journal
 * implementation, or tests.
 */
export async function openApp(
  config: Config,
  environment: Environment,
  mode: Mode,
  open: Open = openJournal,
): Promise<App> {
  const journal = await openTraced(config, environment, open)
  // After taking the journal's lock: no other process delivers from it.
  await clearLeftovers(config, environment, mode)
  const metrics = openMetrics({ version: environment.version, processMetrics: !mode.shard })
  const registry = registryOf({ config, environment, mode, journal }, metrics, () => ({ readings, jobs }))
  const taps = new Taps(environment.clock)
  const instance = await instanceOf(journal, environment)
  const parts = { config, environment, mode, journal, registry, instance, taps }
  const budgets = mode.shard?.memory ?? openMemoryBudgets(config.sinks.length)
  const readings = await openReadings(parts, budgets)
  const readers = readings.flatMap((reading) => reading.readers)
  const { jobs, comparing } = jobsOf(parts, readings)
  const coming = mode.once ? comingOnce(readers, registry) : { nothingMoreComes: () => false }
  const sinkDeliveries = config.sinks.map((sink) =>
    openSinkDelivery({ ...parts, memory: budgets.forSink() }, sink, coming),
  )
  const running = new Running({ ...parts, jobs, comparing, readings, readers, sinkDeliveries })
  return {
    config,
    registry,
    metrics,
    journal,
    taps,
    jobs,
    comparing,
    run: () => running.run(),
    singleRun: () => singleRunOf(readers, sinkDeliveries, registry),
    alive: () => isAlive(journal, environment.clock),
    stop: () => running.stop(),
  }
}

async function openTraced(
  config: Config,
  { clock, log, tracing }: Environment,
  open: Open,
): Promise<Journal> {
  const journal = await open({ ...journalSettings(config), clock, log })
  await registerSinks(journal, config, journalWorkspaces(config))
  return tracing?.journal(journal) ?? journal
}

/** A journal that cannot register them is closed. */
export async function registerSinks(
  journal: Journal,
  { sinks }: Config,
  workspaces?: readonly ConfiguredWorkspace[],
): Promise<void> {
  try {
    await journal.registerSinks(
      sinks.map(({ name }) => name),
      workspaces,
    )
  } catch (error) {
    await journal.close()
    throw error
  }
}

/** `later`: what the status registry queries, which depends on it. */
function registryOf(
  { config, environment, mode, journal }: Pick<Shared, 'config' | 'environment' | 'mode' | 'journal'>,
  metrics: Metrics,
  later: () => { readonly readings: readonly Reading[]; readonly jobs: StreamJobs },
): StatusRegistry {
  // Collected once: later re-reads change the values inside.
  const secrets = secretsIn(config)
  return openStatusRegistry({
    clock: environment.clock,
    metrics,
    version: environment.version,
    startedAt: mode.startedAt,
    journalStats: () => journal.stats(),
    journalPath: mode.shard ? undefined : resolve(config.journal.path),
    secrets: () => secrets,
    rateLimiter: (name) =>
      later()
        .readings.find(({ workspace }) => workspace === name)
        ?.rateLimiters() ?? [],
    backfills: () => later().jobs.list('backfill').map(backfillStatusOf),
    replays: () =>
      later()
        .jobs.list('replay')
        .flatMap((job) => replayStatusOf(job) ?? []),
  })
}

/** The readers of each workspace, with the rate limiters that they share. */
async function openReadings(parts: Shared, budgets: MemoryBudgets): Promise<readonly Reading[]> {
  const { config, environment, mode, journal } = parts
  const { clock, random } = environment
  const jobsOnly = mode.jobsOnly === true
  const rateLimiters = new RateLimiters(config.workspaces, { state: journal.state, clock, random, jobsOnly })
  const toRead = { ...parts, budgets, rateLimiters, keyWaits: new KeyWaits(clock) }
  const readings = config.workspaces.map((workspace) => openReading(toRead, workspace))
  await rateLimiters.load()
  return readings
}

function jobsOf({ config, environment, journal, registry }: Shared, readings: readonly Reading[]) {
  const { clock, random, log } = environment
  const sources = readings.flatMap(({ readers }) => readers.map(({ source }) => source))
  const common = { journal, clock, random, ranges: readings.flatMap(({ ranges }) => ranges) }
  const readTo = liveReadTo(journal, registry, sources)
  return {
    jobs: new StreamJobs({ ...common, log, sinks: config.sinks, readTo }),
    comparing: new Comparisons(common),
  }
}

async function isAlive({ state }: HasState, clock: Clock): Promise<boolean> {
  try {
    return (await within(ALIVE_MS, clock, state.get('instance'))) !== undefined
  } catch {
    return false
  }
}

/**
 * The instance id, which distinguishes it from others that read the same workspace: constant as
 * long as the journal exists.
 */
async function instanceOf({ state }: HasState, { random }: Environment): Promise<string> {
  return (await state.get('instance')) ?? state.putIfAbsent('instance', randomDigits(random, 24))
}

// The running daemon: all loops from start to stop, and their common end.

const PRUNE_EVERY_MS = 60_000
/** How often the journal and each secret are checked in their place. */
const CHECK_EVERY_MS = 20_000
/** At a stop a running delivery gets this long: otherwise its receiver gets the same again. */
const FINISH_MS = 2_500
/** Then it is aborted, and running requests get this long; their state is in the journal anyway. */
const STOP_MS = 3_500
/** Then every part gets this long to close, in parallel. */
const CLOSE_MS = 1_000

interface RunningParts extends Shared {
  readonly readings: readonly Reading[]
  /** of all readers */
  readonly readers: readonly Reader[]
  readonly sinkDeliveries: readonly SinkDelivery[]
  readonly jobs: StreamJobs
  readonly comparing: Comparisons
}

class Running {
  readonly #parts: RunningParts
  readonly #stopping = new AbortController()
  readonly #cut = new AbortController()
  /** resolves when no loop is running, for any reason */
  #ended: Promise<unknown> = Promise.resolve()
  #running: Promise<void> | undefined
  #stopped: Promise<void> | undefined
  /** what ended the run, if it was no stop */
  #fault: ConnectorError | undefined

  constructor(parts: RunningParts) {
    this.#parts = parts
  }

  run(): Promise<void> {
    this.#running ??= this.#runAll()
    return this.#running
  }

  async #runAll(): Promise<void> {
    const { config, mode, readings, readers, sinkDeliveries, jobs, environment, journal } = this.#parts
    const { signal } = this.#stopping
    logStart(config, sinkDeliveries, environment, mode)
    const reading = readers.map(async (reader) => {
      await runIngest(reader, signal)
      reader.finished = true
    })
    const beside = readings.flatMap(({ canary }) => (canary ? [canary.run(signal)] : []))
    // A single run does the reads that are due and does not run jobs.
    if (!mode.once) beside.push(jobs.run(signal))
    // A single run does not probe sinks: it delivers at once, and its result decides.
    if (!mode.once) beside.push(...sinkDeliveries.map((sinkDelivery) => probe(sinkDelivery, signal)))
    const sinkDelivery = sinkDeliveries.map((sinkDelivery) =>
      runDispatcher(sinkDelivery.dispatcher, sinkDelivery, signal, this.#cut.signal),
    )
    const guarding = this.#guard(signal)
    // Pruning never ends on its own: it is ended by the first loop that fails or by the last that
    // ends.
    const pruning = this.#prune(signal)
    const loops = [...reading, ...sinkDelivery, ...beside]
    const work = Promise.all(loops).then(() => undefined)
    this.#ended = Promise.allSettled(loops)
    try {
      const ending = ended(journal.leaseEnd)
      await Promise.race([work, pruning.then(() => work), guarding.then(() => work), ending])
    } catch (error) {
      // Reported at once: another loop may hang in a receiver, and `stop` waits for it only as long
      // as it may.
      if (error instanceof ConnectorError) this.#fault = error
      // Another process may deliver from this shard already: what is under way there ends at once.
      if (this.#isLost) this.#cut.abort()
      this.#stopping.abort()
      throw error
    }
  }

  async #prune(signal: AbortSignal): Promise<void> {
    const { journal, environment } = this.#parts
    while (!signal.aborted) {
      const more = await journal.prune().catch((error: unknown) => {
        // A disk too full even to delete: writes that wait for space are retried.
        if (isRetried(error)) return false
        throw error
      })
      await environment.clock.sleep(more ? 50 : PRUNE_EVERY_MS, signal)
    }
  }

  /**
   * A removed file still accepts writes and is lost when this process ends; an unreadable secret
   * remains only in memory. The operator must be warned while the process runs.
   */
  async #guard(signal: AbortSignal): Promise<void> {
    const { config, journal, registry, environment } = this.#parts
    const secrets = new UnreadSecrets(config, environment.log, registry)
    for (let known: string | undefined; !signal.aborted;) {
      secrets.look()
      const lost = await journal.lost()
      if (lost !== undefined && lost !== known)
        environment.log.error('The journal file was moved, replaced or removed while in use', { why: lost })
      if (lost === undefined && known !== undefined)
        environment.log.info('The journal file is back in its place')
      registry.journalLost((known = lost))
      await environment.clock.sleep(CHECK_EVERY_MS, signal)
    }
  }

  /** Another process may have this shard. */
  get #isLost(): boolean {
    return this.#fault?.action === 'yield'
  }

  stop(): Promise<void> {
    this.#stopped ??= this.#stop()
    return this.#stopped
  }

  async #stop(): Promise<void> {
    const { journal, registry, environment, readings, sinkDeliveries, jobs, comparing, taps } = this.#parts
    const { clock, log } = environment
    const { sinks } = registry.status()
    // After a refused start there is nothing to report.
    if (this.#running && !this.#isLost) log.info('Stopping')
    this.#stopping.abort()
    comparing.close()
    taps.close()
    await within(FINISH_MS, clock, this.#ended)
    this.#cut.abort()
    await within(STOP_MS, clock, this.#ended)
    // A part that cannot close must not prevent the others from closing.
    const closing = [...readings, ...sinkDeliveries].map((part) => part.close())
    await within(CLOSE_MS, clock, Promise.allSettled(closing))
    await within(CLOSE_MS, clock, journal.close())
    if (!this.#running) return
    const pending = sinks.reduce((most, sink) => Math.max(most, sink.pending_entries), 0)
    const unfinished = jobs.list().filter(({ endedAt }) => endedAt === undefined).length
    const more = unfinished > 0 ? { jobs: unfinished } : {}
    if (this.#isLost) log.info('Work on this shard has ended: its next holder continues from the journal')
    else if (this.#fault?.code === 'journal_corrupt')
      log.info('Stopped: the journal is damaged, and undelivered entries are in it', { pending })
    else if (pending > 0)
      log.info('Stopped: undelivered entries wait in the journal for the next start', { pending, ...more })
    else if (unfinished > 0)
      log.info('Stopped: everything read is delivered; unfinished jobs continue at the next start', more)
    else log.info('Stopped: everything is delivered')
  }
}

/** Rejects with the reason of the abort. */
function ended(signal: AbortSignal | undefined): Promise<never> {
  return new Promise((_, reject) => {
    const end = () => reject(signal?.reason as Error)
    if (signal?.aborted === true) end()
    else signal?.addEventListener('abort', end, { once: true })
  })
}

/** Sources and destinations: names, types and hosts, no secrets. */
function logStart(
  config: Config,
  sinkDeliveries: readonly SinkDelivery[],
  { log, version }: Environment,
  { shard }: Mode,
): void {
  for (const workspace of config.workspaces)
    log.info('Reading', {
      workspace: workspace.name,
      sources: sourcesOf(workspace).join(', '),
      host: new URL(workspace.base_url).host,
    })
  for (const { sink, to } of sinkDeliveries) {
    const { name, type, assurance } = sink
    log.info('Delivering', { sink: name, type, assurance, ...(to === '' ? {} : { to }) })
  }
  log.info('Started', { version, ...(shard ? {} : { journal: config.journal.path }) })
}

// Progress of `run --once`: whether its parts still progress, cannot, or are done.

/** `stuck`: only blocked parts remain, and waiting would not help. */
type SingleRun = 'working' | 'stuck' | 'done'

function singleRunOf(
  readers: readonly Reader[],
  sinkDeliveries: readonly SinkDelivery[],
  registry: Pick<StatusRegistry, 'reading' | 'status'>,
): SingleRun {
  const { sinks, journal } = registry.status()
  const reading = readers.filter((reader) => !reader.finished)
  const stateOf = ({ source }: Reader) => registry.reading(source.stream)?.state()
  const isBlocked = (reader: Reader) => stateOf(reader) === 'blocked'
  // Delivered objects may still need a manifest, once nothing more comes.
  const unfinished = sinkDeliveries.filter(
    ({ dispatcher }) => reading.every(isBlocked) && dispatcher.unfinished === true,
  )
  const names = new Set(unfinished.map(({ sink }) => sink.name))
  const unfinishedSinks = sinks.filter((sink) => sink.pending_entries > 0 || names.has(sink.name))
  if (reading.length === 0 && unfinishedSinks.length === 0) return 'done'
  // Reading that waits for room continues when a sink does.
  const cannotRead = (reader: Reader) =>
    isBlocked(reader) || (journal.paused && stateOf(reader) === 'paused' && unfinishedSinks.length > 0)
  const stuck = reading.every(cannotRead) && unfinishedSinks.every((sink) => sink.state === 'blocked')
  return stuck ? 'stuck' : 'working'
}

/** The reads of a single run that are still to come. */
function comingOnce(readers: readonly Reader[], registry: Pick<StatusRegistry, 'reading'>): Coming {
  const isBlocked = ({ source }: Reader) => registry.reading(source.stream)?.state() === 'blocked'
  return {
    nothingMoreComes: () => readers.every(({ finished }) => finished),
    nothingDue: () => readers.every((reader) => reader.finished || isBlocked(reader)),
  }
}
