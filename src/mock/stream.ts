// Bodies too large to hold: made piece by piece while they are sent, and what the faults and compression make of them.
import { constants, crc32, deflateRawSync } from 'node:zlib'

export interface Streamed {
  /** how many pieces `pieces` gives */
  readonly count: number
  /** all its bytes, where they were counted */
  readonly length?: number
  /** Begins anew at each call; the pieces are the same each time. */
  pieces(): Iterable<Uint8Array>
  /** A separator and an element, for the fault that never ends. */
  again(): Uint8Array
}

const GROUP_BYTES = 65_536

/** Small pieces put together: a write to a socket costs more than a copy. */
export function* grouped(pieces: Iterable<Uint8Array>): Generator<Uint8Array, void> {
  let held: Uint8Array[] = []
  let bytes = 0
  for (const piece of pieces) {
    held.push(piece)
    bytes += piece.length
    if (bytes < GROUP_BYTES) continue
    yield held.length === 1 ? piece : Buffer.concat(held)
    held = []
    bytes = 0
  }
  if (bytes > 0) yield Buffer.concat(held)
}

/** The first half of the pieces, and the first half of the next one. */
export function halfOf(streamed: Streamed): Streamed {
  const half = Math.floor(streamed.count / 2)
  const pieces = function* () {
    let number = 0
    for (const piece of streamed.pieces()) {
      if (number++ < half) yield piece
      else {
        yield piece.subarray(0, Math.floor(piece.length / 2))
        return
      }
    }
  }
  return { count: half + 1, pieces, again: () => streamed.again() }
}

export function withoutLast(streamed: Streamed): Streamed {
  const pieces = function* () {
    let number = 0
    for (const piece of streamed.pieces()) if (++number < streamed.count) yield piece
  }
  return { count: streamed.count - 1, pieces, again: () => streamed.again() }
}

const GZIP_HEADER = Buffer.from([0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 4, 255])
const LAST_BLOCK = Buffer.from([3, 0])

/**
 * One member of gzip (RFC 1952), each group of pieces deflated by itself and flushed to a byte, so that nothing is held
 * and nothing waits for a thread. `whole` false leaves its end out: what was cut before it was compressed.
 */
export function gzipped(streamed: Streamed, whole: boolean): Streamed {
  const pieces = function* () {
    let sum = 0
    let bytes = 0
    yield GZIP_HEADER
    for (const group of grouped(streamed.pieces())) {
      sum = crc32(group, sum)
      bytes += group.length
      yield deflateRawSync(group, { level: 1, finishFlush: constants.Z_SYNC_FLUSH })
    }
    if (!whole) return
    const trailer = Buffer.alloc(8)
    trailer.writeUInt32LE(sum, 0)
    trailer.writeUInt32LE(bytes % 2 ** 32, 4)
    yield LAST_BLOCK
    yield trailer
  }
  return { count: streamed.count, pieces, again: () => streamed.again() }
}
