// Shared by every part of a shard's journal: its transactions, its bounds, and what memory mirrors.
import type { Clock } from '../../core/clock.ts'
import type { Log } from '../../core/log.ts'
import type { StreamIds } from '../rules/streams.ts'
import type { ChunkStore } from './chunks.ts'
import type { Pending } from './pending.ts'
import type { Totals } from './records.ts'
import type { Transactions } from './transactions.ts'

export interface JournalOptions {
  /** of pending payload; at the bound append throws `journal_full` */
  readonly maxBytes: number
  readonly keepKeysMs: number
  readonly keepDeliveredBytes: number
  readonly clock: Clock
  readonly log: Log
}

export interface Core extends JournalOptions {
  readonly shard: number
  /** the prefix of every table's name */
  readonly schema: string
  readonly where: string
  readonly transactions: Transactions
  readonly streams: StreamIds
  readonly chunks: ChunkStore
  readonly pending: Pending
  readonly totals: Totals
}
