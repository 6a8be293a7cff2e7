// Delivery in batches, one dispatcher per sink: load a batch, write its in-flight record, deliver
// it, acknowledge what the receiver answered for.
import type { Intent, Journal } from '../contracts/journal.ts'
import type { Delivery, Outcome, Sink } from '../contracts/sink.ts'
import { ConnectorError } from '../core/errors.ts'
import type { Log } from '../core/log.ts'
import { Unconfirmed, settledOf } from './acknowledgements.ts'
import type { Judged } from './acknowledgements.ts'
import { Loader, limitsIn } from './loader.ts'
import type { BatchLimits, Loaded, LoaderOptions, Wish } from './loader.ts'
import type { StepResult, Stepper } from './loop.ts'
import { Telling } from './reporting.ts'

export interface ShipperOptions extends LoaderOptions {
  readonly sink: Sink
}

/** The batch in flight: its record is in the journal. */
interface Sending {
  readonly intent: Intent
  /** No memory is kept between two tries: a dead sink must not use the memory of the others. */
  loaded: Loaded | undefined
  doubtful: boolean
}

/**
 * The receiver has answered and the journal has not recorded it yet. The batch is not sent again
 * for that.
 */
interface Answered {
  /** undefined: the sink wanted none of it, so it never had an in-flight record */
  readonly intent: Intent | undefined
  readonly loaded: Loaded
  readonly outcome: Outcome
}

const NOTHING: Outcome = { settled: 0, refused: [] }

/**
 * State machine: the first state that applies decides what `step()` does. State, meaning, what follows:
 * answered | answered by the receiver, not recorded yet    | acknowledged, or unconfirmed
 * left     | in-flight record of an earlier process        | unconfirmed, or one of again
 * judged   | was unconfirmed and now has a result          | confirmed: acknowledged; expired: again, with all that expired
 * sending  | its record is written; else the next of again | answered; on failure unchanged; refused whole: framed again, smaller
 * none     | nothing is in flight                          | sending, with the prefetched batch or one loaded now; or a wait
 */
export class Shipper implements Stepper {
  readonly #options: ShipperOptions
  readonly #loader: Loader
  readonly #ahead: Ahead
  readonly #telling: Telling
  readonly #unconfirmed: Unconfirmed
  readonly #leftIntents: LeftIntents
  readonly #bisection: Bisection
  readonly #refusals: RefusalStreak
  /** sent before anything new: left by a crash, or never confirmed */
  readonly #again: Sending[] = []
  #sending: Sending | undefined
  #answered: Answered | undefined

  constructor(given: ShipperOptions) {
    const options = { ...given, limits: limitsIn(given.room, given.limits) }
    this.#options = options
    this.#loader = new Loader(options)
    this.#ahead = new Ahead(this.#loader, options.sink)
    this.#telling = new Telling(options)
    this.#unconfirmed = new Unconfirmed(options, this.#telling)
    this.#leftIntents = new LeftIntents(options, this.#loader, this.#unconfirmed)
    this.#bisection = new Bisection(options)
    this.#refusals = new RefusalStreak(options.sink.name)
  }

  /**
   * One step: sends one batch and acknowledges what the receiver answered for. Throws
   * ConnectorError if nothing could be acknowledged; the next call sends the same batch again.
   */
  async step(signal: AbortSignal): Promise<StepResult> {
    if (this.#answered) return this.#noteAnswer(this.#answered, signal)
    for (const intent of await this.#leftIntents.resume(signal)) this.#sendAgain(intent)
    const { judged } = this.#unconfirmed
    if (judged) return this.#conclude(judged)
    this.#sending ??= this.#again.shift()
    return this.#sending ? this.#send(this.#sending, signal) : this.#begin(signal)
  }

  async hearOut(signal: AbortSignal): Promise<void> {
    await this.#unconfirmed.hearOut(signal)
    this.#telling.end()
  }

  async #begin(signal: AbortSignal): Promise<StepResult> {
    if (this.#unconfirmed.full) {
      // Waiting may take long, and other sinks can use the memory meanwhile.
      this.#ahead.drop()
      await this.#unconfirmed.wait(this.#telling.tellDue(), signal)
      return 'worked'
    }
    const loaded = this.#ahead.take() ?? (await this.#loader.load(this.#wish(), signal))
    if (typeof loaded === 'number') return this.#idle(loaded, signal)
    if (loaded.lines.count === 0) {
      await this.#answer({ intent: undefined, loaded, outcome: NOTHING }, signal)
      return 'unproven'
    }
    this.#sending = await this.#intend(loaded, signal)
    return this.#send(this.#sending, signal)
  }

  /** With unconfirmed batches there is more to wait for than the delivery loop knows. */
  async #idle(loadInMs: number, signal: AbortSignal): Promise<StepResult> {
    const waitMs = Math.min(loadInMs, this.#telling.tellDue())
    if (this.#unconfirmed.size === 0) {
      if (this.#options.nothingMoreComes()) return loadInMs
      // With nothing left to send, a receiver that refused everything has not proven that it works.
      this.#refusals.check()
      return waitMs
    }
    await this.#unconfirmed.waitOrMore(waitMs, signal)
    return 'worked'
  }

  /** What may be loaded next: nothing that is already in flight. */
  #wish(sending?: Intent): Wish {
    const again = this.#again.map(({ intent }) => intent)
    const busy = [...this.#unconfirmed.intents, ...again, ...(sending ? [sending] : [])]
    const { limits, sink } = this.#options
    const maxEntries = Math.min(this.#bisection.maxEntries, sink.maxEntries ?? Infinity, limits.maxEntries)
    return { maxEntries, busy, oneLine: this.#refusals.isTooLong }
  }

  /** Batches are smaller than usual, to find the entry that the receiver refuses. */
  get #isIsolating(): boolean {
    return this.#bisection.isUnderWay || this.#refusals.isTooLong
  }

  async #intend(loaded: Loaded, signal: AbortSignal): Promise<Sending> {
    try {
      return { loaded, intent: await writeIntent(this.#options, loaded, signal), doubtful: false }
    } catch (error) {
      this.#loader.free(loaded)
      throw error
    }
  }

  async #send(sending: Sending, signal: AbortSignal): Promise<StepResult> {
    const { sink, watch, clock } = this.#options
    const { intent } = sending
    // Do not wait for memory while keeping an unsent batch: that batch may be using the memory.
    if (!sending.loaded) this.#ahead.drop()
    const loaded = (sending.loaded ??= await this.#loader.reload(intent, signal))
    // The sink may not want any of it now: its settings changed since the crash.
    if (loaded.lines.count === 0) return this.#answer({ intent, loaded, outcome: NOTHING }, signal)
    const delivery: Delivery = { lines: loaded.lines, detail: intent.detail, doubtful: sending.doubtful }
    // From here on the receiver may have it, even if no answer arrives.
    sending.doubtful = true
    watch.state('sending')
    const startedAt = clock.elapsed()
    const delivered = watch.delivering()
    // Not while a refusal is isolated: the next batch is then a part of this one, or a single
    // entry. An error here is ignored: the batch meets it again when it is sent.
    const looking = this.#isIsolating
      ? undefined
      : this.#ahead.look(this.#wish(intent)).catch(() => undefined)
    let outcome: Outcome
    try {
      outcome = await sink.deliver(delivery, signal)
      if (outcome.settled === 0)
        throw new ConnectorError('bad_reply', 'The sink acknowledged nothing and did not say why')
    } catch (error) {
      this.#telling.tellDue()
      await looking
      if (error instanceof ConnectorError && error.action === 'split')
        return await this.#refused({ intent, loaded }, error, signal)
      this.#release(loaded)
      sending.loaded = undefined
      throw error
    } finally {
      delivered()
      watch.request(clock.elapsed() - startedAt)
    }
    await looking
    return this.#answer({ intent, loaded, outcome }, signal)
  }

  /** The receiver refused the batch as a whole. */
  async #refused(
    { intent, loaded }: Pick<Answered, 'intent' | 'loaded'>,
    error: ConnectorError,
    signal: AbortSignal,
  ): Promise<StepResult> {
    const outcome = this.#bisection.narrow(loaded.lines.count, error)
    if (outcome) return this.#answer({ intent, loaded, outcome }, signal)
    this.#release(loaded)
    this.#sending = undefined
    return 'worked'
  }

  #answer(answered: Answered, signal: AbortSignal): Promise<StepResult> {
    this.#answered = answered
    this.#refusals.count(answered.outcome)
    return this.#noteAnswer(answered, signal)
  }

  async #noteAnswer({ intent, loaded, outcome }: Answered, signal: AbortSignal): Promise<StepResult> {
    const { later } = outcome
    if (later && intent) {
      await this.#unconfirmed.keep(intent, loaded, { ...outcome, later }, signal)
      this.#answered = undefined
      this.#sending = undefined
    } else await this.#settle(loaded, outcome, signal)
    this.#bisection.widen()
    if (outcome.settled === loaded.lines.count && !this.#isIsolating) this.#loader.free(loaded)
    else this.#release(loaded)
    if (outcome.refused.some(({ own }) => own !== true)) this.#refusals.check()
    return 'worked'
  }

  async #settle(loaded: Loaded, outcome: Outcome, signal: AbortSignal): Promise<void> {
    const { journal, sink } = this.#options
    const { settlement, times, filtered } = settledOf(sink.name, loaded, outcome)
    const whole = outcome.settled === loaded.lines.count
    const ahead = whole && !this.#isIsolating ? this.#ahead.wanted : undefined
    // Written in the transaction of this acknowledgement. A batch that cannot be prepared reports
    // its error when it is sent.
    const next = ahead && (await intentOf(this.#options, ahead, signal).catch(() => undefined))
    if (settlement.through >= settlement.first) await journal.settle(sink.name, { ...settlement, next })
    this.#answered = undefined
    this.#sending = undefined
    if (next) this.#sending = { loaded: this.#ahead.take(), intent: next, doubtful: false }
    this.#telling.settled({ times, filtered, parked: settlement.parked })
  }

  /** Throws the reason why a batch was never confirmed; it is sent again before anything new. */
  async #conclude(judged: Judged): Promise<StepResult> {
    if (judged.error === undefined) {
      await this.#unconfirmed.settle(judged)
      return 'worked'
    }
    // Batches that expired together are sent again together, after one pause rather than one each.
    for (const { intent } of this.#unconfirmed.takeLapsed()) this.#sendAgain(intent)
    throw judged.error as Error
  }

  #sendAgain(intent: Intent): void {
    this.#again.push({ intent, loaded: undefined, doubtful: true })
  }

  /** Drops the batch and the prefetched one: both are framed again. */
  #release(loaded: Loaded): void {
    this.#loader.free(loaded)
    this.#ahead.drop()
  }
}

// Prefetch: the next batch is framed while the last one is in flight, so that the receiver never
// waits for us.

class Ahead {
  readonly #loader: Loader
  readonly #sink: Pick<Sink, 'warm'>
  #loaded: Loaded | undefined

  constructor(loader: Loader, sink: Pick<Sink, 'warm'>) {
    this.#loader = loader
    this.#sink = sink
  }

  /** Frames a batch unless there is one already, and only if there is memory for it. */
  async look(wish: Wish): Promise<void> {
    if (this.#loaded) return
    const next = await this.#loader.loadIfRoom(wish)
    this.#loaded = next
    if (next && next.lines.count > 0) this.#sink.warm?.(next.lines)
  }

  /** The next batch, if it is loaded and the sink wants any of it; it stays here. */
  get wanted(): Loaded | undefined {
    return this.#loaded && this.#loaded.lines.count > 0 ? this.#loaded : undefined
  }

  /** The caller must free it. */
  take(): Loaded | undefined {
    const loaded = this.#loaded
    this.#loaded = undefined
    return loaded
  }

  /** Drops the batch: it is framed again when it is its turn. */
  drop(): void {
    const loaded = this.take()
    if (loaded) this.#loader.free(loaded)
  }
}

// Bisects a batch that the receiver refuses as a whole: halves it until a single entry is left.
// Then batches grow again.

interface BisectionOptions {
  readonly limits: { readonly maxEntries: number }
  readonly log: Log
}

class Bisection {
  readonly #options: BisectionOptions
  #maxEntries = Infinity

  constructor(options: BisectionOptions) {
    this.#options = options
  }

  /** Limits of the next batch. */
  get maxEntries(): number {
    return this.#maxEntries
  }

  get isUnderWay(): boolean {
    return this.#maxEntries !== Infinity
  }

  /**
   * The result for a single entry: a dead letter with the reason. Undefined for several entries:
   * half of them is next.
   */
  narrow(count: number, { code, message }: ConnectorError): Outcome | undefined {
    if (count === 1) return { settled: 1, refused: [{ index: 0, code, reason: message }] }
    this.#maxEntries = Math.floor(count / 2)
    const fields = { code, entries: count, error: message }
    this.#options.log.info('The receiver refused a batch, trying half of it', fields)
    return undefined
  }

  /** A batch was acknowledged. */
  widen(): void {
    const twice = this.#maxEntries * 2
    this.#maxEntries = twice < this.#options.limits.maxEntries ? twice : Infinity
  }
}

// In-flight record, written before a batch is sent: after a crash that batch is the possible
// duplicate.

interface Intending {
  readonly sink: Sink
  /** what the bytes of the lines depend on besides the entries */
  readonly shape: string
}

/** Throws what the sink throws. */
async function intentOf(
  { sink, shape }: Intending,
  { first, last, lines }: Loaded,
  signal: AbortSignal,
): Promise<Intent> {
  const detail = (await sink.prepare?.(lines, signal)) ?? ''
  return { first, last, shape, detail }
}

/** Throws errors of the sink or the journal; nothing is written then. */
async function writeIntent(
  options: Intending & { readonly journal: Pick<Journal, 'intend'> },
  loaded: Loaded,
  signal: AbortSignal,
): Promise<Intent> {
  const intent = await intentOf(options, loaded, signal)
  await options.journal.intend(options.sink.name, intent)
  return intent
}

// In-flight records of an earlier process, handled one after the other: the batch is polled if its
// receiver has taken it, else sent again.

interface LeftIntentsOptions {
  readonly sink: Pick<Sink, 'name' | 'resume'>
  readonly journal: Pick<Journal, 'intents' | 'take'>
  readonly limits: Pick<BatchLimits, 'maxEntries' | 'maxBytes'>
  readonly shape: string
  readonly log: Log
}

class LeftIntents {
  readonly #options: LeftIntentsOptions
  readonly #loader: Loader
  readonly #unconfirmed: Unconfirmed
  /** not handled yet; undefined: not read from the journal yet */
  #intents: Intent[] | undefined
  readonly #again: Intent[] = []

  constructor(options: LeftIntentsOptions, loader: Loader, unconfirmed: Unconfirmed) {
    this.#options = options
    this.#loader = loader
    this.#unconfirmed = unconfirmed
  }

  /**
   * Returns the batches to send again: the same entries with the same bounds (invariant 2). After
   * an error the next call continues there. When all are handled it returns none.
   */
  async resume(signal: AbortSignal): Promise<readonly Intent[]> {
    const { journal, sink } = this.#options
    this.#intents ??= [...(await journal.intents(sink.name))]
    for (;;) {
      const [intent] = this.#intents
      if (!intent) return this.#again.splice(0)
      await this.#judge(intent, signal)
      this.#intents.shift()
    }
  }

  async #judge(intent: Intent, signal: AbortSignal): Promise<void> {
    const { sink, shape, log } = this.#options
    const later = sink.resume?.(intent.detail)
    if (later) {
      const loaded = await this.#loader.reload(intent, signal)
      this.#unconfirmed.keepFound(intent, loaded, later, signal)
      this.#loader.free(loaded)
      return
    }
    if (intent.shape !== shape) {
      log.warn(
        'Settings that shape the lines changed while a batch was in flight: entries that may have arrived before can arrive again in the new form',
      )
      // For example a range of objects of any size, from when this sink had another type: it is
      // loaded again in batches.
      if (!(await this.#fits(intent))) return
    }
    this.#again.push({ ...intent, shape })
  }

  async #fits({ first, last }: Intent): Promise<boolean> {
    const { journal, sink, limits } = this.#options
    const batch = await journal.take(sink.name, limits, { after: first - 1 })
    return batch !== undefined && batch.last >= last
  }
}

// Counts entries that a receiver refused in a row. A single one is at fault; many point to the
// settings, or to a proxy that corrupts what it passes on.

/** From this many in a row on, the entries are probably not at fault. */
const MOST_IN_A_ROW = 10

export class RefusalStreak {
  readonly #sink: string
  /** with nothing accepted between; starts at 0 in each process */
  #inARow = 0

  constructor(sink: string) {
    this.#sink = sink
  }

  /** Call once per answer. */
  count({ settled, refused }: Outcome): void {
    const owns = new Map(refused.map(({ index, own = false }) => [index, own]))
    let last = 0
    for (let index = settled - 1; index >= 0; index--) {
      const own = owns.get(index)
      if (own === undefined) {
        this.#inARow = last
        return
      }
      if (!own) last++
    }
    this.#inARow += last
  }

  /** True: from now on one line is tried at a time. */
  get isTooLong(): boolean {
    return this.#inARow >= MOST_IN_A_ROW
  }

  /**
   * Throws the error that blocks the sink if the run is too long. Dead letters stay dead letters: a
   * run of bad entries ends, slowly. The receiver's texts may contain content and stay with the
   * dead letters.
   */
  check(): void {
    if (!this.isTooLong) return
    throw new ConnectorError(
      'misconfigured',
      `Sink ${this.#sink}: its receiver has refused ${MOST_IN_A_ROW} or more entries in a row and accepted none between, so the entries are probably not at fault. Its reasons: \`auditferry dead-letters list --sink ${this.#sink}\`. Check whether a proxy changes what is sent, and whether the sink's settings fit. Entries are tried one at a time until one is accepted; send the dead letters again with \`auditferry dead-letters retry --sink ${this.#sink}\``,
    )
  }
}
