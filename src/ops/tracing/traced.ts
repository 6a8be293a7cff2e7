// Tracing over one OpenTelemetry tracer: what is to be looked at gets its decorator. Loaded only where tracing is on.
import type { Tracer } from '@opentelemetry/api'
import type { Tracing } from '../../model/trace.ts'
import { type Delivering, tracedSettle, tracedSink } from './delivering.ts'
import { overlay } from '../../model/overlay.ts'
import { openPages } from './pages.ts'
import { type Reads, tracedAppend, tracedSource, tracedTransport } from './reading.ts'
import { beginner } from './spans.ts'

export function tracingOver(tracer: Tracer, close: () => Promise<void>): Tracing {
  const begin = beginner(tracer)
  const pages = openPages()
  const reads: Reads = new Map()
  const delivering: Delivering = { begin, pages, tries: new Map() }
  return {
    journal: (journal) =>
      overlay(journal, {
        append: tracedAppend(journal, begin, reads, pages),
        settle: tracedSettle(journal, delivering),
      }),
    source: (source) => tracedSource(source, begin, reads),
    transport: (origin, send) => tracedTransport(origin, send, begin, reads),
    sink: <S>(sink: S) => tracedSink(sink as never, delivering) as S,
    close,
  }
}
