// The process's allowance of held bytes (invariant 4): readers and sinks wait here for room before they hold a body or a batch.

const MIB = 1024 * 1024
/** What readers may hold: APIs that stall in the middle of their answers keep no sink from sending. */
const READING_BYTES = 16 * MIB
/** Part of that for answers that may stream for hours, the history's and all of the past: the audit log and the vault are read meanwhile. */
const LONG_BYTES = 12 * MIB
/** Part of that for reading the past, so that backfills and replays whose answers stall keep no live reading waiting; whoever waits here lets live reading pass. */
const PAST_BYTES = 8 * MIB
/** Part of what readers may hold, for single entries larger than their sinks' shares, or for one that wants more: receivers that hang over such keep no reading waiting. */
const LARGE_BYTES = 8 * MIB
/** What sinks may hold, an equal share each: receivers that hang, however many, keep neither reading nor other sinks waiting. */
const SINKS_BYTES = 16 * MIB

/** The way out of a room: gives back all but `keptBytes`, which stay held. It never holds more than before. */
export type WayOut = (keptBytes?: number) => void

interface Waiter {
  readonly bytes: number
  enter(): void
}

interface Onwards {
  readonly room: Room
  readonly bytes: number
  readonly elsewhereBytes: number
}

/** Who comes first: `in_turn` before `behind`, whenever both wait. */
type Rank = 'in_turn' | 'behind'

/**
 * First come, first served, so that a large holder is not starved by small ones; only who waits behind gets in when nobody
 * else waits. A part of a room bounds one kind of holder: the rest is left to the others. Whoever is in a part has still to come
 * into the room around it, never the other way round: so nobody waits for whom he keeps waiting.
 *
 * With 4 sinks each share has 4 MiB. An entry that wants 10 takes the 4 of its sink's share, and goes on to `large` for the 6
 * that are missing: `large` holds 6, `reading` around that holds 6, and the room of all holds 10.
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
   * `around`: the room that this one is a part of; what is held here is held there too. `rank`: how whoever enters here waits,
   * here and around. `beyond`: another part of the same room, for the rest of what asks for more than there is here.
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
   * `elsewhereBytes`: so much of `bytes` is held in another part already, such as a sink's share.
   */
  async enter(bytes: number, signal: AbortSignal, rank = this.#rank, elsewhereBytes = 0): Promise<WayOut> {
    signal.throwIfAborted()
    const wanted = this.#wanted(bytes, elsewhereBytes)
    if (this.#isFree(wanted, rank)) this.#heldBytes += wanted
    else await this.#turn(wanted, signal, rank)
    const giveBack = this.#wayOut(wanted, elsewhereBytes)
    const next = this.#onwards(bytes, elsewhereBytes)
    if (!next) return giveBack
    try {
      return both(await next.room.enter(next.bytes, signal, rank, next.elsewhereBytes), giveBack)
    } catch (error) {
      giveBack()
      throw error
    }
  }

  /** The way out, or undefined where there is no room right now: for what can do without. */
  tryEnter(bytes: number, rank = this.#rank, elsewhereBytes = 0): WayOut | undefined {
    const wanted = this.#wanted(bytes, elsewhereBytes)
    if (!this.#isFree(wanted, rank)) return undefined
    const next = this.#onwards(bytes, elsewhereBytes)
    const giveBackNext = next?.room.tryEnter(next.bytes, rank, next.elsewhereBytes)
    if (next && !giveBackNext) return undefined
    this.#heldBytes += wanted
    const giveBack = this.#wayOut(wanted, elsewhereBytes)
    return giveBackNext ? both(giveBackNext, giveBack) : giveBack
  }

  /** For callers that must have a thing in hand to know how much room it wants: in all parts together one looks at a time. */
  oneByOne<T>(look: () => Promise<T>): Promise<T> {
    if (this.#around) return this.#around.oneByOne(look)
    const looked = this.#looking.then(look)
    this.#looking = looked.then(
      () => undefined,
      () => undefined,
    )
    return looked
  }

  /** What is to be held here: in a part what no other part holds, in the room around all parts all of it. */
  #wanted(bytes: number, elsewhereBytes: number): number {
    const wanted = this.#around ? Math.max(0, bytes - elsewhereBytes) : bytes
    return Math.min(wanted, this.capacityBytes)
  }

  /**
   * The room that is to be entered next, and with what. Around all parts no more is held than in them: however large it is, what
   * it may not have there it does not take from the parts of others.
   */
  #onwards(bytes: number, elsewhereBytes: number): Onwards | undefined {
    if (this.#beyond && bytes > this.capacityBytes)
      return { room: this.#beyond, bytes, elsewhereBytes: this.capacityBytes }
    const room = this.#around
    if (!room) return undefined
    const outermost = room.#around === undefined
    const most = outermost ? elsewhereBytes + this.capacityBytes : Infinity
    return { room, bytes: Math.min(bytes, most), elsewhereBytes }
  }

  /** True where so much fits right now, and nobody waits whose turn comes before. */
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
  /** around the others: what it holds is what the process holds (invariant 4) */
  readonly all: Room
  readonly reading: Room
  /** the part of that for what may stream for hours */
  readonly long: Room
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
  const long = new Room(LONG_BYTES, reading)
  const past = new Room(PAST_BYTES, long, 'behind')
  const shareBytes = Math.floor(SINKS_BYTES / sinks)
  return { all, reading, long, past, share: () => new Room(shareBytes, all, 'in_turn', large) }
}

const both = (one: WayOut, other: WayOut) => (keptBytes?: number) => {
  one(keptBytes)
  other(keptBytes)
}
