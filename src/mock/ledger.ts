// The entries of a workspace in the order of their time, whenever they came to be and whenever they become visible.
import type { Entry } from './entry.ts'

export class Ledger {
  readonly #order: Entry[] = []
  /** all before it are purged */
  #kept = 0

  get entries(): readonly Entry[] {
    return this.#order
  }

  /** Behind those of the same time. Nearly always at the end. */
  insert(entry: Entry): void {
    const last = this.#order.at(-1)
    if (!last || last.atUs <= entry.atUs) {
      this.#order.push(entry)
      return
    }
    const position = this.#firstAt(entry.atUs + 1)
    this.#order.splice(position, 0, entry)
    this.#kept = Math.min(this.#kept, position)
  }

  /** Index of the first entry at or after `us`. */
  #firstAt(us: number): number {
    let low = 0
    let high = this.#order.length
    while (low < high) {
      const middle = (low + high) >>> 1
      if ((this.#order[middle]?.atUs ?? 0) < us) low = middle + 1
      else high = middle
    }
    return low
  }

  /** The first to see at `now`, at or after `us`. */
  firstFrom(us: number, now: number, type: string | undefined): Entry | undefined {
    for (let i = Math.max(this.#kept, this.#firstAt(us)); i < this.#order.length; i++) {
      const entry = this.#order[i]
      if (entry && seen(entry, now, type)) return entry
    }
    return undefined
  }

  #indexOf(entry: Entry): number {
    let index = this.#firstAt(entry.atUs)
    while (this.#order[index] !== entry) index++
    return index
  }

  /** What is there to see from `anchor` on, or from the beginning. */
  collect(
    anchor: Entry | undefined,
    inclusive: boolean,
    take: number,
    now: number,
    type: string | undefined,
  ): Entry[] {
    const first = anchor ? this.#indexOf(anchor) + (inclusive ? 0 : 1) : this.#kept
    const found: Entry[] = []
    for (let i = first; i < this.#order.length && found.length < take; i++) {
      const entry = this.#order[i]
      if (entry && seen(entry, now, type)) found.push(entry)
    }
    return found
  }

  /** All of them, visible or not, purged or not, in [fromUs, untilUs). */
  between(fromUs: number, untilUs: number): Entry[] {
    return this.#order.slice(this.#firstAt(fromUs), this.#firstAt(untilUs))
  }

  last(now: number, type: string | undefined): Entry | undefined {
    return this.#order.findLast((entry) => seen(entry, now, type))
  }

  purgeBefore(us: number): void {
    for (let entry = this.#order[this.#kept]; entry && entry.atUs < us; entry = this.#order[++this.#kept])
      entry.purged = true
  }
}

function seen(entry: Entry, now: number, type: string | undefined): boolean {
  return entry.visibleAt <= now && !entry.purged && (type === undefined || entry.type === type)
}
