// Malformed elements for the quarantine: all bytes, or for elements that are too large the
// beginning and the hash of all bytes.
import { createHash, hash } from 'node:crypto'
import type { Hash } from 'node:crypto'
import type { Quarantined } from '../../contracts/source.ts'

/** The part that is kept of an element that is too large. */
const MAX_QUARANTINED_BYTES = 1024 * 1024

export type Reason = Exclude<Quarantined['reason'], 'unreadable_page'>

const reasons: Reason[] = ['no_id', 'no_time', 'too_deep', 'invalid_utf8', 'not_an_object', 'too_large']
const RANGE_FIELDS = 3

/**
 * The malformed elements of one group, as places in its bytes: a body may have millions of them,
 * tiny compared with their view and hash, so the objects are created only when the group is taken.
 */
export class MalformedRanges {
  /** start, end and reason of each; for a too large one its index in `#large`, 0, and the reason */
  #ranges = new Uint32Array(RANGE_FIELDS)
  #count = 0
  #large: Quarantined[] = []

  get size(): number {
    return this.#count
  }

  /** `[start, end)` of the group's bytes. */
  add(reason: Reason, start: number, end: number): void {
    const at = this.#count++ * RANGE_FIELDS
    if (at === this.#ranges.length) {
      const ranges = new Uint32Array(2 * at)
      ranges.set(this.#ranges)
      this.#ranges = ranges
    }
    this.#ranges[at] = start
    this.#ranges[at + 1] = end
    this.#ranges[at + 2] = reasons.indexOf(reason)
  }

  addLarge(large: LargeElement): void {
    this.add('too_large', this.#large.push(large.close()) - 1, 0)
  }

  /** Closes the group `bytes`. The returned function builds its quarantined elements. */
  close(bytes: Uint8Array): () => Quarantined[] {
    const ranges = this.#ranges.slice(0, this.#count * RANGE_FIELDS)
    const large = this.#large
    this.#count = 0
    this.#large = []
    return () =>
      Array.from({ length: ranges.length / RANGE_FIELDS }, (_, i) =>
        made(bytes, ranges, i * RANGE_FIELDS, large),
      )
  }
}

function made(
  bytes: Uint8Array,
  ranges: Uint32Array,
  at: number,
  large: readonly Quarantined[],
): Quarantined {
  const start = ranges[at] as number
  const reason = reasons[ranges[at + 2] as number] as Reason
  return reason === 'too_large'
    ? (large[start] as Quarantined)
    : malformed(reason, bytes.subarray(start, ranges[at + 1]))
}

function malformed(reason: Reason, bytes: Uint8Array): Quarantined {
  return { reason, bytes, totalBytes: bytes.length, sha256: hash('sha256', bytes, 'hex') }
}

/** An element above the limit: hashed as it passes; only its beginning is kept. */
export class LargeElement {
  readonly #hash: Hash = createHash('sha256')
  readonly #beginning: Uint8Array[] = []
  #totalBytes = 0

  absorb(bytes: Uint8Array): void {
    const missingBytes = MAX_QUARANTINED_BYTES - this.#totalBytes
    if (missingBytes > 0) this.#beginning.push(bytes.slice(0, missingBytes))
    this.#hash.update(bytes)
    this.#totalBytes += bytes.length
  }

  close(): Quarantined {
    return {
      reason: 'too_large',
      bytes: Buffer.concat(this.#beginning),
      totalBytes: this.#totalBytes,
      sha256: this.#hash.digest('hex'),
    }
  }
}
