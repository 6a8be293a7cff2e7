// A delivery built from its part of the configuration: the sink with its networks, its format and
// its loop.
import { createHash } from 'node:crypto'
import { join } from 'node:path'
import { z } from 'zod'
import { readTextFile } from '../config/files.ts'
import { basePath } from '../config/journal.ts'
import type { Config, SinkConfig } from '../config/schema.ts'
import { sinkLingerMs } from '../config/sink.ts'
import { Entries, columnsOf } from '../contracts/entries.ts'
import type { ChunkSlice, DeadLetters, Redelivery, State } from '../contracts/journal.ts'
import { addressOf } from '../contracts/platform.ts'
import type { Connection } from '../contracts/platform.ts'
import type { DeadLetter, DeadLetterQuery, LeftDeadLetters, Retried } from '../contracts/records.ts'
import { sinkWarnings } from '../contracts/sink-kind.ts'
import type { SinkDeps, SinkWarning } from '../contracts/sink-kind.ts'
import type { ObjectSink, Sink } from '../contracts/sink.ts'
import { within } from '../core/clock.ts'
import type { Clock } from '../core/clock.ts'
import { ConnectorError } from '../core/errors.ts'
import { globFilter, takesAll } from '../core/globs.ts'
import { jsonOf } from '../core/json.ts'
import type { Log } from '../core/log.ts'
import { DAY_MS } from '../core/time.ts'
import { BatchDispatcher } from '../delivery/dispatcher.ts'
import type { LoopOptions, Dispatcher } from '../delivery/loop.ts'
import { ObjectDispatcher } from '../delivery/objects.ts'
import { openAfterKeys } from '../delivery/policy.ts'
import type { Policy } from '../delivery/policy.ts'
import { deniedBy } from '../delivery/redact.ts'
import { formatNamed } from '../formats/index.ts'
import { spoolPath } from '../journal/sqlite/files.ts'
import { observedConnect, observedTransport } from '../observability/network-activity.ts'
import type { ActivityListener } from '../observability/network-activity.ts'
import { observedSink } from '../observability/observed-sink.ts'
import type { StatusRegistry } from '../observability/status-registry.ts'
import { kindOf, sinkKinds } from '../sinks/index.ts'
import type { Mode, SharedWithSinks } from './access.ts'
import type { Network, Environment } from './environment.ts'

/** How long a sink may take to close before the shutdown continues without it. */
const CLOSE_MS = 500
/** In a single run: how soon an open object or lingering batch notices that no more will come. */
const RECHECK_MS = 250

export interface SinkDelivery extends LoopOptions {
  readonly sink: Sink | ObjectSink
  readonly dispatcher: Dispatcher
  /** hosts, files or the bucket that it delivers to, for the log; '' if the type says it all */
  readonly to: string
  close(): Promise<void>
}

/** Which reads are still to come. */
export type Coming = Pick<LoopOptions, 'nothingMoreComes' | 'nothingDue'>

export function openSinkDelivery(shared: SharedWithSinks, config: SinkConfig, coming: Coming): SinkDelivery {
  const { environment, journal, registry } = shared
  const { state } = journal
  const { clock, random } = environment
  const log = environment.log.with({ sink: config.name })
  const reporter = registry.sink(config.name, config.type, () => sink.assurance, sinkLingerMs(config))
  const seen = earliestEnd((endsAt) => reporter.certificateEnds(endsAt))
  const activity: ActivityListener = { asked: () => reporter.asked(), active: () => reporter.active() }
  const warnings = sinkWarningsOf(config.name, registry, { state, clock })
  void warnings.recall()
  const opened = openSink(shared.config, config, environment, log, {
    certificateEnds: seen,
    warn: (code, message) => warnings.warn(code, message),
    state: {
      get: (name) => state.scope(name).get(config.name),
      put: (name, value) => state.scope(name).put(config.name, value),
    },
    ...{ activity, mode: shared.mode },
  })
  const { tracing } = environment
  const sink = observedSink(opened.sink, [
    ...(config.tap ? [shared.taps.observer(config.name)] : []),
    ...(tracing ? [tracing.sink(opened.sink)] : []),
  ])
  const loop: LoopOptions = { sink, journal, reporter, log, clock, random, ...coming }
  const dispatcher = openAfterKeys(config, readTextFile, (policy) =>
    openDispatcher(shared, config, sink, loop, policy),
  )
  const to = kindOf(config.type).to(config).join(', ')
  return { ...loop, sink, dispatcher, to, close: () => opened.close() }
}

function openDispatcher(
  { memory, mode }: SharedWithSinks,
  config: SinkConfig,
  sink: Sink | ObjectSink,
  loop: LoopOptions,
  policy: Policy,
): Dispatcher {
  const { max_entries: maxEntries, max_bytes: maxBytes, linger: lingerMs } = config.batch
  const { redact } = policy
  const wanted = policy.allowed(entryFilterOf(config))
  const lookAgainMs = mode.once ? RECHECK_MS : Infinity
  const common = { ...loop, format: formatNamed(config.format), wanted, redact, memory, lookAgainMs }
  if (takesObjects(sink)) {
    return new ObjectDispatcher({ ...common, sink, shape: objectFingerprint(config, sink, policy) })
  }
  const limits = { maxEntries, maxBytes, lingerMs }
  return new BatchDispatcher({
    ...common,
    sink,
    limits,
    shape: lineFingerprint(config, sink, policy),
  })
}

const takesObjects = (sink: Sink | ObjectSink): sink is ObjectSink => 'objects' in sink

const hashOf = (settings: readonly string[]): string =>
  createHash('sha256').update(settings.join('\n')).digest('hex').slice(0, 16)

/**
 * Encoding fingerprint: hash of the settings that shape a line. Equal hashes, equal bytes.
 * @internal for tests
 */
export const lineFingerprint = (
  { format }: Pick<SinkConfig, 'format'>,
  { shape }: Pick<Sink, 'shape'>,
  { shapes }: Pick<Policy, 'shapes'>,
): string => hashOf([format, shape, ...shapes])

/** An object's name depends on everything in it, so on the filters too. @internal for tests */
export const objectFingerprint = (
  { format, sources, types }: Pick<SinkConfig, 'format' | 'sources' | 'types'>,
  { shape }: Pick<ObjectSink, 'shape'>,
  { shapes }: Pick<Policy, 'shapes'>,
): string => hashOf([format, shape, ...sources, ...types, ...shapes])

interface SinkHooks extends Pick<SinkDeps, 'certificateEnds' | 'warn' | 'state'> {
  readonly activity: ActivityListener
  readonly mode?: Pick<Mode, 'shard'>
}

const noHooks: SinkHooks = {
  activity: {
    asked: () => ({ moved: () => undefined, over: () => undefined }),
    active: () => undefined,
  },
}

/** Per journal: two journals in one folder may each have a sink of the same name. */
function spoolRoot(config: Config, { shard }: Pick<Mode, 'shard'>): string {
  const root = spoolPath(basePath(config))
  return shard ? join(root, `shard-${shard.number}`) : root
}

/** Call before any delivery. Files that cannot be removed do not prevent the start. */
export async function clearLeftovers(
  config: Config,
  { disk, log }: Environment,
  mode: Pick<Mode, 'shard'>,
): Promise<void> {
  const root = spoolRoot(config, mode)
  try {
    let files = 0
    for (const kind of Object.values(sinkKinds)) files += (await kind.clearSpools?.(disk, root)) ?? 0
    if (files > 0)
      log.info('Removed partly sent objects that an earlier process had left on the disk', { files })
  } catch (error) {
    if (!(error instanceof ConnectorError)) throw error
    log.warn(
      'Files that an earlier process left while it sent objects could not be removed; delivery continues, and the next start tries again',
      {
        error: error.message,
      },
    )
  }
}

/** A sink with its own networks; does not connect yet. */
export function openSink(
  fullConfig: Config,
  config: SinkConfig,
  environment: Environment,
  log: Log,
  { activity, mode = {}, ...hooks }: SinkHooks = noHooks,
): { readonly sink: Sink | ObjectSink; close(): Promise<void> } {
  const { clock, random } = environment
  const networks: Network[] = []
  let connections: Connection[] = []
  const deps: SinkDeps = {
    clock,
    random,
    log,
    disk: environment.disk,
    transport: (tls) => {
      const network = environment.network('sink', tls)
      networks.push(network)
      return observedTransport(network.send, activity)
    },
    connect: observedConnect(async (...to) => {
      const connection = await environment.connect(...to)
      connections = [...connections.filter(({ gone }) => !gone), connection]
      return connection
    }, activity),
    datagrams: (to) => environment.datagrams(to),
    ...hooks,
    print: (bytes) => environment.print(bytes),
    gzip: (bytes) => environment.gzip(bytes),
    hostOf: (name) => hostOf(fullConfig, name),
    spoolFolder: join(spoolRoot(fullConfig, mode), config.name),
  }
  const sink = kindOf(config.type).open(config.name, config, deps)
  return {
    sink,
    close: async () => {
      // A hanging sink must not keep its connections, and thus the process, open.
      await within(CLOSE_MS, clock, sink.close()).catch(() => undefined)
      for (const connection of connections) connection.destroy()
      await Promise.allSettled(networks.map((network) => network.close()))
    },
  }
}

/** Reports when the first of several certificates expires; a renewed one replaces the old one. */
function earliestEnd(report: (endsAt: number) => void): (which: string, endsAt: number) => void {
  const ends = new Map<string, number>()
  return (which, endsAt) => {
    if (ends.get(which) === endsAt) return
    ends.set(which, endsAt)
    report(Math.min(...ends.values()))
  }
}

function hostOf(config: Config, workspace: string): string {
  const url = config.workspaces.find(({ name }) => name === workspace)?.base_url
  return url === undefined ? workspace : addressOf(url).host
}

// Warnings of sinks, kept in the journal for their day: a restart or reload does not clear them.

const warningSchema = z.object({ message: z.string(), sinceAt: z.number() })

/** @internal for tests */
export function sinkWarningsOf(
  sink: string,
  registry: Pick<StatusRegistry, 'warn'>,
  { state, clock }: { readonly state: State; readonly clock: Pick<Clock, 'now'> },
) {
  const show = (code: SinkWarning, message: string, sinceAt: number) =>
    registry.warn({ code, about: sink }, message, { sinceAt, untilAt: sinceAt + DAY_MS })
  return {
    warn(code: SinkWarning, message: string): void {
      const sinceAt = clock.now()
      show(code, message, sinceAt)
      // Delivery does not wait for it: if it cannot be stored, this process still reports it.
      state.put(`${code}:${sink}`, JSON.stringify({ message, sinceAt })).catch(() => undefined)
    },
    /** Reports what an earlier process reported, if its day is not over. */
    async recall(): Promise<void> {
      for (const code of sinkWarnings) {
        const text = await state.get(`${code}:${sink}`).catch(() => undefined)
        const warning = jsonOf(warningSchema, text ?? '')
        if (!warning) continue
        const now = clock.now()
        // After the clock was set back the time is unknown, but the warning must still show.
        const sinceAt = Math.min(warning.sinceAt, now)
        if (now < sinceAt + DAY_MS) show(code, warning.message, sinceAt)
      }
    },
  }
}

// Puts dead letters back: only those that their sink still wants. Others would be acknowledged as
// filtered, and lost.

type Why = LeftDeadLetters['why'] | undefined

/** `sinks`: the current ones, which will receive the dead letters. */
export async function retryWantedDeadLetters(
  journal: DeadLetters & Redelivery,
  sinks: readonly SinkConfig[],
  query: DeadLetterQuery,
): Promise<Retried> {
  const reasons = new Map(sinks.map((sink) => [sink.name, whyOf(journal, sink)]))
  const wanted: number[] = []
  const left = new Map<string, LeftDeadLetters>()
  for (const letter of await journal.deadLetters(query)) {
    const { id, sink } = letter
    const reason = reasons.get(sink)
    const why = reason ? await reason(letter) : 'not_configured'
    if (why === undefined) wanted.push(id)
    else left.set(`${sink} ${why}`, { sink, why, count: (left.get(`${sink} ${why}`)?.count ?? 0) + 1 })
  }
  const count = wanted.length > 0 ? await journal.retryDeadLetters({ ids: wanted }) : 0
  return { count, left: [...left.values()] }
}

/**
 * Applies the same checks as the sink's dispatcher, in the same order. The bytes are read only if
 * the sink has a deny rule.
 */
function whyOf(journal: DeadLetters, config: SinkConfig): (letter: DeadLetter) => Promise<Why> {
  const wanted = entryFilterOf(config)
  const denied = Object.keys(config.deny ?? {}).length > 0 ? deniedBy(config.deny ?? {}) : undefined
  return async (letter) => {
    if (!config.sources.some((source) => source === letter.stream.source)) return 'sources'
    if (!wanted(sliceOf(letter, new Uint8Array()), 0)) return 'types'
    const raw = denied ? await journal.deadLetterRaw(letter.id) : undefined
    return raw && denied?.(sliceOf(letter, raw), 0) ? 'deny' : undefined
  }
}

/** The dead letter as it will be in the journal, as far as the checks need it. */
function sliceOf({ stream, seq, type, sink }: DeadLetter, raw: Uint8Array): ChunkSlice {
  const places = { raw: [0, raw.length], id: [0, 0], time: [0, 0], type: 0 } as const
  const columns = Uint32Array.from(columnsOf(places))
  const entries = new Entries(raw, 1, columns, new Float64Array(1), [type])
  return { stream, firstSeq: seq, appendedAt: 0, onlySink: sink, replay: false, entries }
}

// Which entries of the journal a sink wants: its own sources and types.

/** The sink's own sources and types, also for replays; nothing addressed to another sink. */
function entryFilterOf(config: SinkConfig): (slice: ChunkSlice, index: number) => boolean {
  const sources = new Set<string>(config.sources)
  const types = globFilter(config.types)
  const everything = takesAll(config.types)
  return (slice, index) => {
    if (slice.onlySink !== undefined && slice.onlySink !== config.name) return false
    if (!sources.has(slice.stream.source)) return false
    return everything || types(slice.entries.type(index))
  }
}
