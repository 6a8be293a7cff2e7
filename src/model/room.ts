// The process's allowance of held bytes (law 4): readers and sinks wait here for room before they hold a body or a batch.

interface Waiter {
  readonly bytes: number
  enter(): void
}

/** First come, first served, so that a large holder is not starved by small ones. */
export class Room {
  readonly #capacityBytes: number
  #heldBytes = 0
  readonly #waiting: Waiter[] = []

  constructor(capacityBytes: number) {
    this.#capacityBytes = capacityBytes
  }

  get heldBytes(): number {
    return this.#heldBytes
  }

  /** Resolves with the way out, to be called once. What asks for more than there is gets in alone. Rejects when `signal` aborts. */
  async enter(bytes: number, signal: AbortSignal): Promise<() => void> {
    signal.throwIfAborted()
    const wanted = Math.min(bytes, this.#capacityBytes)
    if (this.#waiting.length > 0 || this.#heldBytes + wanted > this.#capacityBytes)
      await this.#turn(wanted, signal)
    else this.#heldBytes += wanted
    return this.#wayOut(wanted)
  }

  /** The way out, or undefined where there is no room right now: for what can do without. */
  tryEnter(bytes: number): (() => void) | undefined {
    const wanted = Math.min(bytes, this.#capacityBytes)
    if (this.#waiting.length > 0 || this.#heldBytes + wanted > this.#capacityBytes) return undefined
    this.#heldBytes += wanted
    return this.#wayOut(wanted)
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
