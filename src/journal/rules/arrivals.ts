// Lets a delivery loop wait for new entries without polling.
import type { Seq } from '../../core/sequence.ts'

export class Arrivals {
  /** the last sequence number reported to each sink */
  readonly #reported = new Map<string, Seq>()
  readonly #waiting = new Set<() => void>()

  reported(sink: string, seq: Seq): void {
    this.#reported.set(sink, seq)
  }

  /** `lastSeq` is called at each wake-up; what it throws ends the wait. */
  async wait(sink: string, lastSeq: () => Seq, signal: AbortSignal): Promise<void> {
    while (!signal.aborted && lastSeq() <= (this.#reported.get(sink) ?? 0)) await this.#next(signal)
    this.#reported.set(sink, lastSeq())
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
