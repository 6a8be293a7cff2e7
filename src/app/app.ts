// The whole daemon, built of its parts from a parsed configuration; touches neither process nor network before it runs.
import { resolve } from 'node:path'
import { journalSettings, journalWorkspaces } from '../config/journal.ts'
import { sourcesOf } from '../config/schema.ts'
import type { Config } from '../config/schema.ts'
import type { Backfills, Replays, Surveys } from '../contracts/jobs.ts'
import type { Journal } from '../contracts/journal.ts'
import { randomDigits, within } from '../core/clock.ts'
import type { Clock } from '../core/clock.ts'
import { ConnectorError } from '../core/errors.ts'
import { KeyWaits } from '../core/key-waits.ts'
import { openRooms } from '../core/memory-budget.ts'
import type { Rooms } from '../core/memory-budget.ts'
import { secretsIn } from '../core/secret.ts'
import { ship } from '../delivery/loop.ts'
import { probe } from '../delivery/probe.ts'
import { collect } from '../ingest/loop.ts'
import { backfillStatusOf } from '../jobs/backfills.ts'
import type { ApiBackfills } from '../jobs/backfills.ts'
import { openPast } from '../jobs/open.ts'
import type { PastReading } from '../jobs/open.ts'
import { replayStatusOf } from '../jobs/replays.ts'
import type { ApiReplays } from '../jobs/replays.ts'
import type { ApiSurveys } from '../jobs/surveys.ts'
import { openJournal } from '../journal/sqlite/open.ts'
import type { JournalOptions } from '../journal/sqlite/open.ts'
import { openMetrics } from '../observability/metrics.ts'
import type { Metrics } from '../observability/metrics.ts'
import { openBoard } from '../observability/status-registry.ts'
import type { Board } from '../observability/status-registry.ts'
import type { StatusReport } from '../observability/status.ts'
import { Taps } from '../observability/taps.ts'
import type { Mode, Reader, Shared } from './access.ts'
import { UnreadSecrets } from './checks.ts'
import { clearLeftovers, openShipping } from './delivery.ts'
import type { Coming, Shipping } from './delivery.ts'
import type { Outside } from './environment.ts'
import { Budgets } from './rate-limits.ts'
import { openReading } from './workspace.ts'
import type { Reading } from './workspace.ts'

/** The journal answers a small question within this, or it is not alive. */
const ALIVE_MS = 2_000

export interface App {
  readonly config: Config
  readonly board: Board
  readonly metrics: Metrics
  readonly journal: Journal
  /** what its sinks are sent, for who may look */
  readonly taps: Pick<Taps, 'next'>
  /** Reading again what was: done by `run`, and not with `once`. */
  readonly backfills: Backfills
  /** Reading again what was, for one sink alone. */
  readonly replays: Replays
  /** Reading again what was, and keeping nothing of it. */
  readonly surveys: Surveys
  /** Starts every loop; rejects with what must stop the process. Resolves after `stop`; with `once`, `singleRun` tells when that is due. */
  run(): Promise<void>
  singleRun(): SingleRun
  /** The journal answers. */
  alive(): Promise<boolean>
  /** Stops reading and sending, leaves the journal in order, within 8 s whatever hangs. May be called more than once. */
  stop(): Promise<void>
}

type Open = (options: JournalOptions) => Promise<Journal>

/** Throws ConnectorError when the journal cannot be opened. `open` is for another engine behind the journal, or a test's. */
export async function openApp(
  config: Config,
  outside: Outside,
  mode: Mode,
  open: Open = openJournal,
): Promise<App> {
  const journal = await openTraced(config, outside, open)
  // Behind the journal's lock: no process that ships from it is alive.
  await clearLeftovers(config, outside)
  const metrics = openMetrics({ version: outside.version })
  const board = boardOf({ config, outside, mode, journal, metrics }, () => ({ readings, past }))
  const taps = new Taps(outside.clock)
  const instance = await instanceOf(journal, outside)
  const parts = { config, outside, mode, journal, board, instance, taps }
  const rooms = openRooms(config.sinks.length)
  const readings = await openReadings(parts, rooms)
  const readers = readings.flatMap((reading) => reading.readers)
  const past = pastOf(parts, readings)
  const coming = mode.once ? comingOnce(readers, board) : { nothingMoreComes: () => false }
  const shippings = config.sinks.map((sink) => openShipping({ ...parts, room: rooms.share() }, sink, coming))
  const running = new Running({ ...parts, ...past, readings, readers, shippings })
  return {
    config,
    board,
    metrics,
    journal,
    taps,
    ...past,
    run: () => running.run(),
    singleRun: () => singleRunOf(readers, shippings, board.status()),
    alive: () => isAlive(journal, outside.clock),
    stop: () => running.stop(),
  }
}

async function openTraced(config: Config, { clock, log, tracing }: Outside, open: Open): Promise<Journal> {
  const settings = { ...journalSettings(config), workspaces: journalWorkspaces(config) }
  const journal = await open({ ...settings, clock, log })
  return tracing?.journal(journal) ?? journal
}

interface BoardParts extends Pick<Shared, 'config' | 'outside' | 'mode' | 'journal'> {
  readonly metrics: Metrics
}

/** What the board asks in its turn. It is built on the board, so that it comes later. */
interface Asked {
  readonly readings: readonly Reading[]
  readonly past: PastReading
}

function boardOf({ config, outside, mode, journal, metrics }: BoardParts, asked: () => Asked): Board {
  // Found once: what is read again later changes within them.
  const secrets = secretsIn(config)
  return openBoard({
    clock: outside.clock,
    metrics,
    version: outside.version,
    startedAt: mode.startedAt,
    journalStats: () => journal.stats(),
    journalPath: resolve(config.journal.path),
    secrets: () => secrets,
    budget: (name) => {
      const { readings } = asked()
      return readings.find(({ workspace }) => workspace === name)?.budgets() ?? []
    },
    backfills: () => asked().past.backfills.list().map(backfillStatusOf),
    replays: () => {
      const { replays } = asked().past
      return replays.list().flatMap((replay) => replayStatusOf(replay) ?? [])
    },
  })
}

/** A reading for each workspace, under the budgets that they share. */
async function openReadings(parts: Shared, rooms: Rooms): Promise<readonly Reading[]> {
  const { config, outside, mode, journal } = parts
  const { clock, random } = outside
  const pastAlone = mode.pastAlone === true
  const budgets = new Budgets(config.workspaces, { journal, clock, random, pastAlone })
  const keyWaits = new KeyWaits(clock)
  const toRead = {
    ...parts,
    room: rooms.reading,
    longRoom: rooms.long,
    pastRoom: rooms.past,
    budgets,
    keyWaits,
  }
  const readings = config.workspaces.map((workspace) => openReading(toRead, workspace))
  await budgets.load()
  return readings
}

function pastOf({ config, outside, journal, board }: Shared, readings: readonly Reading[]): PastReading {
  const { clock, random, log } = outside
  return openPast({
    ...{ journal, board, clock, random, log },
    sinks: config.sinks,
    sources: readings.flatMap(({ readers }) => readers.map(({ source }) => source)),
    ranges: readings.flatMap(({ ranges }) => ranges),
  })
}

async function isAlive(journal: Journal, clock: Clock): Promise<boolean> {
  try {
    return (await within(ALIVE_MS, clock, journal.note('instance'))) !== undefined
  } catch {
    return false
  }
}

/** Told apart from others that read the same workspace: stays the same as long as the journal lives. */
async function instanceOf(journal: Journal, { random }: Outside): Promise<string> {
  const known = await journal.note('instance')
  if (known !== undefined) return known
  const instance = randomDigits(random, 24)
  await journal.putNote('instance', instance)
  return instance
}

// The daemon while it runs: every loop from its start to its stop, and what ends them all.

const PRUNE_EVERY_MS = 60_000
/** How often the journal is looked for in its place, and each secret in its. */
const LOOK_EVERY_MS = 20_000
/** A delivery under way gets this long at a stop, so that its receiver does not get the same again. */
const FINISH_MS = 2_500
/** Then it is cut, and what stands in mid-request gets this long; what it was about is in the journal anyway. */
const STOP_MS = 3_500
/** Then every part gets this long to close, all at once. */
const CLOSE_MS = 1_000

interface RunningParts extends Shared {
  readonly readings: readonly Reading[]
  /** of all readings */
  readonly readers: readonly Reader[]
  readonly shippings: readonly Shipping[]
  readonly backfills: ApiBackfills
  readonly replays: ApiReplays
  readonly surveys: ApiSurveys
}

class Running {
  readonly #parts: RunningParts
  readonly #stopping = new AbortController()
  readonly #cut = new AbortController()
  /** resolves when no loop runs any more, whatever ended it */
  #ended: Promise<unknown> = Promise.resolve()
  #running: Promise<void> | undefined
  #stopped: Promise<void> | undefined

  constructor(parts: RunningParts) {
    this.#parts = parts
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
    const beside = readings.flatMap(({ canary }) => (canary ? [canary.run(signal)] : []))
    // Begun on somebody's word: a single run reads what is there for everybody, and leaves them where they are.
    if (!mode.once) beside.push(backfills.run(signal), replays.run(signal))
    // A single run asks nobody beforehand: it delivers at once, and is judged by that.
    if (!mode.once) beside.push(...shippings.map((shipping) => probe(shipping, signal)))
    const shipping = shippings.map((shipping) => ship(shipping.shipper, shipping, signal, this.#cut.signal))
    const guarding = this.#guard(signal)
    // Pruning has no end of its own: the first loop that fails ends it, and the last that ends.
    const pruning = this.#prune(signal)
    const loops = [...reading, ...shipping, ...beside]
    const work = Promise.all(loops).then(() => undefined)
    this.#ended = Promise.allSettled(loops)
    try {
      await Promise.race([work, pruning.then(() => work), guarding.then(() => work)])
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

  /**
   * A file that was removed under us goes on taking everything, and is no more after this process; a secret goes on in memory alone:
   * somebody must be told while it lives.
   */
  async #guard(signal: AbortSignal): Promise<void> {
    const { config, journal, board, outside } = this.#parts
    const secrets = new UnreadSecrets(config, outside.log, board)
    for (let known: string | undefined; !signal.aborted;) {
      secrets.look()
      const lost = await journal.lost()
      if (lost !== undefined && lost !== known)
        outside.log.error('The journal is not where it was opened', { why: lost })
      if (lost === undefined && known !== undefined) outside.log.info('The journal is in its place again')
      board.journalLost((known = lost))
      await outside.clock.sleep(LOOK_EVERY_MS, signal)
    }
  }

  stop(): Promise<void> {
    this.#stopped ??= this.#stop()
    return this.#stopped
  }

  async #stop(): Promise<void> {
    const { journal, board, outside, readings, shippings, surveys, taps } = this.#parts
    const { clock, log } = outside
    const { sinks } = board.status()
    // Of what never ran, such as a start that is refused, there is nothing to tell.
    if (this.#running) log.info('Stopping')
    this.#stopping.abort()
    surveys.close()
    taps.close()
    await within(FINISH_MS, clock, this.#ended)
    this.#cut.abort()
    await within(STOP_MS, clock, this.#ended)
    // A part that cannot close must not keep the others from closing.
    const closing = [...readings, ...shippings].map((part) => part.close())
    await within(CLOSE_MS, clock, Promise.allSettled(closing))
    await within(CLOSE_MS, clock, journal.close())
    if (!this.#running) return
    const owed = sinks.reduce((most, sink) => Math.max(most, sink.pending_entries), 0)
    if (owed === 0) log.info('Stopped: everything is delivered')
    else log.info('Stopped: undelivered entries wait in the journal for the next start', { owed })
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

// How far `run --once` is: whether its parts still move, cannot, or are done.

/** `stuck`: only held parts remain, waiting would not help. */
type SingleRun = 'working' | 'stuck' | 'done'

function singleRunOf(
  readers: readonly Reader[],
  shippings: readonly Shipping[],
  { workspaces, sinks, journal }: Pick<StatusReport, 'workspaces' | 'sinks' | 'journal'>,
): SingleRun {
  const reading = readers.filter((reader) => !reader.finished)
  const stateOf = ({ source: { origin } }: Reader) =>
    workspaces
      .find(({ name }) => name === origin.workspace)
      ?.sources.find(({ name }) => name === origin.source)?.state
  const isHeld = (reader: Reader) => stateOf(reader) === 'blocked'
  // What is delivered may still have to be testified, once nothing more comes.
  const unfinished = shippings.filter(({ shipper }) => reading.every(isHeld) && shipper.unfinished === true)
  const names = new Set(unfinished.map(({ sink }) => sink.name))
  const owing = sinks.filter((sink) => sink.pending_entries > 0 || names.has(sink.name))
  if (reading.length === 0 && owing.length === 0) return 'done'
  // Reading that waits for room moves when a sink does.
  const blocked = (reader: Reader) =>
    isHeld(reader) || (journal.paused && stateOf(reader) === 'paused' && owing.length > 0)
  const stuck = reading.every(blocked) && owing.every((sink) => sink.state === 'blocked')
  return stuck ? 'stuck' : 'working'
}

/** What of a single run's reading is still to come. */
function comingOnce(readers: readonly Reader[], board: Pick<Board, 'reading'>): Coming {
  const isHeld = ({ source }: Reader) => board.reading(source.origin)?.isHeld() === true
  return {
    nothingMoreComes: () => readers.every(({ finished }) => finished),
    nothingDue: () => readers.every((reader) => reader.finished || isHeld(reader)),
  }
}
