// The process's allowance of held bytes (law 4): readers and sinks wait here for room before they hold a body or a batch.

/** All held bodies and batches of the process. */
const ALL_BYTES = 32 * 1024 * 1024
/** Of these, what readers may hold: APIs that stall in the middle of their answers keep no sink from sending. */
const READING_BYTES = 24 * 1024 * 1024
/** Of these, what reading of the past may hold: backfills and replays whose answers stall keep no live reading waiting. */
const PAST_BYTES = 12 * 1024 * 1024

interface Waiter {
  readonly bytes: number
  enter(): void
}

/** First come, first served, so that a large holder is not starved by small ones. A part of a room bounds one kind of holder: the rest is left to the others. */
export class Room {
  readonly #capacityBytes: number
  readonly #around: Room | undefined
  #heldBytes = 0
  readonly #waiting: Waiter[] = []

  /** `around`: what is held here is held there too. */
  constructor(capacityBytes: number, around?: Room) {
    this.#capacityBytes = capacityBytes
    this.#around = around
  }

  get heldBytes(): number {
    return this.#heldBytes
  }

  get full(): boolean {
    return this.#heldBytes >= this.#capacityBytes
  }

  /** Resolves with the way out, to be called once. What asks for more than there is gets in alone. Rejects when `signal` aborts. */
  async enter(bytes: number, signal: AbortSignal): Promise<() => void> {
    signal.throwIfAborted()
    const wanted = Math.min(bytes, this.#capacityBytes)
    if (this.#waiting.length > 0 || this.#heldBytes + wanted > this.#capacityBytes)
      await this.#turn(wanted, signal)
    else this.#heldBytes += wanted
    const leave = this.#wayOut(wanted)
    if (!this.#around) return leave
    try {
      return both(await this.#around.enter(wanted, signal), leave)
    } catch (error) {
      leave()
      throw error
    }
  }

  /** The way out, or undefined where there is no room right now: for what can do without. */
  tryEnter(bytes: number): (() => void) | undefined {
    const wanted = Math.min(bytes, this.#capacityBytes)
    if (this.#waiting.length > 0 || this.#heldBytes + wanted > this.#capacityBytes) return undefined
    const leaveAround = this.#around?.tryEnter(wanted)
    if (this.#around && !leaveAround) return undefined
    this.#heldBytes += wanted
    const leave = this.#wayOut(wanted)
    return leaveAround ? both(leaveAround, leave) : leave
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

  #turn(bytes: number, signal: AbortSignal): Promise<void> {
    return new Promise((resolve, reject) => {
      const leave = () => {
        this.#waiting.splice(this.#waiting.indexOf(waiter), 1)
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
      this.#waiting.push(waiter)
    })
  }

  #admit(): void {
    for (let next = this.#waiting[0]; next; next = this.#waiting[0]) {
      if (this.#heldBytes + next.bytes > this.#capacityBytes) return
      this.#heldBytes += next.bytes
      this.#waiting.shift()
      next.enter()
    }
  }
}

/** The room of a process, the part of it that its readers enter, and the part of that for those of the past. */
export function openRooms(): { readonly all: Room; readonly reading: Room; readonly past: Room } {
  const all = new Room(ALL_BYTES)
  const readers = { reading: new Room(READING_BYTES, all) }
  return { all, ...readers, past: new Room(PAST_BYTES, readers.reading) }
}

const both = (one: () => void, other: () => void) => () => {
  one()
  other()
}
