// The steps of delivery in objects: the journal is the spool. A stretch is counted while it grows, closed by its intent, written, stored object by object, settled as one.
import { type Framing, framingOf } from './lines.ts'
import { type DeliveryOptions, type Stepper, type StepResult, waitsInVain } from './stepper.ts'
import { filteredOf } from './settling.ts'
import { closedBy, type ClosedStretch, type WaitingObject, writeAnew } from './closed-stretch.ts'
import { takePiece } from './piece.ts'
import type { Held } from './share.ts'
import { OpenStretch } from './stretch.ts'
import { writeLot } from './writing.ts'
import { believed } from '../model/clock.ts'
import type { Note } from '../model/note.ts'
import type { Evidence, EvidenceState, StoredStretch } from '../model/evidence.ts'
import type { ObjectSink } from '../model/sink.ts'

export interface ObjectShipperOptions extends DeliveryOptions {
  readonly sink: ObjectSink
}

export class ObjectShipper implements Stepper {
  readonly #options: ObjectShipperOptions
  readonly #framing: Framing
  readonly #evidence: Evidence | undefined
  #open = new OpenStretch()
  collectsForMs: number | undefined
  #resumed = false
  /** The last manifest could not be written; objects that are stored meanwhile do not clear that. */
  #unproven = false
  /** all that was stored is testified, as far as nothing more comes */
  #testified = false
  #closed: ClosedStretch | undefined

  constructor(options: ObjectShipperOptions) {
    this.#options = options
    const { sink, journal } = options
    this.#framing = framingOf(options)
    this.#evidence = sink.evidence?.(journal)
  }

  /**
   * One step: looks at one more piece, closes the stretch, writes one lot of its objects, puts one of them, or settles. Throws
   * ConnectorError when the step did not get through; the next call tries the same again. After a crash the same bounds are
   * walked again, and the same lines come under the same names (law 2).
   */
  async step(signal: AbortSignal): Promise<StepResult> {
    const result = await this.#work(signal)
    return result === 'worked' && this.#unproven ? 'unproven' : result
  }

  async #work(signal: AbortSignal): Promise<StepResult> {
    this.#closed ??= await this.#resume()
    if (this.#closed) return this.#send(this.#closed, signal)
    if (this.#open.first === undefined) await this.#testify({ idle: false, last: false }, signal)
    const result = await this.#gather(signal)
    if (typeof result !== 'number' || !this.#evidence) return result
    const isEmpty = result === Infinity
    const ends = isEmpty && this.#options.nothingMoreComes()
    const last = isEmpty && waitsInVain(this.#options)
    const evidenceMs = await this.#testify({ idle: true, last }, signal)
    this.#unproven = false
    this.#testified ||= last
    return ends ? Infinity : Math.min(result, evidenceMs, this.#options.lookAgainMs)
  }

  async #testify(state: EvidenceState, signal: AbortSignal): Promise<number> {
    try {
      return (await this.#evidence?.step(state, signal)) ?? Infinity
    } catch (error) {
      this.#unproven = true
      throw error
    }
  }

  /** A single run ends when what it stored is testified too. */
  get unfinished(): boolean {
    return this.#evidence !== undefined && !this.#testified
  }

  /** What lands with the settlement; it is to be testified from then on. */
  #noted(stretch: StoredStretch): readonly Note[] | undefined {
    this.#testified = false
    return this.#evidence?.stored(stretch)
  }

  async #resume(): Promise<ClosedStretch | undefined> {
    if (this.#resumed) return undefined
    const { journal, sink, shape, log } = this.#options
    const [intent] = await journal.intents(sink.name)
    this.#resumed = true
    if (!intent) return undefined
    if (intent.shape !== shape)
      log.warn(
        'Settings that shape the objects changed while some were on their way: what may have been stored before can be stored once more under its new name; `verify` tells the former as put there',
        { first: intent.first, last: intent.last },
      )
    return closedBy({ ...intent, shape })
  }

  /** Counts what is new, or says how long the open stretch may wait for more. */
  async #gather(signal: AbortSignal): Promise<StepResult> {
    const { journal, sink, clock, lookAgainMs } = this.#options
    const open = this.#open
    this.collectsForMs = undefined
    const piece = await takePiece(this.#options, open.last, Infinity, signal)
    if (piece) return this.#count(piece) ? this.#close() : 'worked'
    if (open.first === undefined) return Infinity
    if (open.count === 0) return this.#settleFiltered()
    const now = clock.now()
    const untilMs = believed(open.oldestAt + sink.objects.maxAgeMs, sink.objects.maxAgeMs, now) - now
    // A journal that is full takes nothing in until something is settled.
    if (untilMs <= 0 || waitsInVain(this.#options) || journal.stats().full) return this.#close()
    this.collectsForMs = untilMs
    return Math.min(untilMs, lookAgainMs)
  }

  /** Whether the stretch is full. */
  #count({ batch, giveBack }: Held): boolean {
    try {
      const { sink } = this.#options
      const open = this.#open
      // What stands between was settled ahead of its turn, by a former sink of this name.
      if (open.last !== undefined && batch.first !== open.last + 1) return true
      return open.add(batch, this.#framing, sink.objects.maxBytes, sink.name)
    } finally {
      giveBack()
    }
  }

  async #close(): Promise<StepResult> {
    const { journal, sink, shape } = this.#options
    const { first, last } = this.#open
    if (first === undefined || last === undefined) throw new Error('an empty stretch was closed')
    const intent = { first, last, shape, detail: '' }
    await journal.intend(sink.name, intent)
    this.#open = new OpenStretch()
    this.#closed = closedBy(intent)
    return 'worked'
  }

  async #settleFiltered(): Promise<StepResult> {
    const { journal, sink, watch } = this.#options
    const { first = 0, last = 0 } = this.#open
    const tally = this.#open.filtered.sums
    const filtered = filteredOf(tally)
    const notes = this.#noted({ first, last, parked: 0, objects: [] })
    await journal.settle(sink.name, { first, through: last, parked: [], tally, notes })
    this.#open = new OpenStretch()
    watch.settled({ accepted: 0, deadLettered: 0, filtered })
    return 'worked'
  }

  async #send(closed: ClosedStretch, signal: AbortSignal): Promise<StepResult> {
    this.#options.watch.state('sending')
    const [next] = closed.waiting
    if (next) await this.#put(closed, next, signal)
    else if (!closed.complete) await writeLot(this.#options, this.#framing, closed, signal)
    else await this.#settle(closed)
    return 'worked'
  }

  async #put(
    closed: ClosedStretch,
    { group, ready, contents }: WaitingObject,
    signal: AbortSignal,
  ): Promise<void> {
    const { watch, clock } = this.#options
    const startedAt = clock.elapsed()
    const delivered = watch.delivering()
    try {
      const stored = await ready.put(signal)
      closed.waiting.shift()
      closed.done.add(group)
      closed.stored.push(stored)
      closed.contents.push(contents)
    } catch (error) {
      if (ready.spoiled?.()) await writeAnew(closed)
      throw error
    } finally {
      delivered()
      watch.request(clock.elapsed() - startedAt)
    }
    await ready.discard()
  }

  async #settle({ intent, stored, contents, tally }: ClosedStretch): Promise<void> {
    const { journal, sink, watch, clock } = this.#options
    const { first, last } = intent
    const accepted = stored.reduce((sum, { count }) => sum + count, 0)
    const filtered = filteredOf(tally.sums)
    const notes = this.#noted({ first, last, parked: 0, objects: stored })
    await journal.settle(sink.name, { first, through: last, parked: [], tally: tally.sums, notes })
    this.#closed = undefined
    watch.settled({ accepted, deadLettered: 0, filtered })
    for (const { delays } of contents) delays.tell(watch, clock.now())
    if (accepted > 0) watch.success()
  }
}
