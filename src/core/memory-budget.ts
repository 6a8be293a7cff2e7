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
const JOB_BYTES = 8 * MIB
/**
 * Part of the readers' budget for single entries larger than their sinks' parts, or for one that
 * needs more: receivers that hang on such entries do not block reading.
 */
const LARGE_BYTES = 8 * MIB
/** For sinks, in equal parts: a hanging receiver blocks neither reading nor other sinks. */
const SINKS_BYTES = 16 * MIB

/** Releases all except `keptBytes`, which stay counted. The count never grows. */
export type Release = (keptBytes?: number) => void

interface Waiter {
  readonly bytes: number
  enter(): void
}

interface NextBudget {
  readonly memory: MemoryBudget
  readonly bytes: number
  readonly countedElsewhereBytes: number
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
export class MemoryBudget {
  readonly capacityBytes: number
  readonly #parent: MemoryBudget | undefined
  readonly #rank: Rank
  readonly #overflow: MemoryBudget | undefined
  #usedBytes = 0
  #lastLoad: Promise<void> = Promise.resolve()
  readonly #waiting: Record<Rank, Waiter[]> = { in_turn: [], behind: [] }

  /**
   * `parent`: the enclosing budget; bytes counted here count there too. `rank`: the priority of
   * requests here and in `parent`. `overflow`: another part of the same budget, for the rest of a
   * request that is larger than this one.
   */
  constructor(capacityBytes: number, parent?: MemoryBudget, rank: Rank = 'in_turn', overflow?: MemoryBudget) {
    this.capacityBytes = capacityBytes
    this.#parent = parent
    this.#rank = rank
    this.#overflow = overflow
  }

  get usedBytes(): number {
    return this.#usedBytes
  }

  get full(): boolean {
    return this.freeBytes <= 0
  }

  /** Bytes that would be granted right now if no request waits. */
  get freeBytes(): number {
    return Math.min(this.capacityBytes - this.#usedBytes, this.#parent?.freeBytes ?? Infinity)
  }

  /**
   * Resolves with the release function. A request larger than the budget is granted alone. Rejects
   * when `signal` aborts. `countedElsewhereBytes`: how much of `bytes` another part counts already,
   * such as a sink's.
   */
  async reserve(
    bytes: number,
    signal: AbortSignal,
    rank = this.#rank,
    countedElsewhereBytes = 0,
  ): Promise<Release> {
    signal.throwIfAborted()
    const ownBytes = this.#ownBytes(bytes, countedElsewhereBytes)
    if (this.#isFree(ownBytes, rank)) this.#usedBytes += ownBytes
    else await this.#turn(ownBytes, signal, rank)
    const release = this.#release(ownBytes, countedElsewhereBytes)
    const next = this.#next(bytes, countedElsewhereBytes)
    if (!next) return release
    try {
      return both(await next.memory.reserve(next.bytes, signal, rank, next.countedElsewhereBytes), release)
    } catch (error) {
      release()
      throw error
    }
  }

  /** The release function, or undefined if there is no room right now: for optional work. */
  tryReserve(bytes: number, rank = this.#rank, countedElsewhereBytes = 0): Release | undefined {
    const ownBytes = this.#ownBytes(bytes, countedElsewhereBytes)
    if (!this.#isFree(ownBytes, rank)) return undefined
    const next = this.#next(bytes, countedElsewhereBytes)
    const releaseNext = next?.memory.tryReserve(next.bytes, rank, next.countedElsewhereBytes)
    if (next && !releaseNext) return undefined
    this.#usedBytes += ownBytes
    const release = this.#release(ownBytes, countedElsewhereBytes)
    return releaseNext ? both(releaseNext, release) : release
  }

  /** For loads whose size is known only afterwards: one at a time, in all parts together. */
  oneByOne<T>(load: () => Promise<T>): Promise<T> {
    if (this.#parent) return this.#parent.oneByOne(load)
    const loaded = this.#lastLoad.then(load)
    this.#lastLoad = loaded.then(
      () => undefined,
      () => undefined,
    )
    return loaded
  }

  /** A part counts what no other part counts; the budget around the parts counts everything. */
  #ownBytes(bytes: number, countedElsewhereBytes: number): number {
    const ownBytes = this.#parent ? Math.max(0, bytes - countedElsewhereBytes) : bytes
    return Math.min(ownBytes, this.capacityBytes)
  }

  /**
   * The budget to enter next, and with how many bytes. Around all parts no more is counted than in
   * them: a large request never takes from the parts of others what it may not have in its own.
   */
  #next(bytes: number, countedElsewhereBytes: number): NextBudget | undefined {
    if (this.#overflow && bytes > this.capacityBytes)
      return { memory: this.#overflow, bytes, countedElsewhereBytes: this.capacityBytes }
    const memory = this.#parent
    if (!memory) return undefined
    const outermost = memory.#parent === undefined
    const most = outermost ? countedElsewhereBytes + this.capacityBytes : Infinity
    return { memory, bytes: Math.min(bytes, most), countedElsewhereBytes }
  }

  /** True if this much fits right now, and no request with an earlier turn waits. */
  #isFree(bytes: number, rank: Rank): boolean {
    const { in_turn: inTurn, behind } = this.#waiting
    const isTurn = inTurn.length === 0 && (rank === 'in_turn' || behind.length === 0)
    return isTurn && this.#usedBytes + bytes <= this.capacityBytes
  }

  #release(bytes: number, countedElsewhereBytes: number): Release {
    let usedBytes = bytes
    return (keptBytes = 0) => {
      const freedBytes = usedBytes - this.#ownBytes(keptBytes, countedElsewhereBytes)
      if (freedBytes <= 0) return
      usedBytes -= freedBytes
      this.#usedBytes -= freedBytes
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
      if (!next || this.#usedBytes + next.bytes > this.capacityBytes) return
      this.#usedBytes += next.bytes
      waiting.shift()
      next.enter()
    }
  }
}

export type MemoryBudgets = ReturnType<typeof openMemoryBudgets>

/** `all` is around the others, and counts all memory of the process (invariant 4). */
export function openMemoryBudgets(sinks: number) {
  const all = new MemoryBudget(READING_BYTES + SINKS_BYTES)
  const reading = new MemoryBudget(READING_BYTES, all)
  const large = new MemoryBudget(LARGE_BYTES, reading)
  const long = new MemoryBudget(LONG_BYTES, reading)
  const jobs = new MemoryBudget(JOB_BYTES, long, 'behind')
  const sinkBytes = Math.floor(SINKS_BYTES / sinks)
  return { all, reading, long, jobs, forSink: () => new MemoryBudget(sinkBytes, all, 'in_turn', large) }
}

const both = (one: Release, other: Release) => (keptBytes?: number) => {
  one(keptBytes)
  other(keptBytes)
}
