// What every part of the journal shares: the open file, its prepared rooms, its bounds.
import type { Database } from 'better-sqlite3'
import type { Clock } from '../model/clock.ts'
import type { Deliveries } from './deliveries.ts'
import type { Keys } from './keys.ts'
import type { Ledger } from './ledger.ts'
import type { Origins } from './origins.ts'
import type { Quarantine } from './quarantine.ts'
import type { Shelf } from './shelf.ts'
import type { Transactions } from './transactions.ts'

export interface Core {
  readonly path: string
  readonly db: Database
  readonly clock: Clock
  readonly maxBytes: number
  readonly keepKeysMs: number
  readonly keepSettledBytes: number
  readonly origins: Origins
  readonly keys: Keys
  readonly shelf: Shelf
  readonly ledger: Ledger
  readonly deliveries: Deliveries
  readonly quarantine: Quarantine
  readonly transactions: Transactions
}
