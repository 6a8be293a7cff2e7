// Shared by every part of the journal: the open file, its prepared statements, its bounds.
import type { Database } from 'better-sqlite3'
import type { Clock } from '../../core/clock.ts'
import type { DeliveryAccounts } from './accounts.ts'
import type { DedupIndex } from './dedup-index.ts'
import type { Pending } from './pending.ts'
import type { Streams } from './streams.ts'
import type { Quarantine } from './quarantine.ts'
import type { ChunkStore } from './chunk-store.ts'
import type { StateTable } from './state.ts'
import type { Transactions } from './transactions.ts'

export interface Core {
  readonly path: string
  readonly db: Database
  readonly clock: Clock
  readonly maxBytes: number
  readonly keepKeysMs: number
  readonly keepDeliveredBytes: number
  readonly streams: Streams
  readonly dedupIndex: DedupIndex
  readonly chunkStore: ChunkStore
  readonly pending: Pending
  readonly accounts: DeliveryAccounts
  readonly quarantine: Quarantine
  readonly state: StateTable
  readonly transactions: Transactions
}
