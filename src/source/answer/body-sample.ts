// What is kept of a body that cannot be read, or not whole: its first MiB, its length and its hash.
import { createHash, type Hash } from 'node:crypto'
import { Pieces } from '../../model/pieces.ts'
import type { Quarantined } from '../../model/source.ts'

const HEAD_BYTES = 1024 * 1024

export class BodySample {
  #hash: Hash | undefined
  readonly #head = new Pieces()
  #totalBytes = 0

  add(piece: Uint8Array): void {
    this.#hash ??= createHash('sha256')
    this.#hash.update(piece)
    this.#totalBytes += piece.length
    const leftBytes = HEAD_BYTES - this.#head.length
    if (leftBytes > 0) this.#head.add(piece.subarray(0, leftBytes))
  }

  get isEmpty(): boolean {
    return this.#totalBytes === 0
  }

  /** Once, when all has passed. */
  quarantined(reason: Quarantined['reason']): Quarantined {
    return {
      reason,
      bytes: this.#head.whole(),
      totalBytes: this.#totalBytes,
      sha256: (this.#hash ?? createHash('sha256')).digest('hex'),
    }
  }
}
