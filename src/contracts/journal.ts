// Contract of the journal, the only durable state: one journal per shard, with a sequence of its
// own. It is made of roles, and each consumer takes the roles that it needs.
// Every method that returns a promise is one transaction: it lands whole or not at all, and once it
// resolves, the data is on disk. Methods may be called concurrently; they take effect in call order.
// They throw ConnectorError `journal_full` (append, replay and resend: nothing is stored),
// `disk_full`, `disk_failed` and `journal_corrupt`. Over a network also `store_unavailable` (nothing is
// stored: try again) and `lease_lost` (another process has the shard, or will have it: stop working on it).
import type { Seq, SequenceRange } from '../core/sequence.ts'
import type { Accounts, DayCount, DayAccount } from './accounts.ts'
import type { Entries } from './entries.ts'
import type {
  DeadLetter,
  DeadLetterQuery,
  FindingRecord,
  QuarantineQuery,
  QuarantineRecord,
} from './records.ts'
import type { Appended, Cursor, Finding, Stream, PageChunk, Quarantined, SourceName } from './source.ts'

export interface Journal
  extends Intake, DeliveryQueue, Redelivery, DeadLetters, Quarantine, Accounts, Totals, HasState {
  /**
   * Call once, right after opening, with the sinks of the configuration; before, the journal knows
   * no sink. A new sink starts at the oldest entry that is stored; one that left retains nothing
   * and is reported once. So are new and removed workspaces, if given.
   */
  registerSinks(sinks: readonly string[], workspaces?: readonly ConfiguredWorkspace[]): Promise<void>
  /**
   * Why the next process would not find this data, such as a removed file, and what to do;
   * undefined: it would. A cheap check.
   */
  lost(): Promise<string | undefined>
  /** Aborted, for the reason `lease_lost`, once another process may use this shard; absent: none can. */
  readonly leaseEnd?: AbortSignal
  /**
   * Drops acknowledged chunks over `keepDeliveredBytes` and keys older than `keepKeysMs`; a bounded
   * step, true if more is left.
   */
  prune(): Promise<boolean>
  close(): Promise<void>
}

export interface ConfiguredWorkspace {
  readonly name: string
  /** for the log: where reading of its streams starts */
  readonly starts: Readonly<Record<string, string>>
}

// Intake: pages of the sources.

/** Takes in what a stream reads. */
export interface Intake extends HasPressure {
  cursor(stream: Stream): Promise<Cursor | undefined>
  append(part: Append): Promise<Appended>
  /**
   * One byte per entry: 1 if its key is known, 2 if it is known and this content would be stored as
   * a new version. Changes nothing.
   */
  known(stream: Stream, entries: Entries): Promise<Uint8Array>
}

/** Both loops act on it. */
export interface HasPressure {
  /** From memory: whether there is room. */
  pressure(): Pressure
}

export interface Pressure {
  /** pending payload: not yet acknowledged by every sink */
  readonly bytes: number
  readonly capacityBytes: number
  /** pending payload has reached its bound: append throws `journal_full` */
  readonly full: boolean
}

export interface Append {
  readonly stream: Stream
  readonly entries: Entries
  readonly quarantined: readonly Quarantined[]
  /** of unknown entries, wanted or not; each is kept once */
  readonly findings: readonly Finding[]
  /** Other entries are counted as filtered and not stored. Called once for each type of a page. */
  readonly wanted?: (type: string) => boolean
  /** New entries before this instant (µs) count as late. */
  readonly headUs: number | undefined
  /** Absent: the page is not complete yet, and the cursor stays. */
  readonly cursor: Cursor | undefined
  readonly gaps: number
  /** as in PageChunk; the journal stores the page chunk in any case */
  readonly void?: NonNullable<PageChunk['void']>
  /**
   * written in the same transaction: state that must land if and only if this page chunk does. A
   * function is called inside the transaction, and may be called again.
   */
  readonly state?: readonly StateEntry[] | ((appended: Appended) => readonly StateEntry[]) | undefined
}

// Delivery: each sink takes the oldest pending entries, and acknowledges them.

/** The pending entries of each sink, and its in-flight records. */
export interface DeliveryQueue extends HasPressure {
  /** The oldest entries that are not acknowledged; the caller filters them. Undefined: none. */
  take(sink: string, limits: LoneLimits, where?: TakeWhere): Promise<Batch | TooLarge | undefined>
  take(sink: string, limits: TakeLimits, where?: TakeWhere): Promise<Batch | undefined>
  /** Exactly [first, last]: for an in-flight record found at start. */
  range(first: Seq, last: Seq): Promise<Batch>
  inFlightBatches(sink: string): Promise<readonly InFlight[]>
  /** Writes an in-flight record; replaces one with the same `first`. */
  recordInFlight(sink: string, inFlight: InFlight): Promise<void>
  ack(sink: string, acknowledgement: Acknowledgement): Promise<void>
  /** Resolves when new entries may have come since it last resolved, or when `signal` aborts. */
  arrival(sink: string, signal: AbortSignal): Promise<void>
}

/** A range of one chunk: entries of one stream with consecutive sequence numbers. */
export interface ChunkSlice {
  readonly stream: Stream
  readonly firstSeq: Seq
  /** epoch ms at which the journal stored them */
  readonly appendedAt: number
  /** Addressed to one sink only: a retried dead letter, or a replay. */
  readonly onlySink: string | undefined
  readonly replay: boolean
  readonly entries: Entries
}

/** Consecutive slices of the journal: everything in [first, last]. */
export interface Batch {
  readonly first: Seq
  readonly last: Seq
  readonly count: number
  readonly slices: readonly ChunkSlice[]
}

/** An entry that was not read from disk because it exceeds the size limit of the read. */
export interface TooLarge {
  /** of its raw payload */
  readonly rawBytes: number
}

export interface TakeLimits {
  readonly maxEntries: number
  /** of raw payload; one entry is always returned, however large */
  readonly maxBytes: number
}

export interface LoneLimits extends TakeLimits {
  /** a larger first entry is only reported, not read from disk; undefined: it is read */
  readonly loneBytes: number | undefined
}

/** Where a take looks; absent: at all pending entries. */
export interface TakeWhere {
  /** only behind this sequence number */
  readonly after?: Seq | undefined
  /** outside of these ranges, which are in flight */
  readonly busy?: readonly SequenceRange[] | undefined
}

/** Written before a batch is sent: after a crash the same batch is sent again (invariant 2). */
export interface InFlight {
  readonly first: Seq
  readonly last: Seq
  /** hash of the settings that change the bytes; if it differs, the next try sends other bytes */
  readonly shape: string
  /** how the sink recognises its unfinished work (an offset, an acknowledgement id): its JSON */
  readonly detail: string
}

/** An entry that a receiver rejects for good. */
export interface Rejected {
  readonly seq: Seq
  /** one of our error codes, as text, so that records of older versions stay readable */
  readonly code: string
  /** the receiver's own text if it is safe to keep; never content */
  readonly reason: string
}

/** Entries that a sink has answered for, acknowledged in one transaction. */
export interface Acknowledgement {
  /** all of [first, through] is acknowledged: accepted, filtered, or listed here as dead letters */
  readonly first: Seq
  readonly through: Seq
  readonly rejected: readonly Rejected[]
  /** results of the others, without entries addressed to another sink alone */
  readonly accounts?: readonly DayAccount[] | undefined
  /** written in the same transaction: the batch that is sent next */
  readonly next?: InFlight | undefined
  /** written in the same transaction: state that lands if and only if the acknowledgement does */
  readonly state?: readonly StateEntry[] | undefined
}

// Dead letters and quarantine, for operators.

export interface DeadLetters {
  deadLetters(query: DeadLetterQuery): Promise<readonly DeadLetter[]>
  deadLetterRaw(id: number): Promise<Uint8Array | undefined>
  dropDeadLetters(query: DeadLetterQuery): Promise<number>
}

export interface Quarantine {
  quarantined(query: QuarantineQuery): Promise<readonly QuarantineRecord[]>
  quarantinedRaw(id: number): Promise<Uint8Array | undefined>
  /** Deletes bytes, not counts. The same bytes read again soon are not kept. Returns how many. */
  dropQuarantined(query: QuarantineQuery): Promise<number>
}

// State: small persisted facts of other modules, such as a rate limiter's window.

export interface StateEntry {
  /** plain ASCII */
  readonly name: string
  readonly value: string
}

export interface StateChange {
  readonly drop: readonly string[]
  readonly put: readonly StateEntry[]
}

/** A key-value store, or one scope of it. */
export interface State {
  /** The entries whose names begin with `name:`, under the rest of their names. */
  scope(name: string): State
  /** For `append`, `ack` and `resend`, which write it in their own transaction. */
  entry(name: string, value: string): StateEntry
  get(name: string): Promise<string | undefined>
  /** Entries whose names begin with `prefix`, sorted by name. */
  list(prefix: string, limit: number): Promise<readonly StateEntry[]>
  put(name: string, value: string): Promise<void>
  /** Drops, then puts, atomically. */
  change(change: StateChange): Promise<void>
  /** Returns the value that is there now: this one, or an earlier one. */
  putIfAbsent(name: string, value: string): Promise<string>
  /** False, and nothing changed, if the value is not `before`; undefined: there is none. */
  compareAndSet(name: string, before: string | undefined, value: string): Promise<boolean>
}

export interface HasState {
  readonly state: State
}

/**
 * State entry: the journal's id in manifests if that is not the instance id, which a journal has in
 * common with the one that it was copied from.
 */
export const MANIFEST_JOURNAL = 'evidence:journal'

// Totals, from memory: only this process writes to its shard.

export interface Totals {
  stats(): JournalStats
}

export interface SinkPosition {
  readonly sink: string
  /** everything up to here is acknowledged */
  readonly position: Seq
  /** not acknowledged yet, including entries that the sink will filter */
  readonly pendingEntries: number
  /** epoch ms at which the oldest pending entry was stored */
  readonly oldestPendingAt: number | undefined
  readonly deadLetters: number
}

export interface JournalStats extends Pressure {
  /** pending entries: not yet acknowledged by every sink */
  readonly entries: number
  readonly sinks: readonly SinkPosition[]
  /** sinks with a position that left the configuration: reported once, they retain no entries */
  readonly unconfigured: readonly string[]
  /** currently stored */
  readonly quarantined: number
  readonly gaps: number
  readonly findings: number
  /** the newest of them first; a few */
  readonly lastFindings: readonly FindingRecord[]
}

// Caches what all entries of one stream and instant have in common in their lines. Keeps no
// reference to the slice, or a waiting sink would keep entries in memory that it has sent.

export type Shared = Pick<ChunkSlice, 'stream' | 'appendedAt' | 'replay'>

/** The result of `make`, recomputed if a slice has another stream or instant than the last one. */
export function perStream<T>(make: (shared: Shared) => T): (slice: Shared) => T {
  let known: (Shared & { readonly made: T }) | undefined
  return ({ stream, appendedAt, replay }) => {
    if (known?.stream !== stream || known.appendedAt !== appendedAt || known.replay !== replay)
      known = { stream, appendedAt, replay, made: make({ stream, appendedAt, replay }) }
    return known.made
  }
}

// Redelivery: entries appended to the journal again for one sink.

export interface Redelivery {
  /**
   * Puts dead letters back at the journal's end, addressed to their sink only, even if it does not
   * want them now. Returns how many.
   */
  retryDeadLetters(query: DeadLetterQuery): Promise<number>
  /** One bounded step of a replay: puts stored entries at the journal's end again, for one sink. */
  replay(query: ReplayQuery): Promise<Replayed>
  /**
   * Puts entries that were read again at the journal's end for one sink, marked as a replay,
   * whether they are known or not: no dedup key is taken, nothing is counted as new. Throws
   * `journal_full` as append does (never without entries), `misconfigured` if the sink is unknown.
   */
  resend(again: Resend): Promise<void>
}

/** Which entries to deliver again to one sink: by its sources and the entries' own time. */
export interface ReplayQuery {
  readonly sink: string
  /** µs, included */
  readonly fromUs: number
  /** µs, excluded */
  readonly toUs: number
  /** absent: all of them */
  readonly workspace?: string
  readonly sources: readonly SourceName[]
  /** epoch ms; the same in all steps of one replay. Part of the name of its objects. */
  readonly runAt: number
  /** dry run: counts only */
  readonly dryRun: boolean
  /** excluded, by the entries' own UTC day, since they are read from the API instead */
  readonly leave?: readonly DaysOf[]
  /** where the last step ended, and the `until` that it returned; 0 and undefined at first */
  readonly after: Seq
  readonly until: Seq | undefined
}

/** UTC days of one source, since 1970: included, excluded. */
export interface DaysOf {
  readonly stream: Stream
  readonly fromDay: number
  readonly toDay: number
}

/** Entries read again for one sink only. */
export interface Resend {
  readonly sink: string
  readonly stream: Stream
  readonly entries: Entries
  /** as in ReplayQuery */
  readonly runAt: number
  /** written in the same transaction: the progress of reading */
  readonly state: StateChange
}

export interface Replayed {
  readonly entries: number
  /** of raw payload */
  readonly bytes: number
  /** the same entries by source and UTC day */
  readonly days: readonly DayCount[]
  readonly through: Seq
  readonly until: Seq
  /** false: the last step */
  readonly more: boolean
  /** epoch ms at which the oldest entry that is still stored came in */
  readonly keptSince: number | undefined
}
