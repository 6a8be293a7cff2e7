// The whole daemon, built of its parts from a parsed configuration. Returns start and stop; touches neither process nor network by itself.
import type { Reader } from './access.ts'
import { statusOf } from './backfill-order.ts'
import { Backfills } from './backfilling.ts'
import { collect } from './collect.ts'
import { journalSettings } from './config/journal.ts'
import { sourcesOf } from './config/schema.ts'
import type { Config } from './config/schema.ts'
import { openJournal } from './journal/open.ts'
import type { JournalOptions } from './journal/open.ts'
import { within } from './model/clock.ts'
import { ConnectorError } from './model/errors.ts'
import type { Journal } from './model/journal.ts'
import type { Past } from './model/past.ts'
import { randomDigits } from './model/random.ts'
import type { Replays } from './model/replays.ts'
import { openRooms } from './model/room.ts'
import { secretsIn } from './model/secret.ts'
import { isSameOrigin } from './model/source.ts'
import type { Origin } from './model/source.ts'
import { openBoard } from './ops/board.ts'
import type { Board } from './ops/board.ts'
import { openMetrics } from './ops/metrics.ts'
import type { Metrics } from './ops/metrics.ts'
import { Taps } from './ops/taps.ts'
import { ship } from './ship/loop.ts'
import type { Mode, Outside } from './outside.ts'
import { progressOf } from './progress.ts'
import type { Progress } from './progress.ts'
import type { Reading } from './reading.ts'
import { openReading } from './reading.ts'
import { statusOf as replayStatusOf } from './replay-order.ts'
import { ApiReplays } from './replaying.ts'
import type { Shipping } from './shipping.ts'
import { openShipping } from './shipping.ts'

const PRUNE_EVERY_MS = 60_000
/** A delivery under way gets this long at a stop, so that its receiver does not get the same again. */
const FINISH_MS = 2_500
/** Then it is cut, and what stands in mid-request gets this long; what it was about is in the journal anyway. */
const STOP_MS = 3_500
/** Then every part gets this long to close, all at once. */
const CLOSE_MS = 1_000
/** The journal answers a small question within this, or it is not alive. */
const ALIVE_MS = 2_000

export type { Mode, Outside } from './outside.ts'

export interface App {
  readonly config: Config
  readonly board: Board
  readonly metrics: Metrics
  readonly journal: Journal
  /** what its sinks are sent, for who may look */
  readonly taps: Pick<Taps, 'next'>
  /** Reading again what was. Backfills are read by `run`, and not with `once`. */
  readonly past: Past
  /** The same for one sink alone. */
  readonly replays: Replays
  /** Starts every loop; rejects with what must stop the process. Resolves after `stop`; with `once`, `progress` tells when that is due. */
  run(): Promise<void>
  progress(): Progress
  /** The journal's handle answers. */
  alive(): Promise<boolean>
  /** Stops reading and sending, leaves the journal in order, within 8 s whatever hangs. May be called more than once. */
  stop(): Promise<void>
}

/** Throws ConnectorError when the journal cannot be opened. `open` is for another engine behind the journal, or a test's. */
export async function openApp(
  config: Config,
  outside: Outside,
  mode: Mode,
  open: (options: JournalOptions) => Promise<Journal> = openJournal,
): Promise<App> {
  const { clock, version } = outside
  const opened = await open({ ...journalSettings(config), clock, log: outside.log })
  const journal = outside.tracing?.journal(opened) ?? opened
  const metrics = openMetrics({ version })
  const budget = (workspace: string) =>
    readings.find((reading) => reading.workspace === workspace)?.budgets() ?? []
  // Found once: what is read again later changes within them.
  const secrets = secretsIn(config)
  const kept = { journalStats: () => journal.stats(), secrets: () => secrets }
  const told = () => backfills.list().map(statusOf)
  const sent = () => replays.list().flatMap((replay) => replayStatusOf(replay) ?? [])
  const board = openBoard({ clock, metrics, version, budget, backfills: told, replays: sent, ...kept })
  const rooms = openRooms()
  const parts = {
    config,
    outside,
    mode,
    journal,
    board,
    room: rooms.all,
    instance: await instanceOf(journal, outside),
    taps: new Taps(clock),
  }
  const toRead = { ...parts, room: rooms.reading, pastRoom: rooms.past }
  const readings = config.workspaces.map((workspace) => openReading(toRead, workspace))
  const readers = readings.flatMap((reading) => reading.readers)
  const ranges = readings.flatMap((reading) => reading.ranges)
  const past = { ranges, journal, clock, random: outside.random }
  const backfills = new Backfills(past)
  const sinks = config.sinks.map(({ name }) => name)
  const readTo = async (origin: Origin) => {
    const { source } = readers.find((reader) => isSameOrigin(reader.source.origin, origin)) ?? {}
    // Right after a start its loop may not have told yet where the process before it was.
    if (board.readTo(origin) === undefined) source?.plan(await journal.cursor(origin))
    return board.readTo(origin)
  }
  const replays = new ApiReplays({ ...past, sinks, readTo })
  const over = () => mode.once && readers.every((reader) => reader.finished)
  const shippings = config.sinks.map((sink) => openShipping(parts, sink, over))
  return new Daemon({ ...parts, metrics, readings, readers, shippings, backfills, replays })
}

interface Parts extends Pick<App, 'config' | 'journal' | 'board' | 'metrics'> {
  readonly taps: Taps
  readonly outside: Outside
  readonly mode: Mode
  readonly readings: readonly Reading[]
  /** of all readings */
  readonly readers: readonly Reader[]
  readonly shippings: readonly Shipping[]
  readonly backfills: Backfills
  readonly replays: ApiReplays
}

class Daemon implements App {
  readonly config: Config
  readonly board: Board
  readonly metrics: Metrics
  readonly journal: Journal
  readonly taps: Taps
  readonly past: Past
  readonly replays: Replays
  readonly #parts: Parts
  readonly #stopping = new AbortController()
  readonly #cut = new AbortController()
  /** resolves when no loop runs any more, whatever ended it */
  #ended: Promise<unknown> = Promise.resolve()
  #running: Promise<void> | undefined
  #stopped: Promise<void> | undefined

  constructor(parts: Parts) {
    this.#parts = parts
    this.config = parts.config
    this.board = parts.board
    this.metrics = parts.metrics
    this.journal = parts.journal
    this.past = parts.backfills
    this.replays = parts.replays
    this.taps = parts.taps
  }

  run(): Promise<void> {
    this.#running ??= this.#runAll()
    return this.#running
  }

  async #runAll(): Promise<void> {
    const { config, mode, readings, readers, shippings, backfills, replays, outside } = this.#parts
    const { signal } = this.#stopping
    tellStart(config, shippings, outside)
    const reading = readers.map(async (reader) => {
      await collect(reader, signal)
      reader.finished = true
    })
    const probing = readings.map(({ canary }) => canary?.run(signal))
    // Begun on somebody's word: a single run reads what is there for everybody, and leaves them where they are.
    if (!mode.once) probing.push(backfills.run(signal), replays.run(signal))
    const shipping = shippings.map((shipping) => ship(shipping.shipper, shipping, signal, this.#cut.signal))
    // Pruning has no end of its own: the first loop that fails ends it, and the last that ends.
    const pruning = this.#prune(signal)
    const work = Promise.all([...reading, ...shipping, ...probing]).then(() => undefined)
    this.#ended = Promise.allSettled([...reading, ...shipping, ...probing])
    try {
      await Promise.race([work, pruning.then(() => work)])
    } catch (error) {
      // Told at once: another loop may hang in a receiver, and `stop` waits for it no longer than it may.
      this.#stopping.abort()
      throw error
    }
  }

  async #prune(signal: AbortSignal): Promise<void> {
    const { journal, outside } = this.#parts
    while (!signal.aborted) {
      const more = await journal.prune().catch((error: unknown) => {
        // A disk too full even to delete on: what waits for room is tried again.
        if (error instanceof ConnectorError && error.action !== 'exit') return false
        throw error
      })
      await outside.clock.sleep(more ? 50 : PRUNE_EVERY_MS, signal)
    }
  }

  progress(): Progress {
    const { readers, shippings } = this.#parts
    return progressOf(readers, shippings, this.board.status())
  }

  async alive(): Promise<boolean> {
    const { journal, outside } = this.#parts
    try {
      return (await within(ALIVE_MS, outside.clock, journal.note('instance'))) !== undefined
    } catch {
      return false
    }
  }

  stop(): Promise<void> {
    this.#stopped ??= this.#stop()
    return this.#stopped
  }

  async #stop(): Promise<void> {
    const { journal, outside, readings, shippings } = this.#parts
    const { clock, log } = outside
    const { sinks } = this.board.status()
    log.info('Stopping')
    this.#stopping.abort()
    this.#parts.backfills.close()
    this.taps.close()
    await within(FINISH_MS, clock, this.#ended)
    this.#cut.abort()
    await within(STOP_MS, clock, this.#ended)
    // A part that cannot close must not keep the others from closing.
    const closing = [...readings, ...shippings].map((part) => part.close())
    await within(CLOSE_MS, clock, Promise.allSettled(closing))
    await within(CLOSE_MS, clock, journal.close())
    const owed = sinks.reduce((most, sink) => Math.max(most, sink.owed_entries), 0)
    if (owed === 0) log.info('Stopped: nothing is owed')
    else log.info('Stopped: what is owed waits in the journal for the next start', { owed })
  }
}

/** What is read and where it goes: names, kinds and hosts, no secret. */
function tellStart(config: Config, shippings: readonly Shipping[], { log, version }: Outside): void {
  for (const workspace of config.workspaces)
    log.info('Reading', {
      workspace: workspace.name,
      sources: sourcesOf(workspace).join(', '),
      host: new URL(workspace.base_url).host,
    })
  for (const { sink, to } of shippings) {
    const { name, type, assurance } = sink
    log.info('Delivering', { sink: name, type, assurance, ...(to === '' ? {} : { to }) })
  }
  log.info('Started', { version, journal: config.journal.path })
}

/** Told apart from others that read the same workspace: stays the same as long as the journal lives. */
async function instanceOf(journal: Journal, { random }: Outside): Promise<string> {
  const known = await journal.note('instance')
  if (known !== undefined) return known
  const instance = randomDigits(random, 24)
  await journal.putNote('instance', instance)
  return instance
}
