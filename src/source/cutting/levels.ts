// Which containers are open, one inside the other: a byte a level.

/** This bounds them at 4 MiB. */
export const MAX_LEVELS = 1 << 22

const ARRAY = 0
const OBJECT = 1

export class Levels {
  /** how many are open */
  depth = 0
  #kinds = new Uint8Array(1024)

  /** Is the innermost an object? */
  get inObject(): boolean {
    return this.#kinds[this.depth] === OBJECT
  }

  /** False where it would be one too many. */
  open(isObject: boolean): boolean {
    const depth = this.depth + 1
    if (depth >= MAX_LEVELS) return false
    if (depth >= this.#kinds.length) this.#grow()
    this.#kinds[depth] = isObject ? OBJECT : ARRAY
    this.depth = depth
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
