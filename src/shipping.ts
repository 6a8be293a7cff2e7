// One delivery built from its piece of the configuration: the sink with its networks, its format and its loop.
import { createHash } from 'node:crypto'
import { join } from 'node:path'
import { readTextFile } from './config/files.ts'
import type { Config, SinkConfig } from './config/schema.ts'
import { sinkLingerMs } from './config/sink.ts'
import { formatNamed } from './formats/named.ts'
import { within } from './model/clock.ts'
import { ConnectorError } from './model/errors.ts'
import { spoolPath } from './model/journal-files.ts'
import type { Log } from './model/log.ts'
import type { ObjectSink, Sink } from './model/sink.ts'
import type { SinkDeps } from './model/sink-kind.ts'
import { addressOf, type Connection } from './model/socket.ts'
import { type Ear, heardConnect, heardTransport } from './ops/heard.ts'
import type { Network, Outside } from './outside.ts'
import type { SharedToShip } from './parts.ts'
import type { LoopOptions, Stepper } from './ship/stepper.ts'
import { ObjectShipper } from './ship/objects.ts'
import { fileLoss, lastEndOf } from './file-loss.ts'
import { openAfterKeys, type Policy } from './ship/policy.ts'
import { Shipper } from './ship/shipper.ts'
import { kindOf, sinkKinds } from './sinks/index.ts'
import { wantedBy } from './wanted.ts'

/** How long a sink may take to close before the rest goes on without it. */
const CLOSE_MS = 500
/** In a single run, how soon an open object or a batch that lingers notices that nothing more will come. */
const LOOK_AGAIN_MS = 250

export interface Shipping extends LoopOptions {
  readonly sink: Sink | ObjectSink
  readonly shipper: Stepper
  /** hosts, files or the bucket that it delivers to, for the log; '' where the type says it all */
  readonly to: string
  close(): Promise<void>
}

/** What of the reading is still to come. */
export type Coming = Pick<LoopOptions, 'nothingMoreComes' | 'nothingDue'>

export function openShipping(shared: SharedToShip, config: SinkConfig, coming: Coming): Shipping {
  const { outside, journal, board } = shared
  const { clock, random } = outside
  const log = outside.log.with({ sink: config.name })
  const watch = board.sink(config.name, config.type, () => sink.assurance, sinkLingerMs(config))
  const seen = earliest((endsAt) => watch.certificateEnds(endsAt))
  const ear: Ear = { asked: () => watch.asked(), heard: () => watch.heard() }
  const removed = fileLoss('file_removed', config.name, board, { journal, clock })
  const cut = fileLoss('file_cut', config.name, board, { journal, clock })
  void removed.recall()
  void cut.recall()
  const opened = openSink(shared.config, config, outside, log, {
    certificateEnds: seen,
    fileRemoved: (message) => removed.tell(message),
    fileCut: (message) => cut.tell(message),
    lastEnd: lastEndOf(config.name, journal),
    ear,
  })
  const heard = config.tap ? shared.taps.sink(opened.sink) : opened.sink
  const sink = outside.tracing?.sink(heard) ?? heard
  const loop: LoopOptions = { sink, journal, watch, log, clock, random, ...coming }
  const shipper = openAfterKeys(config, readTextFile, (policy) =>
    openStepper(shared, config, sink, loop, policy),
  )
  const to = kindOf(config.type).to(config).join(', ')
  return { ...loop, sink, shipper, to, close: () => opened.close() }
}

function openStepper(
  { room, mode }: SharedToShip,
  config: SinkConfig,
  sink: Sink | ObjectSink,
  loop: LoopOptions,
  policy: Policy,
): Stepper {
  const { max_entries: maxEntries, max_bytes: maxBytes, linger: lingerMs } = config.batch
  const { redact } = policy
  const wanted = policy.allowed(wantedBy(config))
  const lookAgainMs = mode.once ? LOOK_AGAIN_MS : Infinity
  const common = { ...loop, format: formatNamed(config.format), wanted, redact, room, lookAgainMs }
  if (takesObjects(sink)) {
    return new ObjectShipper({ ...common, sink, shape: objectShape(config, sink, policy) })
  }
  const limits = { maxEntries, maxBytes, lingerMs }
  return new Shipper({
    ...common,
    sink,
    limits,
    shape: lineShape(config, sink, policy),
  })
}

const takesObjects = (sink: Sink | ObjectSink): sink is ObjectSink => 'objects' in sink

const hashOf = (settings: readonly string[]): string =>
  createHash('sha256').update(settings.join('\n')).digest('hex').slice(0, 16)

/** Hash of the settings that shape a line: equal hashes, equal bytes. @internal for tests */
export const lineShape = (
  { format }: Pick<SinkConfig, 'format'>,
  { shape }: Pick<Sink, 'shape'>,
  { shapes }: Pick<Policy, 'shapes'>,
): string => hashOf([format, shape, ...shapes])

/** An object is named by all that it holds: other entries make another object. @internal for tests */
export const objectShape = (
  { format, sources, types }: Pick<SinkConfig, 'format' | 'sources' | 'types'>,
  { shape }: Pick<ObjectSink, 'shape'>,
  { shapes }: Pick<Policy, 'shapes'>,
): string => hashOf([format, shape, ...sources, ...types, ...shapes])

interface Watcher extends Pick<SinkDeps, 'certificateEnds' | 'fileRemoved' | 'fileCut' | 'lastEnd'> {
  readonly ear: Ear
}

const nobody: Watcher = {
  ear: {
    asked: () => ({ moved: () => undefined, over: () => undefined }),
    heard: () => undefined,
  },
}

/** The journal's own: two may lie in one folder, each with a sink of one name. */
const spoolRoot = ({ journal }: Config): string => spoolPath(journal.path)

/** Before anything is shipped. What cannot be cleared keeps nobody from starting. */
export async function clearLeftovers(config: Config, { disk, log }: Outside): Promise<void> {
  const root = spoolRoot(config)
  try {
    let files = 0
    for (const kind of Object.values(sinkKinds)) files += (await kind.clearSpools?.(disk, root)) ?? 0
    if (files > 0)
      log.info('Objects that a former process left half sent were removed from the disk', { files })
  } catch (error) {
    if (!(error instanceof ConnectorError)) throw error
    log.warn('What a former process may have left on the disk could not be removed', { error: error.message })
  }
}

/** A sink with networks of its own; connects to nothing yet. */
export function openSink(
  whole: Config,
  config: SinkConfig,
  outside: Outside,
  log: Log,
  { ear, ...watches }: Watcher = nobody,
): { readonly sink: Sink | ObjectSink; close(): Promise<void> } {
  const { clock, random } = outside
  const networks: Network[] = []
  let connections: Connection[] = []
  const deps: SinkDeps = {
    clock,
    random,
    log,
    disk: outside.disk,
    transport: (tls) => {
      const network = outside.network('sink', tls)
      networks.push(network)
      return heardTransport(network.send, ear)
    },
    connect: heardConnect(async (...to) => {
      const connection = await outside.connect(...to)
      connections = [...connections.filter(({ gone }) => !gone), connection]
      return connection
    }, ear),
    datagrams: (to) => outside.datagrams(to),
    ...watches,
    print: (bytes) => outside.print(bytes),
    gzip: (bytes) => outside.gzip(bytes),
    hostOf: (name) => hostOf(whole, name),
    spoolFolder: join(spoolRoot(whole), config.name),
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

/** Tells when the first of several certificates ends; one that was renewed counts in place of the old one. */
function earliest(tell: (endsAt: number) => void): (which: string, endsAt: number) => void {
  const ends = new Map<string, number>()
  return (which, endsAt) => {
    if (ends.get(which) === endsAt) return
    ends.set(which, endsAt)
    tell(Math.min(...ends.values()))
  }
}

function hostOf(config: Config, workspace: string): string {
  const url = config.workspaces.find(({ name }) => name === workspace)?.base_url
  return url === undefined ? workspace : addressOf(url).host
}
