// The bytes of a body that are still needed: the received piece while that suffices, otherwise a
// growing copy.
import { allocate } from '../../core/bytes.ts'

/** Spare bytes after a joined body, for texts of its groups that were written with escapes. */
const SPARE_BYTES = 4 * 1024

const nothing = new Uint8Array(0)
const MIN_CAPACITY_BYTES = 64 * 1024
/** Bound on the spare bytes: an entry of many megabytes does not take half as much again. */
const MAX_SPARE_BYTES = 4 * 1024 * 1024

/** All of a body in one buffer with spare bytes after it: `ours` for a slab. */
export function joined(pieces: readonly Uint8Array[]): Uint8Array {
  const length = pieces.reduce((sum, piece) => sum + piece.length, 0)
  const body = Buffer.allocUnsafeSlow(length + SPARE_BYTES)
  let at = 0
  for (const piece of pieces) {
    body.set(piece, at)
    at += piece.length
  }
  return body.subarray(0, length)
}

/** Bytes given out as a view are never overwritten, except by the caller of `own`. */
export class Slab {
  bytes = nothing
  /** a view of the same memory, for reading four bytes at once */
  words = new DataView(nothing.buffer)
  length = 0
  /** the usual number of bytes needed at once: avoids growing */
  usualBytes = 0
  #owned = false
  /** start and end of the spare bytes after the body; none: both 0 */
  #spareFrom = 0
  #spareTo = 0

  /**
   * Appends `piece`, keeps `[neededFrom, length)`. Returns by how many bytes the kept part moved
   * down. `ours`: a `joined` buffer without other users, so it may be changed and its spare bytes
   * used.
   */
  append(piece: Uint8Array, neededFrom: number, ours = false): number {
    const keptBytes = this.length - neededFrom
    if (keptBytes === 0) {
      // Always a plain Uint8Array, even for a Buffer: the scanner's loops see one array type.
      this.#set(new Uint8Array(piece.buffer as ArrayBuffer, piece.byteOffset, piece.length), ours)
      if (ours) this.#spareTo = (this.#spareFrom = piece.length) + SPARE_BYTES
    } else if (this.#owned && this.bytes.length - this.length >= piece.length) {
      this.bytes.set(piece, this.length)
      this.length += piece.length
      return 0
    } else {
      const neededBytes = keptBytes + piece.length
      const usualBytes = this.usualBytes + 2 * piece.length
      const kept = this.bytes.subarray(neededFrom, this.length)
      const grownBytes = neededBytes + Math.min(neededBytes / 2, MAX_SPARE_BYTES)
      this.#set(plain(Math.max(grownBytes, usualBytes, MIN_CAPACITY_BYTES)), true)
      this.bytes.set(kept)
      this.bytes.set(piece, keptBytes)
    }
    this.length = keptBytes + piece.length
    return neededFrom
  }

  /** Drops the bytes from `length` on. */
  truncate(length: number): void {
    this.length = length
  }

  /**
   * `[start, end)` with this many spare bytes at the end of the result: the spare bytes after the
   * body, including the few bytes of the body in between; a copy if there are none, or too many
   * bytes are in between.
   */
  withSpare(start: number, end: number, memoryBytes: number): Uint8Array {
    const bytes = this.bytes.subarray(start, end)
    if (memoryBytes === 0) return bytes
    const from = this.#spareFrom
    if (from - end > SPARE_BYTES || this.#spareTo - from < memoryBytes) {
      const copy = allocate(bytes.length + memoryBytes)
      copy.set(bytes)
      return copy
    }
    this.#spareFrom += memoryBytes
    return new Uint8Array(bytes.buffer, bytes.byteOffset, from + memoryBytes - start)
  }

  /** From here on the bytes may be changed in place: a received piece is copied. */
  own(): Uint8Array {
    if (!this.#owned) {
      const copy = plain(this.length)
      copy.set(this.bytes.subarray(0, this.length))
      this.#set(copy, true)
    }
    return this.bytes
  }

  #set(bytes: Uint8Array<ArrayBuffer>, owned: boolean): void {
    this.bytes = bytes
    this.words = new DataView(bytes.buffer, bytes.byteOffset, bytes.length)
    this.#owned = owned
    this.#spareFrom = 0
    this.#spareTo = 0
  }
}

function plain(bytes: number): Uint8Array<ArrayBuffer> {
  const capacityBytes = Math.ceil(bytes)
  return new Uint8Array(allocate(capacityBytes).buffer, 0, capacityBytes)
}
