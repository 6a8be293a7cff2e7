// Several endpoints of one receiver: used in turn; one that fails pauses, longer each time.
import { backoffMs } from '../../core/backoff.ts'
import type { Clock, Random } from '../../core/clock.ts'
import { ConnectorError } from '../../core/errors.ts'

const REST = { baseMs: 1_000, capMs: 60_000 }

interface Rest {
  /** in a row */
  readonly failures: number
  /** monotonic ms */
  readonly until: number
}

export class Endpoints<Endpoint> {
  readonly all: readonly Endpoint[]
  readonly #clock: Clock
  readonly #random: Random
  /** of those whose last request failed */
  readonly #rests = new Map<Endpoint, Rest>()
  #turn = 0

  constructor(all: readonly Endpoint[], clock: Clock, random: Random) {
    this.all = all
    this.#clock = clock
    this.#random = random
  }

  /** The next one that is not paused; if all are, the first to be ready: the dispatcher waits. */
  pick(): Endpoint {
    const now = this.#clock.elapsed()
    const inTurn = [...this.all.slice(this.#turn), ...this.all.slice(0, this.#turn)]
    const chosen =
      inTurn.find((endpoint) => this.#readyAt(endpoint) <= now) ??
      inTurn.reduce((first, endpoint) => (this.#readyAt(endpoint) < this.#readyAt(first) ? endpoint : first))
    this.#turn = this.all.indexOf(chosen) + 1
    return chosen
  }

  succeeded(endpoint: Endpoint): void {
    this.#rests.delete(endpoint)
  }

  /**
   * Pauses the endpoint. Its retry hint applies to it alone: the error returned asks to wait only
   * until one of all endpoints is ready.
   */
  failed(endpoint: Endpoint, error: ConnectorError): ConnectorError {
    const { code, message, retryAfterMs: hintMs, cause } = error
    const failures = (this.#rests.get(endpoint)?.failures ?? 0) + 1
    const restMs = Math.max(hintMs ?? 0, backoffMs(failures, REST, this.#random))
    const now = this.#clock.elapsed()
    this.#rests.set(endpoint, { failures, until: now + restMs })
    if (hintMs === undefined) return error
    const readyInMs = Math.max(0, Math.min(...this.all.map((each) => this.#readyAt(each))) - now)
    return new ConnectorError(code, message, { retryAfterMs: Math.min(hintMs, readyInMs), cause })
  }

  #readyAt(endpoint: Endpoint): number {
    return this.#rests.get(endpoint)?.until ?? -Infinity
  }
}
