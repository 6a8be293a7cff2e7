// What is owed next, as lines: taken from the journal when enough stands there, framed in the sink's share of the room.
import type { Batch, Run, TooLarge } from '../contracts/journal.ts'
import type { SinkWatch } from '../contracts/reporter.ts'
import type { Format, Frame, Lines } from '../contracts/sink.ts'
import { ByteWriter, isLarge } from '../core/bytes.ts'
import { believed } from '../core/clock.ts'
import type { Clock } from '../core/clock.ts'
import type { Room, WayOut } from '../core/memory-budget.ts'
import type { Seq, Stretch } from '../core/sequence.ts'
import { waitsInVain } from './loop.ts'
import type { DeliveryOptions } from './loop.ts'
import { BATCH_SPARE_BYTES, redactedFrame } from './redact.ts'
import type { Redact } from './redact.ts'
import { countedRun } from './reporting.ts'
import type { CountedRun } from './reporting.ts'

export interface BatchLimits {
  readonly maxEntries: number
  /** of framed lines; one line goes out alone, however large */
  readonly maxBytes: number
  /** how long a batch that is not full may wait for more */
  readonly lingerMs: number
}

/** The limits of a sink with this share: a batch of several entries fits into it. */
export function limitsIn(share: Room, limits: BatchLimits): BatchLimits {
  return { ...limits, maxBytes: Math.min(limits.maxBytes, rawBytesIn(share)) }
}

export interface LoaderOptions extends DeliveryOptions {
  readonly sink: { readonly name: string; readonly frame: Frame }
  readonly limits: BatchLimits
}

export interface Wish {
  readonly maxEntries: number
  /** on their way already */
  readonly busy: readonly Stretch[]
  /** No more than one line, with what nobody wants around it. */
  readonly oneLine?: boolean
}

export class Loader {
  readonly #options: LoaderOptions
  readonly #framing: Framing
  readonly #spare: ByteWriter[] = [new ByteWriter(), new ByteWriter()]

  constructor(options: LoaderOptions) {
    this.#options = options
    this.#framing = framingOf(options)
  }

  /** The oldest entries that are neither settled nor on their way, or ms to wait for more of them. `free` what comes. */
  async load(wish: Wish, signal: AbortSignal): Promise<Loaded | number> {
    const { limits } = this.#options
    const held = await takeIntoRoom(this.#options, this.#reading(wish), limits.maxBytes, signal)
    return typeof held === 'number' ? held : this.#frame(held, this.#lineBytes(wish))
  }

  /** Like `load`, where something may go out now and there is room for it right now; else undefined. */
  async loadIfRoom(wish: Wish): Promise<Loaded | undefined> {
    const { limits, room } = this.#options
    const held = await takeIfRoom(room, this.#reading(wish), limits.maxBytes)
    return held && this.#frame(held, this.#lineBytes(wish))
  }

  #reading(wish: Wish) {
    return (mostBytes: number, loneBytes?: number) => this.#take(wish, mostBytes, loneBytes)
  }

  /** One line goes out however long it is. */
  #lineBytes({ oneLine }: Wish): number {
    return oneLine ? 0 : this.#options.limits.maxBytes
  }

  /** What may go out now, as it stands in the journal, or ms to wait for more. */
  async #take(
    { maxEntries, busy }: Wish,
    mostBytes: number,
    loneBytes?: number,
  ): Promise<Batch | TooLarge | number> {
    const { journal, sink, limits, clock, lookAgainMs } = this.#options
    const { maxBytes, lingerMs } = limits
    const wished = { maxEntries, maxBytes: mostBytes, loneBytes }
    const batch = await journal.take(sink.name, wished, { busy })
    if (!batch) return Infinity
    if ('rawBytes' in batch) return batch
    const oldestAt = batch.runs[0]?.appendedAt ?? 0
    const now = clock.now()
    const waitMs = believed(oldestAt + lingerMs, lingerMs, now) - now
    // Frames add to the payload: twice of it, as in memory, is held against the bound of framed lines.
    const full = batch.count >= maxEntries || roomBytes(batch) >= maxBytes
    if (waitMs <= 0 || full || waitsInVain(this.#options)) return batch
    // A journal that is full takes nothing in until something is settled.
    return journal.stats().full ? batch : Math.min(waitMs, lookAgainMs)
  }

  /** All of a stretch, whatever the limits are now: the batch of an intent. */
  async reload({ first, last }: Stretch, signal: AbortSignal): Promise<Loaded> {
    const read = () => this.#options.journal.range(first, last)
    return this.#frame(await takeIntoRoom<never>(this.#options, read, Infinity, signal), Infinity)
  }

  /** Once: its buffer is another batch's from then on. */
  free({ giveBack, writer }: Loaded): void {
    giveBack()
    if (writer.bytes.length <= BATCH_SPARE_BYTES) this.#spare.push(writer)
  }

  #frame({ batch, giveBack }: Held, maxBytes: number): Loaded {
    try {
      return frameBatch(
        batch,
        { ...this.#framing, maxBytes },
        this.#spare.pop() ?? new ByteWriter(),
        giveBack,
      )
    } catch (error) {
      giveBack()
      throw error
    }
  }
}

// A batch as lines: each entry through the sink's format and frame into one buffer, in journal order. Pure but for the buffer.

export interface Framing {
  readonly sink: { readonly frame: Frame }
  readonly format: Format
  readonly wanted: (run: Run, index: number) => boolean
}

/** The one place where a sink's content policy comes in: whatever frames an entry for it goes through here. */
export function framingOf({
  sink,
  format,
  wanted,
  redact,
}: Framing & { readonly redact?: Redact | undefined }): Framing {
  if (!redact) return { sink, format, wanted }
  const frame = redactedFrame((run, index, out, inner) => sink.frame(run, index, out, inner), redact)
  return { sink: { frame }, format, wanted }
}

/** @internal for tests */
export interface BatchFraming extends Framing {
  /** of framed lines; the first line stands in it however long it is */
  readonly maxBytes: number
}

/** A batch with its lines. The lines live in `writer` until the loader frees it. */
export interface Loaded {
  readonly first: Seq
  /** everything up to here stands in it, framed or filtered */
  readonly last: Seq
  readonly lines: Lines
  /** what the lines were made of */
  readonly runs: readonly CountedRun[]
  /** own time of line i, µs */
  readonly times: Float64Array
  readonly writer: ByteWriter
  readonly giveBack: WayOut
}

/** Frames as many entries of the batch as `maxBytes` holds. Their own bytes are let go of then: of the room the lines alone are held. @internal for tests */
export function frameBatch(
  batch: Batch,
  framing: BatchFraming,
  writer: ByteWriter,
  giveBack: WayOut,
): Loaded {
  writer.clear()
  const ends = new Uint32Array(batch.count)
  const seqs = new Float64Array(batch.count)
  const times = new Float64Array(batch.count)
  const { count, last } = frameRuns(batch, framing, writer, { ends, seqs, times })
  const lines = { count, bytes: writer.view(), ends: ends.subarray(0, count), seqs: seqs.subarray(0, count) }
  giveBack(writer.length)
  const runs = batch.runs.map(countedRun)
  return { first: batch.first, last, lines, runs, times: times.subarray(0, count), writer, giveBack }
}

interface Columns {
  readonly ends: Uint32Array
  readonly seqs: Float64Array
  readonly times: Float64Array
}

function frameRuns(
  batch: Batch,
  { sink, format, wanted, maxBytes }: BatchFraming,
  writer: ByteWriter,
  into: Columns,
) {
  let count = 0
  let last = batch.first - 1
  for (const run of batch.runs) {
    const size = run.entries.count
    for (let i = 0; i < size; i++) {
      if (wanted(run, i)) {
        const before = writer.length
        sink.frame(run, i, writer, format)
        if (writer.length > maxBytes && count > 0) {
          writer.length = before
          return { count, last }
        }
        into.seqs[count] = run.firstSeq + i
        into.times[count] = run.entries.times[i] as number
        into.ends[count++] = writer.length
      }
      last = run.firstSeq + i
    }
  }
  return { count, last }
}

// A sink's share of the process's room: whatever it has of the journal is held there. Who waits for room has nothing in hand meanwhile.

/** A batch stands in memory as its raw bytes and as its framed lines. */
const FORMS = 2

export interface ShareOptions {
  /** the share: nobody else enters it */
  readonly room: Room
  readonly watch: Pick<SinkWatch, 'state'>
  readonly clock: Pick<Clock, 'sleep'>
}

export interface Held {
  readonly batch: Batch
  /** to be called when it is done with, and before for what of it is let go of */
  readonly giveBack: WayOut
}

/** Up to so many raw bytes, or why there is nothing. Only where `loneBytes` is given an entry may be too large (`LoneLimits`). */
type Read<Nothing> = (mostBytes: number, loneBytes?: number) => Promise<Batch | TooLarge | Nothing>

/** What a batch takes of the room, or would. @internal for tests */
export function roomBytes({ runs }: Batch): number {
  let bytes = 0
  for (const { entries } of runs) for (let i = 0; i < entries.count; i++) bytes += entries.rawBytes(i)
  return FORMS * bytes
}

/** The raw bytes of entries that a share has room for. */
export function rawBytesIn({ capacityBytes }: Room): number {
  return capacityBytes / FORMS
}

/** What is read, where it may stay right now; else no more of it than how much room it wants. */
async function look<Nothing extends number | undefined>(
  room: Room,
  read: Read<Nothing>,
  mostBytes: number,
): Promise<Held | { readonly wantedBytes: number } | Nothing> {
  return room.oneByOne(async () => {
    const found = await read(mostBytes, room.freeBytes / FORMS)
    if (typeof found !== 'object') return found
    if ('rawBytes' in found) return { wantedBytes: FORMS * found.rawBytes }
    const wantedBytes = roomBytes(found)
    const giveBack = room.tryEnter(wantedBytes)
    return giveBack ? { batch: found, giveBack } : { wantedBytes }
  })
}

/** What `read` finds, where there is room for it right now; else undefined. */
async function takeIfRoom(room: Room, read: Read<number>, mostBytes: number): Promise<Held | undefined> {
  // A batch that could not stay is not read to find that out.
  if (room.full) return undefined
  const found = await look(room, read, mostBytes)
  return typeof found === 'object' && 'batch' in found ? found : undefined
}

/**
 * Like `takeIfRoom`, but waits for room and then reads again, up to what it waited for. The caller must hold nothing of the share,
 * or it waits for itself.
 */
export async function takeIntoRoom<Nothing extends number | undefined>(
  { room, watch, clock }: ShareOptions,
  read: Read<Nothing>,
  mostBytes: number,
  signal: AbortSignal,
): Promise<Held | Nothing> {
  const found = await look(room, read, mostBytes)
  if (typeof found !== 'object' || 'batch' in found) return found
  // Nobody is idle who has something to send: the wait is a part of that.
  watch.state('sending')
  const giveBack = await room.enter(found.wantedBytes, signal)
  try {
    // Who made room may have been called back by the end of an answer, which holds what it answered until its turn of the event loop is over.
    if (isLarge(found.wantedBytes / FORMS)) await clock.sleep(0, signal)
    const again = await read(found.wantedBytes / FORMS)
    if (typeof again === 'object') return { batch: whole(again), giveBack }
    giveBack()
    return again
  } catch (error) {
    giveBack()
    throw error
  }
}

function whole(found: Batch | TooLarge): Batch {
  if ('rawBytes' in found) throw new Error('An entry that there was room for was left on the disk')
  return found
}
