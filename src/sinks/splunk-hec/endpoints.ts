// Several collectors behind one sink: asked in turn, one that fails rests for a while and longer each time.
import { backoffMs } from '../../model/backoff.ts'
import type { Clock, Random } from '../../model/clock.ts'
import { addressOf, hostPort } from '../../model/socket.ts'

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

  /** The next that does not rest; when all do, the one that is ready first: how long to wait is the conductor's to say. */
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

  failed(endpoint: Endpoint, hintMs = 0): void {
    const state = this.#of(endpoint)
    state.failures++
    const restMs = Math.max(hintMs, backoffMs(state.failures, REST, this.#random))
    state.restsUntil = this.#clock.elapsed() + restMs
  }

  /** How long until one of them does not rest: no hint of another may keep a batch for longer. */
  get readyInMs(): number {
    const now = this.#clock.elapsed()
    return Math.min(...this.#states.map(({ restsUntil }) => Math.max(0, restsUntil - now)))
  }

  #at(turn: number): State {
    return this.#states[turn % this.#states.length] as State
  }

  #of(endpoint: Endpoint): State {
    return this.#states.find((state) => state.origin === endpoint.origin) ?? this.#at(0)
  }
}
