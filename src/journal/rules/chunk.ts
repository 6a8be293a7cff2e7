// A chunk: up to 1,000 entries as four byte arrays, written to disk and read back without an object
// per entry.
import { crc32 } from 'node:zlib'
import {
  COLUMNS,
  Entries,
  ID_END,
  ID_START,
  RAW_END,
  RAW_START,
  TIME_END,
  TIME_START,
  TYPE,
  VERSION,
} from '../../contracts/entries.ts'
import { allocate } from '../../core/bytes.ts'
import type { Seq } from '../../core/sequence.ts'

/** Whose entries a chunk holds, and for whom. */
export interface Address {
  /** the stream's number in this store */
  readonly source: number
  readonly appendedAt: number
  readonly onlySink: string | undefined
  readonly replay: boolean
}

/** A chunk to be written. */
export interface Put {
  readonly payload: number
  readonly first: Seq
  readonly last: Seq
  readonly address: Address
  readonly entries: Entries
}

/** As stored. Numbers are in the host's byte order: little-endian on all supported systems. */
interface Pieces {
  readonly types: string
  readonly times: Buffer
  readonly columns: Buffer
  readonly slab: Buffer
}

function bufferOf(view: Uint8Array | Uint32Array | Float64Array): Buffer {
  return Buffer.from(view.buffer, view.byteOffset, view.byteLength)
}

/** Views, not copies: they go into the database before anything else runs. */
export function encode(entries: Entries): Pieces {
  return {
    types: JSON.stringify(entries.types),
    times: bufferOf(entries.times.subarray(0, entries.count)),
    columns: bufferOf(entries.columns.subarray(0, entries.count * COLUMNS)),
    slab: bufferOf(entries.bytes),
  }
}

/** `label` names the chunk (sequence, source, address), so that swapped chunks are detected. */
export function checksum(label: string, pieces: Pieces): number {
  return crc32(pieces.slab, crc32(pieces.columns, crc32(pieces.times, crc32(pieces.types, crc32(label)))))
}

/** Names a chunk in its checksum. */
export function label(first: Seq, last: Seq, { source, appendedAt, onlySink, replay }: Address): string {
  return `${first} ${last} ${source} ${appendedAt} ${onlySink ?? ''} ${replay ? 1 : 0}`
}

/** Copies only if the driver's memory is not aligned for the numbers. */
function aligned(bytes: Buffer, width: number): Buffer {
  if (bytes.byteOffset % width === 0) return bytes
  const copy = allocate(bytes.length)
  bytes.copy(copy)
  return copy
}

/** Undefined if the pieces do not fit together. */
export function decode(count: number, pieces: Pieces): Entries | undefined {
  if (pieces.times.length !== count * 8 || pieces.columns.length !== count * COLUMNS * 4) return undefined
  const columns = aligned(pieces.columns, 4)
  const times = aligned(pieces.times, 8)
  return new Entries(
    pieces.slab,
    count,
    new Uint32Array(columns.buffer, columns.byteOffset, count * COLUMNS),
    new Float64Array(times.buffer, times.byteOffset, count),
    JSON.parse(pieces.types) as string[],
  )
}

export function payloadBytes(entries: Entries): number {
  const { columns, count } = entries
  let sum = 0
  for (let i = 0, at = 0; i < count; i++, at += COLUMNS)
    sum += (columns[at + RAW_END] as number) - (columns[at + RAW_START] as number)
  return sum
}

/** True if the slab contains little else than these entries: then it is stored unchanged. */
function isTight(entries: Entries, payload: number): boolean {
  return entries.bytes.length <= payload + payload / 8 + 4096
}

/** A text written with escapes is not inside: its decoded form is copied behind the raw bytes. */
function liesInside(entries: Entries, index: number, column: number): boolean {
  return (
    entries.column(index, column) >= entries.column(index, RAW_START) &&
    entries.column(index, column + 1) <= entries.column(index, RAW_END)
  )
}

/**
 * The entries of `picked` (all if undefined), with `versions[i]` for entry i if given, on a slab of
 * exactly their size. If nothing was left out or changed, returns the same object.
 */
export function pack(
  entries: Entries,
  picked: Uint32Array | undefined,
  versions: Uint32Array | undefined,
): Entries {
  if (picked === undefined && versions === undefined && isTight(entries, payloadBytes(entries)))
    return entries
  const count = picked?.length ?? entries.count
  const at = (i: number) => picked?.[i] ?? i
  let size = 0
  for (let i = 0; i < count; i++) size += packedBytes(entries, at(i))
  const slab = allocate(size)
  const columns = new Uint32Array(count * COLUMNS)
  const times = new Float64Array(count)
  let length = 0
  for (let i = 0; i < count; i++) {
    const index = at(i)
    length = packOne(entries, index, slab, length, columns.subarray(i * COLUMNS, (i + 1) * COLUMNS))
    columns[i * COLUMNS + VERSION] = versions?.[index] ?? entries.version(index)
    times[i] = entries.at(index)
  }
  return new Entries(slab, count, columns, times, entries.types)
}

const texts = [ID_START, TIME_START] as const

function packedBytes(entries: Entries, index: number): number {
  let size = entries.rawBytes(index)
  for (const column of texts)
    if (!liesInside(entries, index, column))
      size += entries.column(index, column + 1) - entries.column(index, column)
  return size
}

function packOne(entries: Entries, index: number, slab: Buffer, from: number, columns: Uint32Array): number {
  const start = entries.column(index, RAW_START)
  let length = from + entries.rawBytes(index)
  slab.set(entries.raw(index), from)
  columns[RAW_START] = from
  columns[RAW_END] = length
  columns[TYPE] = entries.column(index, TYPE)
  for (const column of texts) {
    const textStart = entries.column(index, column)
    const textEnd = entries.column(index, column + 1)
    const inside = liesInside(entries, index, column)
    if (!inside) slab.set(entries.bytes.subarray(textStart, textEnd), length)
    columns[column] = inside ? from + textStart - start : length
    columns[column + 1] = columns[column] + textEnd - textStart
    if (!inside) length += textEnd - textStart
  }
  return length
}

/** The bytes of an entry's id, not copied. */
export function idBytes(entries: Entries, index: number): Uint8Array {
  return entries.bytes.subarray(entries.column(index, ID_START), entries.column(index, ID_END))
}

export function timeBytes(entries: Entries, index: number): Uint8Array {
  return entries.bytes.subarray(entries.column(index, TIME_START), entries.column(index, TIME_END))
}
