// Delivery in batches, one dispatcher per sink: load a batch, write its in-flight record, deliver
// it, acknowledge what the receiver answered for.
import type { InFlight } from '../contracts/journal.ts'
import type { Delivery, Outcome, Sink } from '../contracts/sink.ts'
import { ConnectorError } from '../core/errors.ts'
import type { Seq } from '../core/sequence.ts'
import { LineResults, Unconfirmed, acceptedTimes, acknowledgementOf } from './acknowledgements.ts'
import type { UnconfirmedBatch } from './acknowledgements.ts'
import { Loader, limitsIn } from './loader.ts'
import type { Loaded, LoaderOptions, Wish } from './loader.ts'
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
  /** Some of its lines have a result and the others are sent again; undefined: none has one. */
  results?: LineResults
}

/** The receiver has answered, but the journal has not recorded it: it is not sent again. */
interface Answered {
  /** undefined: the sink wanted none of it, so it never had an in-flight record */
  readonly inFlight: InFlight | undefined
  readonly loaded: Loaded
  readonly outcome: Outcome
}

const NOTHING: Outcome = { acknowledged: 0, rejected: [] }

/**
 * State machine: the first state that applies decides what `step()` does. State, meaning, next:
 * answered | the receiver answered, not recorded yet | acknowledged, or unconfirmed
 * left     | in-flight record of an earlier process  | unconfirmed, or one of again
 * resolved | was unconfirmed, now has a result       | acknowledged; expired: all expired to again
 * sending  | recorded; else the next of again        | answered; failed: unchanged; rejected:
 *          |                                         | smaller; answered in part: the lines left
 * none     | nothing is in flight                    | sending (prefetched or loaded), or a wait
 */
export class BatchDispatcher implements Dispatcher {
  readonly #options: DispatcherOptions
  readonly #loader: Loader
  readonly #prefetch: Prefetch
  readonly #reports: DeliveryReports
  readonly #unconfirmed: Unconfirmed
  readonly #leftInFlight: LeftInFlight
  readonly #halving: Halving
  readonly #rejectionRun: RejectionRun
  /** sent before anything new: left by a crash, or never confirmed */
  readonly #again: Sending[] = []
  #sending: Sending | undefined
  #answered: Answered | undefined

  constructor(given: DispatcherOptions) {
    const options = { ...given, limits: limitsIn(given.memory, given.limits) }
    this.#options = options
    this.#loader = new Loader(options)
    this.#prefetch = new Prefetch(this.#loader, options.sink)
    this.#reports = new DeliveryReports(options)
    this.#unconfirmed = new Unconfirmed(options, this.#reports)
    this.#leftInFlight = new LeftInFlight(options, this.#loader, this.#unconfirmed)
    this.#halving = new Halving(options)
    this.#rejectionRun = new RejectionRun(options.sink.name)
  }

  /**
   * One step: sends one batch and acknowledges what the receiver answered for. Throws
   * ConnectorError if nothing could be acknowledged; the next call sends the same batch again.
   */
  async step(signal: AbortSignal): Promise<StepResult> {
    if (this.#answered) return this.#recordAnswer(this.#answered, signal)
    for (const inFlight of await this.#leftInFlight.resume(signal)) this.#sendAgain(inFlight)
    const { resolved } = this.#unconfirmed
    if (resolved) return this.#conclude(resolved)
    this.#sending ??= this.#again.shift()
    return this.#sending ? this.#send(this.#sending, signal) : this.#begin(signal)
  }

  async awaitConfirmations(signal: AbortSignal): Promise<void> {
    await this.#unconfirmed.awaitConfirmations(signal)
    this.#reports.end()
  }

  async #begin(signal: AbortSignal): Promise<StepResult> {
    if (this.#unconfirmed.full) {
      // Waiting may take long, and other sinks can use the memory meanwhile.
      this.#prefetch.drop()
      await this.#unconfirmed.wait(this.#reports.logDue(), signal)
      return 'worked'
    }
    const loaded = this.#prefetch.take() ?? (await this.#loader.load(this.#wish(), signal))
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
      this.#rejectionRun.check()
      return waitMs
    }
    await this.#unconfirmed.wait(waitMs, signal, true)
    return 'worked'
  }

  /** What may be loaded next: nothing that is already in flight. */
  #wish(sending?: InFlight): Wish {
    const again = this.#again.map(({ inFlight }) => inFlight)
    const busy = [...this.#unconfirmed.inFlightBatches, ...again, ...(sending ? [sending] : [])]
    const { limits, sink } = this.#options
    const maxEntries = Math.min(this.#halving.maxEntries, sink.maxEntries ?? Infinity, limits.maxEntries)
    return { maxEntries, busy, oneLine: this.#rejectionRun.isTooLong }
  }

  /** Batches are smaller than usual, to find the entry that the receiver refuses. */
  get #isIsolating(): boolean {
    return this.#halving.isUnderWay || this.#rejectionRun.isTooLong
  }

  /** Throws what the sink throws. */
  async #inFlightOf({ first, last, lines }: Loaded, signal: AbortSignal): Promise<InFlight> {
    const { sink, shape } = this.#options
    return { first, last, shape, detail: (await sink.prepare?.(lines, signal)) ?? '' }
  }

  /** Before a batch is sent: after a crash it is the possible duplicate. */
  async #recordInFlight(loaded: Loaded, signal: AbortSignal): Promise<Sending> {
    const { journal, sink } = this.#options
    try {
      const inFlight = await this.#inFlightOf(loaded, signal)
      await journal.recordInFlight(sink.name, inFlight)
      return { loaded, inFlight, possibleDuplicate: false }
    } catch (error) {
      this.#loader.free(loaded)
      throw error
    }
  }

  async #send(sending: Sending, signal: AbortSignal): Promise<StepResult> {
    const { sink, reporter } = this.#options
    const { inFlight } = sending
    // Do not wait for memory while keeping an unsent batch: that batch may be using the memory.
    if (!sending.loaded) this.#prefetch.drop()
    const loaded = (sending.loaded ??= await this.#loader.reload(inFlight, signal, this.#linesLeft(sending)))
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
    const delivered = reporter.delivering()
    // Not while a refusal is isolated: the next batch is then a part of this one, or a single
    // entry. An error here is ignored: the batch meets it again when it is sent.
    const looking = this.#isIsolating
      ? undefined
      : this.#prefetch.look(this.#wish(inFlight)).catch(() => undefined)
    let outcome: Outcome
    try {
      outcome = await sink.deliver(delivery, signal)
      if (outcome.acknowledged === 0 && !outcome.retry)
        throw new ConnectorError(
          'bad_reply',
          'The sink acknowledged no entry of the batch and gave no reason; the batch is sent again',
        )
    } catch (error) {
      this.#reports.logDue()
      await looking
      if (error instanceof ConnectorError && error.action === 'split')
        return await this.#rejected(sending, loaded, error, signal)
      this.#release(loaded)
      sending.loaded = undefined
      throw error
    } finally {
      delivered()
    }
    await looking
    // Lines that the receiver names were not taken by this try.
    if (outcome.retry) sending.possibleDuplicate = delivery.possibleDuplicate
    return this.#concludeTry(sending, loaded, outcome, signal)
  }

  /** The receiver rejected all lines of a try as a whole. */
  async #rejected(
    sending: Sending,
    loaded: Loaded,
    error: ConnectorError,
    signal: AbortSignal,
  ): Promise<StepResult> {
    const outcome = this.#halving.narrow(loaded.lines.count, error)
    if (outcome) return this.#concludeTry(sending, loaded, outcome, signal)
    this.#release(loaded)
    sending.loaded = undefined
    if (!sending.results) this.#sending = undefined
    return 'worked'
  }

  /** Throws the reason why lines of the batch must be sent again, if there are any. */
  async #concludeTry(
    sending: Sending,
    loaded: Loaded,
    outcome: Outcome,
    signal: AbortSignal,
  ): Promise<StepResult> {
    const { inFlight } = sending
    const { retry } = outcome
    this.#rejectionRun.count(outcome)
    if (retry) sending.results ??= new LineResults(loaded)
    const { results } = sending
    if (!results) return this.#answer({ inFlight, loaded, outcome }, signal)
    results.add(loaded.lines, outcome)
    if (results.left.size === 0) return this.#answer({ inFlight, ...results.whole(loaded) }, signal)
    this.#release(loaded)
    sending.loaded = undefined
    this.#halving.widen()
    if (retry) throw retry.error
    this.#rejectionRun.check()
    return 'worked'
  }

  /** The next lines of a batch that was answered in part; undefined: all of its lines. */
  #linesLeft({ results }: Sending): ReadonlySet<Seq> | undefined {
    const most = this.#rejectionRun.isTooLong ? 1 : this.#halving.maxEntries
    return results && new Set([...results.left].slice(0, most))
  }

  #answer(answered: Answered, signal: AbortSignal): Promise<StepResult> {
    this.#answered = answered
    return this.#recordAnswer(answered, signal)
  }

  async #recordAnswer({ inFlight, loaded, outcome }: Answered, signal: AbortSignal): Promise<StepResult> {
    const { confirmation } = outcome
    if (confirmation && inFlight) {
      await this.#unconfirmed.add(inFlight, loaded, { ...outcome, confirmation }, signal)
      this.#answered = undefined
      this.#sending = undefined
    } else await this.#ack(loaded, outcome, signal)
    this.#halving.widen()
    if (outcome.acknowledged === loaded.lines.count && !this.#isIsolating) this.#loader.free(loaded)
    else this.#release(loaded)
    if (outcome.rejected.some(({ own }) => own !== true)) this.#rejectionRun.check()
    return 'worked'
  }

  async #ack(loaded: Loaded, outcome: Outcome, signal: AbortSignal): Promise<void> {
    const { journal, sink } = this.#options
    const acknowledgement = acknowledgementOf(sink.name, loaded, outcome)
    const whole = outcome.acknowledged === loaded.lines.count
    const prefetched = whole && !this.#isIsolating ? this.#prefetch.wanted : undefined
    // Written in the transaction of this acknowledgement. A batch that cannot be prepared reports
    // its error when it is sent.
    const next = prefetched && (await this.#inFlightOf(prefetched, signal).catch(() => undefined))
    if (acknowledgement.through >= acknowledgement.first)
      await journal.ack(sink.name, { ...acknowledgement, next })
    this.#answered = undefined
    this.#sending = undefined
    if (next) this.#sending = { loaded: this.#prefetch.take(), inFlight: next, possibleDuplicate: false }
    this.#reports.acknowledged({ ...acknowledgement, times: acceptedTimes(loaded, outcome) })
  }

  /** Throws the reason why a batch was never confirmed; it is sent again before anything new. */
  async #conclude(batch: UnconfirmedBatch): Promise<StepResult> {
    const error = batch.result?.error
    if (error === undefined) {
      await this.#unconfirmed.ack(batch)
      return 'worked'
    }
    // Batches that expired together are sent again together, after one pause rather than one each.
    for (const { inFlight } of this.#unconfirmed.takeExpired()) this.#sendAgain(inFlight)
    throw error as Error
  }

  #sendAgain(inFlight: InFlight): void {
    this.#again.push({ inFlight, loaded: undefined, possibleDuplicate: true })
  }

  /** Drops the batch and the prefetched one: both are framed again. */
  #release(loaded: Loaded): void {
    this.#loader.free(loaded)
    this.#prefetch.drop()
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

// Halves a batch that the receiver refuses as a whole, until a single entry is left.
// Then batches grow again.

class Halving {
  readonly #options: Pick<DispatcherOptions, 'limits' | 'log'>
  /** limit of the next batch */
  maxEntries = Infinity

  constructor(options: Pick<DispatcherOptions, 'limits' | 'log'>) {
    this.#options = options
  }

  get isUnderWay(): boolean {
    return this.maxEntries !== Infinity
  }

  /** A dead letter if it is a single entry; undefined for several: half of them is next. */
  narrow(count: number, { code, message }: ConnectorError): Outcome | undefined {
    if (count === 1) return { acknowledged: 1, rejected: [{ index: 0, code, reason: message }] }
    this.maxEntries = Math.floor(count / 2)
    const fields = { code, entries: count, error: message }
    this.#options.log.info('The receiver refused a batch, trying half of it', fields)
    return undefined
  }

  /** A batch was acknowledged. */
  widen(): void {
    const twice = this.maxEntries * 2
    this.maxEntries = twice < this.#options.limits.maxEntries ? twice : Infinity
  }
}

// In-flight records of an earlier process, handled one after the other: the batch is polled if its
// receiver has taken it, else sent again.

class LeftInFlight {
  readonly #options: DispatcherOptions
  readonly #loader: Loader
  readonly #unconfirmed: Unconfirmed
  /** not handled yet; undefined: not read from the journal yet */
  #inFlightBatches: InFlight[] | undefined
  readonly #again: InFlight[] = []

  constructor(options: DispatcherOptions, loader: Loader, unconfirmed: Unconfirmed) {
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
      await this.#resumeOne(inFlight, signal)
      this.#inFlightBatches.shift()
    }
  }

  async #resumeOne(inFlight: InFlight, signal: AbortSignal): Promise<void> {
    const { sink, shape, log } = this.#options
    const confirmation = sink.resume?.(inFlight.detail)
    if (confirmation) {
      const loaded = await this.#loader.reload(inFlight, signal)
      this.#unconfirmed.resume(inFlight, loaded, confirmation, signal)
      this.#loader.free(loaded)
      return
    }
    if (inFlight.shape !== shape) {
      log.warn(
        'Settings that change the form of the lines were changed while a batch was being sent: entries of this batch that have arrived already may arrive again, in the new form',
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
const MAX_IN_A_ROW = 10

export class RejectionRun {
  readonly #sink: string
  /** with nothing accepted between; starts at 0 in each process */
  #inARow = 0

  constructor(sink: string) {
    this.#sink = sink
  }

  /** Call once per answer. */
  count({ acknowledged, rejected, retry }: Outcome): void {
    const owns = new Map(rejected.map(({ index, own = false }) => [index, own]))
    const again = new Set(retry?.indices)
    let last = 0
    for (let index = acknowledged - 1; index >= 0; index--) {
      if (again.has(index)) continue
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
    return this.#inARow >= MAX_IN_A_ROW
  }

  /**
   * Throws the error that blocks the sink once too many were refused in a row. Dead letters stay
   * dead letters: a series of bad entries ends, slowly. The receiver's texts may contain content
   * and stay with the dead letters.
   */
  check(): void {
    if (!this.isTooLong) return
    throw new ConnectorError(
      'misconfigured',
      `Sink ${this.#sink}: its receiver has refused ${MAX_IN_A_ROW} or more entries in a row and accepted none between, so the entries are probably not at fault. Its reasons: \`auditferry dead-letters list --sink ${this.#sink}\`. Check whether a proxy changes what is sent, and whether the sink's settings fit. Entries are tried one at a time until one is accepted; send the dead letters again with \`auditferry dead-letters retry --sink ${this.#sink}\``,
    )
  }
}
