// The daemon while it runs: every loop from its start to its stop, and what ends them all.
import type { Reader } from './access.ts'
import { collect } from './collect/loop.ts'
import { sourcesOf } from './config/schema.ts'
import type { Config } from './config/schema.ts'
import { within } from './model/clock.ts'
import { ConnectorError } from './model/errors.ts'
import type { Outside } from './outside.ts'
import type { Shared } from './parts.ts'
import type { ApiBackfills } from './past/backfills.ts'
import type { ApiReplays } from './past/replays.ts'
import type { ApiSurveys } from './past/surveys.ts'
import type { Reading } from './reading.ts'
import { ship } from './ship/loop.ts'
import { probe } from './ship/probe.ts'
import type { Shipping } from './shipping.ts'
import { UnreadSecrets } from './unread-secrets.ts'

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

export class Running {
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
