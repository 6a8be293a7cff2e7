// The state of one part with its fault: a part that fails stays failing while it tries again, until it has succeeded.
import type { ConnectorError } from '../model/errors.ts'
import type { FaultStatus } from './status.ts'

/** A message is for a person; a receiver that talks without end is not let through. */
const MAX_MESSAGE = 500

interface Fault {
  readonly code: ConnectorError['code']
  readonly message: string
  readonly sinceAt: number
}

export class Condition<State extends string> {
  #wanted: State
  #shown: State
  #fault: Fault | undefined

  constructor(initial: State) {
    this.#wanted = initial
    this.#shown = initial
  }

  get state(): State {
    return this.#shown
  }

  get error(): FaultStatus | null {
    if (!this.#fault) return null
    const { code, message, sinceAt } = this.#fault
    return { code, message, since: new Date(sinceAt).toISOString() }
  }

  /** `idle` and `paused` end a fault, since they are said only by a part that works; trying again does not. */
  become(state: State, error: ConnectorError | undefined, at: number): void {
    const stuck = state === 'failing' || state === 'held'
    if (error) {
      const message = error.message.slice(0, MAX_MESSAGE)
      this.#fault = { code: error.code, message, sinceAt: this.#fault?.sinceAt ?? at }
    } else if (state === 'idle' || state === 'paused') this.#fault = undefined
    if (!stuck) this.#wanted = state
    const sticky = !error && !stuck && this.#fault !== undefined && this.#broken
    if (!sticky) this.#shown = state
  }

  succeed(): void {
    this.#fault = undefined
    if (this.#broken) this.#shown = this.#wanted
  }

  get #broken(): boolean {
    return this.#shown === 'failing' || this.#shown === 'held'
  }
}
