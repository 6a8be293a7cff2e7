// Delivery in objects, with the journal as the spool. A range is counted while it grows, closed by
// its in-flight record, written to disk, stored object by object, and acknowledged as one.
import { perStream } from '../contracts/journal.ts'
import type { Batch, InFlight, ChunkSlice, Shared, StateEntry } from '../contracts/journal.ts'
import type {
  Evidence,
  EvidenceState,
  ObjectContent,
  ObjectGroup,
  ObjectSink,
  OpenObject,
  ReadyObject,
  StoredObject,
  StoredRange,
} from '../contracts/sink.ts'
import { ByteWriter } from '../core/bytes.ts'
import { believed } from '../core/clock.ts'
import type { Seq } from '../core/sequence.ts'
import { DAY_MS, dayText } from '../core/time.ts'
import { framingOf, rawBytesIn, takeIntoMemory } from './loader.ts'
import type { Framing, ReservedBatch } from './loader.ts'
import { sendsAtOnce } from './loop.ts'
import type { DeliveryOptions, StepResult, Dispatcher } from './loop.ts'
import { ENTRY_SPARE_BYTES, PIECE_SPARE_BYTES } from './redact.ts'
import { Delays, DayAccountSums, dayOf, filteredOf } from './reporting.ts'

export interface ObjectDispatcherOptions extends DeliveryOptions {
  readonly sink: ObjectSink
}

export class ObjectDispatcher implements Dispatcher {
  readonly #options: ObjectDispatcherOptions
  readonly #framing: Framing
  readonly #evidence: Evidence | undefined
  #open = new OpenRange()
  collectsForMs: number | undefined
  #resumed = false
  /** The last manifest failed; storing objects meanwhile does not clear that error. */
  #unproven = false
  /** manifests cover everything stored so far */
  #testified = false
  #closed: ClosedRange | undefined

  constructor(options: ObjectDispatcherOptions) {
    this.#options = options
    const { sink, journal } = options
    this.#framing = framingOf(options)
    this.#evidence = sink.evidence?.(journal)
  }

  /**
   * One step: reads one more piece, closes the range, writes a group of its objects, uploads one of
   * them, or acknowledges. Throws ConnectorError if the step failed; the next call tries it again.
   * After a crash the same range is read again and the same lines get the same names (invariant 2).
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
    const last = isEmpty && sendsAtOnce(this.#options)
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

  /** A single run ends once manifests cover what it stored. */
  get unfinished(): boolean {
    return this.#evidence !== undefined && !this.#testified
  }

  /** State written with the acknowledgement; from then on it must appear in a manifest. */
  #stateOf(range: StoredRange): readonly StateEntry[] | undefined {
    this.#testified = false
    return this.#evidence?.stored(range)
  }

  async #resume(): Promise<ClosedRange | undefined> {
    if (this.#resumed) return undefined
    const { journal, sink, shape, log } = this.#options
    const [inFlight] = await journal.inFlightBatches(sink.name)
    this.#resumed = true
    if (!inFlight) return undefined
    if (inFlight.shape !== shape)
      log.warn(
        'Settings that change the objects were changed while some were being stored: an object may be stored twice, under its old and its new name; `verify` then reports the old one as added by another program',
        { first: inFlight.first, last: inFlight.last },
      )
    return new ClosedRange({ ...inFlight, shape })
  }

  /** Counts new entries, or returns how long the open range may wait for more. */
  async #gather(signal: AbortSignal): Promise<StepResult> {
    const { journal, sink, clock, lookAgainMs } = this.#options
    const open = this.#open
    this.collectsForMs = undefined
    const piece = await takePiece(this.#options, open.last, Infinity, signal)
    if (piece) return this.#count(piece) ? this.#close() : 'worked'
    if (open.first === undefined) return Infinity
    if (open.count === 0) return this.#ackFiltered()
    const now = clock.now()
    const untilMs = believed(open.oldestAt + sink.objects.maxAgeMs, sink.objects.maxAgeMs, now) - now
    // A full journal accepts nothing until something is acknowledged.
    if (untilMs <= 0 || sendsAtOnce(this.#options) || journal.pressure().full) return this.#close()
    this.collectsForMs = untilMs
    return Math.min(untilMs, lookAgainMs)
  }

  /** Whether the range is full. */
  #count({ batch, release }: ReservedBatch): boolean {
    try {
      const { sink } = this.#options
      const open = this.#open
      // The entries between were acknowledged out of order, by an earlier sink of this name.
      if (open.last !== undefined && batch.first !== open.last + 1) return true
      return open.add(batch, this.#framing, sink.objects.maxBytes, sink.name)
    } finally {
      release()
    }
  }

  async #close(): Promise<StepResult> {
    const { journal, sink, shape } = this.#options
    const { first, last } = this.#open
    if (first === undefined || last === undefined) throw new Error('an empty range was closed')
    const inFlight = { first, last, shape, detail: '' }
    await journal.recordInFlight(sink.name, inFlight)
    this.#open = new OpenRange()
    this.#closed = new ClosedRange(inFlight)
    return 'worked'
  }

  async #ackFiltered(): Promise<StepResult> {
    const { journal, sink, reporter } = this.#options
    const { first = 0, last = 0 } = this.#open
    const accounts = this.#open.filtered.sums
    const filtered = filteredOf(accounts)
    const state = this.#stateOf({ first, last, parked: 0, objects: [] })
    await journal.ack(sink.name, { first, through: last, rejected: [], accounts, state })
    this.#open = new OpenRange()
    reporter.acknowledged({ accepted: 0, deadLettered: 0, filtered })
    return 'worked'
  }

  async #send(closed: ClosedRange, signal: AbortSignal): Promise<StepResult> {
    this.#options.reporter.state('sending')
    const [next] = closed.waiting
    if (next) await this.#put(closed, next, signal)
    else if (!closed.complete) await writeLot(this.#options, this.#framing, closed, signal)
    else await this.#ack(closed)
    return 'worked'
  }

  async #put(
    closed: ClosedRange,
    { group, ready, contents }: WaitingObject,
    signal: AbortSignal,
  ): Promise<void> {
    const delivered = this.#options.reporter.delivering()
    try {
      const stored = await ready.put(signal)
      closed.waiting.shift()
      closed.done.add(group)
      closed.stored.push(stored)
      closed.contents.push(contents)
    } catch (error) {
      if (ready.isDamaged?.()) await writeAnew(closed)
      throw error
    } finally {
      delivered()
    }
    await ready.discard()
  }

  async #ack({ inFlight, stored, contents, accounts }: ClosedRange): Promise<void> {
    const { journal, sink, reporter, clock } = this.#options
    const { first, last } = inFlight
    const accepted = stored.reduce((sum, { count }) => sum + count, 0)
    const filtered = filteredOf(accounts.sums)
    const state = this.#stateOf({ first, last, parked: 0, objects: stored })
    await journal.ack(sink.name, { first, through: last, rejected: [], accounts: accounts.sums, state })
    this.#closed = undefined
    reporter.acknowledged({ accepted, deadLettered: 0, filtered })
    for (const { delays } of contents) delays.report(reporter, clock.now())
    if (accepted > 0) reporter.success()
  }
}

// A closed range in flight as objects: which of them wait on the disk, and which are stored.

interface WaitingObject {
  readonly group: ObjectGroup
  readonly ready: ReadyObject
  readonly contents: Contents
}

/** Its in-flight record is in the journal. */
class ClosedRange {
  readonly inFlight: InFlight
  readonly groups = new Groups()
  /** on the disk, to be uploaded; failed ones stay */
  readonly waiting: WaitingObject[] = []
  readonly done = new Set<ObjectGroup>()
  readonly stored: StoredObject[] = []
  readonly contents: Contents[] = []
  /** of the last pass, which read every entry of the range */
  accounts = new DayAccountSums()
  /** the last pass found no group that is not done or waiting */
  complete = false

  constructor(inFlight: InFlight) {
    this.inFlight = inFlight
  }
}

/** Drops waiting objects: the journal still has the entries, and they get the same names again. */
async function writeAnew(closed: ClosedRange): Promise<void> {
  closed.complete = false
  await Promise.all(closed.waiting.splice(0).map(({ ready }) => ready.discard()))
}

// Reads a range of the journal piece by piece, within the sink's memory budget.

/** Bytes read from the journal at a time: a range may be far larger than the memory budget. */
const PIECE = { maxEntries: 1_000, maxBytes: 1024 * 1024 }

/** The oldest entries behind `after`; undefined: there are none. Rejects when `signal` aborts. */
function takePiece(
  options: ObjectDispatcherOptions,
  after: Seq | undefined,
  maxEntries: number,
  signal: AbortSignal,
): Promise<ReservedBatch | undefined> {
  const { journal, sink, memory } = options
  const most = Math.min(PIECE.maxEntries, maxEntries)
  const read = (maxBytes: number, loneBytes?: number) =>
    journal.take(sink.name, { maxEntries: most, maxBytes, loneBytes }, { after })
  return takeIntoMemory(options, read, Math.min(PIECE.maxBytes, rawBytesIn(memory)), signal)
}

// A range of the journal to send as objects: the group of each entry, how much is open and for how
// long. Keeps counts, no entries.

/** A range is closed before it exceeds this many groups: one object each. */
const MOST_GROUPS = 64

/** of year 9999 and of year 0: other times give no day that fits into a name */
const LAST_DAY = 2_932_896
const FIRST_DAY = -719_528

const groupDay = (day: number): string =>
  day >= FIRST_DAY && day <= LAST_DAY ? dayText(day * DAY_MS) : 'unknown'

/** A replay is named after the second in which it began; all of its entries carry it. */
const replayName = ({ replay, appendedAt }: Shared): string | undefined =>
  replay ? new Date(appendedAt).toISOString().replace(/[-:]|\.\d+/g, '') : undefined

/** Each group of a range is one object: groups are compared by identity. @internal for tests */
export class Groups {
  readonly #known = new Map<string, ObjectGroup>()
  readonly #undatedOf = perStream((shared) => ({ stream: shared.stream, replay: replayName(shared) }))
  #undated: Pick<ObjectGroup, 'stream' | 'replay'> | undefined
  #day = NaN
  #last: ObjectGroup | undefined

  of(slice: ChunkSlice, index: number): ObjectGroup {
    const day = dayOf(slice, index)
    const undated = this.#undatedOf(slice)
    if (this.#last && this.#undated === undated && this.#day === day) return this.#last
    this.#undated = undated
    this.#day = day
    return (this.#last = this.#find({ ...undated, day: groupDay(day) }))
  }

  #find(group: ObjectGroup): ObjectGroup {
    const { stream, day, replay } = group
    const id = `${stream.workspace} ${stream.source} ${day} ${replay ?? ''}`
    const known = this.#known.get(id)
    if (known) return known
    this.#known.set(id, group)
    return group
  }
}

/** All entries read so far behind the sink's position. @internal for tests */
export class OpenRange {
  first: Seq | undefined
  last: Seq | undefined
  /** epoch ms at which the journal stored the oldest wanted entry */
  oldestAt = 0
  count = 0
  /** counts of unwanted entries: all there is to acknowledge in a range with no wanted entry */
  readonly filtered = new DayAccountSums()
  #bytes = 0
  readonly #groups = new Groups()
  readonly #met = new Set<ObjectGroup>()
  readonly #scratch = new ByteWriter(4096)

  /** Counts the entries of the piece that fit, at least one; true if the range is full. */
  add(piece: Batch, { sink, format, wanted }: Framing, maxBytes: number, name: string): boolean {
    this.first ??= piece.first
    for (const slice of piece.slices)
      for (let i = 0; i < slice.entries.count; i++) {
        if (wanted(slice, i)) {
          sink.frame(slice, i, this.#scratch, format)
          const { length } = this.#scratch
          this.#scratch.clear(ENTRY_SPARE_BYTES)
          if (!this.#fits(this.#groups.of(slice, i), length, maxBytes)) return true
          if (this.count++ === 0) this.oldestAt = slice.appendedAt
          this.#bytes += length
        } else this.filtered.addFiltered(slice, i, name)
        this.last = slice.firstSeq + i
      }
    return this.#bytes >= maxBytes
  }

  #fits(group: ObjectGroup, bytes: number, maxBytes: number): boolean {
    if (this.count > 0 && this.#bytes + bytes > maxBytes) return false
    if (!this.#met.has(group) && this.#met.size === MOST_GROUPS) return false
    this.#met.add(group)
    return true
  }
}

/** The contents of one object while it is written. @internal for tests */
export class Contents {
  readonly delays = new Delays()
  readonly whole: { -readonly [Key in keyof ObjectContent]: ObjectContent[Key] }

  constructor(group: ObjectGroup) {
    this.whole = { group, count: 0, first: 0, last: 0, firstAtUs: NaN, lastAtUs: NaN }
  }

  add(seq: Seq, atUs: number, nowMs: number): void {
    const { whole } = this
    if (whole.count++ === 0) whole.first = seq
    whole.last = seq
    if (!(atUs >= whole.firstAtUs) && !Number.isNaN(atUs)) whole.firstAtUs = atUs
    if (!(atUs <= whole.lastAtUs) && !Number.isNaN(atUs)) whole.lastAtUs = atUs
    this.delays.add(atUs, nowMs)
  }
}

// Writes a closed range to disk: one pass frames several of its objects in parallel. With more
// groups than that, the range is read again.

/** Objects written in one pass: each has a compressor. */
const LOT = 8

interface Writing {
  readonly object: OpenObject
  readonly contents: Contents
  readonly writer: ByteWriter
}

/** Writes up to one pass of its objects to disk, ready for upload. */
async function writeLot(
  options: ObjectDispatcherOptions,
  framing: Framing,
  closed: ClosedRange,
  signal: AbortSignal,
): Promise<void> {
  const { inFlight } = closed
  closed.accounts = new DayAccountSums()
  const lot = new Lot(options, framing, closed)
  try {
    for (let at = inFlight.first - 1; at < inFlight.last;) {
      const { batch, release } = await pieceOf(options, at, inFlight.last, signal)
      try {
        await lot.add(batch)
      } finally {
        release()
      }
      at = batch.last
    }
    closed.waiting.push(...(await lot.end()))
    closed.complete = !lot.more
  } catch (error) {
    await lot.discard()
    throw error
  }
}

async function pieceOf(
  options: ObjectDispatcherOptions,
  after: Seq,
  last: Seq,
  signal: AbortSignal,
): Promise<ReservedBatch> {
  const piece = await takePiece(options, after, last - after, signal)
  if (piece?.batch.first === after + 1) return piece
  piece?.release()
  throw new Error(`The journal lacks entry ${after + 1}, which was not settled`)
}

/** The objects that one pass writes. */
class Lot {
  /** Some groups did not fit into this pass. */
  more = false
  readonly #options: ObjectDispatcherOptions
  readonly #framing: Framing
  readonly #closed: ClosedRange
  readonly #open = new Map<ObjectGroup, Writing>()

  constructor(options: ObjectDispatcherOptions, framing: Framing, closed: ClosedRange) {
    this.#options = options
    this.#framing = framing
    this.#closed = closed
  }

  /** Frames the entries of the piece that belong to its objects, and writes them to disk. */
  async add(piece: Batch): Promise<void> {
    for (const slice of piece.slices) await this.#frame(slice)
    for (const writing of this.#open.values()) await flush(writing)
  }

  async end(): Promise<readonly WaitingObject[]> {
    const waiting: WaitingObject[] = []
    for (const [group, { object, contents }] of this.#open)
      waiting.push({ group, contents, ready: await object.end(contents.whole) })
    return waiting
  }

  async discard(): Promise<void> {
    await Promise.all([...this.#open.values()].map(({ object }) => object.discard()))
  }

  async #frame(slice: ChunkSlice): Promise<void> {
    const { sink, format, wanted } = this.#framing
    const { groups, done, accounts } = this.#closed
    const nowMs = this.#options.clock.now()
    for (let i = 0; i < slice.entries.count; i++) {
      if (!wanted(slice, i)) {
        accounts.addFiltered(slice, i, this.#options.sink.name)
        continue
      }
      accounts.add(slice, dayOf(slice, i), slice.replay ? 'replayed' : 'accepted')
      const group = groups.of(slice, i)
      let writing = this.#open.get(group)
      if (!writing) {
        if (done.has(group)) continue
        if (this.#open.size === LOT) {
          this.more = true
          continue
        }
        writing = await this.#begin(group)
      }
      sink.frame(slice, i, writing.writer, format)
      writing.contents.add(slice.firstSeq + i, slice.entries.at(i), nowMs)
    }
  }

  async #begin(group: ObjectGroup): Promise<Writing> {
    const object = await this.#options.sink.open(this.#open.size)
    const writing = { object, contents: new Contents(group), writer: new ByteWriter() }
    this.#open.set(group, writing)
    return writing
  }
}

/** Writes the framed lines of one piece to disk. */
async function flush({ object, writer }: Writing): Promise<void> {
  if (writer.length === 0) return
  await object.write(writer.view())
  writer.clear(PIECE_SPARE_BYTES)
}
