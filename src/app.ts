// The whole daemon, built of its parts from a parsed configuration. Returns start and stop; touches neither process nor network by itself.
import { resolve } from 'node:path'
import { Budgets } from './budgets.ts'
import { journalSettings, journalWorkspaces } from './config/journal.ts'
import type { Config } from './config/schema.ts'
import { openJournal } from './journal/open.ts'
import type { JournalOptions } from './journal/open.ts'
import type { Clock } from './model/clock.ts'
import { within } from './model/clock.ts'
import type { Journal } from './model/journal.ts'
import type { Past } from './model/past.ts'
import { randomDigits } from './model/random.ts'
import type { Replays } from './model/api-replay.ts'
import { openRooms } from './model/room.ts'
import { secretsIn } from './model/secret.ts'
import { isSameOrigin } from './model/source.ts'
import type { Origin } from './model/source.ts'
import { openBoard } from './ops/board.ts'
import type { Board } from './ops/board.ts'
import { openMetrics } from './ops/metrics.ts'
import type { Metrics } from './ops/metrics.ts'
import { Taps } from './ops/taps.ts'
import type { Outside } from './outside.ts'
import type { Mode } from './parts.ts'
import { backfillStatusOf } from './past/backfill-order.ts'
import { Backfills } from './past/backfills.ts'
import { replayStatusOf } from './past/replay-order.ts'
import { ApiReplays } from './past/replays.ts'
import { Surveys } from './past/surveys.ts'
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
  /** Reading again what was. Backfills are read by `run`, and not with `once`. */
  readonly past: Past
  /** Reading again what was, for one sink alone. */
  readonly replays: Replays
  /** Starts every loop; rejects with what must stop the process. Resolves after `stop`; with `once`, `singleRun` tells when that is due. */
  run(): Promise<void>
  singleRun(): SingleRun
  /** The journal answers. */
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
  const { clock, random, version } = outside
  const settings = { ...journalSettings(config), workspaces: journalWorkspaces(config) }
  const opened = await open({ ...settings, clock, log: outside.log })
  const journal = outside.tracing?.journal(opened) ?? opened
  // Behind the journal's lock: no process that ships from it is alive.
  await clearLeftovers(config, outside)
  const metrics = openMetrics({ version })
  const budget = (workspace: string) =>
    readings.find((reading) => reading.workspace === workspace)?.budgets() ?? []
  // Found once: what is read again later changes within them.
  const secrets = secretsIn(config)
  const board = openBoard({
    clock,
    metrics,
    version,
    startedAt: mode.startedAt,
    journalStats: () => journal.stats(),
    journalPath: resolve(config.journal.path),
    secrets: () => secrets,
    budget,
    backfills: () => backfills.list().map(backfillStatusOf),
    replays: () => replays.list().flatMap((replay) => replayStatusOf(replay) ?? []),
  })
  const rooms = openRooms(config.sinks.length)
  const instance = await instanceOf(journal, outside)
  const parts = { config, outside, mode, journal, board, instance, taps: new Taps(clock) }
  const pastAlone = mode.pastAlone === true
  const budgets = new Budgets(config.workspaces, { journal, clock, random, pastAlone })
  const toRead = { ...parts, room: rooms.reading, longRoom: rooms.long, pastRoom: rooms.past, budgets }
  const readings = config.workspaces.map((workspace) => openReading(toRead, workspace))
  await budgets.load()
  const readers = readings.flatMap((reading) => reading.readers)
  const ranges = readings.flatMap((reading) => reading.ranges)
  const toReadAgain = { ranges, journal, clock, random, log: outside.log }
  const backfills = new Backfills(toReadAgain)
  const surveys = new Surveys(toReadAgain)
  const readTo = (origin: Origin) => readToOf(origin, { readers, board, journal })
  const replays = new ApiReplays({ ...toReadAgain, sinks: config.sinks, readTo })
  const coming = mode.once ? comingOnce(readers, board) : { nothingMoreComes: () => false }
  const shippings = config.sinks.map((sink) => openShipping({ ...parts, room: rooms.share() }, sink, coming))
  const running = new Running({ ...parts, readings, readers, shippings, backfills, replays, surveys })
  return {
    config,
    board,
    metrics,
    journal,
    taps: parts.taps,
    past: pastOf(backfills, surveys),
    replays,
    run: () => running.run(),
    singleRun: () => singleRunOf(readers, shippings, board.status()),
    alive: () => isAlive(journal, clock),
    stop: () => running.stop(),
  }
}

/** For who asks: some of it goes into the journal, the other keeps nothing. */
const pastOf = (backfills: Backfills, surveys: Surveys): Past => ({
  origins: () => backfills.origins(),
  backfill: (choice, span) => backfills.backfill(choice, span),
  backfills: () => backfills.backfills(),
  cancelBackfill: (choice) => backfills.cancelBackfill(choice),
  survey: (query) => surveys.survey(query),
  endSurvey: (walk) => surveys.endSurvey(walk),
})

async function isAlive(journal: Journal, clock: Clock): Promise<boolean> {
  try {
    return (await within(ALIVE_MS, clock, journal.note('instance'))) !== undefined
  } catch {
    return false
  }
}

interface LiveReading extends Pick<Reading, 'readers'> {
  readonly board: Board
  readonly journal: Journal
}

/** How far live reading of this source is, µs; undefined: it has read nothing yet. */
async function readToOf(
  origin: Origin,
  { readers, board, journal }: LiveReading,
): Promise<number | undefined> {
  const readTo = () => board.reading(origin)?.readTo()
  if (readTo() !== undefined) return readTo()
  // Right after a start its loop may not have told yet where the process before it was.
  const reader = readers.find(({ source }) => isSameOrigin(source.origin, origin))
  reader?.source.plan(await journal.cursor(origin))
  return readTo()
}

/** Told apart from others that read the same workspace: stays the same as long as the journal lives. */
async function instanceOf(journal: Journal, { random }: Outside): Promise<string> {
  const known = await journal.note('instance')
  if (known !== undefined) return known
  const instance = randomDigits(random, 24)
  await journal.putNote('instance', instance)
  return instance
}
