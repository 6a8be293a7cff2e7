// What every source of the API is opened with.
import type { Clock } from '../../model/clock.ts'
import type { Log } from '../../model/log.ts'
import type { Origin } from '../../model/source.ts'
import type { SourceWatch } from '../../model/watch.ts'
import type { Client } from '../client/client.ts'

export interface SourceOptions {
  readonly origin: Origin
  readonly client: Client
  readonly clock: Clock
  readonly watch: SourceWatch
  readonly log: Log
  /** read what is there now, whatever is due, and be done */
  readonly once: boolean
  readonly maxEntryBytes: number
  readonly maxDepth: number
}
