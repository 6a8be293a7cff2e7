// What the conductors tell of their work, for metrics and the status page. Nothing here may throw or wait.
import type { ConnectorError } from '../core/errors.ts'
import type { Journal } from './journal.ts'
import type { Transport } from './platform.ts'
import type { ObjectSink, Sink } from './sink.ts'
import type { Appended, Origin, Source } from './source.ts'

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

/** `collecting`: what came waits until there is more of it, or its time is up. */
export const sinkStates = ['starting', 'idle', 'collecting', 'sending', 'blocked', 'failing'] as const
export type SinkState = (typeof sinkStates)[number]

/** Bounds of `auditferry_delivery_seconds`: from seconds of a live feed to the weeks of a backlog. */
export const deliveryBucketsSeconds = [1, 5, 15, 60, 300, 900, 3600, 21_600, 86_400, 604_800] as const

/** When each last was, epoch ms; 0: never. @internal for tests */
export interface Recalled {
  readonly readAt: number
  readonly caughtUpAt: number
  readonly gapAt: number
}

/** One answer whose body is read. @internal for tests */
export interface AnswerRead {
  /** Some more of it came. */
  came(): void
  /** No more of it is read, whatever became of it. */
  over(): void
}

/** Instants are epoch ms unless their name ends in Us. */
export interface SourceWatch {
  /** `tryInMs`: how long until it is tried again, where that is known */
  state(state: SourceState, error?: ConnectorError, tryInMs?: number): void
  /** `code`: the HTTP status, or our error code when there was none. */
  request(code: string, durationMs: number): void
  /** for a place in the budget */
  waited(durationMs: number): void
  /** An answer waits until there is memory for its body; to be called when it waits no more. */
  waitsForMemory(): () => void
  readsAnswer(): AnswerRead
  appended(appended: Appended): void
  /** A read went well to its end. */
  success(): void
  /** All that was there has been read. */
  caughtUp(): void
  /** What an earlier process knew; before the first read, if at all. */
  recalled(last: Recalled): void
  /** the newest entry's own time that we know of */
  head(atUs: number): void
  /** the own time of the last entry read in order */
  cursor(atUs: number): void
  /** So many possible gaps more. */
  gap(count: number): void
  /** an entry of our own making, seen again: how long after its own time, by the server's clock */
  ownFetch(latenessMs: number): void
  /** Counts the same for what reads beside the source's own loop, and takes it for no sign that this one lives. */
  readonly aside?: Pick<SourceWatch, 'request' | 'waited' | 'appended' | 'gap'>
}

const nobody = () => undefined
/** Nobody watches. */
export const silentWatch: SourceWatch = {
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

/** One of the places where a canary is looked for; `delivered` is each sink's. */
export interface CanaryTrace {
  readonly stage: (typeof canaryStages)[number]
  readonly sink?: string
}

export interface CanaryWatch {
  /** `ms` after its prompt was sent */
  seen(trace: CanaryTrace, ms: number): void
  /** These did not come in time, and no other. */
  missing(traces: readonly CanaryTrace[]): void
  /** One came back in every place, epoch ms. */
  whole(at: number): void
}

/** One request that a receiver is to answer. */
export interface Asked {
  /** The receiver took some more of the request. */
  moved(): void
  /** `answered`: the receiver said something, whatever that is; else nobody waits for its answer any more. */
  over(answered: boolean): void
}

export interface SinkWatch {
  /** `tryInMs`: as of a source; while it collects, how long until that goes out at the latest */
  state(state: SinkState, error?: ConnectorError, tryInMs?: number): void
  /** The receiver was asked whether it is there, beside all deliveries; `error`: what is wrong with it, undefined: nothing. */
  probed(error?: ConnectorError, tryInMs?: number): void
  /** A delivery is over, whatever became of it: that says more than asking does. */
  tried(): boolean
  /** A delivery is with the sink from now on; to be called when it is over, whatever became of it. */
  delivering(): () => void
  asked(): Asked
  /** The receiver took or said something outside of a request. */
  heard(): void
  /** One delivery is over, whatever became of it. */
  request(durationMs: number): void
  /** `reason`: an error's code */
  retry(reason: string): void
  settled(counts: { accepted: number; deadLettered: number; filtered: number }): void
  /** entries whose delay from own time to acceptance falls into one bucket of `deliveryBucketsSeconds`: their mean, and how many */
  delivered(delayMs: number, entries: number): void
  /** The receiver took something. */
  success(): void
  /** Epoch ms: the earliest end of the certificates that were seen on the way to the receiver. */
  certificateEnds(endsAt: number): void
}

// Tracing as the wiring may know it: each part may be looked at on its way, and behaves as before. Where nobody looks, nothing is put in between.

/** Each gives what it was given, or the same with spans around its work. Spans carry names of the configuration, counts, bytes, codes: never content or secrets. */
export interface Tracing {
  journal(journal: Journal): Journal
  source(source: Source): Source
  /** The requests of this source. */
  transport(origin: Origin, send: Transport): Transport
  sink<S extends Sink | ObjectSink>(sink: S): S
  /** Sends what waits, for a bounded time. Never throws. */
  close(): Promise<void>
}
