// One entry of the mock, and the ledger: a workspace's entries in order of time.
import type { Defect, HistoryDefect } from './switches.ts'

const answers = ['page', 'search', 'earliest', 'latest'] as const
export type ShownIn = (typeof answers)[number]

/** The ground truth about an entry, for tests. Instants are epoch ms unless named …Us. */
export type MockEntry = Pick<
  Entry,
  'id' | 'atUs' | 'type' | 'visibleAt' | 'origin' | 'defect' | 'raw' | 'shownBy' | 'shownAt' | 'purged'
>

export interface EntryFacts {
  readonly id: string
  readonly atUs: number
  readonly type: string
  readonly visibleAt: number
  readonly origin: 'traffic' | 'self' | 'added' | 'backlog'
  readonly user: string
  /** its number among those of the same origin */
  readonly number: number
  /** from when on the history shows its events, if any; epoch ms */
  readonly historyAt: number
  readonly historyDefect?: HistoryDefect | undefined
  readonly defect?: Defect | undefined
}

export class Entry implements EntryFacts {
  readonly id: string
  readonly atUs: number
  readonly type: string
  readonly visibleAt: number
  readonly origin: EntryFacts['origin']
  readonly user: string
  readonly number: number
  readonly historyAt: number
  readonly historyDefect: HistoryDefect | undefined
  readonly defect: Defect | undefined
  purged = false
  /** the answers of the history that contained its events: see `markShown` */
  historyShown = 0
  /** The first time that an answer contained it, by the true clock. */
  shownAt: number | undefined
  /** JSON text that replaces the generated metadata; must be set before the bytes are requested. */
  about: string | undefined
  #make: ((entry: Entry) => Uint8Array) | undefined
  #raw: Uint8Array | undefined
  #shown = 0

  /** `make` is called once, when the bytes are first requested. */
  constructor(facts: EntryFacts, make: (entry: Entry) => Uint8Array) {
    this.id = facts.id
    this.atUs = facts.atUs
    this.type = facts.type
    this.visibleAt = facts.visibleAt
    this.origin = facts.origin
    this.user = facts.user
    this.number = facts.number
    this.historyAt = facts.historyAt
    this.historyDefect = facts.historyDefect
    this.defect = facts.defect
    this.#make = make
  }

  /** As served, including line breaks between tokens. */
  get raw(): Uint8Array {
    this.#raw ??= this.#make?.(this) ?? new Uint8Array(0)
    this.#make = undefined
    return this.#raw
  }

  /** Kinds of answers that contained it, with status 200 and sent to the end. */
  get shownBy(): ShownIn[] {
    return answers.filter((_, bit) => this.#shown & (1 << bit))
  }

  show(where: ShownIn, at: number): void {
    this.#shown |= 1 << answers.indexOf(where)
    this.shownAt ??= at
  }
}

/** Their bytes, joined. Neighbours in a prepared backlog are one slice of its buffer. */
export function joinedBytes(entries: readonly Entry[], separator: string): Uint8Array {
  const [first] = entries
  const last = entries.at(-1)
  if (!first || !last) return new Uint8Array(0)
  const isRange = entries.every(
    ({ origin, number }, i) => origin === 'backlog' && number === first.number + i,
  )
  if (isRange) {
    const { buffer, byteOffset } = first.raw
    return new Uint8Array(buffer, byteOffset, last.raw.byteOffset + last.raw.length - byteOffset)
  }
  const between = Buffer.from(separator)
  return Buffer.concat(entries.flatMap(({ raw }, i) => (i === 0 ? [raw] : [between, raw])))
}

/** An answer with these was sent. A poisoned one made it unreadable, and alone counts as shown. */
export function showAll(entries: readonly Entry[], where: ShownIn, at: number): void {
  const poisoned = entries.filter((entry) => entry.defect === 'poison')
  for (const entry of poisoned.length > 0 ? poisoned : entries) entry.show(where, at)
}

/** What a reader may see: entries visible at `now` (epoch ms), of one type if it is given. */
export interface View {
  readonly now: number
  readonly type: string | undefined
}

function isSeen(entry: Entry, { now, type }: View): boolean {
  return entry.visibleAt <= now && !entry.purged && (type === undefined || entry.type === type)
}

/** In order of time, independent of when entries were created and become visible. */
export class Ledger {
  readonly #order: Entry[] = []
  readonly #byId = new Map<string, Entry>()
  /** all entries before this index are purged */
  #kept = 0

  get entries(): readonly Entry[] {
    return this.#order
  }

  find(id: string): Entry | undefined {
    return this.#byId.get(id)
  }

  /** After entries of the same time. Nearly always at the end. */
  insert(entry: Entry): void {
    this.#byId.set(entry.id, entry)
    const last = this.#order.at(-1)
    if (!last || last.atUs <= entry.atUs) {
      this.#order.push(entry)
      return
    }
    const index = this.#firstAt(entry.atUs + 1)
    this.#order.splice(index, 0, entry)
    this.#kept = Math.min(this.#kept, index)
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

  #collect(first: number, take: number, view: View): Entry[] {
    const found: Entry[] = []
    for (let i = Math.max(first, this.#kept); i < this.#order.length && found.length < take; i++) {
      const entry = this.#order[i]
      if (entry && isSeen(entry, view)) found.push(entry)
    }
    return found
  }

  /** From the entry `anchor` on, with it or not. */
  pageFrom(anchor: Entry, isInclusive: boolean, take: number, view: View): Entry[] {
    let index = this.#firstAt(anchor.atUs)
    while (this.#order[index] !== anchor) index++
    return this.#collect(isInclusive ? index : index + 1, take, view)
  }

  /** The first one at or after `us`, as a page. */
  firstFrom(us: number, view: View): Entry[] {
    return this.#collect(this.#firstAt(us), 1, view)
  }

  /** The last one, as a page. */
  latest(view: View): Entry[] {
    const entry = this.#order.findLast((candidate) => isSeen(candidate, view))
    return entry ? [entry] : []
  }

  /** All of them, visible or not, purged or not, in [fromUs, untilUs). */
  between(fromUs: number, untilUs: number): Entry[] {
    return this.#order.slice(this.#firstAt(fromUs), this.#firstAt(untilUs))
  }

  purgeBefore(us: number): void {
    for (let entry = this.#order[this.#kept]; entry && entry.atUs < us; entry = this.#order[++this.#kept])
      entry.purged = true
  }
}
