// The steps of delivery in batches: has one loaded, writes its intent, delivers it, settles what was answered for good. One for each sink.
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

/** The batch on its way: its intent is in the journal. */
interface Sending {
  readonly intent: Intent
  /** Between two tries nothing is held: a dead sink must not take the room of the living. */
  loaded: Loaded | undefined
  doubtful: boolean
}

/** The receiver has answered, the journal has not noted it yet: what was taken is not sent again for that. */
interface Answered {
  /** undefined: nothing of it was wanted, and it never had an intent */
  readonly intent: Intent | undefined
  readonly loaded: Loaded
  readonly outcome: Outcome
}

const NOTHING: Outcome = { settled: 0, refused: [] }

/** The first of these that is there decides a step, and becomes:
 * answered | said by the receiver, not noted yet           | settled, or unconfirmed
 * left     | an intent of a former process                 | unconfirmed, or one of again
 * judged   | unconfirmed until its word came               | confirmed: settled; lapsed: again, with all that lapsed
 * sending  | its intent is written; else the next of again | answered; where it failed it stays; refused whole: begun anew, smaller
 * none     |                                               | sending, with what was looked ahead or is loaded now; or a wait
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
  /** to be sent before anything new: left by a crash, or never confirmed */
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
   * One step: sends one batch and settles what the receiver answered for. Throws ConnectorError when nothing could be
   * settled; the same batch goes out at the next call.
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
      // However long that takes: others have use for the room.
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

  /** With batches unconfirmed there is more to wait for than the loop knows of. */
  async #idle(loadInMs: number, signal: AbortSignal): Promise<StepResult> {
    const waitMs = Math.min(loadInMs, this.#telling.tellDue())
    if (this.#unconfirmed.size === 0) {
      if (this.#options.nothingMoreComes()) return loadInMs
      // With nothing left to send, a receiver that refused everything is no better than before.
      this.#refusals.check()
      return waitMs
    }
    await this.#unconfirmed.waitOrMore(waitMs, signal)
    return 'worked'
  }

  /** What may be loaded next: nothing that is on its way already. */
  #wish(sending?: Intent): Wish {
    const again = this.#again.map(({ intent }) => intent)
    const busy = [...this.#unconfirmed.intents, ...again, ...(sending ? [sending] : [])]
    const { limits, sink } = this.#options
    const maxEntries = Math.min(this.#bisection.maxEntries, sink.maxEntries ?? Infinity, limits.maxEntries)
    return { maxEntries, busy, oneLine: this.#refusals.isTooLong }
  }

  /** Batches are smaller than usual, to find what the receiver refuses. */
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
    // Nobody waits for room with a batch in hand that he does not send: it may be his own that keeps him out.
    if (!sending.loaded) this.#ahead.drop()
    const loaded = (sending.loaded ??= await this.#loader.reload(intent, signal))
    // The sink may want nothing of it any more: its settings changed since the crash.
    if (loaded.lines.count === 0) return this.#answer({ intent, loaded, outcome: NOTHING }, signal)
    const delivery: Delivery = { lines: loaded.lines, detail: intent.detail, doubtful: sending.doubtful }
    // From here on the receiver may have it, whatever becomes of its answer.
    sending.doubtful = true
    watch.state('sending')
    const startedAt = clock.elapsed()
    const delivered = watch.delivering()
    // Not while a refusal is isolated: what comes next then is a part of this one, or one entry alone.
    // An error here is dropped: the batch meets it again when it is sent.
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

  /** The receiver refuses the batch as a whole. */
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
    // Written with this settlement. One that cannot be prepared tells that when its own turn comes.
    const next = ahead && (await intentOf(this.#options, ahead, signal).catch(() => undefined))
    if (settlement.through >= settlement.first) await journal.settle(sink.name, { ...settlement, next })
    this.#answered = undefined
    this.#sending = undefined
    if (next) this.#sending = { loaded: this.#ahead.take(), intent: next, doubtful: false }
    this.#telling.settled({ times, filtered, parked: settlement.parked })
  }

  /** Throws why a batch was never confirmed; it goes out again before anything new. */
  async #conclude(judged: Judged): Promise<StepResult> {
    if (judged.error === undefined) {
      await this.#unconfirmed.settle(judged)
      return 'worked'
    }
    // What lapsed together goes out again together, after one pause and not one each.
    for (const { intent } of this.#unconfirmed.takeLapsed()) this.#sendAgain(intent)
    throw judged.error as Error
  }

  #sendAgain(intent: Intent): void {
    this.#again.push({ intent, loaded: undefined, doubtful: true })
  }

  /** Lets go of the batch and of what was looked ahead: both are framed anew. */
  #release(loaded: Loaded): void {
    this.#loader.free(loaded)
    this.#ahead.drop()
  }
}

// The batch that is framed while the one before it is in the air, so that the receiver never waits for us.

class Ahead {
  readonly #loader: Loader
  readonly #sink: Pick<Sink, 'warm'>
  #loaded: Loaded | undefined

  constructor(loader: Loader, sink: Pick<Sink, 'warm'>) {
    this.#loader = loader
    this.#sink = sink
  }

  /** Has one framed, unless there is one already; only where there is room. */
  async look(wish: Wish): Promise<void> {
    if (this.#loaded) return
    const next = await this.#loader.loadIfRoom(wish)
    this.#loaded = next
    if (next && next.lines.count > 0) this.#sink.warm?.(next.lines)
  }

  /** What is to be sent next, if it is there and anything of it is wanted; it stays here. */
  get wanted(): Loaded | undefined {
    return this.#loaded && this.#loaded.lines.count > 0 ? this.#loaded : undefined
  }

  /** Whoever takes it frees it. */
  take(): Loaded | undefined {
    const loaded = this.#loaded
    this.#loaded = undefined
    return loaded
  }

  /** Lets go of the batch: it is framed anew when its turn comes. */
  drop(): void {
    const loaded = this.take()
    if (loaded) this.#loader.free(loaded)
  }
}

// Finds which entry of a batch its receiver refuses, where it refuses the batch as a whole: half of it is next, and half of that, until one entry stands alone. Then batches grow again.

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

  /** What the next batch may hold. */
  get maxEntries(): number {
    return this.#maxEntries
  }

  get isUnderWay(): boolean {
    return this.#maxEntries !== Infinity
  }

  /** What came of a single entry: it is parked with the reason. Undefined for more of them: half is next. */
  narrow(count: number, { code, message }: ConnectorError): Outcome | undefined {
    if (count === 1) return { settled: 1, refused: [{ index: 0, code, reason: message }] }
    this.#maxEntries = Math.floor(count / 2)
    const fields = { code, entries: count, error: message }
    this.#options.log.info('The receiver refused a batch, trying half of it', fields)
    return undefined
  }

  /** A batch was answered for. */
  widen(): void {
    const twice = this.#maxEntries * 2
    this.#maxEntries = twice < this.#options.limits.maxEntries ? twice : Infinity
  }
}

// What a sink is about to be sent, written down before it goes out: after a crash that batch is the one in doubt.

interface Intending {
  readonly sink: Sink
  /** what the lines' bytes depend on besides the entries */
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

/** Throws what the sink or the journal throws; nothing is written then. */
async function writeIntent(
  options: Intending & { readonly journal: Pick<Journal, 'intend'> },
  loaded: Loaded,
  signal: AbortSignal,
): Promise<Intent> {
  const intent = await intentOf(options, loaded, signal)
  await options.journal.intend(options.sink.name, intent)
  return intent
}

// The intents that a former process left, judged one after the other: a batch is asked for where its receiver has taken it, else it goes out again.

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
  /** not judged yet; undefined: the journal was not asked yet */
  #intents: Intent[] | undefined
  readonly #again: Intent[] = []

  constructor(options: LeftIntentsOptions, loader: Loader, unconfirmed: Unconfirmed) {
    this.#options = options
    this.#loader = loader
    this.#unconfirmed = unconfirmed
  }

  /** Gives those that go out again: the same entries under the same bounds (invariant 2). Where it throws the next call goes on there; what is done gives none. */
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
        'Settings that shape the lines changed while a batch was on its way: what may have arrived before can arrive once more in its new form',
      )
      // Such as a stretch of objects, of whatever size, from when this sink was of another type: it is taken anew, in batches.
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

// How many entries a receiver has refused in a row: one is at fault by itself; many mean the settings, or something on the way that spoils whatever it passes on.

/** So many in a row are no longer each entry's own fault. */
const MOST_IN_A_ROW = 10

export class RefusalStreak {
  readonly #sink: string
  /** with nothing accepted between; a process begins anew */
  #inARow = 0

  constructor(sink: string) {
    this.#sink = sink
  }

  /** Once for each answer. */
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

  /** True: from here on one line is tried at a time. */
  get isTooLong(): boolean {
    return this.#inARow >= MOST_IN_A_ROW
  }

  /**
   * Throws what holds the sink where it is too long. What is parked stays parked: a run of bad entries comes to its end, slowly.
   * The receiver's words may hold content, and stay with the letters.
   */
  check(): void {
    if (!this.isTooLong) return
    throw new ConnectorError(
      'misconfigured',
      `Sink ${this.#sink}: its receiver has refused ${MOST_IN_A_ROW} entries in a row or more and taken none between, hardly their own fault. Its words: \`auditferry dead-letters list --sink ${this.#sink}\`. Check whether a proxy changes what is sent, and whether the sink's settings fit. Entries are tried one at a time until one is accepted; send the dead letters again with \`auditferry dead-letters retry --sink ${this.#sink}\``,
    )
  }
}
