// A growing run of bytes that formats and frames write lines into.
import { allocate, makeWay, release } from './large.ts'

/** Buffer's own copy, for any bytes: it makes no view of the source, of which there would be one an entry. */
const copyBytes: (from: Uint8Array, to: Buffer, at: number, start: number, end: number) => number =
  // eslint-disable-next-line @typescript-eslint/unbound-method -- bound right here to be called with any `this`
  Function.prototype.call.bind((Buffer.prototype as Buffer).copy)

/** More than the lines of any batch of several, whatever its sink's share: from here on it is one huge line. */
const HUGE_BYTES = 12 * 1024 * 1024
/** What a huge line may grow by where it stands: what of it is not written takes no memory. */
const ROOM_BEHIND_BYTES = 64 * 1024 * 1024
const USUAL_BYTES = 64 * 1024

export class ByteWriter {
  bytes: Buffer<ArrayBuffer>
  length = 0

  constructor(capacityBytes = USUAL_BYTES) {
    this.bytes = Buffer.allocUnsafeSlow(capacityBytes)
  }

  /** Makes room for `more` bytes. */
  reserve(more: number): void {
    const needed = this.length + more
    if (needed <= this.bytes.length) return
    const grown = needed < HUGE_BYTES ? this.#roomyBlock(needed, more) : allocate(needed + ROOM_BEHIND_BYTES)
    this.bytes.copy(grown, 0, 0, this.length)
    this.bytes = grown
  }

  /** A batch may grow large line by line, and often: only what comes at once is worth a collection. */
  #roomyBlock(needed: number, more: number): Buffer<ArrayBuffer> {
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

  /**
   * Begins anew. A buffer of more than `spareBytes`, which a single huge entry made grow, is not kept: then nobody may be reading
   * what was written.
   */
  clear(spareBytes = Infinity): void {
    this.length = 0
    if (this.bytes.length <= spareBytes) return
    release(this.bytes)
    this.bytes = Buffer.allocUnsafeSlow(USUAL_BYTES)
  }
}
