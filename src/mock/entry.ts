// One entry of the mock: its bytes, created once and never changed, and the answers that contained
// it.
import type { Defect, HistoryDefect } from './switches.ts'

export const shownIn = ['page', 'search', 'earliest', 'latest'] as const
export type ShownIn = (typeof shownIn)[number]

/** The ground truth about one entry, for tests. Instants are epoch ms unless their name ends in Us. */
export interface MockEntry {
  readonly id: string
  readonly atUs: number
  readonly type: string
  readonly visibleAt: number
  readonly origin: 'traffic' | 'self' | 'added' | 'backlog'
  readonly defect: Defect | undefined
  /** As served, including line breaks between tokens. */
  readonly raw: Uint8Array
  /** Kinds of answers that contained it, with status 200 and sent to the end. */
  readonly shownBy: readonly ShownIn[]
  /** The first time, by the true clock. */
  readonly shownAt: number | undefined
  readonly purged: boolean
}

export function shownNames(mask: number): ShownIn[] {
  return shownIn.filter((_, bit) => mask & (1 << bit))
}

export interface EntryFacts {
  readonly id: string
  readonly atUs: number
  readonly type: string
  readonly visibleAt: number
  readonly origin: 'traffic' | 'self' | 'added'
  readonly user: string
  /** from when on the history shows its events, if any; epoch ms */
  readonly historyAt: number
  readonly historyDefect?: HistoryDefect | undefined
  readonly defect?: Defect | undefined
}

export class Entry implements MockEntry {
  readonly id: string
  readonly atUs: number
  readonly type: string
  readonly visibleAt: number
  readonly origin: 'traffic' | 'self' | 'added'
  readonly user: string
  readonly historyAt: number
  readonly historyDefect: HistoryDefect | undefined
  readonly defect: Defect | undefined
  purged = false
  /** the answers of the history that contained its events, in the encoding of `HistoryEvents` */
  historyShown = 0
  shownAt: number | undefined
  /** JSON text that replaces the generated metadata; must be set before the bytes are requested. */
  about: string | undefined
  #make: (() => Uint8Array) | undefined
  #raw: Uint8Array | undefined
  #shown = 0

  /** `make` is called once, when the bytes are first requested. */
  constructor(facts: EntryFacts, make: () => Uint8Array) {
    this.id = facts.id
    this.atUs = facts.atUs
    this.type = facts.type
    this.visibleAt = facts.visibleAt
    this.origin = facts.origin
    this.user = facts.user
    this.historyAt = facts.historyAt
    this.historyDefect = facts.historyDefect
    this.defect = facts.defect
    this.#make = make
  }

  get raw(): Uint8Array {
    this.#raw ??= this.#make?.() ?? new Uint8Array(0)
    this.#make = undefined
    return this.#raw
  }

  get shownBy(): ShownIn[] {
    return shownNames(this.#shown)
  }

  show(where: ShownIn, at: number): void {
    this.#shown |= 1 << shownIn.indexOf(where)
    this.shownAt ??= at
  }
}

// The entries of a workspace in order of time, independent of when they were created and become visible.

export class Ledger {
  readonly #order: Entry[] = []
  /** all entries before this are purged */
  #kept = 0

  get entries(): readonly Entry[] {
    return this.#order
  }

  /** After entries of the same time. Nearly always at the end. */
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

  /** The first entry visible at `now`, at or after `us`. */
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

  /** The visible entries from `anchor` on, or from the beginning. */
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
