// The bytes that are still wanted of a body: one piece as it came while that is enough, a growing copy when it is not.
import { allocate } from '../../core/bytes.ts'

/** So much room is left behind a body that is put together, for texts of its groups that were written with escapes. */
const ROOM_BEHIND_BYTES = 4 * 1024

const nothing = new Uint8Array(0)
const MIN_CAPACITY_BYTES = 64 * 1024
/** An entry of many megabytes should not take half as much again. */
const MOST_SPARE_BYTES = 4 * 1024 * 1024

/** All of a body, put together with room behind it: what is `ours` to a slab. */
export function joined(pieces: readonly Uint8Array[]): Uint8Array {
  const length = pieces.reduce((sum, piece) => sum + piece.length, 0)
  const body = Buffer.allocUnsafeSlow(length + ROOM_BEHIND_BYTES)
  let at = 0
  for (const piece of pieces) {
    body.set(piece, at)
    at += piece.length
  }
  return body.subarray(0, length)
}

/** What was once given out as a view is never written again, save by who asked for `own` and knows what was given out. */
export class Slab {
  bytes = nothing
  /** the same memory, for reading four bytes at once */
  words = new DataView(nothing.buffer)
  length = 0
  /** how much will probably be wanted at once: saves growing */
  usualBytes = 0
  #owned = false
  /** where the room behind the bytes begins and ends; none: both 0 */
  #roomFrom = 0
  #roomTo = 0

  /**
   * Adds `piece`, keeps `[wantedFrom, length)`. Returns by how much the kept bytes moved down. `ours`: it is `joined`, and nobody
   * else looks at it, so that it may be changed and the room behind it taken.
   */
  append(piece: Uint8Array, wantedFrom: number, ours = false): number {
    const keptBytes = this.length - wantedFrom
    if (keptBytes === 0) {
      // A plain view whatever came, Buffer or not, so that the scanner's loops meet one kind of array only.
      this.#set(new Uint8Array(piece.buffer as ArrayBuffer, piece.byteOffset, piece.length), ours)
      if (ours) this.#roomTo = (this.#roomFrom = piece.length) + ROOM_BEHIND_BYTES
    } else if (this.#owned && this.bytes.length - this.length >= piece.length) {
      this.bytes.set(piece, this.length)
      this.length += piece.length
      return 0
    } else {
      const neededBytes = keptBytes + piece.length
      const usualBytes = this.usualBytes + 2 * piece.length
      const kept = this.bytes.subarray(wantedFrom, this.length)
      const roomyBytes = neededBytes + Math.min(neededBytes / 2, MOST_SPARE_BYTES)
      this.#set(plain(Math.max(roomyBytes, usualBytes, MIN_CAPACITY_BYTES)), true)
      this.bytes.set(kept)
      this.bytes.set(piece, keptBytes)
    }
    this.length = keptBytes + piece.length
    return wantedFrom
  }

  /** Leaves the bytes from `length` on. */
  truncate(length: number): void {
    this.length = length
  }

  /**
   * `[start, end)` with so much room at the end of what is returned: the room behind the body, with what little follows in
   * the body in between; a copy where there is none, or too much stands in between.
   */
  withRoom(start: number, end: number, roomBytes: number): Uint8Array {
    const bytes = this.bytes.subarray(start, end)
    if (roomBytes === 0) return bytes
    const from = this.#roomFrom
    if (from - end > ROOM_BEHIND_BYTES || this.#roomTo - from < roomBytes) {
      const copy = allocate(bytes.length + roomBytes)
      copy.set(bytes)
      return copy
    }
    this.#roomFrom += roomBytes
    return new Uint8Array(bytes.buffer, bytes.byteOffset, from + roomBytes - start)
  }

  /** From here on the bytes may be changed in place: a piece as it came is copied, every offset stays. */
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
    this.#roomFrom = 0
    this.#roomTo = 0
  }
}

function plain(bytes: number): Uint8Array<ArrayBuffer> {
  const capacityBytes = Math.ceil(bytes)
  return new Uint8Array(allocate(capacityBytes).buffer, 0, capacityBytes)
}
