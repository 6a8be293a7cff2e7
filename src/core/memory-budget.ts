// Memory budget of the process (invariant 4): readers and sinks wait here before they keep a body
// or a batch in memory.

const MIB = 1024 * 1024
/** For readers: APIs that stall in the middle of their answers cannot block sending. */
const READING_BYTES = 16 * MIB
/**
 * Part of that for answers that may stream for hours, of the history and all jobs: the audit log
 * and the vault are read meanwhile.
 */
const LONG_BYTES = 12 * MIB
/**
 * Part of that for jobs, so that stalled answers of backfills and replays do not block live
 * reading; live reading goes first here.
 */
const PAST_BYTES = 8 * MIB
/**
 * Part of the readers' budget for single entries larger than their sinks' parts, or for one that
 * needs more: receivers that hang on such entries do not block reading.
 */
const LARGE_BYTES = 8 * MIB
/**
 * For sinks, in equal parts: any number of hanging receivers blocks neither reading nor other
 * sinks.
 */
const SINKS_BYTES = 16 * MIB

/** Releases all except `keptBytes`, which stay counted. The count never grows. */
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

/** Priority: `in_turn` before `behind`, if both wait. */
type Rank = 'in_turn' | 'behind'

/**
 * First come, first served, so that small requests do not starve a large one; a request of rank
 * `behind` enters only if no other waits. A part bounds one kind of user, and the rest is left to
 * the others. A request enters its part first and then the budget around it, never the other way
 * round, so there is no deadlock.
 * With 4 sinks each part has 4 MiB. An entry that needs 10 takes the 4 of its sink's part, and the
 * missing 6 from `large`: `large` counts 6, `reading` around it counts 6, and the budget of the
 * process counts 10.
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
   * `around`: the enclosing budget; bytes counted here count there too. `rank`: the priority of
   * requests here and in `around`. `beyond`: another part of the same budget, for the rest of a
   * request that is larger than this one.
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

  /** Bytes that would be granted right now if no request waits. */
  get freeBytes(): number {
    return Math.min(this.capacityBytes - this.#heldBytes, this.#around?.freeBytes ?? Infinity)
  }

  /**
   * Resolves with the release function. A request larger than the budget is granted alone. Rejects
   * when `signal` aborts. `elsewhereBytes`: how much of `bytes` is already counted in another part,
   * such as a sink's.
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

  /** The release function, or undefined if there is no room right now: for optional work. */
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

  /**
   * For callers that must load data to know how much memory it needs: in all parts together one
   * loads at a time.
   */
  oneByOne<T>(look: () => Promise<T>): Promise<T> {
    if (this.#around) return this.#around.oneByOne(look)
    const looked = this.#looking.then(look)
    this.#looking = looked.then(
      () => undefined,
      () => undefined,
    )
    return looked
  }

  /**
   * The bytes to count here: in a part those that no other part counts, in the budget around all
   * parts all of them.
   */
  #wanted(bytes: number, elsewhereBytes: number): number {
    const wanted = this.#around ? Math.max(0, bytes - elsewhereBytes) : bytes
    return Math.min(wanted, this.capacityBytes)
  }

  /**
   * The budget to enter next, and with how many bytes. Around all parts no more is counted than in
   * them: a large request never takes from the parts of others what it may not have in its own.
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

  /** True if this much fits right now, and no request with an earlier turn waits. */
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
  /** around the others: counts all memory of the process (invariant 4) */
  readonly all: Room
  readonly reading: Room
  /** the part of that for answers that may stream for hours */
  readonly long: Room
  /** the part of that for jobs */
  readonly past: Room
  /** The part of one sink. */
  readonly share: () => Room
}

/** The budget of a process with this many sinks. */
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
