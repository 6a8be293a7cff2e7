// What is kept of a body that cannot be read, or not whole: its first MiB, its length and its hash.
import { createHash, type Hash } from 'node:crypto'
import type { Quarantined } from '../../model/source.ts'

const HEAD_BYTES = 1024 * 1024

export class BodySample {
  #hash: Hash | undefined
  readonly #head: Uint8Array[] = []
  #headBytes = 0
  #totalBytes = 0

  add(piece: Uint8Array): void {
    this.#hash ??= createHash('sha256')
    this.#hash.update(piece)
    this.#totalBytes += piece.length
    const leftBytes = HEAD_BYTES - this.#headBytes
    if (leftBytes <= 0) return
    const head = piece.subarray(0, leftBytes)
    this.#head.push(head)
    this.#headBytes += head.length
  }

  get isEmpty(): boolean {
    return this.#totalBytes === 0
  }

  /** Once, when all has passed. */
  quarantined(reason: Quarantined['reason']): Quarantined {
    return {
      reason,
      bytes: Buffer.concat(this.#head),
      totalBytes: this.#totalBytes,
      sha256: (this.#hash ?? createHash('sha256')).digest('hex'),
    }
  }
}
