// Signals that end with a piece of work: they follow what is around it, and let go of it when it is done.
import type { Clock } from './clock.ts'
import { ConnectorError } from './errors.ts'

/** One for all: an error's stack costs more than the signal, and nobody reads this one. */
const OVER = new Error('over')

/** `signal` aborts with `outer`, with `abort`, or when the work is over: `close` must be called then, and leaves no listener behind. */
export class Tether {
  readonly #controller = new AbortController()
  readonly #outer: AbortSignal | undefined
  readonly #follow = () => this.#controller.abort(this.#outer?.reason)

  constructor(outer?: AbortSignal) {
    this.#outer = outer
    if (outer?.aborted) this.#follow()
    else outer?.addEventListener('abort', this.#follow, { once: true })
  }

  get signal(): AbortSignal {
    return this.#controller.signal
  }

  abort(reason: Error): void {
    this.#controller.abort(reason)
  }

  close(): void {
    this.#outer?.removeEventListener('abort', this.#follow)
    if (!this.signal.aborted) this.#controller.abort(OVER)
  }
}

/** Rejects as soon as `signal` aborts, whatever the other side does meanwhile. */
export function orAborted<T>(work: Promise<T>, signal: AbortSignal): Promise<T> {
  if (signal.aborted) {
    work.catch(() => undefined)
    return Promise.reject(signal.reason as Error)
  }
  return new Promise((resolve, reject) => {
    const abort = () => reject(signal.reason as Error)
    signal.addEventListener('abort', abort, { once: true })
    work.then(resolve, reject).finally(() => signal.removeEventListener('abort', abort))
  })
}

/** Resolves when `signal` aborts. Leaves a listener behind: for signals that end with the work. */
export function untilAborted(signal: AbortSignal): Promise<undefined> {
  return new Promise((resolve) => {
    if (signal.aborted) resolve(undefined)
    else signal.addEventListener('abort', () => resolve(undefined), { once: true })
  })
}

/** As `orAborted`, for many pieces of work, one after the other, with one listener for all. `close` leaves none behind. */
export class Guard {
  readonly #signal: AbortSignal
  #reject: ((reason: Error) => void) | undefined
  readonly #abort = () => this.#reject?.(this.#signal.reason as Error)

  constructor(signal: AbortSignal) {
    this.#signal = signal
    signal.addEventListener('abort', this.#abort, { once: true })
  }

  run<T>(work: Promise<T>): Promise<T> {
    if (this.#signal.aborted) return orAborted(work, this.#signal)
    return new Promise((resolve, reject) => {
      this.#reject = reject
      work.then(resolve, reject)
    })
  }

  close(): void {
    this.#signal.removeEventListener('abort', this.#abort)
  }
}

// Long work, cut into turns: probes and signals are heard in between.

/** To be awaited between two pieces of work: lets others have a turn each `turnMs`. Throws ConnectorError `aborted`. */
export function turns(clock: Clock, turnMs: number, signal: AbortSignal): () => Promise<void> | undefined {
  let since = clock.elapsed()
  const pause = async () => {
    await clock.sleep(0, signal)
    if (signal.aborted) throw new ConnectorError('aborted', 'Stopped')
    since = clock.elapsed()
  }
  return () => (clock.elapsed() - since >= turnMs ? pause() : undefined)
}
