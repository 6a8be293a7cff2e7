// A growing run of bytes that formats and frames write lines into.
import { makeWay } from './large.ts'

/** Buffer's own copy, for any bytes: it makes no view of the source, of which there would be one an entry. */
const copyBytes: (from: Uint8Array, to: Buffer, at: number, start: number, end: number) => number =
  // eslint-disable-next-line @typescript-eslint/unbound-method -- bound right here to be called with any `this`
  Function.prototype.call.bind((Buffer.prototype as Buffer).copy)

const LARGE_BYTES = 4 * 1024 * 1024
/** More than the lines of any batch of several, whatever its sink's share. */
const HUGE_BYTES = 12 * 1024 * 1024
const USUAL_BYTES = 64 * 1024

export class ByteWriter {
  bytes: Buffer
  length = 0

  constructor(capacityBytes = USUAL_BYTES) {
    this.bytes = Buffer.allocUnsafeSlow(capacityBytes)
  }

  /** Makes room for `more` bytes. */
  reserve(more: number): void {
    const needed = this.length + more
    if (needed <= this.bytes.length) return
    // Doubling spares copies while it is small; what is large would take twice what it needs.
    const usual = this.bytes.length < LARGE_BYTES ? this.bytes.length * 2 : this.bytes.length + LARGE_BYTES
    // What ends a huge line comes behind it: a byte that found no place there would copy all of it.
    const capacityBytes = Math.max(needed + (needed >> 8), usual)
    // A batch may grow large line by line, and often: what only one huge line can be, in however small pieces it came, is worth a collection.
    makeWay(this.bytes.length < HUGE_BYTES ? more : capacityBytes)
    const grown = Buffer.allocUnsafeSlow(capacityBytes)
    this.bytes.copy(grown, 0, 0, this.length)
    this.bytes = grown
  }

  byte(value: number): void {
    this.reserve(1)
    this.bytes[this.length++] = value
  }

  /** Copies `source[start, end)`. */
  copy(source: Uint8Array, start = 0, end = source.length): void {
    const size = end - start
    this.reserve(size)
    // Below some 64 bytes a loop is faster than the call that a native copy costs.
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

  /** What was written so far: a view that the next growth may abandon. */
  view(): Buffer {
    return this.bytes.subarray(0, this.length)
  }

  /** Begins anew. A buffer of more than `spareBytes`, which a single huge entry made grow, is not kept. */
  clear(spareBytes = Infinity): void {
    this.length = 0
    if (this.bytes.length > spareBytes) this.bytes = Buffer.allocUnsafeSlow(USUAL_BYTES)
  }
}
