// The process's allowance of held bytes (law 4): readers and sinks wait here for room before they hold a body or a batch.

/** All held bodies and batches of the process. */
const ALL_BYTES = 32 * 1024 * 1024
/** Of these, what readers may hold: APIs that stall in the middle of their answers keep no sink from sending. */
const READING_BYTES = 24 * 1024 * 1024
/** Of these, what reading of the past may hold: backfills and replays whose answers stall keep no live reading waiting, and who waits for room keeps none waiting either. */
const PAST_BYTES = 12 * 1024 * 1024

interface Waiter {
  readonly bytes: number
  enter(): void
}

/** Whom one that waits lets past. */
type Rank = 'in_turn' | 'behind'

/**
 * First come, first served, so that a large holder is not starved by small ones; only who waits behind gets in when nobody
 * else waits. A part of a room bounds one kind of holder: the rest is left to the others.
 */
export class Room {
  readonly #capacityBytes: number
  readonly #around: Room | undefined
  readonly #rank: Rank
  #heldBytes = 0
  #looking: Promise<void> = Promise.resolve()
  readonly #waiting: Record<Rank, Waiter[]> = { in_turn: [], behind: [] }

  /** `around`: what is held here is held there too. `rank`: of all who enter here, there too. */
  constructor(capacityBytes: number, around?: Room, rank: Rank = 'in_turn') {
    this.#capacityBytes = capacityBytes
    this.#around = around
    this.#rank = rank
  }

  get heldBytes(): number {
    return this.#heldBytes
  }

  get full(): boolean {
    return this.#heldBytes >= this.#capacityBytes
  }

  /** What gets in right now if nobody waits: into an empty room anything. */
  get freeBytes(): number {
    return this.#heldBytes === 0 ? Infinity : this.#capacityBytes - this.#heldBytes
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
      return both(await this.#around.enter(wanted, signal, rank), leave)
    } catch (error) {
      leave()
      throw error
    }
  }

  /** The way out, or undefined where there is no room right now: for what can do without. */
  tryEnter(bytes: number, rank = this.#rank): (() => void) | undefined {
    const wanted = Math.min(bytes, this.#capacityBytes)
    if (!this.#isFree(wanted, rank)) return undefined
    const leaveAround = this.#around?.tryEnter(wanted, rank)
    if (this.#around && !leaveAround) return undefined
    this.#heldBytes += wanted
    const leave = this.#wayOut(wanted)
    return leaveAround ? both(leaveAround, leave) : leave
  }

  /** For who must have a thing in hand to know how much room it wants: of all of them, one has at a time. */
  oneByOne<T>(look: () => Promise<T>): Promise<T> {
    const looked = this.#looking.then(look)
    this.#looking = looked.then(
      () => undefined,
      () => undefined,
    )
    return looked
  }

  /** Right now, past nobody whose turn comes before. */
  #isFree(bytes: number, rank: Rank): boolean {
    const { in_turn: inTurn, behind } = this.#waiting
    const isTurn = inTurn.length === 0 && (rank === 'in_turn' || behind.length === 0)
    return isTurn && this.#heldBytes + bytes <= this.#capacityBytes
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
    const waiting = this.#waiting[rank]
    return new Promise((resolve, reject) => {
      const leave = () => {
        waiting.splice(waiting.indexOf(waiter), 1)
        reject(signal.reason as Error)
        this.#admit()
      }
      const waiter: Waiter = {
        bytes,
        enter: () => {
          signal.removeEventListener('abort', leave)
          resolve()
        },
      }
      signal.addEventListener('abort', leave, { once: true })
      waiting.push(waiter)
    })
  }

  #admit(): void {
    const { in_turn: inTurn, behind } = this.#waiting
    for (;;) {
      const waiting = inTurn.length > 0 ? inTurn : behind
      const [next] = waiting
      if (!next || this.#heldBytes + next.bytes > this.#capacityBytes) return
      this.#heldBytes += next.bytes
      waiting.shift()
      next.enter()
    }
  }
}

/** The room of a process, the part of it that its readers enter, and the part of that for those of the past. */
export function openRooms(): { readonly all: Room; readonly reading: Room; readonly past: Room } {
  const all = new Room(ALL_BYTES)
  const readers = { reading: new Room(READING_BYTES, all) }
  return { all, ...readers, past: new Room(PAST_BYTES, readers.reading, 'behind') }
}

const both = (one: () => void, other: () => void) => () => {
  one()
  other()
}
