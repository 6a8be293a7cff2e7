// Shared by every part of the journal: the open file, its prepared statements, its bounds.
import type { Database } from 'better-sqlite3'
import type { Clock } from '../../core/clock.ts'
import type { Deliveries } from './accounts.ts'
import type { Keys } from './dedup-index.ts'
import type { Ledger } from './pending.ts'
import type { Origins } from './streams.ts'
import type { Quarantine } from './quarantine.ts'
import type { ChunkStore } from './chunk-store.ts'
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
  readonly chunkStore: ChunkStore
  readonly ledger: Ledger
  readonly deliveries: Deliveries
  readonly quarantine: Quarantine
  readonly transactions: Transactions
}
