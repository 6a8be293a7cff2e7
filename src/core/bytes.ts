// ASCII bytes by name, for code that reads and writes text as bytes.
import { setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'

export const TAB = 9
export const LF = 10
export const CR = 13
export const SPACE = 32
export const QUOTE = 34
export const COMMA = 44
export const DASH = 45
export const DOT = 46
export const ZERO = 48
export const NINE = 57
export const COLON = 58
export const EQUALS = 61
export const QUESTION_MARK = 63
export const OPEN_ARRAY = 91
export const BACKSLASH = 92
export const CLOSE_ARRAY = 93
/** of an escape of four digits */
export const SMALL_U = 117
export const OPEN_OBJECT = 123
export const CLOSE_OBJECT = 125
export const DEL = 127

// Memory for large buffers: unused ones are freed before more is allocated, and the C library keeps
// nothing of them.

/** More than any group of ordinary entries needs, so only huge single entries pay the cost. */
const LARGE_BYTES = 8 * 1024 * 1024
/**
 * The C library maps blocks of more than 32 MiB separately and unmaps them when freed; it may keep
 * smaller ones.
 */
const MAPPED_BYTES = 33 * 1024 * 1024

export const isLarge = (bytes: number): boolean => bytes >= LARGE_BYTES

type CollectGarbage = (how?: { readonly type: 'minor' }) => void

let collectGarbage: CollectGarbage | undefined

/**
 * Call before allocating this many bytes: frees unused buffers now, in some 20 ms. V8 counts the
 * bytes of buffers late, so several dead entries of many megabytes would remain in memory beside
 * the live one.
 */
export function makeWay(bytes: number): void {
  if (!isLarge(bytes)) return
  if (!collectGarbage) {
    setFlagsFromString('--expose-gc')
    collectGarbage = runInNewContext('gc') as CollectGarbage
  }
  collectGarbage()
  // A collection frees dead buffers in a thread of its own, at an unknown time; the next collection
  // waits for it, and a small one takes 0.2 ms.
  collectGarbage({ type: 'minor' })
}

/** A block of its own, not zeroed. Unwritten pages of a large one use no memory. */
export function allocate(bytes: number): Buffer<ArrayBuffer> {
  makeWay(bytes)
  if (!isLarge(bytes)) return Buffer.allocUnsafeSlow(bytes)
  return Buffer.allocUnsafeSlow(Math.max(bytes, MAPPED_BYTES)).subarray(0, bytes)
}

/** Frees the memory at once. No thread may still read `bytes`: views become empty. */
function release({ buffer }: Buffer<ArrayBuffer>): void {
  buffer.transfer(0)
}

// Collects bytes as they arrive. Small pieces are copied together: a view uses more memory than the
// few bytes it shows.

const SMALL_BYTES = 4 * 1024
const BLOCK_BYTES = 64 * 1024

const nothing = new Uint8Array(0)

export class Pieces {
  /** total bytes added */
  length = 0
  readonly #parts: Uint8Array[] = []
  #block = nothing
  /** the used part of the block that is not among the parts yet */
  #from = 0
  #to = 0

  add(piece: Uint8Array): void {
    this.length += piece.length
    if (piece.length >= SMALL_BYTES) {
      this.#close()
      this.#parts.push(piece)
      return
    }
    if (piece.length > this.#block.length - this.#to) {
      this.#close()
      // A short answer does not allocate a whole block.
      this.#block = new Uint8Array(Math.min(BLOCK_BYTES, Math.max(SMALL_BYTES, this.length)))
      this.#from = this.#to = 0
    }
    this.#block.set(piece, this.#to)
    this.#to += piece.length
  }

  /** In order. Do not modify them: they may be the added buffers. */
  get parts(): readonly Uint8Array[] {
    this.#close()
    return this.#parts
  }

  toBuffer(): Buffer {
    return Buffer.concat(this.parts, this.length)
  }

  #close(): void {
    if (this.#to > this.#from) this.#parts.push(this.#block.subarray(this.#from, this.#to))
    this.#from = this.#to
  }
}

// A growing buffer into which formats and frames write lines.

/** Buffer's native copy for any bytes: avoids creating a view of the source for each entry. */
const copyBytes: (from: Uint8Array, to: Buffer, at: number, start: number, end: number) => number =
  // eslint-disable-next-line @typescript-eslint/unbound-method -- bound here, for any `this`
  Function.prototype.call.bind((Buffer.prototype as Buffer).copy)

/** No batch of several entries needs this much: from here on it is one huge line. */
const HUGE_BYTES = 12 * 1024 * 1024
/** How much a huge line may grow in place: unwritten parts use no memory. */
const HUGE_SPARE_BYTES = 64 * 1024 * 1024
const USUAL_BYTES = 64 * 1024

export class ByteWriter {
  bytes: Buffer<ArrayBuffer>
  length = 0

  constructor(capacityBytes = USUAL_BYTES) {
    this.bytes = Buffer.allocUnsafeSlow(capacityBytes)
  }

  /** Reserves `more` bytes. */
  reserve(more: number): void {
    const needed = this.length + more
    if (needed <= this.bytes.length) return
    const grown = needed < HUGE_BYTES ? this.#doubledBlock(needed, more) : allocate(needed + HUGE_SPARE_BYTES)
    this.bytes.copy(grown, 0, 0, this.length)
    this.bytes = grown
  }

  /** A batch may often grow line by line: only a single large growth justifies a collection. */
  #doubledBlock(needed: number, more: number): Buffer<ArrayBuffer> {
    makeWay(more)
    return Buffer.allocUnsafeSlow(Math.max(needed, Math.min(this.bytes.length * 2, HUGE_BYTES)))
  }

  byte(value: number): void {
    this.reserve(1)
    this.bytes[this.length++] = value
  }

  /** Copies `source[start, end)`. */
  copy(source: Uint8Array, start = 0, end = source.length): void {
    const size = end - start
    this.reserve(size)
    // Below some 64 bytes a loop is faster than the call of a native copy.
    if (size < 64) {
      const { bytes, length } = this
      for (let i = 0; i < size; i++) bytes[length + i] = source[start + i] as number
    } else {
      copyBytes(source, this.bytes, this.length, start, end)
    }
    this.length += size
  }

  text(value: string): void {
    this.reserve(value.length * 3)
    this.length += this.bytes.write(value, this.length)
  }

  /** The bytes written so far: a view that the next growth may invalidate. */
  view(): Buffer {
    return this.bytes.subarray(0, this.length)
  }

  /**
   * Clears the buffer. One larger than `spareBytes`, grown by a single huge entry, is freed: no
   * code may still read the written bytes then.
   */
  clear(spareBytes = Infinity): void {
    this.length = 0
    if (this.bytes.length <= spareBytes) return
    release(this.bytes)
    this.bytes = Buffer.allocUnsafeSlow(USUAL_BYTES)
  }
}
