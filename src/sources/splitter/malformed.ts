// Malformed elements for the quarantine: all bytes, or for elements that are too large the
// beginning and the hash of all bytes.
import { createHash, hash } from 'node:crypto'
import type { Hash } from 'node:crypto'
import type { Quarantined } from '../../contracts/source.ts'

/** The part that is kept of an element that is too large. */
const HEAD_BYTES = 1024 * 1024

export type Reason = Exclude<Quarantined['reason'], 'unreadable_page'>

const reasons: Reason[] = ['no_id', 'no_time', 'too_deep', 'invalid_utf8', 'not_an_object', 'too_large']
const PLACE = 3

/**
 * The malformed elements of one group, as places in its bytes: a body may have millions of them, tiny compared with their view
 * and hash, so the objects are created only when the group is taken.
 */
export class MalformedPlaces {
  /** start, end and reason of each; for a too large one the start is its index in the list of large ones */
  #places = new Uint32Array(PLACE)
  #count = 0
  #large: Quarantined[] = []

  get size(): number {
    return this.#count
  }

  /** `[start, end)` of the group's bytes. */
  add(reason: Reason, start: number, end: number): void {
    const at = this.#count++ * PLACE
    if (at === this.#places.length) {
      const places = new Uint32Array(2 * at)
      places.set(this.#places)
      this.#places = places
    }
    this.#places[at] = start
    this.#places[at + 1] = end
    this.#places[at + 2] = reasons.indexOf(reason)
  }

  addLarge(large: LargeElement): void {
    this.add('too_large', this.#large.push(large.close()) - 1, 0)
  }

  /** Closes the group `bytes` and starts a new one. The returned function builds its quarantined elements. */
  close(bytes: Uint8Array): () => Quarantined[] {
    const places = this.#places.slice(0, this.#count * PLACE)
    const large = this.#large
    this.#count = 0
    this.#large = []
    return () =>
      Array.from({ length: places.length / PLACE }, (_, i) => made(bytes, places, i * PLACE, large))
  }
}

function made(
  bytes: Uint8Array,
  places: Uint32Array,
  at: number,
  large: readonly Quarantined[],
): Quarantined {
  const start = places[at] as number
  const reason = reasons[places[at + 2] as number] as Reason
  return reason === 'too_large'
    ? (large[start] as Quarantined)
    : malformed(reason, bytes.subarray(start, places[at + 1]))
}

function malformed(reason: Reason, bytes: Uint8Array): Quarantined {
  return { reason, bytes, totalBytes: bytes.length, sha256: hash('sha256', bytes, 'hex') }
}

/** An element above the limit: hashed as it passes; only its beginning is kept. */
export class LargeElement {
  readonly #hash: Hash = createHash('sha256')
  readonly #head: Uint8Array[] = []
  #totalBytes = 0

  absorb(bytes: Uint8Array): void {
    const wantedBytes = HEAD_BYTES - this.#totalBytes
    if (wantedBytes > 0) this.#head.push(bytes.slice(0, wantedBytes))
    this.#hash.update(bytes)
    this.#totalBytes += bytes.length
  }

  close(): Quarantined {
    return {
      reason: 'too_large',
      bytes: Buffer.concat(this.#head),
      totalBytes: this.#totalBytes,
      sha256: this.#hash.digest('hex'),
    }
  }
}
