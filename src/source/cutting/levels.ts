// Which containers are open, one inside the other: a byte a level.

/** A byte each: at most 4 MiB. */
export const MAX_LEVELS = 1 << 22

const ARRAY = 0
const OBJECT = 1

export class Levels {
  /** how many are open */
  depth = 0
  #kinds = new Uint8Array(1024)

  /** Is the innermost an object? */
  get inObject(): boolean {
    return this.#kinds[this.depth - 1] === OBJECT
  }

  /** False where it would be one too many. */
  open(isObject: boolean): boolean {
    if (this.depth === MAX_LEVELS) return false
    if (this.depth === this.#kinds.length) this.#grow()
    this.#kinds[this.depth++] = isObject ? OBJECT : ARRAY
    return true
  }

  close(): void {
    this.depth--
  }

  #grow(): void {
    const grown = new Uint8Array(this.#kinds.length * 4)
    grown.set(this.#kinds)
    this.#kinds = grown
  }
}
