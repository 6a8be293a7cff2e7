// Contract of a sink: it frames lines, delivers a batch of them and returns how far it got; or it
// stores objects.
import type { ByteWriter } from '../core/bytes.ts'
import type { ConnectorError } from '../core/errors.ts'
import type { Seq } from '../core/sequence.ts'
import type { ChunkSlice, StateEntry, HasState, Totals } from './journal.ts'
import type { Stream } from './source.ts'

/**
 * Strength of a sink's acknowledgement: on the receiver's disk or index; confirmed by the receiver;
 * handed to a socket.
 */
export type Assurance = 'stored' | 'received' | 'sent'

/**
 * Entry to line: writes line `index` of `slice` into `out`, without a line end. The bytes depend
 * only on the entry; must not fail. One instance serves one sink: for speed only, it may cache what
 * the entries of the last slice have in common.
 */
export type Format = (slice: ChunkSlice, index: number, out: ByteWriter) => void

/**
 * Protocol framing around one line (an LF, an envelope, an octet count); calls `format` once. The
 * bytes depend only on its arguments; it may cache as a format does.
 */
export type Frame = (slice: ChunkSlice, index: number, out: ByteWriter, format: Format) => void

/** Framed lines of a batch in one buffer, in journal order. */
export interface Lines {
  readonly count: number
  readonly bytes: Uint8Array
  /** end of line i; it begins where the line before ends */
  readonly ends: Uint32Array
  /** sequence number of line i */
  readonly seqs: Float64Array
  /** The entry of line i, for sinks with `usesEntries`. Made at each call: keep the result. */
  entry(index: number): LineEntry
}

export interface LineEntry {
  readonly stream: Stream
  /** As the API sent it; unique in its stream together with `version`. */
  readonly id: string
  /** 0: the first content seen under this id; 2, 3, …: the same id again with other content */
  readonly version: number
  /** own time, µs; NaN if it has none */
  readonly timeUs: number
}

export interface Delivery {
  readonly lines: Lines
  /** result of `prepare` for this batch; '' for a sink without it */
  readonly detail: string
  /** True if an earlier process or try may have sent some or all of it. */
  readonly possibleDuplicate: boolean
}

/**
 * The receiver answered for the first `acknowledged` lines: each is accepted, except those that
 * `rejected` or `retry` names. The lines after them are sent again. A sink that knows nothing for
 * sure throws instead.
 */
export interface Outcome {
  readonly acknowledged: number
  readonly rejected: readonly Rejection[]
  /** The receiver answered for each line, and some may be accepted later. */
  readonly retry?: Retry | undefined
  /**
   * The accepted lines are not durable yet, and stay pending until they are. Never with `retry`,
   * and no accepted line follows a rejected one then.
   */
  readonly confirmation?: Confirmation | undefined
}

/**
 * Lines that were not accepted now. They are sent again alone, after the pause that `error` asks
 * for; the batch is acknowledged once each of its lines has a result. After a restart the whole
 * batch is sent again.
 */
interface Retry {
  /** ascending, below `acknowledged`, not in `rejected` */
  readonly indices: readonly number[]
  readonly error: ConnectorError
}

/** How to learn that accepted lines are durable; further batches may be sent meanwhile. */
export interface Confirmation {
  /** Replaces the detail of the in-flight record: after a restart `resume` continues with it. */
  readonly detail: string
  /**
   * Resolves when they are durable. Throws ConnectorError if no confirmation can come any more:
   * they are sent again as a possible duplicate.
   */
  confirmed(signal: AbortSignal): Promise<void>
}

export interface Rejection {
  /** below `acknowledged` */
  readonly index: number
  readonly code: string
  readonly reason: string
  /** Proven to be the entry's own fault, such as a size that cannot be sent: not the receiver's. */
  readonly own?: boolean
}

/** One check of `validate --connect`. */
export interface CheckResult {
  readonly what: string
  readonly ok: boolean
  readonly message: string
}

/** Common to sinks that take batches and sinks that take objects. */
interface Receiver {
  readonly name: string
  readonly type: string
  /** May become stronger or weaker as the receiver's behaviour becomes known. */
  readonly assurance: Assurance
  readonly frame: Frame
  /** Hash input: all options that change the bytes, and for objects their destination. */
  readonly shape: string
  /**
   * Checks that the receiver is ready and would accept entries, as far as that is possible without
   * sending one. Throws ConnectorError if not. May run during a delivery. Absent: nothing to check.
   */
  probe?(signal: AbortSignal): Promise<void>
  /** The checks of `probe` and more, for a person. */
  check(signal: AbortSignal): Promise<readonly CheckResult[]>
  close(): Promise<void>
}

/**
 * `deliver` resolves only when the receiver answered for each acknowledged line. It throws
 * ConnectorError if nothing may be acknowledged: the code decides. `too_large` and `refused` mean:
 * none of these lines was accepted, and never will be as one batch. Never called concurrently for
 * one sink. All replies are bounded in size and time by the sink.
 */
export interface Sink extends Receiver {
  /**
   * Upper bound of entries per batch: a crash repeats a batch, and the documented limit may be
   * lower than the settings allow.
   */
  readonly maxEntries?: number | undefined
  /** The sink calls `lines.entry`: ids are kept with the lines, which costs time. */
  readonly usesEntries?: boolean | undefined
  /** Called before a batch is first sent; its result is recorded in flight before `deliver`. */
  prepare?(lines: Lines, signal: AbortSignal): Promise<string>
  /** Optional work on the next batch while the last one is in flight, such as compression. */
  warm?(lines: Lines): void
  deliver(delivery: Delivery, signal: AbortSignal): Promise<Outcome>
  /** How many batches may be taken but unconfirmed; absent: `deliver` answers for good. */
  readonly maxUnconfirmed?: number
  /**
   * After a restart: continues to poll for a batch that was taken but not confirmed. Undefined:
   * `detail` names none, and the batch is sent again.
   */
  resume?(detail: string): Confirmation | undefined
}

export interface ObjectLimits {
  /** of framed lines in all open objects together; a larger line is sent alone */
  readonly maxBytes: number
  /** how long an entry may be in the journal before open objects are closed */
  readonly maxAgeMs: number
}

/**
 * A sink that stores objects of many lines, each whole or not at all, and each only once under a
 * name that depends on its content.
 */
export interface ObjectSink extends Receiver {
  readonly objects: ObjectLimits
  /**
   * Opens object number `slot`; each slot has one. Sends no request: memory is reserved meanwhile,
   * and a hanging receiver would keep it reserved.
   */
  open(slot: number): Promise<OpenObject>
  /** Called once, by the dispatcher; absent: no manifests. */
  readonly evidence?: ((memory: Memory) => Evidence) | undefined
}

// Contract of evidence: writes manifests of the stored objects, and the state that this needs.

/** State kept across restarts in addition to acknowledgements. */
export type Memory = HasState & Totals

/** One acknowledgement. Entries in no object that are not dead letters were filtered. */
export interface StoredRange {
  readonly first: Seq
  readonly last: Seq
  readonly parked: number
  readonly objects: readonly StoredObject[]
}

export interface EvidenceState {
  /** Nothing else is to do: failed manifests are retried at once. Otherwise entries go first. */
  readonly idle: boolean
  /** Nothing more will come, unless a person fixes something: manifests are written early. */
  readonly last: boolean
}

/** Writes manifests of the stored objects. Never called concurrently. */
export interface Evidence {
  /**
   * All objects of the range [first, last] are stored: the result is written in the transaction
   * that acknowledges them. Called again for the same range if that failed.
   */
  stored(range: StoredRange): readonly StateEntry[]
  /**
   * Called before the first range, between two, and if nothing is to send: writes manifests that
   * are due. Returns the ms until the next call.
   */
  step(state: EvidenceState, signal: AbortSignal): Promise<number>
}

// Contract of an object of many lines: what its lines have in common, and its states from the first
// line to the upload.

/** Properties common to the lines of one object. */
export interface ObjectGroup {
  readonly stream: Stream
  /** of the entries' own times, UTC: YYYY-MM-DD; `unknown` for an invalid time */
  readonly day: string
  /** Distinguishes this replay from others; undefined: not a replay. Safe as a part of a name. */
  readonly replay: string | undefined
}

/** Contents of an object, passed when its last line is written. */
export interface ObjectContent {
  readonly group: ObjectGroup
  readonly count: number
  /** sequence numbers of its first and last line; those between may belong to other objects */
  readonly first: Seq
  readonly last: Seq
  /** own times of the earliest and the latest entry, µs; NaN if none has a time */
  readonly firstAtUs: number
  readonly lastAtUs: number
}

/** An object stored at the receiver. */
export interface StoredObject extends ObjectContent {
  readonly key: string
  /** of the uncompressed lines */
  readonly linesBytes: number
  readonly linesSha256: string
  /**
   * of the bytes that we sent, hex; an object stored by an earlier try may be compressed
   * differently, with the same lines
   */
  readonly bodySha256: string
  readonly bodyBytes: number
  /** An earlier try had stored it: its body may be compressed differently. */
  readonly alreadyStored: boolean
}

/** An object while it is written, on disk and not in memory. Calls are sequential. */
export interface OpenObject {
  /** Complete framed lines; the bytes may change once it resolved. */
  write(lines: Uint8Array): Promise<void>
  end(content: ObjectContent): Promise<ReadyObject>
  /** Discards it; never throws. */
  discard(): Promise<void>
}

/** An object that waits for upload; it stays on the disk between two tries. */
export interface ReadyObject {
  /** Resolves when the receiver has it, perhaps from an earlier try; else throws ConnectorError. */
  put(signal: AbortSignal): Promise<StoredObject>
  /** True once the disk returned other bytes than were written: only writing it again helps. */
  readonly isDamaged?: () => boolean
  /** Removes it from the disk; never throws. */
  discard(): Promise<void>
}
