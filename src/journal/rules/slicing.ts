// Cuts entries to limits: new ones into chunks, stored ones into batches.
import { TRANSACTION_BYTES, TRANSACTION_ENTRIES } from '../../contracts/entries.ts'
import type { Entries } from '../../contracts/entries.ts'
import type { Batch, ChunkSlice, TakeLimits } from '../../contracts/journal.ts'
import type { Seq } from '../../core/sequence.ts'
import type { Chunk } from './chunk-cache.ts'
import { pack } from './chunk.ts'

/** The end of the chunk that begins at `from`: nearly always the end of the page chunk. */
function endOfChunk(entries: Entries, from: number): number {
  if (entries.count - from <= TRANSACTION_ENTRIES && entries.bytes.length <= TRANSACTION_BYTES)
    return entries.count
  let to = from
  for (let size = 0; to < entries.count && to - from < TRANSACTION_ENTRIES; to++) {
    size += entries.rawBytes(to)
    if (size > TRANSACTION_BYTES && to > from) break
  }
  return to
}

/** Packed entries as chunks, in order. A generator: only one chunk is in memory at a time. */
export function* chunksOf(entries: Entries): Generator<Entries> {
  for (let from = 0; from < entries.count;) {
    const to = endOfChunk(entries, from)
    const whole = from === 0 && to === entries.count
    yield whole ? entries : pack(entries.slice(from, to), undefined, undefined)
    from = to
  }
}

/** A batch in the making: slices of consecutive chunks from `from` on, as far as the limits allow. */
export class BatchBuilder {
  readonly #from: Seq
  readonly #until: Seq
  readonly #limits: TakeLimits
  readonly #slices: ChunkSlice[] = []
  #next: Seq
  #bytes = 0

  constructor(from: Seq, until: Seq, limits: TakeLimits) {
    this.#from = from
    this.#until = until
    this.#limits = limits
    this.#next = from
  }

  /** of the entry that comes next */
  get next(): Seq {
    return this.#next
  }

  get isEmpty(): boolean {
    return this.#next === this.#from
  }

  get isFull(): boolean {
    return this.#next > this.#until || this.leftEntries <= 0
  }

  get leftEntries(): number {
    return this.#limits.maxEntries - (this.#next - this.#from)
  }

  get leftBytes(): number {
    return this.#limits.maxBytes - this.#bytes
  }

  /** Takes what fits of the chunk that holds the next entry. False: nothing after that fits. */
  add({ first, payload, slice }: Chunk): boolean {
    const { entries } = slice
    const start = this.#next - first
    const end = Math.min(entries.count, this.#until - first + 1, start + this.leftEntries)
    const whole = end - start === entries.count && payload <= this.leftBytes
    const { index, taken } = whole
      ? { index: end, taken: payload }
      : fitting(entries, start, end, this.leftBytes, this.isEmpty)
    if (index > start)
      this.#slices.push({ ...slice, firstSeq: this.#next, entries: entries.slice(start, index) })
    this.#bytes += taken
    this.#next += index - start
    return index === end
  }

  /** Undefined: nothing was added. */
  get batch(): Batch | undefined {
    if (this.isEmpty) return undefined
    const [first, last] = [this.#from, this.#next - 1]
    return { first, last, count: last - first + 1, slices: this.#slices }
  }
}

/**
 * The end of what fits of entries [start, end) into `memory` bytes, and its size; an entry that is
 * `alone` always fits. @internal
 */
export function fitting(entries: Entries, start: number, end: number, memory: number, alone: boolean) {
  let taken = 0
  let index = start
  for (; index < end; index++) {
    const size = entries.rawBytes(index)
    if (taken + size > memory && !(alone && index === start)) break
    taken += size
  }
  return { index, taken }
}
