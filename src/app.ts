// The whole daemon, built of its parts from a parsed configuration. Returns start and stop; touches neither process nor network by itself.
import { collect } from './collect.ts'
import type { Config } from './config/schema.ts'
import { openJournal } from './journal/journal.ts'
import type { JournalOptions } from './journal/journal.ts'
import type { Journal } from './model/journal.ts'
import type { Log } from './model/log.ts'
import { Room } from './model/room.ts'
import type { CheckResult } from './model/sink.ts'
import { openBoard } from './ops/board.ts'
import type { Board } from './ops/board.ts'
import { openMetrics } from './ops/metrics.ts'
import type { Metrics } from './ops/metrics.ts'
import { Shipper, ship } from './ship.ts'
import type { Mode, Outside, Reader, Shipping } from './wiring.ts'
import { openReader, openShipping } from './wiring.ts'

/** All held bodies and batches of the process (law 4). */
const ROOM_BYTES = 32 * 1024 * 1024
const PRUNE_EVERY_MS = 60_000
/** What stands in mid-request gets this long at a stop; what it was about is in the journal anyway. */
const STOP_MS = 8_000

/** How far `run --once` is. `stuck`: only held parts remain, waiting would not help. */
export type Progress = 'working' | 'stuck' | 'done'

export type { Mode, Outside } from './wiring.ts'

export interface App {
  readonly board: Board
  readonly metrics: Metrics
  readonly journal: Journal
  /** Starts every loop. Resolves when all have ended; rejects with what must stop the process. */
  run(): Promise<void>
  progress(): Progress
  /** Asks every API and every sink, without changing anything. */
  check(signal: AbortSignal): Promise<readonly CheckResult[]>
  /** Stops reading and sending, leaves the journal in order. May be called more than once. */
  stop(): Promise<void>
}

/** Throws ConnectorError when the journal cannot be opened. `open` is for another engine behind the journal, or a test's. */
export async function openApp(
  config: Config,
  outside: Outside,
  mode: Mode,
  open: (options: JournalOptions) => Promise<Journal> = openJournal,
): Promise<App> {
  const { clock, log, version } = outside
  const journal = await open({
    path: config.journal.path,
    maxBytes: config.journal.max_bytes,
    keepKeysMs: config.journal.keep_keys,
    keepSettledBytes: config.journal.keep_settled,
    sinks: config.sinks.map((sink) => sink.name),
    clock,
    log,
  })
  const metrics = openMetrics({ version })
  const budgets = (workspace: string) =>
    readers.filter((reader) => reader.origin.workspace === workspace).map((reader) => reader.budgetStatus())
  const board = openBoard({ clock, metrics, journalStats: () => journal.stats(), version, budget: budgets })
  const parts = {
    config,
    outside,
    mode,
    journal,
    board,
    room: new Room(ROOM_BYTES),
    instance: await instanceOf(journal, outside),
  }
  const readers = config.workspaces.flatMap((workspace) =>
    workspace.audit ? [openReader(parts, workspace)] : [],
  )
  const over = () => mode.once && readers.every((reader) => reader.finished)
  const shippings = config.sinks.map((sink) => openShipping(parts, sink, over))
  tellStrangers(journal, log)
  return new Daemon({ journal, board, metrics, outside, readers, shippings })
}

interface Parts {
  readonly journal: Journal
  readonly board: Board
  readonly metrics: Metrics
  readonly outside: Outside
  readonly readers: readonly Reader[]
  readonly shippings: readonly Shipping[]
}

class Daemon implements App {
  readonly board: Board
  readonly metrics: Metrics
  readonly journal: Journal
  readonly #parts: Parts
  readonly #stopping = new AbortController()
  #running: Promise<void> | undefined
  #stopped: Promise<void> | undefined

  constructor(parts: Parts) {
    this.#parts = parts
    this.board = parts.board
    this.metrics = parts.metrics
    this.journal = parts.journal
  }

  run(): Promise<void> {
    this.#running ??= this.#runAll()
    return this.#running
  }

  async #runAll(): Promise<void> {
    const { readers, shippings } = this.#parts
    const { signal } = this.#stopping
    const reading = readers.map(async (reader) => {
      await collect(reader, signal)
      reader.finished = true
    })
    const shipping = shippings.map((options) => ship(new Shipper(options), options, signal))
    // Pruning has no end of its own: the first loop that fails ends it, and the last that ends.
    const work = Promise.all([...reading, ...shipping]).then(() => undefined)
    try {
      await Promise.race([work, this.#prune(signal).then(() => work)])
    } catch (error) {
      this.#stopping.abort()
      await Promise.allSettled([...reading, ...shipping])
      throw error
    }
  }

  async #prune(signal: AbortSignal): Promise<void> {
    const { journal, outside } = this.#parts
    while (!signal.aborted) {
      const more = await journal.prune()
      await outside.clock.sleep(more ? 50 : PRUNE_EVERY_MS, signal)
    }
  }

  progress(): Progress {
    const { readers } = this.#parts
    const { workspaces, sinks } = this.board.status()
    const reading = readers.filter((reader) => !reader.finished)
    const owing = sinks.filter((sink) => sink.owed_entries > 0)
    if (reading.length === 0 && owing.length === 0) return 'done'
    const heldSources = workspaces.flatMap((workspace) =>
      workspace.sources.filter((source) => source.state === 'held'),
    )
    const stuck = heldSources.length >= reading.length && owing.every((sink) => sink.state === 'held')
    return stuck ? 'stuck' : 'working'
  }

  async check(signal: AbortSignal): Promise<readonly CheckResult[]> {
    const { readers, shippings } = this.#parts
    const apis = readers.map((reader) => reader.check(signal))
    const sinks = shippings.map(async ({ sink }) => {
      const results = await sink.check(signal)
      return results.map((result) => ({ ...result, what: `${sink.name}: ${result.what}` }))
    })
    return (await Promise.all([...apis, ...sinks])).flat()
  }

  stop(): Promise<void> {
    this.#stopped ??= this.#stop()
    return this.#stopped
  }

  async #stop(): Promise<void> {
    const { journal, outside, readers, shippings } = this.#parts
    this.#stopping.abort()
    const ended = new AbortController()
    const settled = Promise.resolve(this.#running).catch(() => undefined)
    await Promise.race([settled, outside.clock.sleep(STOP_MS, ended.signal)])
    ended.abort()
    // A part that cannot close must not keep the others from closing.
    await Promise.allSettled(readers.map((reader) => reader.close()))
    await Promise.allSettled(shippings.map((shipping) => shipping.close()))
    await journal.close()
  }
}

/** Told apart from others that read the same workspace: stays the same as long as the journal lives. */
async function instanceOf(journal: Journal, { random }: Outside): Promise<string> {
  const known = await journal.note('instance')
  if (known !== undefined) return known
  const digits = Array.from({ length: 24 }, () => Math.floor(random() * 16).toString(16))
  const instance = digits.join('')
  await journal.putNote('instance', instance)
  return instance
}

function tellStrangers(journal: Journal, log: Log): void {
  for (const sink of journal.stats().strangers)
    log.warn('A sink of the journal is not in the configuration any more: it holds nothing back', { sink })
}
