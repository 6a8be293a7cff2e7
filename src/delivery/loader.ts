// Loads the next pending entries as lines: reads the journal once enough is there, and frames them
// within the sink's memory budget.
import { ID_END, ID_START } from '../contracts/entries.ts'
import type { Batch, ChunkSlice, TooLarge } from '../contracts/journal.ts'
import type { SinkReporter } from '../contracts/reporter.ts'
import type { Format, Frame, LineEntry, Lines, Sink } from '../contracts/sink.ts'
import { ByteWriter, isLarge } from '../core/bytes.ts'
import { believed } from '../core/clock.ts'
import type { Clock } from '../core/clock.ts'
import type { MemoryBudget, Release } from '../core/memory-budget.ts'
import type { Seq, SequenceRange } from '../core/sequence.ts'
import { sendsAtOnce } from './loop.ts'
import type { DeliveryOptions } from './loop.ts'
import { BATCH_SPARE_BYTES, redactedFrame } from './redact.ts'
import type { Redact } from './redact.ts'
import { sliceTimes } from './reporting.ts'
import type { SliceTimes } from './reporting.ts'

export interface BatchLimits {
  readonly maxEntries: number
  /** of framed lines; a larger line is sent alone */
  readonly maxBytes: number
  /** how long a batch that is not full waits for more */
  readonly lingerMs: number
}

/** The limits of a sink with this memory budget: a batch of several entries fits into it. */
export function limitsIn(share: MemoryBudget, limits: BatchLimits): BatchLimits {
  return { ...limits, maxBytes: Math.min(limits.maxBytes, rawBytesIn(share)) }
}

export interface LoaderOptions extends DeliveryOptions {
  readonly sink: Pick<Sink, 'name' | 'frame' | 'usesEntries'>
  readonly limits: BatchLimits
}

export interface Wish {
  readonly maxEntries: number
  /** already in flight */
  readonly busy: readonly SequenceRange[]
  /** At most one line, with the unwanted entries around it. */
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

  /**
   * The oldest entries that are neither acknowledged nor in flight, or the ms to wait for more. The
   * caller must `free` the result.
   */
  async load(wish: Wish, signal: AbortSignal): Promise<Loaded | number> {
    const { limits } = this.#options
    const taken = await takeIntoMemory(this.#options, this.#reading(wish), limits.maxBytes, signal)
    return typeof taken === 'number' ? taken : this.#frame(taken, this.#lineBytes(wish))
  }

  /** Like `load`, if a batch may be sent now and its memory is free right now; else undefined. */
  async loadIfFree(wish: Wish): Promise<Loaded | undefined> {
    const { limits, memory } = this.#options
    // Do not read a batch only to find out that there is no memory for it.
    if (memory.full) return undefined
    const found = await look(memory, this.#reading(wish), limits.maxBytes)
    const isTaken = typeof found === 'object' && 'batch' in found
    return isTaken ? this.#frame(found, this.#lineBytes(wish)) : undefined
  }

  #reading(wish: Wish) {
    return (mostBytes: number, loneBytes?: number) => this.#take(wish, mostBytes, loneBytes)
  }

  /** A single line is sent however long it is. */
  #lineBytes({ oneLine }: Wish): number {
    return oneLine ? 0 : this.#options.limits.maxBytes
  }

  /** The entries that may be sent now, as stored in the journal, or the ms to wait for more. */
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
    const oldestAt = batch.slices[0]?.appendedAt ?? 0
    const now = clock.now()
    const waitMs = believed(oldestAt + lingerMs, lingerMs, now) - now
    // Frames add to the payload, so twice its size, as in memory, counts against the bound of
    // framed lines.
    const full = batch.count >= maxEntries || memoryBytes(batch) >= maxBytes
    if (waitMs <= 0 || full || sendsAtOnce(this.#options)) return batch
    // A full journal accepts nothing until something is acknowledged.
    return journal.pressure().full ? batch : Math.min(waitMs, lookAgainMs)
  }

  /**
   * The whole range, regardless of the current limits: the batch of an in-flight record. `only`:
   * just these of its lines.
   */
  async reload(
    { first, last }: SequenceRange,
    signal: AbortSignal,
    only?: ReadonlySet<Seq>,
  ): Promise<Loaded> {
    const read = () => this.#options.journal.range(first, last)
    const wanted = only && ((slice: ChunkSlice, index: number) => only.has(slice.firstSeq + index))
    return this.#frame(await takeIntoMemory<never>(this.#options, read, Infinity, signal), Infinity, wanted)
  }

  /** Call once: the buffer belongs to another batch afterwards. */
  free({ release, writer }: Loaded): void {
    release()
    if (writer.bytes.length <= BATCH_SPARE_BYTES) this.#spare.push(writer)
  }

  #frame({ batch, release }: ReservedBatch, maxBytes: number, wanted = this.#framing.wanted): Loaded {
    try {
      return frameBatch(
        batch,
        { ...this.#framing, wanted, maxBytes, keepsEntries: this.#options.sink.usesEntries },
        this.#spare.pop() ?? new ByteWriter(),
        release,
      )
    } catch (error) {
      release()
      throw error
    }
  }
}

// A batch as lines: formats and frames each entry into one buffer, in journal order. Pure except
// for the buffer.

export interface Framing {
  readonly sink: { readonly frame: Frame }
  readonly format: Format
  readonly wanted: (slice: ChunkSlice, index: number) => boolean
}

/**
 * The only place that applies `redact`: everything that frames an entry goes through here. `deny` is
 * part of `wanted` (`policy.ts`).
 */
export function framingOf({
  sink,
  format,
  wanted,
  redact,
}: Framing & { readonly redact?: Redact | undefined }): Framing {
  if (!redact) return { sink, format, wanted }
  const frame = redactedFrame((slice, index, out, inner) => sink.frame(slice, index, out, inner), redact)
  return { sink: { frame }, format, wanted }
}

/** @internal for tests */
export interface BatchFraming extends Framing {
  /** of framed lines; the first line is always in it, however long */
  readonly maxBytes: number
  /** `Sink.usesEntries` */
  readonly keepsEntries?: boolean | undefined
}

/** A batch with its lines. The lines are in `writer` until the loader frees it. */
export interface Loaded {
  readonly first: Seq
  /** everything up to here is in it, framed or filtered */
  readonly last: Seq
  readonly lines: Lines
  /** the source of the lines */
  readonly slices: readonly SliceTimes[]
  /** own time of line i, µs */
  readonly times: Float64Array
  readonly writer: ByteWriter
  readonly release: Release
}

/**
 * Frames as many entries of the batch as fit into `maxBytes`, then releases their raw bytes: only
 * the lines and ids stay counted in memory.
 * @internal for tests
 */
export function frameBatch(
  batch: Batch,
  framing: BatchFraming,
  writer: ByteWriter,
  release: Release,
): Loaded {
  writer.clear()
  const into: Columns = {
    ends: new Uint32Array(batch.count),
    seqs: new Float64Array(batch.count),
    times: new Float64Array(batch.count),
    entries: framing.keepsEntries
      ? {
          ids: new ByteWriter(batch.count * USUAL_ID_BYTES),
          idEnds: new Uint32Array(batch.count),
          versions: new Uint32Array(batch.count),
        }
      : undefined,
  }
  const { count, last } = frameSlices(batch, framing, writer, into)
  const ends = into.ends.subarray(0, count)
  const seqs = into.seqs.subarray(0, count)
  const times = into.times.subarray(0, count)
  release(writer.length + (into.entries?.ids.length ?? 0))
  const slices = batch.slices.map(sliceTimes)
  const entry = (index: number) => entryOf(into, slices, index)
  const lines = { count, bytes: writer.view(), ends, seqs, entry }
  return { first: batch.first, last, lines, slices, times, writer, release }
}

const USUAL_ID_BYTES = 36

/** One value per line. */
interface Columns {
  readonly ends: Uint32Array
  readonly seqs: Float64Array
  readonly times: Float64Array
  /** Copied, because the entries' raw bytes are released: only for a sink that asks for them. */
  readonly entries:
    { readonly ids: ByteWriter; readonly idEnds: Uint32Array; readonly versions: Uint32Array } | undefined
}

function entryOf({ seqs, times, entries }: Columns, slices: readonly SliceTimes[], index: number): LineEntry {
  const slice = slices.findLast(({ firstSeq }) => firstSeq <= (seqs[index] as number))
  if (!slice) throw new Error(`The batch has no line ${index}`)
  if (!entries) throw new Error('A sink that calls `lines.entry` sets `usesEntries`')
  const { ids, idEnds, versions } = entries
  return {
    stream: slice.stream,
    id: ids.view().toString('utf8', idEnds[index - 1] ?? 0, idEnds[index]),
    version: versions[index] as number,
    timeUs: times[index] as number,
  }
}

function frameSlices(
  batch: Batch,
  { sink, format, wanted, maxBytes }: BatchFraming,
  writer: ByteWriter,
  into: Columns,
) {
  let count = 0
  let last = batch.first - 1
  for (const slice of batch.slices) {
    const size = slice.entries.count
    for (let i = 0; i < size; i++) {
      if (wanted(slice, i)) {
        const before = writer.length
        sink.frame(slice, i, writer, format)
        if (writer.length > maxBytes && count > 0) {
          writer.length = before
          return { count, last }
        }
        const { entries } = slice
        const kept = into.entries
        into.seqs[count] = slice.firstSeq + i
        into.times[count] = entries.times[i] as number
        if (kept) {
          kept.ids.copy(entries.bytes, entries.column(i, ID_START), entries.column(i, ID_END))
          kept.idEnds[count] = kept.ids.length
          kept.versions[count] = entries.version(i)
        }
        into.ends[count++] = writer.length
      }
      last = slice.firstSeq + i
    }
  }
  return { count, last }
}

// A sink's part of the process's memory budget: everything that it has loaded from the journal is
// counted there. Keep nothing loaded while waiting for memory.

/** A batch is in memory twice: raw bytes and framed lines. */
const FORMS = 2

export interface ShareOptions {
  /** the sink's own part of the budget */
  readonly memory: MemoryBudget
  readonly reporter: Pick<SinkReporter, 'state'>
  readonly clock: Pick<Clock, 'sleep'>
}

export interface ReservedBatch {
  readonly batch: Batch
  /** call when done, and earlier for each part that is released */
  readonly release: Release
}

/**
 * Up to this many raw bytes, or the reason why there is nothing. An entry can be too large only if
 * `loneBytes` is given (`LoneLimits`).
 */
type Read<Nothing> = (mostBytes: number, loneBytes?: number) => Promise<Batch | TooLarge | Nothing>

/** The memory that a batch takes or would take. @internal for tests */
export function memoryBytes({ slices }: Batch): number {
  let bytes = 0
  for (const { entries } of slices) for (let i = 0; i < entries.count; i++) bytes += entries.rawBytes(i)
  return FORMS * bytes
}

/** The raw bytes of entries that fit into the budget. */
export function rawBytesIn({ capacityBytes }: MemoryBudget): number {
  return capacityBytes / FORMS
}

/** The entries read, if their memory is free right now; else only how much memory they need. */
async function look<Nothing extends number | undefined>(
  memory: MemoryBudget,
  read: Read<Nothing>,
  mostBytes: number,
): Promise<ReservedBatch | { readonly wantedBytes: number } | Nothing> {
  return memory.oneByOne(async () => {
    const found = await read(mostBytes, memory.freeBytes / FORMS)
    if (typeof found !== 'object') return found
    if ('rawBytes' in found) return { wantedBytes: FORMS * found.rawBytes }
    const wantedBytes = memoryBytes(found)
    const release = memory.tryReserve(wantedBytes)
    return release ? { batch: found, release } : { wantedBytes }
  })
}

/**
 * What `read` finds. If its memory is not free, waits for it and then reads again, up to the size
 * it waited for. The caller must not keep any of this budget, or it waits for itself.
 */
export async function takeIntoMemory<Nothing extends number | undefined>(
  { memory, reporter, clock }: ShareOptions,
  read: Read<Nothing>,
  mostBytes: number,
  signal: AbortSignal,
): Promise<ReservedBatch | Nothing> {
  const found = await look(memory, read, mostBytes)
  if (typeof found !== 'object' || 'batch' in found) return found
  // A sink with entries to send is not idle: this wait counts as sending.
  reporter.state('sending')
  const release = await memory.reserve(found.wantedBytes, signal)
  try {
    // The code that freed memory may still have an answer in memory until its turn of the event
    // loop ends.
    if (isLarge(found.wantedBytes / FORMS)) await clock.sleep(0, signal)
    const again = await read(found.wantedBytes / FORMS)
    if (typeof again === 'object') {
      if ('rawBytes' in again) throw new Error('An entry that there was room for was left on the disk')
      return { batch: again, release }
    }
    release()
    return again
  } catch (error) {
    release()
    throw error
  }
}
