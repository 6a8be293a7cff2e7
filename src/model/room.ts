// The process's allowance of held bytes (law 4): readers and sinks wait here for room before they hold a body or a batch.

const MIB = 1024 * 1024
/** What readers may hold: APIs that stall in the middle of their answers keep no sink from sending. */
const READING_BYTES = 16 * MIB
/** Of these, what reading of the past may hold: backfills and replays whose answers stall keep no live reading waiting, and who waits for room keeps none waiting either. */
const PAST_BYTES = 8 * MIB
/** Of these, what single entries may take beyond their sinks' shares, or one that wants more: receivers that hang over such keep no reading waiting. */
const LARGE_BYTES = 8 * MIB
/** What sinks may hold, an equal share each: receivers that hang, however many, keep neither reading nor other sinks waiting. */
const SINKS_BYTES = 16 * MIB

/** The way out, of all but `keptBytes`, which stay held. No more is ever held by it than before. */
export type WayOut = (keptBytes?: number) => void

interface Waiter {
  readonly bytes: number
  enter(): void
}

/** Whom one that waits lets past. */
type Rank = 'in_turn' | 'behind'

/**
 * First come, first served, so that a large holder is not starved by small ones; only who waits behind gets in when nobody
 * else waits. A part of a room bounds one kind of holder: the rest is left to the others. Whoever is in a part has still to come
 * into the room around it, never the other way round: so nobody waits for whom he keeps waiting.
 */
export class Room {
  readonly capacityBytes: number
  readonly #around: Room | undefined
  readonly #rank: Rank
  readonly #beyond: Room | undefined
  #heldBytes = 0
  #looking: Promise<void> = Promise.resolve()
  readonly #waiting: Record<Rank, Waiter[]> = { in_turn: [], behind: [] }

  /**
   * `around`: what is held here is held there too. `rank`: of all who enter here, there too. `beyond`: the part of the same room
   * in which the rest is held of what asks for more than there is here.
   */
  constructor(capacityBytes: number, around?: Room, rank: Rank = 'in_turn', beyond?: Room) {
    this.capacityBytes = capacityBytes
    this.#around = around
    this.#rank = rank
    this.#beyond = beyond
  }

  get heldBytes(): number {
    return this.#heldBytes
  }

  get full(): boolean {
    return this.freeBytes <= 0
  }

  /** What gets in right now if nobody waits. */
  get freeBytes(): number {
    return Math.min(this.capacityBytes - this.#heldBytes, this.#around?.freeBytes ?? Infinity)
  }

  /**
   * Resolves with the way out. What asks for more than there is gets in alone. Rejects when `signal` aborts.
   * `elsewhereBytes`: so much of it is held in another part already.
   */
  async enter(bytes: number, signal: AbortSignal, rank = this.#rank, elsewhereBytes = 0): Promise<WayOut> {
    signal.throwIfAborted()
    const wanted = this.#wanted(bytes, elsewhereBytes)
    if (this.#isFree(wanted, rank)) this.#heldBytes += wanted
    else await this.#turn(wanted, signal, rank)
    const leave = this.#wayOut(wanted, elsewhereBytes)
    const [outer, outerBytes, besideBytes] = this.#onwards(bytes, elsewhereBytes)
    if (!outer) return leave
    try {
      return both(await outer.enter(outerBytes, signal, rank, besideBytes), leave)
    } catch (error) {
      leave()
      throw error
    }
  }

  /** The way out, or undefined where there is no room right now: for what can do without. */
  tryEnter(bytes: number, rank = this.#rank, elsewhereBytes = 0): WayOut | undefined {
    const wanted = this.#wanted(bytes, elsewhereBytes)
    if (!this.#isFree(wanted, rank)) return undefined
    const [outer, outerBytes, besideBytes] = this.#onwards(bytes, elsewhereBytes)
    const leaveOuter = outer?.tryEnter(outerBytes, rank, besideBytes)
    if (outer && !leaveOuter) return undefined
    this.#heldBytes += wanted
    const leave = this.#wayOut(wanted, elsewhereBytes)
    return leaveOuter ? both(leaveOuter, leave) : leave
  }

  /** For who must have a thing in hand to know how much room it wants: of all of them, in all parts, one has at a time. */
  oneByOne<T>(look: () => Promise<T>): Promise<T> {
    if (this.#around) return this.#around.oneByOne(look)
    const looked = this.#looking.then(look)
    this.#looking = looked.then(
      () => undefined,
      () => undefined,
    )
    return looked
  }

  /** The room around all parts has all of it. */
  #wanted(bytes: number, elsewhereBytes: number): number {
    const wanted = this.#around ? Math.max(0, bytes - elsewhereBytes) : bytes
    return Math.min(wanted, this.capacityBytes)
  }

  /**
   * The room that is to be entered too, for how much, and how much is held elsewhere then. Around all parts no more is held than
   * in them: however large it is, what it may not have there it does not take from the parts of others.
   */
  #onwards(bytes: number, elsewhereBytes: number): [Room | undefined, number, number] {
    if (this.#beyond && bytes > this.capacityBytes) return [this.#beyond, bytes, this.capacityBytes]
    const outer = this.#around
    const outerBytes = outer && !outer.#around ? Math.min(bytes, elsewhereBytes + this.capacityBytes) : bytes
    return [outer, outerBytes, elsewhereBytes]
  }

  /** Right now, past nobody whose turn comes before. */
  #isFree(bytes: number, rank: Rank): boolean {
    const { in_turn: inTurn, behind } = this.#waiting
    const isTurn = inTurn.length === 0 && (rank === 'in_turn' || behind.length === 0)
    return isTurn && this.#heldBytes + bytes <= this.capacityBytes
  }

  #wayOut(bytes: number, elsewhereBytes: number): WayOut {
    let heldBytes = bytes
    return (keptBytes = 0) => {
      const left = heldBytes - this.#wanted(keptBytes, elsewhereBytes)
      if (left <= 0) return
      heldBytes -= left
      this.#heldBytes -= left
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
      if (!next || this.#heldBytes + next.bytes > this.capacityBytes) return
      this.#heldBytes += next.bytes
      waiting.shift()
      next.enter()
    }
  }
}

export interface Rooms {
  readonly all: Room
  readonly reading: Room
  /** the part of that for readers of the past */
  readonly past: Room
  /** The share of one of the sinks. */
  readonly share: () => Room
}

/** The room of a process with so many sinks. */
export function openRooms(sinks: number): Rooms {
  const all = new Room(READING_BYTES + SINKS_BYTES)
  const reading = new Room(READING_BYTES, all)
  const large = new Room(LARGE_BYTES, reading)
  const past = new Room(PAST_BYTES, reading, 'behind')
  const shareBytes = Math.floor(SINKS_BYTES / sinks)
  return { all, reading, past, share: () => new Room(shareBytes, all, 'in_turn', large) }
}

const both = (one: WayOut, other: WayOut) => (keptBytes?: number) => {
  one(keptBytes)
  other(keptBytes)
}
