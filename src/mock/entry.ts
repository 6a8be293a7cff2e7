// One entry as the mock knows it: its bytes, made once and the same for ever, and who has been shown them.
import type { Defect, HistoryDefect } from './switches.ts'

export const shownIn = ['page', 'search', 'earliest', 'latest'] as const
export type ShownIn = (typeof shownIn)[number]

/** The ground truth of one entry, for tests. Instants are epoch ms unless their name ends in Us. */
export interface MockEntry {
  readonly id: string
  readonly atUs: number
  readonly type: string
  readonly visibleAt: number
  readonly origin: 'traffic' | 'self' | 'added' | 'backlog'
  readonly defect: Defect | undefined
  /** As served, line breaks between tokens included. */
  readonly raw: Uint8Array
  /** In which kinds of answer it went out, in a 200 that was sent to its end. */
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
  /** from when on the history shows its events, if it has any; epoch ms */
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
  /** in which answers of the history its events went out, as `HistoryEvents` has it */
  historyShown = 0
  shownAt: number | undefined
  /** JSON text of what it is about, in the place of made-up metadata; to be set before its bytes are wanted. */
  about: string | undefined
  #make: (() => Uint8Array) | undefined
  #raw: Uint8Array | undefined
  #shown = 0

  /** `make` is called once, when the bytes are first wanted. */
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
