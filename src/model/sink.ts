// What a receiver is to the rest: it frames lines, takes a batch of them, and says how far it got; or takes objects.
import type { Evidence, Memory } from './evidence.ts'
import type { Run } from './journal.ts'
import type { OpenObject } from './object.ts'
import type { ByteWriter } from './writer.ts'

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
