// The whole daemon, built of its parts from a parsed configuration; touches neither process nor network before it runs.
import { resolve } from 'node:path'
import { Budgets } from './budgets.ts'
import { journalSettings, journalWorkspaces } from './config/journal.ts'
import type { Config } from './config/schema.ts'
import { openJournal } from './journal/open.ts'
import type { JournalOptions } from './journal/open.ts'
import type { Clock } from './model/clock.ts'
import { within } from './model/clock.ts'
import type { Journal } from './model/journal.ts'
import type { Backfills } from './model/backfill.ts'
import type { Surveys } from './model/survey.ts'
import type { Replays } from './model/api-replay.ts'
import { KeyWaits } from './model/key-waits.ts'
import { randomDigits } from './model/random.ts'
import { openRooms } from './model/room.ts'
import type { Rooms } from './model/room.ts'
import { secretsIn } from './model/secret.ts'
import { openBoard } from './ops/board.ts'
import type { Board } from './ops/board.ts'
import { openMetrics } from './ops/metrics.ts'
import type { Metrics } from './ops/metrics.ts'
import { Taps } from './ops/taps.ts'
import type { Outside } from './outside.ts'
import type { Mode, Shared } from './parts.ts'
import { backfillStatusOf } from './past/backfill-order.ts'
import { openPast } from './past/open.ts'
import type { PastReading } from './past/open.ts'
import { replayStatusOf } from './past/replay-order.ts'
import { comingOnce, singleRunOf } from './single-run.ts'
import type { SingleRun } from './single-run.ts'
import { openReading } from './reading.ts'
import type { Reading } from './reading.ts'
import { Running } from './running.ts'
import { clearLeftovers, openShipping } from './shipping.ts'

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
