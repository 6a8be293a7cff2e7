// Bytes that are held as they come in. Small pieces are copied together: a view costs more memory than the few bytes it shows.

const SMALL_BYTES = 4 * 1024
const BLOCK_BYTES = 64 * 1024

const nothing = new Uint8Array(0)

export class Pieces {
  /** of all that was added */
  length = 0
  readonly #parts: Uint8Array[] = []
  #block = nothing
  /** what of the block is in use and not among the parts yet */
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
      // A short answer takes no whole block.
      this.#block = new Uint8Array(Math.min(BLOCK_BYTES, Math.max(SMALL_BYTES, this.length)))
      this.#from = this.#to = 0
    }
    this.#block.set(piece, this.#to)
    this.#to += piece.length
  }

  /** In their order. Leave them as they are: they may be what was added. */
  get parts(): readonly Uint8Array[] {
    this.#close()
    return this.#parts
  }

  whole(): Buffer {
    return Buffer.concat(this.parts, this.length)
  }

  #close(): void {
    if (this.#to > this.#from) this.#parts.push(this.#block.subarray(this.#from, this.#to))
    this.#from = this.#to
  }
}
