// Several endpoints of one receiver: used in turn; one that fails pauses, longer each time.
import { addressOf, hostPort } from '../../contracts/platform.ts'
import { backoffMs } from '../../core/backoff.ts'
import type { Clock, Random } from '../../core/clock.ts'
import { ConnectorError } from '../../core/errors.ts'

const REST = { baseMs: 1_000, capMs: 60_000 }

export interface Endpoint {
  /** scheme://host:port */
  readonly origin: string
  /** host:port */
  readonly where: string
}

interface State extends Endpoint {
  failures: number
  /** monotonic ms */
  restsUntil: number
}

export class Endpoints {
  readonly #states: readonly State[]
  readonly #clock: Clock
  readonly #random: Random
  #turn = 0

  constructor(urls: readonly string[], clock: Clock, random: Random) {
    this.#clock = clock
    this.#random = random
    this.#states = urls.map((text) => {
      return { origin: new URL(text).origin, where: hostPort(addressOf(text)), failures: 0, restsUntil: 0 }
    })
  }

  get all(): readonly Endpoint[] {
    return this.#states
  }

  /** The next one that is not paused; if all are, the first to be ready: the dispatcher waits. */
  pick(): Endpoint {
    const now = this.#clock.elapsed()
    const inTurn = this.#states.map((_, i) => this.#at(this.#turn + i))
    const chosen =
      inTurn.find((state) => state.failures === 0 || state.restsUntil <= now) ??
      inTurn.reduce((first, state) => (state.restsUntil < first.restsUntil ? state : first))
    this.#turn = this.#states.indexOf(chosen) + 1
    return chosen
  }

  succeeded(endpoint: Endpoint): void {
    const state = this.#of(endpoint)
    state.failures = 0
    state.restsUntil = 0
  }

  /**
   * Pauses the endpoint. Its retry hint applies to it alone: the error returned asks to wait only
   * until one of all endpoints is ready.
   */
  failed(endpoint: Endpoint, error: ConnectorError): ConnectorError {
    const { code, message, retryAfterMs: hintMs, cause } = error
    const state = this.#of(endpoint)
    state.failures++
    const restMs = Math.max(hintMs ?? 0, backoffMs(state.failures, REST, this.#random))
    const now = this.#clock.elapsed()
    state.restsUntil = now + restMs
    if (hintMs === undefined) return error
    const readyInMs = Math.min(...this.#states.map(({ restsUntil }) => Math.max(0, restsUntil - now)))
    return new ConnectorError(code, message, { retryAfterMs: Math.min(hintMs, readyInMs), cause })
  }

  #at(turn: number): State {
    return this.#states[turn % this.#states.length] as State
  }

  #of(endpoint: Endpoint): State {
    return this.#states.find((state) => state.origin === endpoint.origin) ?? this.#at(0)
  }
}
