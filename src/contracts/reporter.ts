// Reports of the ingest and delivery loops, for metrics and the status page. Methods must not throw
// or wait.
import type { ConnectorError } from '../core/errors.ts'
import type { Journal } from './journal.ts'
import type { Transport } from './platform.ts'
import type { Delivery, ObjectContent, Outcome, Sink, StoredObject } from './sink.ts'
import type { Appended, Stream, Source } from './source.ts'

export const sourceStates = [
  'starting',
  'reading',
  'idle',
  'waiting',
  'paused',
  'blocked',
  'failing',
] as const
export type SourceState = (typeof sourceStates)[number]

/** `collecting`: entries wait until there are more of them, or their time is up. */
export const sinkStates = ['starting', 'idle', 'collecting', 'sending', 'blocked', 'failing'] as const
export type SinkState = (typeof sinkStates)[number]

/** Of `auditferry_delivery_seconds`: live delivery takes seconds, a backlog takes weeks. */
export const deliveryBucketsSeconds = [1, 5, 15, 60, 300, 900, 3600, 21_600, 86_400, 604_800] as const

/** Epoch ms of the last event of each kind; 0: never. @internal for tests */
export interface Recalled {
  readonly readAt: number
  readonly caughtUpAt: number
  readonly gapAt: number
}

/** An answer whose body is being read. @internal for tests */
export interface AnswerRead {
  /** More bytes arrived. */
  came(): void
  /** Reading has ended, successfully or not. */
  over(): void
}

/** Instants are epoch ms unless their name ends in Us. */
export interface StreamReporter {
  /** `tryInMs`: delay until the next try, if known */
  state(state: SourceState, error?: ConnectorError, tryInMs?: number): void
  /** `code`: the HTTP status, or our error code when there was none. */
  request(code: string, durationMs: number): void
  /** waiting for a permit of the rate limiter */
  waited(durationMs: number): void
  /** An answer waits for memory for its body; call the result when the wait is over. */
  waitsForMemory(): () => void
  readsAnswer(): AnswerRead
  appended(appended: Appended): void
  /** A read completed successfully. */
  success(): void
  /** Everything available has been read. */
  caughtUp(): void
  /** State of an earlier process; called before the first read, if at all. */
  recalled(last: Recalled): void
  /** own time of the newest known entry */
  head(atUs: number): void
  /** the own time of the last entry read in order */
  cursor(atUs: number): void
  /** This many additional possible gaps. */
  gap(count: number): void
  /** an entry caused by ourselves was read: its delay after its own time, by the server's clock */
  ownFetch(latenessMs: number): void
  /** For readers beside the source's own loop: the same counts, without a sign of life. */
  readonly aside?: Pick<StreamReporter, 'request' | 'waited' | 'appended' | 'gap'>
}

const nobody = () => undefined
/** A reporter that does nothing. */
export const silentReporter: StreamReporter = {
  state: nobody,
  request: nobody,
  waited: nobody,
  waitsForMemory: () => nobody,
  readsAnswer: () => ({ came: nobody, over: nobody }),
  appended: nobody,
  success: nobody,
  caughtUp: nobody,
  head: nobody,
  cursor: nobody,
  gap: nobody,
  ownFetch: nobody,
  recalled: nobody,
}

/** @internal for tests */
export const canaryStages = ['request', 'audit', 'usage', 'query', 'delivered'] as const

/** Where the canary is looked for; each sink has its own `delivered`. */
export interface CanaryTrace {
  readonly stage: (typeof canaryStages)[number]
  readonly sink?: string
}

export interface CanaryReporter {
  /** found `ms` after its prompt was sent */
  seen(trace: CanaryTrace, ms: number): void
  /** Exactly these were missing at the deadline. */
  missing(traces: readonly CanaryTrace[]): void
  /** Epoch ms at which it was found everywhere. */
  complete(at: number): void
}

/** One request to a receiver. */
export interface Asked {
  /** The receiver accepted more bytes of the request. */
  moved(): void
  /** `answered`: the receiver answered, successfully or not; else the wait for it is over. */
  over(answered: boolean): void
}

export interface SinkReporter {
  /** `tryInMs`: as for a source; while collecting, the longest delay until the entries are sent */
  state(state: SinkState, error?: ConnectorError, tryInMs?: number): void
  /** The receiver was probed, outside of deliveries; `error` undefined: nothing is wrong. */
  probed(error?: ConnectorError, tryInMs?: number): void
  /** A delivery is over, successfully or not: that proves more than a probe. */
  tried(): boolean
  /** A delivery begins; call the result when it is over, successfully or not: it is counted. */
  delivering(): () => void
  asked(): Asked
  /** The receiver accepted or answered something outside of a request. */
  active(): void
  /** `reason`: an error's code */
  retry(reason: string): void
  acknowledged(counts: { accepted: number; deadLettered: number; filtered: number }): void
  /**
   * entries whose delay from own time to acceptance is in one bucket of `deliveryBucketsSeconds`:
   * their mean, and how many
   */
  delivered(delayMs: number, entries: number): void
  /** The receiver accepted data. */
  success(): void
  /** Epoch ms: the earliest expiry of the certificates seen on the way to the receiver. */
  certificateEnds(endsAt: number): void
}

/** Sees what a sink sends. */
export interface SinkObserver {
  /** Runs `send`, which delivers this batch, and returns its outcome. */
  deliver?(delivery: Delivery, send: () => Promise<Outcome>): Promise<Outcome>
  /** Lines are about to be written to an object. */
  write?(lines: Uint8Array): void
  /** Runs `send`, which stores this object, and returns its result. */
  put?(content: ObjectContent, send: () => Promise<StoredObject>): Promise<StoredObject>
}

// Tracing: wraps the parts of the program, which behave as before. Without tracing nothing is
// wrapped.

/**
 * Each method returns its argument, or the same with spans around its work; `sink` returns an
 * observer. Spans contain names of the configuration, counts, bytes and codes: never content or
 * secrets.
 */
export interface Tracing {
  journal(journal: Journal): Journal
  source(source: Source): Source
  /** The requests of this source. */
  transport(stream: Stream, send: Transport): Transport
  sink(sink: Pick<Sink, 'name' | 'type'>): SinkObserver
  /** Sends waiting spans, for a bounded time. Never throws. */
  close(): Promise<void>
}
