// Lets a sink's conductor wait for new entries without asking again and again.
import type { Seq } from '../model/seq.ts'

export class Arrivals {
  /** the last sequence number that each sink was told of */
  readonly #told = new Map<string, Seq>()
  readonly #waiting = new Set<() => void>()

  constructor(positions: Iterable<readonly [string, Seq]>) {
    for (const [sink, position] of positions) this.#told.set(sink, position)
  }

  /** `lastSeq` is asked at each waking. */
  async wait(sink: string, lastSeq: () => Seq, signal: AbortSignal): Promise<void> {
    while (!signal.aborted && lastSeq() <= (this.#told.get(sink) ?? 0)) await this.#next(signal)
    this.#told.set(sink, lastSeq())
  }

  wake(): void {
    for (const waiter of [...this.#waiting]) waiter()
  }

  #next(signal: AbortSignal): Promise<void> {
    return new Promise((resolve) => {
      const done = () => {
        this.#waiting.delete(done)
        signal.removeEventListener('abort', done)
        resolve()
      }
      this.#waiting.add(done)
      signal.addEventListener('abort', done, { once: true })
    })
  }
}
