// Spans of reading: one for each read of a source; its requests and the appends of its parts below it.
import type { Span } from '@opentelemetry/api'
import type { Transport } from '../../model/http.ts'
import type { Appended } from '../../model/appended.ts'
import type { Append, Journal } from '../../model/journal.ts'
import type { Origin, Part, Source } from '../../model/source.ts'
import type { Pages } from './pages.ts'
import { type Begin, endWith, setFacts, within } from './spans.ts'

/** A source reads one page at a time: what it does meanwhile belongs to that read. */
export type Reads = Map<string, Span>

const idOf = ({ workspace, source }: Origin): string => `${workspace} ${source}`

export function tracedSource(source: Source, begin: Begin, reads: Reads): Source {
  const { origin } = source
  return {
    origin,
    plan: (cursor) => source.plan(cursor),
    async *read(cursor, signal): AsyncGenerator<Part, void, Appended> {
      const span = begin('read', origin)
      reads.set(idOf(origin), span)
      let failed: unknown
      let outcome = 'left'
      try {
        yield* source.read(cursor, signal)
        outcome = 'ok'
      } catch (error) {
        failed = error
        throw error
      } finally {
        reads.delete(idOf(origin))
        setFacts(span, { outcome })
        endWith(span, failed)
      }
    },
  }
}

/** Until the answer's head is there; its body comes in while parts are appended. */
export function tracedTransport(origin: Origin, send: Transport, begin: Begin, reads: Reads): Transport {
  return async (request, signal) => {
    const span = begin('request', origin, { parent: reads.get(idOf(origin)) })
    span.setAttribute('http.request.method', request.method)
    return within(
      span,
      () => send(request, signal),
      ({ status }) => {
        span.setAttribute('http.response.status_code', status)
        return { outcome: status < 300 ? 'ok' : String(status) }
      },
    )
  }
}

export function tracedAppend(journal: Journal, begin: Begin, reads: Reads, pages: Pages) {
  return (part: Append): Promise<Appended> => {
    const { origin, entries } = part
    const { workspace, source } = origin
    const facts = { workspace, source, entries: entries.count, bytes: entries.bytes.length }
    const span = begin('append', facts, { parent: reads.get(idOf(origin)) })
    return within(
      span,
      () => journal.append(part),
      ({ added, late, known, filtered, quarantined, last }) => {
        const kept = added + late
        if (kept > 0 && last !== undefined) pages.keep(last - kept + 1, last, span.spanContext())
        return { new: added, late, known, filtered, quarantined }
      },
    )
  }
}
