// What can be asked about backfills: spans of the past that are read again into the journal.
import type { ErrorCode } from './errors.ts'
import type { PastSpan, Unread, WaitsFor } from './past.ts'
import type { Origin, SourceName } from './source.ts'

/** Whose: absent means all that can be read again. */
export interface PastChoice {
  readonly workspace?: string
  readonly source?: SourceName
}

interface BackfillCounts {
  /** elements that the API showed, the malformed among them */
  readonly read: number
  readonly new: number
  readonly known: number
  readonly filtered: number
  /** malformed elements that were not kept before */
  readonly quarantined: number
  /** places at which entries may have been left out */
  readonly gaps: number
}

export interface Backfill extends PastSpan {
  readonly origin: Origin
  /** epoch ms; tells it from others of the same source */
  readonly begunAt: number
  readonly endedAt: number | undefined
  /** the own time of what was read last, µs; undefined: nothing yet */
  readonly atUs: number | undefined
  readonly counts: BackfillCounts
  /** told once it has ended: these parts are not complete */
  readonly unread: readonly Unread[]
  /** why it does not come on just now; it is tried again */
  readonly error: { readonly code: ErrorCode; readonly message: string } | undefined
  readonly waitsFor: WaitsFor | undefined
  /** in words, where more is known of it */
  readonly waitReason?: string | undefined
}

export interface Backfills {
  /** Whose past can be read again. */
  origins(): Promise<readonly Origin[]>
  /**
   * Begins one for each source that is meant; one that is under way over the same span is joined. Throws ConnectorError
   * `misconfigured` where there is none to read, or one over another span is under way.
   */
  backfill(choice: PastChoice, span: PastSpan): Promise<readonly Backfill[]>
  /** Under way, those that ended within the last day, and those that wait for their source to be switched on: of each source one. */
  backfills(): Promise<readonly Backfill[]>
  /** Ends those under way and those that wait for their source; what they read stays. Returns how many. */
  cancelBackfill(choice: PastChoice): Promise<number>
}
