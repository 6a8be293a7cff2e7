// State entries of other modules, by name: stored beside the entries so that they land in the same
// transaction.
import type { Database } from 'better-sqlite3'
import type { StateChange, StateEntry } from '../../contracts/journal.ts'
import type { StateCondition, StateStore } from '../rules/state.ts'
import type { Transactions } from './transactions.ts'

/** The greatest code point: sorts after every name with the prefix. */
const LAST = '\u{10ffff}'

export class StateTable implements StateStore {
  readonly #transactions: Transactions
  readonly #statements

  constructor(db: Database, transactions: Transactions) {
    this.#transactions = transactions
    this.#statements = {
      get: db.prepare<[string], string>('SELECT value FROM state WHERE name = ?').pluck(),
      list: db.prepare<[string, string, number], StateEntry>(
        'SELECT name, value FROM state WHERE name >= ? AND name < ? ORDER BY name LIMIT ?',
      ),
      put: db.prepare('INSERT OR REPLACE INTO state VALUES (?, ?)'),
      drop: db.prepare('DELETE FROM state WHERE name = ?'),
    }
  }

  async get(name: string) {
    return this.#transactions.read(() => this.#statements.get.get(name))
  }

  async list(prefix: string, limit: number) {
    return this.#transactions.read(() => this.#statements.list.all(prefix, `${prefix}${LAST}`, limit))
  }

  async change(change: StateChange, only?: StateCondition) {
    return this.#transactions.write(() => {
      if (only && this.#statements.get.get(only.name) !== only.value) return false
      this.write(change)
      return true
    })
  }

  /** Call inside a transaction. */
  write({ drop = [], put = [] }: Partial<StateChange>): void {
    for (const name of drop) this.#statements.drop.run(name)
    for (const { name, value } of put) this.#statements.put.run(name, value)
  }
}
