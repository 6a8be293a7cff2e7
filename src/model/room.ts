// The process's allowance of held bytes (law 4): readers and sinks wait here for room before they hold a body or a batch.

/** All held bodies and batches of the process. */
const ALL_BYTES = 32 * 1024 * 1024
/** Of these, what readers may hold: APIs that stall in the middle of their answers keep no sink from sending. */
const READING_BYTES = 24 * 1024 * 1024
/** Of these, what reading of the past may hold: backfills and replays whose answers stall keep no live reading waiting, and who waits for room keeps none waiting either. */
const PAST_BYTES = 12 * 1024 * 1024

/** Of these, what sinks may hold whose receivers have not proven that they answer: those that hang, however many, keep neither reading nor the others waiting. */
const UNPROVEN_BYTES = 8 * 1024 * 1024

interface Waiter {
  readonly bytes: number
  readonly rank: Rank
  enter(): void
}

/** `in_turn`: comes past nobody but whom an overdue holder keeps out. `in_line`: not even past those. `behind`: when nobody else waits. */
type Rank = 'in_turn' | 'in_line' | 'behind'

/**
 * First come, first served, so that a large holder is not starved by small ones; only who waits behind gets in when nobody
 * else waits, and who wants so much that an overdue holder keeps it out keeps nobody out meanwhile. A part of a room bounds one
 * kind of holder: the rest is left to the others.
 */
export class Room {
  readonly #capacityBytes: number
  readonly #around: Room | undefined
  readonly #rank: Rank
  #heldBytes = 0
  #overdueBytes = 0
  #looking: Promise<void> = Promise.resolve()
  readonly #inTurn: Waiter[] = []
  readonly #behind: Waiter[] = []

  /** `around`: what is held here is held there too, all of it where it is more than there is here. `rank`: of all who enter here, there too. */
  constructor(capacityBytes: number, around?: Room, rank: Rank = 'in_turn') {
    this.#capacityBytes = capacityBytes
    this.#around = around
    this.#rank = rank
  }

  get heldBytes(): number {
    return this.#heldBytes
  }

  get full(): boolean {
    return this.#heldBytes >= this.#capacityBytes || this.#around?.full === true
  }

  /** What gets in right now if nobody waits: into an empty room anything. */
  get freeBytes(): number {
    const bytes = this.#heldBytes === 0 ? Infinity : this.#capacityBytes - this.#heldBytes
    return Math.min(bytes, this.#around?.freeBytes ?? Infinity)
  }

  /** Resolves with the way out, to be called once. What asks for more than there is gets in alone. Rejects when `signal` aborts. */
  async enter(bytes: number, signal: AbortSignal, rank = this.#rank): Promise<() => void> {
    signal.throwIfAborted()
    const wanted = Math.min(bytes, this.#capacityBytes)
    if (this.#isFree(wanted, rank)) this.#heldBytes += wanted
    else await this.#turn(wanted, signal, rank)
    const leave = this.#wayOut(wanted)
    if (!this.#around) return leave
    try {
      return both(await this.#around.enter(bytes, signal, rank), leave)
    } catch (error) {
      leave()
      throw error
    }
  }

  /** The way out, or undefined where there is no room right now: for what can do without. */
  tryEnter(bytes: number, rank = this.#rank): (() => void) | undefined {
    const wanted = Math.min(bytes, this.#capacityBytes)
    if (!this.#isFree(wanted, rank)) return undefined
    const leaveAround = this.#around?.tryEnter(bytes, rank)
    if (this.#around && !leaveAround) return undefined
    this.#heldBytes += wanted
    const leave = this.#wayOut(wanted)
    return leaveAround ? both(leaveAround, leave) : leave
  }

  /** For who must have a thing in hand to know how much room it wants: of all of them, one has at a time. */
  oneByOne<T>(look: () => Promise<T>): Promise<T> {
    if (this.#around) return this.#around.oneByOne(look)
    const looked = this.#looking.then(look)
    this.#looking = looked.then(
      () => undefined,
      () => undefined,
    )
    return looked
  }

  /** Of what is held, so much stays for nobody knows how long: until what this gives is called. */
  overdue(bytes: number): () => void {
    const held = Math.min(bytes, this.#capacityBytes)
    this.#overdueBytes += held
    this.#admit()
    return () => {
      this.#overdueBytes -= held
    }
  }

  /** Right now, past nobody whose turn comes before. */
  #isFree(bytes: number, rank: Rank): boolean {
    return this.#isTurn(rank) && this.#heldBytes + bytes <= this.#capacityBytes
  }

  #isTurn(rank: Rank): boolean {
    if (rank === 'in_turn') return this.#inTurn.every((waiter) => this.#isKeptOut(waiter))
    return this.#inTurn.length === 0 && (rank === 'in_line' || this.#behind.length === 0)
  }

  /** Even when all have left who are in time. */
  #isKeptOut({ bytes }: Waiter): boolean {
    return bytes + this.#overdueBytes > this.#capacityBytes
  }

  #wayOut(bytes: number): () => void {
    let inside = true
    return () => {
      if (!inside) return
      inside = false
      this.#heldBytes -= bytes
      this.#admit()
    }
  }

  #turn(bytes: number, signal: AbortSignal, rank: Rank): Promise<void> {
    const waiting = this.#queueOf(rank)
    return new Promise((resolve, reject) => {
      const leave = () => {
        waiting.splice(waiting.indexOf(waiter), 1)
        reject(signal.reason as Error)
        this.#admit()
      }
      const waiter: Waiter = {
        bytes,
        rank,
        enter: () => {
          signal.removeEventListener('abort', leave)
          resolve()
        },
      }
      signal.addEventListener('abort', leave, { once: true })
      waiting.push(waiter)
    })
  }

  #queueOf(rank: Rank): Waiter[] {
    return rank === 'behind' ? this.#behind : this.#inTurn
  }

  #admit(): void {
    for (;;) {
      const next = this.#next()
      if (!next || this.#heldBytes + next.bytes > this.#capacityBytes) return
      this.#heldBytes += next.bytes
      const waiting = this.#queueOf(next.rank)
      waiting.splice(waiting.indexOf(next), 1)
      next.enter()
    }
  }

  #next(): Waiter | undefined {
    if (this.#inTurn.length === 0) return this.#behind[0]
    return this.#inTurn.find(
      (waiter, i) => !this.#isKeptOut(waiter) && (i === 0 || waiter.rank === 'in_turn'),
    )
  }
}

export interface Rooms {
  readonly all: Room
  /** the readers' part */
  readonly reading: Room
  /** the part of that for those of the past */
  readonly past: Room
  /** the part of sinks that have not proven themselves */
  readonly unproven: Room
}

/** The room of a process with its parts. */
export function openRooms(): Rooms {
  const all = new Room(ALL_BYTES)
  const parts = { reading: new Room(READING_BYTES, all), unproven: new Room(UNPROVEN_BYTES, all, 'in_line') }
  return { all, ...parts, past: new Room(PAST_BYTES, parts.reading, 'behind') }
}

const both = (one: () => void, other: () => void) => () => {
  one()
  other()
}
