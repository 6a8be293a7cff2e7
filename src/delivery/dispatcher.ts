// Delivery in batches, one dispatcher per sink: load a batch, write its in-flight record, deliver
// it, acknowledge what the receiver answered for.
import type { InFlight, Journal } from '../contracts/journal.ts'
import type { Delivery, Outcome, Sink } from '../contracts/sink.ts'
import { ConnectorError } from '../core/errors.ts'
import type { Log } from '../core/log.ts'
import { Unconfirmed, acknowledgementOf } from './acknowledgements.ts'
import type { Judged } from './acknowledgements.ts'
import { Loader, limitsIn } from './loader.ts'
import type { BatchLimits, Loaded, LoaderOptions, Wish } from './loader.ts'
import type { StepResult, Dispatcher } from './loop.ts'
import { DeliveryReports } from './reporting.ts'

export interface DispatcherOptions extends LoaderOptions {
  readonly sink: Sink
}

/** The batch in flight: its record is in the journal. */
interface Sending {
  readonly inFlight: InFlight
  /** No memory is kept between two tries: a dead sink must not use the memory of the others. */
  loaded: Loaded | undefined
  possibleDuplicate: boolean
}

/**
 * The receiver has answered and the journal has not recorded it yet. The batch is not sent again
 * for that.
 */
interface Answered {
  /** undefined: the sink wanted none of it, so it never had an in-flight record */
  readonly inFlight: InFlight | undefined
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
export class BatchDispatcher implements Dispatcher {
  readonly #options: DispatcherOptions
  readonly #loader: Loader
  readonly #ahead: Prefetch
  readonly #reports: DeliveryReports
  readonly #unconfirmed: Unconfirmed
  readonly #leftInFlight: LeftInFlight
  readonly #bisection: Bisection
  readonly #refusals: RejectionRun
  /** sent before anything new: left by a crash, or never confirmed */
  readonly #again: Sending[] = []
  #sending: Sending | undefined
  #answered: Answered | undefined

  constructor(given: DispatcherOptions) {
    const options = { ...given, limits: limitsIn(given.memory, given.limits) }
    this.#options = options
    this.#loader = new Loader(options)
    this.#ahead = new Prefetch(this.#loader, options.sink)
    this.#reports = new DeliveryReports(options)
    this.#unconfirmed = new Unconfirmed(options, this.#reports)
    this.#leftInFlight = new LeftInFlight(options, this.#loader, this.#unconfirmed)
    this.#bisection = new Bisection(options)
    this.#refusals = new RejectionRun(options.sink.name)
  }

  /**
   * One step: sends one batch and acknowledges what the receiver answered for. Throws
   * ConnectorError if nothing could be acknowledged; the next call sends the same batch again.
   */
  async step(signal: AbortSignal): Promise<StepResult> {
    if (this.#answered) return this.#noteAnswer(this.#answered, signal)
    for (const inFlight of await this.#leftInFlight.resume(signal)) this.#sendAgain(inFlight)
    const { judged } = this.#unconfirmed
    if (judged) return this.#conclude(judged)
    this.#sending ??= this.#again.shift()
    return this.#sending ? this.#send(this.#sending, signal) : this.#begin(signal)
  }

  async hearOut(signal: AbortSignal): Promise<void> {
    await this.#unconfirmed.hearOut(signal)
    this.#reports.end()
  }

  async #begin(signal: AbortSignal): Promise<StepResult> {
    if (this.#unconfirmed.full) {
      // Waiting may take long, and other sinks can use the memory meanwhile.
      this.#ahead.drop()
      await this.#unconfirmed.wait(this.#reports.logDue(), signal)
      return 'worked'
    }
    const loaded = this.#ahead.take() ?? (await this.#loader.load(this.#wish(), signal))
    if (typeof loaded === 'number') return this.#idle(loaded, signal)
    if (loaded.lines.count === 0) {
      await this.#answer({ inFlight: undefined, loaded, outcome: NOTHING }, signal)
      return 'unproven'
    }
    this.#sending = await this.#recordInFlight(loaded, signal)
    return this.#send(this.#sending, signal)
  }

  /** With unconfirmed batches there is more to wait for than the delivery loop knows. */
  async #idle(loadInMs: number, signal: AbortSignal): Promise<StepResult> {
    const waitMs = Math.min(loadInMs, this.#reports.logDue())
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
  #wish(sending?: InFlight): Wish {
    const again = this.#again.map(({ inFlight }) => inFlight)
    const busy = [...this.#unconfirmed.inFlightBatches, ...again, ...(sending ? [sending] : [])]
    const { limits, sink } = this.#options
    const maxEntries = Math.min(this.#bisection.maxEntries, sink.maxEntries ?? Infinity, limits.maxEntries)
    return { maxEntries, busy, oneLine: this.#refusals.isTooLong }
  }

  /** Batches are smaller than usual, to find the entry that the receiver refuses. */
  get #isIsolating(): boolean {
    return this.#bisection.isUnderWay || this.#refusals.isTooLong
  }

  async #recordInFlight(loaded: Loaded, signal: AbortSignal): Promise<Sending> {
    try {
      return {
        loaded,
        inFlight: await writeInFlight(this.#options, loaded, signal),
        possibleDuplicate: false,
      }
    } catch (error) {
      this.#loader.free(loaded)
      throw error
    }
  }

  async #send(sending: Sending, signal: AbortSignal): Promise<StepResult> {
    const { sink, reporter, clock } = this.#options
    const { inFlight } = sending
    // Do not wait for memory while keeping an unsent batch: that batch may be using the memory.
    if (!sending.loaded) this.#ahead.drop()
    const loaded = (sending.loaded ??= await this.#loader.reload(inFlight, signal))
    // The sink may not want any of it now: its settings changed since the crash.
    if (loaded.lines.count === 0) return this.#answer({ inFlight, loaded, outcome: NOTHING }, signal)
    const delivery: Delivery = {
      lines: loaded.lines,
      detail: inFlight.detail,
      possibleDuplicate: sending.possibleDuplicate,
    }
    // From here on the receiver may have it, even if no answer arrives.
    sending.possibleDuplicate = true
    reporter.state('sending')
    const startedAt = clock.elapsed()
    const delivered = reporter.delivering()
    // Not while a refusal is isolated: the next batch is then a part of this one, or a single
    // entry. An error here is ignored: the batch meets it again when it is sent.
    const looking = this.#isIsolating
      ? undefined
      : this.#ahead.look(this.#wish(inFlight)).catch(() => undefined)
    let outcome: Outcome
    try {
      outcome = await sink.deliver(delivery, signal)
      if (outcome.settled === 0)
        throw new ConnectorError('bad_reply', 'The sink acknowledged nothing and did not say why')
    } catch (error) {
      this.#reports.logDue()
      await looking
      if (error instanceof ConnectorError && error.action === 'split')
        return await this.#refused({ inFlight, loaded }, error, signal)
      this.#release(loaded)
      sending.loaded = undefined
      throw error
    } finally {
      delivered()
      reporter.request(clock.elapsed() - startedAt)
    }
    await looking
    return this.#answer({ inFlight, loaded, outcome }, signal)
  }

  /** The receiver refused the batch as a whole. */
  async #refused(
    { inFlight, loaded }: Pick<Answered, 'inFlight' | 'loaded'>,
    error: ConnectorError,
    signal: AbortSignal,
  ): Promise<StepResult> {
    const outcome = this.#bisection.narrow(loaded.lines.count, error)
    if (outcome) return this.#answer({ inFlight, loaded, outcome }, signal)
    this.#release(loaded)
    this.#sending = undefined
    return 'worked'
  }

  #answer(answered: Answered, signal: AbortSignal): Promise<StepResult> {
    this.#answered = answered
    this.#refusals.count(answered.outcome)
    return this.#noteAnswer(answered, signal)
  }

  async #noteAnswer({ inFlight, loaded, outcome }: Answered, signal: AbortSignal): Promise<StepResult> {
    const { later } = outcome
    if (later && inFlight) {
      await this.#unconfirmed.keep(inFlight, loaded, { ...outcome, later }, signal)
      this.#answered = undefined
      this.#sending = undefined
    } else await this.#ack(loaded, outcome, signal)
    this.#bisection.widen()
    if (outcome.settled === loaded.lines.count && !this.#isIsolating) this.#loader.free(loaded)
    else this.#release(loaded)
    if (outcome.refused.some(({ own }) => own !== true)) this.#refusals.check()
    return 'worked'
  }

  async #ack(loaded: Loaded, outcome: Outcome, signal: AbortSignal): Promise<void> {
    const { journal, sink } = this.#options
    const { acknowledgement, times, filtered } = acknowledgementOf(sink.name, loaded, outcome)
    const whole = outcome.settled === loaded.lines.count
    const ahead = whole && !this.#isIsolating ? this.#ahead.wanted : undefined
    // Written in the transaction of this acknowledgement. A batch that cannot be prepared reports
    // its error when it is sent.
    const next = ahead && (await inFlightOf(this.#options, ahead, signal).catch(() => undefined))
    if (acknowledgement.through >= acknowledgement.first)
      await journal.ack(sink.name, { ...acknowledgement, next })
    this.#answered = undefined
    this.#sending = undefined
    if (next) this.#sending = { loaded: this.#ahead.take(), inFlight: next, possibleDuplicate: false }
    this.#reports.settled({ times, filtered, parked: acknowledgement.parked })
  }

  /** Throws the reason why a batch was never confirmed; it is sent again before anything new. */
  async #conclude(judged: Judged): Promise<StepResult> {
    if (judged.error === undefined) {
      await this.#unconfirmed.ack(judged)
      return 'worked'
    }
    // Batches that expired together are sent again together, after one pause rather than one each.
    for (const { inFlight } of this.#unconfirmed.takeLapsed()) this.#sendAgain(inFlight)
    throw judged.error as Error
  }

  #sendAgain(inFlight: InFlight): void {
    this.#again.push({ inFlight, loaded: undefined, possibleDuplicate: true })
  }

  /** Drops the batch and the prefetched one: both are framed again. */
  #release(loaded: Loaded): void {
    this.#loader.free(loaded)
    this.#ahead.drop()
  }
}

// Prefetch: the next batch is framed while the last one is in flight, so that the receiver never
// waits for us.

class Prefetch {
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
    const next = await this.#loader.loadIfFree(wish)
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

interface InFlightOptions {
  readonly sink: Sink
  /** what the bytes of the lines depend on besides the entries */
  readonly shape: string
}

/** Throws what the sink throws. */
async function inFlightOf(
  { sink, shape }: InFlightOptions,
  { first, last, lines }: Loaded,
  signal: AbortSignal,
): Promise<InFlight> {
  const detail = (await sink.prepare?.(lines, signal)) ?? ''
  return { first, last, shape, detail }
}

/** Throws errors of the sink or the journal; nothing is written then. */
async function writeInFlight(
  options: InFlightOptions & { readonly journal: Pick<Journal, 'recordInFlight'> },
  loaded: Loaded,
  signal: AbortSignal,
): Promise<InFlight> {
  const inFlight = await inFlightOf(options, loaded, signal)
  await options.journal.recordInFlight(options.sink.name, inFlight)
  return inFlight
}

// In-flight records of an earlier process, handled one after the other: the batch is polled if its
// receiver has taken it, else sent again.

interface LeftInFlightOptions {
  readonly sink: Pick<Sink, 'name' | 'resume'>
  readonly journal: Pick<Journal, 'inFlightBatches' | 'take'>
  readonly limits: Pick<BatchLimits, 'maxEntries' | 'maxBytes'>
  readonly shape: string
  readonly log: Log
}

class LeftInFlight {
  readonly #options: LeftInFlightOptions
  readonly #loader: Loader
  readonly #unconfirmed: Unconfirmed
  /** not handled yet; undefined: not read from the journal yet */
  #inFlightBatches: InFlight[] | undefined
  readonly #again: InFlight[] = []

  constructor(options: LeftInFlightOptions, loader: Loader, unconfirmed: Unconfirmed) {
    this.#options = options
    this.#loader = loader
    this.#unconfirmed = unconfirmed
  }

  /**
   * Returns the batches to send again: the same entries with the same bounds (invariant 2). After
   * an error the next call continues there. When all are handled it returns none.
   */
  async resume(signal: AbortSignal): Promise<readonly InFlight[]> {
    const { journal, sink } = this.#options
    this.#inFlightBatches ??= [...(await journal.inFlightBatches(sink.name))]
    for (;;) {
      const [inFlight] = this.#inFlightBatches
      if (!inFlight) return this.#again.splice(0)
      await this.#judge(inFlight, signal)
      this.#inFlightBatches.shift()
    }
  }

  async #judge(inFlight: InFlight, signal: AbortSignal): Promise<void> {
    const { sink, shape, log } = this.#options
    const later = sink.resume?.(inFlight.detail)
    if (later) {
      const loaded = await this.#loader.reload(inFlight, signal)
      this.#unconfirmed.keepFound(inFlight, loaded, later, signal)
      this.#loader.free(loaded)
      return
    }
    if (inFlight.shape !== shape) {
      log.warn(
        'Settings that shape the lines changed while a batch was in flight: entries that may have arrived before can arrive again in the new form',
      )
      // For example a range of objects of any size, from when this sink had another type: it is
      // loaded again in batches.
      if (!(await this.#fits(inFlight))) return
    }
    this.#again.push({ ...inFlight, shape })
  }

  async #fits({ first, last }: InFlight): Promise<boolean> {
    const { journal, sink, limits } = this.#options
    const batch = await journal.take(sink.name, limits, { after: first - 1 })
    return batch !== undefined && batch.last >= last
  }
}

// Counts entries that a receiver refused in a row. A single one is at fault; many point to the
// settings, or to a proxy that corrupts what it passes on.

/** From this many in a row on, the entries are probably not at fault. */
const MOST_IN_A_ROW = 10

export class RejectionRun {
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
