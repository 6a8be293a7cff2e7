// What a receiver is to the rest: it frames lines, takes a batch of them, and says how far it got; or takes objects.
import type { ByteWriter } from '../core/bytes.ts'
import type { Seq } from '../core/sequence.ts'
import type { Journal, Run } from './journal.ts'
import type { Note } from './records.ts'
import type { Origin } from './source.ts'

/** How sure a sink's word is: on the receiver's disk or index; the receiver said so; handed to a socket. */
export type Assurance = 'stored' | 'received' | 'sent'

/**
 * Entry to line: writes line `index` of `run` into `out`, without a line end. The bytes follow from the entry alone; may not
 * fail. One instance serves one sink: it may keep what the last run's entries have in common, for speed only.
 */
export type Format = (run: Run, index: number, out: ByteWriter) => void

/**
 * What the sink's protocol puts around one line (an LF, an envelope, an octet count); calls `format` once. As with a format,
 * the bytes follow from its arguments alone, and what it keeps of the last run is for speed only.
 */
export type Frame = (run: Run, index: number, out: ByteWriter, format: Format) => void

/** Framed lines of a batch in one buffer, in journal order. */
export interface Lines {
  readonly count: number
  readonly bytes: Uint8Array
  /** end of line i; it begins at the end of the one before */
  readonly ends: Uint32Array
  /** sequence number of line i */
  readonly seqs: Float64Array
}

export interface Delivery {
  readonly lines: Lines
  /** what `prepare` gave for exactly these lines; '' for a sink without it */
  readonly detail: string
  /** True when a former process, or a former try, may have sent some or all of it. */
  readonly doubtful: boolean
}

/**
 * The first `settled` lines are done with: accepted, or refused for good by name. The rest is still owed.
 * A sink that knows nothing for sure throws instead.
 */
export interface Outcome {
  readonly settled: number
  readonly refused: readonly Refusal[]
  /** What was accepted is taken but not safe yet, and stays owed until it is. Nothing accepted stands behind a refused line then. */
  readonly later?: Later | undefined
}

/** Lines that the receiver has taken and will confirm later; what comes behind them may be sent meanwhile. */
export interface Later {
  /** In the place of the intent's from now on: with it `resume` goes on asking after a restart. */
  readonly detail: string
  /** Resolves when they are safe. Throws ConnectorError when that cannot be hoped for any more: they go out again, with doubt. */
  confirmed(signal: AbortSignal): Promise<void>
}

export interface Refusal {
  /** below `settled` */
  readonly index: number
  readonly code: string
  readonly reason: string
  /** Proven to be the entry's own fault, such as one that was never sent: it says nothing of the receiver. */
  readonly own?: boolean
}

/** One thing that `validate --connect` looked at. */
export interface CheckResult {
  readonly what: string
  readonly ok: boolean
  readonly message: string
}

/** What each end of a delivery has, whether it takes batches or whole objects. */
interface Receiver {
  readonly name: string
  readonly type: string
  /** May grow surer, or less so, as the receiver shows what it does. */
  readonly assurance: Assurance
  readonly frame: Frame
  /** Hash input: everything in the options that shapes bytes, and for objects where they go. */
  readonly shape: string
  /**
   * Whether the receiver is there and would take entries, as far as that shows without one. Throws ConnectorError where not. May
   * run beside a delivery. Absent: there is nothing to ask.
   */
  probe?(signal: AbortSignal): Promise<void>
  /** What `probe` asks and more, for a person. */
  check(signal: AbortSignal): Promise<readonly CheckResult[]>
  close(): Promise<void>
}

/**
 * `deliver` resolves only when the receiver answered for each settled line. It throws ConnectorError when nothing may be
 * settled: the code decides. `too_large` and `refused` mean: none of these lines was taken, and never will be as one batch.
 * Never called concurrently for one sink. All replies are bounded in size and time by the sink.
 */
export interface Sink extends Receiver {
  /** No batch holds more entries: a crash repeats a batch, and less may be promised than the settings would allow. */
  readonly maxEntries?: number | undefined
  /** Called before a batch is sent for the first time; its answer is persisted in the intent before `deliver`. */
  prepare?(lines: Lines, signal: AbortSignal): Promise<string>
  /** Work on the next batch that may be done while the last one is in the air, such as compressing it. Never required. */
  warm?(lines: Lines): void
  deliver(delivery: Delivery, signal: AbortSignal): Promise<Outcome>
  /** How many batches may be taken and not confirmed at a time; absent: `deliver` always answers for good. */
  readonly maxUnconfirmed?: number
  /** After a restart: goes on asking for a batch that was taken and not confirmed. Undefined: `detail` tells of none, the batch goes out again. */
  resume?(detail: string): Later | undefined
}

export interface ObjectLimits {
  /** of framed lines in all open objects together; one line goes out alone, however large */
  readonly maxBytes: number
  /** how long an entry may be in the journal before what is open is closed */
  readonly maxAgeMs: number
}

/** A sink that takes objects of many lines, each whole or not at all, and each only once under a name that follows from its content. */
export interface ObjectSink extends Receiver {
  readonly objects: ObjectLimits
  /** Opens object number `slot`; there is one a slot. Asks nobody: room is held meanwhile, and a receiver that hangs would keep it. */
  open(slot: number): Promise<OpenObject>
  /** Asked once, by whoever delivers; absent: nobody testifies. */
  readonly evidence?: ((memory: Memory) => Evidence) | undefined
}

// What evidence is to the rest: who testifies which objects were stored, and what it remembers to do so.

/** What may be remembered across restarts beside what is settled. */
export type Memory = Pick<Journal, 'note' | 'notes' | 'changeNotes' | 'stats'>

/** What one settlement settles: what is in no object and not parked was filtered. */
export interface StoredStretch {
  readonly first: Seq
  readonly last: Seq
  readonly parked: number
  readonly objects: readonly StoredObject[]
}

export interface EvidenceState {
  /** Nothing else is to be done now: what failed is tried again at once; otherwise entries go first for a while. */
  readonly idle: boolean
  /** Nothing more will come, or nothing before a person mends it: what was stored is testified before its time is up. */
  readonly last: boolean
}

/** Who testifies which objects were stored. Never asked concurrently. */
export interface Evidence {
  /** All objects of the stretch [first, last] are stored: what it gives lands in the one transaction that settles them. Asked again for the same stretch where that failed. */
  stored(stretch: StoredStretch): readonly Note[]
  /** Asked before the first stretch, between two, and where nothing is to be sent: writes what is due. Gives the ms until it wants to be asked again. */
  step(state: EvidenceState, signal: AbortSignal): Promise<number>
}

// What an object of many lines is: what its lines have in common, and what becomes of it from the first line to the bucket.

/** What the lines of one object have in common. */
export interface ObjectGroup {
  readonly origin: Origin
  /** of the entries' own times, UTC: YYYY-MM-DD; `unknown` for a time that is none */
  readonly day: string
  /** Sent again on purpose: what sets this run of it apart, safe as a part of a name. */
  readonly replay: string | undefined
}

/** What an object holds: told when its last line is written. */
export interface ObjectContent {
  readonly group: ObjectGroup
  readonly count: number
  /** sequence numbers of its first and last line: those between may belong to other objects */
  readonly first: Seq
  readonly last: Seq
  /** own times of the earliest and the latest entry, µs; NaN where none has a time */
  readonly firstAtUs: number
  readonly lastAtUs: number
}

/** An object that the receiver has. */
export interface StoredObject extends ObjectContent {
  readonly key: string
  /** of the uncompressed lines */
  readonly linesBytes: number
  readonly linesSha256: string
  /** as it was sent by us, hex; one that an earlier try stored may be packed otherwise, its lines are the same */
  readonly bodySha256: string
  readonly bodyBytes: number
  /** An earlier try had stored it: its body may be packed otherwise. */
  readonly there: boolean
}

/** An object while it is written: on the disk, not in memory. Calls come one after the other. */
export interface OpenObject {
  /** Whole framed lines; the bytes may change once it resolved. */
  write(lines: Uint8Array): Promise<void>
  end(content: ObjectContent): Promise<ReadyObject>
  /** Gives it up; never throws. */
  discard(): Promise<void>
}

/** An object that waits to be sent; it stays on the disk between two tries. */
export interface ReadyObject {
  /** Resolves when the receiver has it, by this try or an earlier one. Throws ConnectorError otherwise. */
  put(signal: AbortSignal): Promise<StoredObject>
  /** True once the disk gave back something else than was written to it: only writing it anew helps. */
  readonly spoiled?: () => boolean
  /** Removes it from the disk; never throws. */
  discard(): Promise<void>
}
