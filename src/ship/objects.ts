// The steps of delivery in objects: the journal is the spool. A stretch is counted while it grows, closed by its intent, then written group by group, stored, settled as one.
import { type Framing, framingOf, roomBytes } from './lines.ts'
import type { DeliveryOptions, Stepper, StepResult } from './loop.ts'
import { filteredOf } from './settling.ts'
import { flush, type Sending, sendingOf, type Waiting, writeAnew, type Writing } from './sending.ts'
import { Contents, Plan } from './stretch.ts'
import { dayOf, isOwn, Tally } from './tally.ts'
import { believed } from '../model/clock.ts'
import type { Batch, Run, Seq } from '../model/journal.ts'
import type { Evidence, ObjectGroup, ObjectSink } from '../model/sink.ts'
import { ByteWriter } from '../model/writer.ts'

/** What is read of the journal at a time: a stretch may be far larger than what we may hold. */
const PIECE = { maxEntries: 1_000, maxBytes: 1024 * 1024 }
/** Objects that are written in one walk over the stretch: each has a compressor. What has more groups is walked again. */
const LOT = 8

type Lot = Map<ObjectGroup, Writing>

export interface ObjectShipperOptions extends DeliveryOptions {
  readonly sink: ObjectSink
  /** How long an open stretch may sleep before it looks again whether anything more will come. */
  readonly lookAgainMs: number
}

export class ObjectShipper implements Stepper {
  readonly #options: ObjectShipperOptions
  readonly #framing: Framing
  readonly #evidence: Evidence | undefined
  #plan = new Plan()
  #resumed = false
  /** nothing more will come, and all that was stored is testified */
  #testified = false
  #sending: Sending | undefined

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
    this.#sending ??= await this.#resume()
    if (this.#sending) return this.#send(this.#sending, signal)
    if (this.#plan.first === undefined) await this.#evidence?.step({ idle: false, over: false }, signal)
    const result = await this.#gather(signal)
    if (result === 'sent') return result
    const over = result === Infinity && this.#options.over()
    if (!this.#evidence) return result
    const evidenceMs = await this.#evidence.step({ idle: true, over }, signal)
    this.#testified = over
    return over ? Infinity : Math.min(result, evidenceMs, this.#options.lookAgainMs)
  }

  /** A single run ends when what it stored is testified too. */
  get unfinished(): boolean {
    return this.#evidence !== undefined && !this.#testified
  }

  async #resume(): Promise<Sending | undefined> {
    if (this.#resumed) return undefined
    const { journal, sink, shape, log } = this.#options
    const [intent] = await journal.intents(sink.name)
    this.#resumed = true
    if (!intent) return undefined
    if (intent.shape !== shape)
      log.warn(
        'Settings that shape the objects changed while some were on their way: what may have been stored before can be stored once more under its new name',
      )
    return sendingOf({ ...intent, shape })
  }

  /** Counts what is new, or says how long the open stretch may wait for more. */
  async #gather(signal: AbortSignal): Promise<StepResult> {
    const { journal, sink, room, clock, over, lookAgainMs } = this.#options
    const plan = this.#plan
    const piece = await journal.take(sink.name, PIECE, plan.last)
    if (piece) {
      const leave = await room.enter(roomBytes(piece), signal)
      const full = this.#count(piece, leave)
      return full ? this.#close() : 'sent'
    }
    if (plan.first === undefined) return Infinity
    if (plan.count === 0) return this.#settleFiltered()
    const now = clock.now()
    const untilMs = believed(plan.oldestAt + sink.objects.maxAgeMs, sink.objects.maxAgeMs, now) - now
    // A journal that is full takes nothing in until something is settled.
    if (untilMs <= 0 || over() || journal.stats().full) return this.#close()
    return Math.min(untilMs, lookAgainMs)
  }

  #count(piece: Batch, leave: () => void): boolean {
    try {
      const { sink } = this.#options
      return this.#plan.add(piece, this.#framing, sink.objects.maxBytes, sink.name)
    } finally {
      leave()
    }
  }

  async #close(): Promise<StepResult> {
    const { journal, sink, shape } = this.#options
    const { first, last } = this.#plan
    if (first === undefined || last === undefined) throw new Error('an empty stretch was closed')
    const intent = { first, last, shape, detail: '' }
    await journal.intend(sink.name, intent)
    this.#plan = new Plan()
    this.#sending = sendingOf(intent)
    return 'sent'
  }

  async #settleFiltered(): Promise<StepResult> {
    const { journal, sink, watch } = this.#options
    const { first = 0, last = 0 } = this.#plan
    const tally = this.#plan.filtered.sums
    const filtered = filteredOf(tally)
    const notes = this.#evidence?.stored({ first, last, parked: 0, objects: [] })
    await journal.settle(sink.name, { first, through: last, parked: [], tally, notes })
    this.#plan = new Plan()
    watch.settled({ accepted: 0, deadLettered: 0, filtered })
    return 'sent'
  }

  async #send(sending: Sending, signal: AbortSignal): Promise<StepResult> {
    const [next] = sending.waiting
    if (next) await this.#put(sending, next, signal)
    else if (!sending.complete) await this.#write(sending, signal)
    else await this.#settle(sending)
    return 'sent'
  }

  async #put(sending: Sending, { group, ready, contents }: Waiting, signal: AbortSignal): Promise<void> {
    const { watch, clock } = this.#options
    watch.state('sending')
    const startedAt = clock.elapsed()
    try {
      const stored = await ready.put(signal)
      sending.waiting.shift()
      sending.done.add(group)
      sending.stored.push(stored)
      sending.contents.push(contents)
    } catch (error) {
      if (ready.spoiled?.()) await writeAnew(sending)
      throw error
    } finally {
      watch.request(clock.elapsed() - startedAt)
    }
    await ready.discard()
  }

  /** Walks the stretch once and leaves up to a lot of its objects on the disk. */
  async #write(sending: Sending, signal: AbortSignal): Promise<void> {
    const lot: Lot = new Map()
    const waiting: Waiting[] = []
    try {
      const more = await this.#walk(sending, lot, signal)
      for (const { group, object, contents } of lot.values())
        waiting.push({ group, contents, ready: await object.end(contents.whole) })
      sending.waiting.push(...waiting)
      sending.complete = !more
    } catch (error) {
      await Promise.all([...lot.values()].map(({ object }) => object.discard()))
      throw error
    }
  }

  /** True when there are groups that this lot had no place for. */
  async #walk(sending: Sending, lot: Lot, signal: AbortSignal) {
    const { intent, groups, done } = sending
    const tally = (sending.tally = new Tally())
    let more = false
    for (let at = intent.first - 1; at < intent.last;) {
      const piece = await this.#piece(at, intent.last)
      const leave = await this.#options.room.enter(roomBytes(piece), signal)
      try {
        for (const run of piece.runs)
          more = (await this.#frame(run, { groups, done, lot, tally }, signal)) || more
        for (const writing of lot.values()) await flush(writing)
      } finally {
        leave()
      }
      at = piece.last
    }
    return more
  }

  async #piece(after: Seq, last: Seq): Promise<Batch> {
    const { journal, sink } = this.#options
    const limits = { ...PIECE, maxEntries: Math.min(PIECE.maxEntries, last - after) }
    const piece = await journal.take(sink.name, limits, after)
    if (piece?.first !== after + 1)
      throw new Error(`The journal lacks entry ${after + 1}, which was not settled`)
    return piece
  }

  async #frame(
    run: Run,
    { groups, done, tally, lot }: Pick<Sending, 'groups' | 'done' | 'tally'> & { readonly lot: Lot },
    signal: AbortSignal,
  ): Promise<boolean> {
    const { sink, format, wanted } = this.#framing
    const nowMs = this.#options.clock.now()
    let more = false
    for (let i = 0; i < run.entries.count; i++) {
      if (!wanted(run, i)) {
        if (isOwn(run, this.#options.sink.name) && !run.replay) tally.add(run, dayOf(run, i), 'filtered')
        continue
      }
      tally.add(run, dayOf(run, i), run.replay ? 'replayed' : 'accepted')
      const group = groups.of(run, i)
      let writing = lot.get(group)
      if (!writing) {
        if (done.has(group)) continue
        if (lot.size === LOT) {
          more = true
          continue
        }
        writing = await this.#open(group, lot, signal)
      }
      sink.frame(run, i, writing.writer, format)
      writing.contents.add(run.firstSeq + i, run.entries.at(i), nowMs)
    }
    return more
  }

  async #open(group: ObjectGroup, lot: Lot, signal: AbortSignal): Promise<Writing> {
    const object = await this.#options.sink.open(lot.size, group, signal)
    const writing = { group, object, contents: new Contents(group), writer: new ByteWriter() }
    lot.set(group, writing)
    return writing
  }

  async #settle({ intent, stored, contents, tally }: Sending): Promise<void> {
    const { journal, sink, watch, clock } = this.#options
    const { first, last } = intent
    const accepted = stored.reduce((sum, { count }) => sum + count, 0)
    const filtered = filteredOf(tally.sums)
    const notes = this.#evidence?.stored({ first, last, parked: 0, objects: stored })
    await journal.settle(sink.name, { first, through: last, parked: [], tally: tally.sums, notes })
    this.#sending = undefined
    watch.settled({ accepted, deadLettered: 0, filtered })
    for (const { delays } of contents) delays.tell(watch, clock.now())
    if (accepted > 0) watch.success()
  }
}
