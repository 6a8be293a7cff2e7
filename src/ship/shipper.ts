// The steps of delivery in batches: takes a batch, encodes it, writes the intent, delivers, settles. One for each sink.
import type { LoopOptions, StepResult, Stepper } from './loop.ts'
import type { Loaded } from './lines.ts'
import { frameBatch, roomBytes, tellDelays } from './lines.ts'
import { ConnectorError } from '../model/errors.ts'
import type { Batch, Intent, Parked, Run, Seq } from '../model/journal.ts'
import type { Room } from '../model/room.ts'
import type { Delivery, Format, Outcome, Sink } from '../model/sink.ts'
import { ByteWriter } from '../model/writer.ts'

export interface BatchLimits {
  readonly maxEntries: number
  /** of framed lines; one line goes out alone, however large */
  readonly maxBytes: number
  /** how long a batch that is not full may wait for more */
  readonly lingerMs: number
}

export interface ShipperOptions extends LoopOptions {
  readonly sink: Sink
  readonly format: Format
  readonly limits: BatchLimits
  /** what of the journal this sink is to have */
  readonly wanted: (run: Run, index: number) => boolean
  /** hash of all settings that shape the bytes */
  readonly shape: string
  readonly room: Room
}

/** The batch on its way: its intent is in the journal. */
interface Sending {
  readonly intent: Intent
  /** Between two tries nothing is held: a dead sink must not take the room of the living. */
  loaded: Loaded | undefined
  doubtful: boolean
}

export class Shipper implements Stepper {
  readonly #options: ShipperOptions
  readonly #spare: ByteWriter[] = [new ByteWriter(), new ByteWriter()]
  #resumed = false
  #sending: Sending | undefined
  #ahead: Loaded | undefined
  /** The receiver has answered, the journal has not noted it yet: what was taken is not sent again for that. */
  #answered: { readonly loaded: Loaded; readonly outcome: Outcome } | undefined
  /** entries a batch, while a refusal is being cornered */
  #cap: number | undefined

  constructor(options: ShipperOptions) {
    this.#options = options
  }

  /**
   * One step: sends one batch and settles what the receiver answered for. Throws ConnectorError when nothing could be
   * settled; the same batch goes out at the next call.
   */
  async step(signal: AbortSignal): Promise<StepResult> {
    if (this.#answered) return this.#settle(signal)
    this.#sending ??= await this.#resume()
    if (!this.#sending) {
      const loaded = this.#ahead ?? (await this.#load(undefined, signal))
      this.#ahead = undefined
      if (typeof loaded === 'number') return loaded
      if (loaded.lines.count === 0) return this.#settleFiltered(loaded)
      this.#sending = await this.#begin(loaded, signal)
    }
    return this.#send(this.#sending, signal)
  }

  /** After a crash: the batch of the intent that was left, the same entries under the same bounds (law 2). */
  async #resume(): Promise<Sending | undefined> {
    if (this.#resumed) return undefined
    const { journal, sink, shape, log } = this.#options
    const [intent] = await journal.intents(sink.name)
    this.#resumed = true
    if (!intent) return undefined
    if (intent.shape !== shape)
      log.warn(
        'Settings that shape the lines changed while a batch was on its way: what may have arrived before can arrive once more in its new form',
      )
    return { loaded: undefined, intent: { ...intent, attempt: intent.attempt + 1, shape }, doubtful: true }
  }

  /** The oldest owed entries as lines, or how long to wait for more of them. */
  async #load(after: Seq | undefined, signal: AbortSignal): Promise<Loaded | number> {
    const { journal, sink, limits, clock, over, room } = this.#options
    const maxEntries = Math.min(this.#cap ?? Infinity, sink.maxEntries ?? Infinity, limits.maxEntries)
    const batch = await journal.take(sink.name, { maxEntries, maxBytes: limits.maxBytes }, after)
    if (!batch) return Infinity
    const oldestAt = batch.runs[0]?.appendedAt ?? 0
    const untilMs = oldestAt + limits.lingerMs - clock.now()
    // What would wait longer than its linger was appended before the clock was set back.
    const waitMs = untilMs > limits.lingerMs ? 0 : untilMs
    // Frames add to the payload: twice of it, as in memory, is held against the bound of framed lines.
    const full = batch.count >= maxEntries || roomBytes(batch) >= limits.maxBytes
    if (waitMs > 0 && !full && !over()) return waitMs
    const leave =
      after === undefined ? await room.enter(roomBytes(batch), signal) : room.tryEnter(roomBytes(batch))
    if (!leave) return Infinity
    return this.#frame(batch, limits.maxBytes, leave)
  }

  #frame(batch: Batch, maxBytes: number, leave: () => void): Loaded {
    const { sink, format, wanted } = this.#options
    return frameBatch(batch, { sink, format, wanted, maxBytes }, this.#spare.pop() ?? new ByteWriter(), leave)
  }

  async #begin(loaded: Loaded, signal: AbortSignal): Promise<Sending> {
    try {
      const intent = await this.#intentOf(loaded, signal)
      await this.#options.journal.intend(this.#options.sink.name, intent)
      return { loaded, intent, doubtful: false }
    } catch (error) {
      this.#free(loaded)
      throw error
    }
  }

  async #intentOf({ first, last, lines }: Loaded, signal: AbortSignal): Promise<Intent> {
    const { sink, shape } = this.#options
    const detail = (await sink.prepare?.(lines, signal)) ?? ''
    return { first, last, attempt: 1, shape, detail }
  }

  async #send(sending: Sending, signal: AbortSignal): Promise<StepResult> {
    const { journal, sink, watch, clock, room } = this.#options
    const { first, last, detail } = sending.intent
    if (!sending.loaded) {
      const batch = await journal.range(first, last)
      sending.loaded = this.#frame(batch, Infinity, await room.enter(roomBytes(batch), signal))
    }
    const { loaded } = sending
    // The sink may want nothing of it any more: its settings changed since the crash.
    if (loaded.lines.count === 0) {
      this.#sending = undefined
      return this.#settleFiltered(loaded)
    }
    const delivery: Delivery = { lines: loaded.lines, detail, doubtful: sending.doubtful }
    // From here on the receiver may have it, whatever becomes of its answer.
    sending.doubtful = true
    watch.state('sending')
    const startedAt = clock.elapsed()
    const looking = this.#lookAhead(last, signal)
    try {
      const outcome = await sink.deliver(delivery, signal)
      if (outcome.settled === 0)
        throw new ConnectorError('bad_reply', 'The sink settled nothing and did not say why')
      this.#answered = { loaded, outcome }
    } catch (error) {
      await looking.catch(() => undefined)
      if (error instanceof ConnectorError && error.action === 'split')
        return await this.#corner(loaded, error, signal)
      this.#release(loaded)
      sending.loaded = undefined
      throw error
    } finally {
      watch.request(clock.elapsed() - startedAt)
    }
    // What kept us from looking ahead comes up again when that batch's own turn comes.
    await looking.catch(() => undefined)
    return this.#settle(signal)
  }

  /** While one batch is in the air the next is framed, so that the receiver never waits for us; only where there is room. */
  async #lookAhead(after: Seq, signal: AbortSignal): Promise<void> {
    if (this.#ahead || this.#cap !== undefined) return
    const next = await this.#load(after, signal)
    if (typeof next === 'number') return
    this.#ahead = next
    if (next.lines.count > 0) this.#options.sink.warm?.(next.lines)
  }

  /** The receiver refuses the batch as a whole: half of it next; a single entry is parked with the reason. */
  async #corner(loaded: Loaded, error: ConnectorError, signal: AbortSignal): Promise<StepResult> {
    const { count } = loaded.lines
    if (count === 1) {
      const refused = [{ index: 0, code: error.code, reason: error.message }]
      this.#answered = { loaded, outcome: { settled: 1, refused } }
      return this.#settle(signal)
    }
    this.#cap = Math.floor(count / 2)
    this.#options.log.info('The receiver refused a batch, trying half of it', {
      code: error.code,
      entries: count,
      error: error.message,
    })
    this.#release(loaded)
    this.#sending = undefined
    return 'sent'
  }

  async #settle(signal: AbortSignal): Promise<StepResult> {
    const { journal, sink, watch, log, clock } = this.#options
    if (!this.#answered) return 'sent'
    const { loaded, outcome } = this.#answered
    const { lines, first } = loaded
    const whole = outcome.settled === lines.count
    const through = whole ? loaded.last : (lines.seqs[outcome.settled] ?? first) - 1
    const parked = outcome.refused.map(({ index, code, reason }): Parked => ({
      seq: lines.seqs[index] ?? 0,
      code,
      reason,
    }))
    const accepted = outcome.settled - parked.length
    const filtered = through - first + 1 - outcome.settled
    const ahead = whole && this.#ahead && this.#ahead.lines.count > 0 ? this.#ahead : undefined
    const next = ahead && (await this.#intentAhead(ahead, signal))
    if (through >= first)
      await journal.settle(sink.name, { first, through, accepted, filtered, parked, next })
    this.#answered = undefined
    this.#sending = undefined
    if (next) {
      this.#ahead = undefined
      this.#sending = { loaded: ahead, intent: next, doubtful: false }
    }
    if (parked.length > 0)
      log.warn('Entries that the receiver refuses for good are parked as dead letters', {
        entries: parked.length,
      })
    watch.settled({ accepted, deadLettered: parked.length, filtered })
    if (accepted > 0) tellDelays(watch, clock.now(), loaded.times.subarray(0, outcome.settled))
    this.#cap =
      this.#cap !== undefined && this.#cap * 2 < this.#options.limits.maxEntries ? this.#cap * 2 : undefined
    if (whole) this.#free(loaded)
    else this.#release(loaded)
    return 'sent'
  }

  /** What is delivered is settled, even where the next batch cannot be prepared: that is told when its own turn comes. */
  async #intentAhead(ahead: Loaded, signal: AbortSignal): Promise<Intent | undefined> {
    try {
      return await this.#intentOf(ahead, signal)
    } catch {
      return undefined
    }
  }

  async #settleFiltered(loaded: Loaded): Promise<StepResult> {
    const { journal, sink, watch } = this.#options
    const { first, last } = loaded
    const filtered = last - first + 1
    try {
      await journal.settle(sink.name, { first, through: last, accepted: 0, filtered, parked: [] })
    } finally {
      this.#free(loaded)
    }
    watch.settled({ accepted: 0, deadLettered: 0, filtered })
    return 'sent'
  }

  /** Lets go of the batch and of what was looked ahead: both are framed anew. */
  #release(loaded: Loaded): void {
    this.#free(loaded)
    if (this.#ahead) this.#free(this.#ahead)
    this.#ahead = undefined
  }

  #free({ leave, writer }: Loaded): void {
    leave()
    this.#spare.push(writer)
  }
}
