// Tracing as the wiring may know it: each part may be looked at on its way, and behaves as before. Where nobody looks, nothing is put in between.
import type { Transport } from './http.ts'
import type { Journal } from './journal.ts'
import type { ObjectSink, Sink } from './sink.ts'
import type { Origin, Source } from './source.ts'

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
