// Abort signals scoped to a piece of work: they follow the outer signal and detach from it when the
// work is done.
import type { Clock } from './clock.ts'
import { ConnectorError } from './errors.ts'

/** Shared: an error's stack costs more than the signal, and this one is never read. */
const OVER = new Error('over')

/**
 * `signal` aborts with `outer` or `abort`, or when the work is over: `close` must be called then
 * and removes the listener.
 */
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

/** Rejects as soon as `signal` aborts, even if the other side is still busy. */
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

/** Resolves when `signal` aborts. Leaves a listener: for signals that end with the work. */
export function untilAborted(signal: AbortSignal): Promise<undefined> {
  return new Promise((resolve) => {
    if (signal.aborted) resolve(undefined)
    else signal.addEventListener('abort', () => resolve(undefined), { once: true })
  })
}

// Splits long work into turns, so that probes and signals are handled in between.

/** Await between pieces of work: yields every `turnMs`. Throws ConnectorError `aborted`. */
export function turns(clock: Clock, turnMs: number, signal: AbortSignal): () => Promise<void> | undefined {
  let since = clock.elapsed()
  const pause = async () => {
    await clock.sleep(0, signal)
    if (signal.aborted) throw new ConnectorError('aborted', 'Stopped')
    since = clock.elapsed()
  }
  return () => (clock.elapsed() - since >= turnMs ? pause() : undefined)
}
