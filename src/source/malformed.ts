// What is no entry, as it goes to quarantine: all its bytes, or of one too large to be kept the head and the hash of all of it.
import { createHash, hash } from 'node:crypto'
import type { Hash } from 'node:crypto'
import type { Quarantined } from '../model/source.ts'

/** What stays of an element that is too large to be kept. */
const HEAD_BYTES = 1024 * 1024

export function malformed(reason: Quarantined['reason'], bytes: Uint8Array): Quarantined {
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
