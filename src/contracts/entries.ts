// Entries as one slab of bytes and columns of offsets: no object and no string per entry until one
// is requested.

/** The columns of one entry in `Entries.columns`, in this order. Offsets are those of the slab. */
export const RAW_START = 0
export const RAW_END = 1
export const ID_START = 2
export const ID_END = 3
export const TIME_START = 4
export const TIME_END = 5
/** index into `Entries.types` */
export const TYPE = 6
/** 0: the first content under this id; 2, 3, …: the same id with other content (history only) */
export const VERSION = 7
export const COLUMNS = 8

type Bounds = readonly [start: number, end: number]

interface EntryPlaces {
  readonly raw: Bounds
  readonly id: Bounds
  readonly time: Bounds
  readonly type: number
  readonly version?: number
}

/** The columns of one entry, in their order. */
export function columnsOf({ raw, id, time, type, version = 0 }: EntryPlaces): readonly number[] {
  return [...raw, ...id, ...time, type, version]
}

/** Limits of one transaction; a larger entry has a transaction of its own (invariant 4). */
export const TRANSACTION_ENTRIES = 1_000
export const TRANSACTION_BYTES = 4 * 1024 * 1024
/**
 * A body up to this size is buffered and checked whole before any of it is kept; a larger one
 * streams (invariant 4).
 */
export const WHOLE_BODY_BYTES = 4 * 1024 * 1024

const utf8 = new TextDecoder()

/**
 * Immutable. `raw` is the element as the API sent it, except that CR and LF between tokens are
 * removed, so it fits a line. If an id or time was written with escapes, its decoded text is
 * elsewhere in the slab and the columns point there.
 */
export class Entries {
  readonly bytes: Uint8Array
  readonly count: number
  readonly columns: Uint32Array
  /** microseconds since 1970, one per entry */
  readonly times: Float64Array
  /** each type that occurs, once */
  readonly types: readonly string[]

  constructor(
    bytes: Uint8Array,
    count: number,
    columns: Uint32Array,
    times: Float64Array,
    types: readonly string[],
  ) {
    this.bytes = bytes
    this.count = count
    this.columns = columns
    this.times = times
    this.types = types
  }

  column(index: number, column: number): number {
    return this.columns[index * COLUMNS + column] ?? 0
  }

  /** A view, not a copy. */
  raw(index: number): Uint8Array {
    return this.bytes.subarray(this.column(index, RAW_START), this.column(index, RAW_END))
  }

  rawBytes(index: number): number {
    return this.column(index, RAW_END) - this.column(index, RAW_START)
  }

  id(index: number): string {
    return utf8.decode(this.bytes.subarray(this.column(index, ID_START), this.column(index, ID_END)))
  }

  /** As the API sent it. */
  time(index: number): string {
    return utf8.decode(this.bytes.subarray(this.column(index, TIME_START), this.column(index, TIME_END)))
  }

  /** Microseconds since 1970. */
  at(index: number): number {
    return this.times[index] ?? NaN
  }

  type(index: number): string {
    return this.types[this.column(index, TYPE)] ?? ''
  }

  version(index: number): number {
    return this.column(index, VERSION)
  }

  /** Entries [from, to), sharing the slab. */
  slice(from: number, to: number): Entries {
    if (from === 0 && to >= this.count) return this
    return new Entries(
      this.bytes,
      to - from,
      this.columns.subarray(from * COLUMNS, to * COLUMNS),
      this.times.subarray(from, to),
      this.types,
    )
  }

  /** The entries at `indices`, in that order, sharing the slab. */
  pick(indices: readonly number[]): Entries {
    const columns = new Uint32Array(indices.length * COLUMNS)
    const times = new Float64Array(indices.length)
    indices.forEach((index, position) => {
      columns.set(this.columns.subarray(index * COLUMNS, (index + 1) * COLUMNS), position * COLUMNS)
      times[position] = this.at(index)
    })
    return new Entries(this.bytes, indices.length, columns, times, this.types)
  }

  /** The entries with their own time in [fromUs, toUs), in order; the same object if all are. */
  between(fromUs: number, toUs: number): Entries {
    const { times, count } = this
    const isWithin = (i: number) => (times[i] as number) >= fromUs && (times[i] as number) < toUs
    let first = 0
    while (first < count && isWithin(first)) first++
    if (first === count) return this
    const kept = Array.from({ length: first }, (_, i) => i)
    for (let i = first + 1; i < count; i++) if (isWithin(i)) kept.push(i)
    return this.pick(kept)
  }

  static readonly none = new Entries(new Uint8Array(0), 0, new Uint32Array(0), new Float64Array(0), [])
}
