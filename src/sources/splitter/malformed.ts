// What is no entry, as it goes to quarantine: all its bytes, or of one too large to be kept the head and the hash of all of it.
import { createHash, hash } from 'node:crypto'
import type { Hash } from 'node:crypto'
import type { Quarantined } from '../../contracts/source.ts'

/** What stays of an element that is too large to be kept. */
const HEAD_BYTES = 1024 * 1024

export type Reason = Exclude<Quarantined['reason'], 'unreadable_page'>

const reasons: Reason[] = ['no_id', 'no_time', 'too_deep', 'invalid_utf8', 'not_an_object', 'too_large']
const PLACE = 3

/**
 * The malformed elements of one group, as places in its bytes: a body may hold millions of them, each as small as its view
 * and its hash are not, so they become objects only when their group is taken.
 */
export class MalformedPlaces {
  /** start, end and reason of each; of one too large the start is its index among the large */
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

  /** Closes the group that is `bytes` and begins anew. The function returned makes its quarantined elements. */
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

/** An element over the limit: hashed as it passes, and gone but for its head. */
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
