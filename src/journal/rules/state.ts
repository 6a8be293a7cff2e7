// Scopes of the state, and its conditional writes, over what an engine offers.
import type { State, StateChange, StateEntry } from '../../contracts/journal.ts'

/** State entry of a journal that a copy has not completed: it is not opened. */
export const UNFINISHED_COPY = 'journal.unfinished_copy'

/** Names are whole here. */
export interface StateStore {
  get(name: string): Promise<string | undefined>
  list(prefix: string, limit: number): Promise<readonly StateEntry[]>
  /** Atomic: drops, then puts. False, and nothing changed, if `only` does not hold. */
  change(change: StateChange, only?: StateCondition): Promise<boolean>
}

export interface StateCondition {
  readonly name: string
  /** undefined: there is none */
  readonly value: string | undefined
}

export class ScopedState implements State {
  readonly #store: StateStore
  readonly #prefix: string

  constructor(store: StateStore, prefix = '') {
    this.#store = store
    this.#prefix = prefix
  }

  scope(name: string): State {
    return new ScopedState(this.#store, `${this.#prefix}${name}:`)
  }

  entry(name: string, value: string): StateEntry {
    return { name: this.#prefix + name, value }
  }

  get(name: string) {
    return this.#store.get(this.#prefix + name)
  }

  async list(prefix: string, limit: number) {
    const found = await this.#store.list(this.#prefix + prefix, limit)
    return found.map(({ name, value }) => ({ name: name.slice(this.#prefix.length), value }))
  }

  async put(name: string, value: string) {
    await this.change({ drop: [], put: [{ name, value }] })
  }

  async change({ drop, put }: StateChange) {
    await this.#store.change({
      drop: drop.map((name) => this.#prefix + name),
      put: put.map(({ name, value }) => this.entry(name, value)),
    })
  }

  async putIfAbsent(name: string, value: string) {
    await this.compareAndSet(name, undefined, value)
    return (await this.get(name)) ?? value
  }

  compareAndSet(name: string, before: string | undefined, value: string) {
    const put = [this.entry(name, value)]
    return this.#store.change({ drop: [], put }, { name: this.#prefix + name, value: before })
  }
}
