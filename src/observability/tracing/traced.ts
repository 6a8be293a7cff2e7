// Adds tracing with one OpenTelemetry tracer: wraps sources, observes sinks. Loaded only if
// tracing is on.
import type { Span, Tracer } from '@opentelemetry/api'
import type { Acknowledgement, Append, DeliveryQueue, Intake } from '../../contracts/journal.ts'
import type { Transport } from '../../contracts/platform.ts'
import type { SinkObserver, Tracing } from '../../contracts/reporter.ts'
import type { Lines, Sink } from '../../contracts/sink.ts'
import type { Appended, Stream, PageChunk, Source } from '../../contracts/source.ts'
import { overlay } from '../../core/overlay.ts'
import type { Seq } from '../../core/sequence.ts'
import { beginner, endWith, openPages, setFacts, within } from './spans.ts'
import type { Begin, Facts, Pages } from './spans.ts'

export function tracingOver(tracer: Tracer, close: () => Promise<void>): Tracing {
  const begin = beginner(tracer)
  const pages = openPages()
  const reads: Reads = new Map()
  const delivering: Delivering = { begin, pages, tries: new Map() }
  return {
    journal: (journal) =>
      overlay(journal, {
        append: tracedAppend(journal, begin, reads, pages),
        ack: tracedAck(journal, delivering),
      }),
    source: (source) => tracedSource(source, begin, reads),
    transport: (stream, send) => tracedTransport(stream, send, begin, reads),
    sink: (sink) => observerOf(sink, delivering),
    close,
  }
}

// Spans of delivery: one per try of a batch or object, linked to the pages of its entries, with its
// acknowledgement below.

/** This many tries of a sink are remembered; the acknowledgement of an older one has no parent. */
const MAX_TRIES = 64

interface Try {
  readonly first: Seq
  readonly last: Seq
  readonly span: Span
}

/** The last tries of each sink, newest last. */
type Tries = Map<string, Try[]>

interface Delivering {
  readonly begin: Begin
  readonly pages: Pages
  readonly tries: Tries
}

function beginTry(
  { begin, pages, tries }: Delivering,
  sink: string,
  range: Omit<Try, 'span'>,
  facts: Facts,
): Span {
  const { first, last } = range
  const span = begin('deliver', { sink, ...facts }, { links: pages.links(first, last) })
  const known = tries.get(sink) ?? []
  tries.set(sink, known)
  known.push({ first, last, span })
  if (known.length > MAX_TRIES) known.shift()
  return span
}

function tracedAck(journal: DeliveryQueue, { begin, tries }: Delivering) {
  return (sink: string, acknowledgement: Acknowledgement): Promise<void> => {
    const { first, through, rejected } = acknowledgement
    const parent = tries.get(sink)?.findLast((each) => each.first <= through && first <= each.last)?.span
    const facts = { sink, entries: through - first + 1, dead_lettered: rejected.length }
    return within(begin('ack', facts, { parent }), () => journal.ack(sink, acknowledgement))
  }
}

function rangeOf({ seqs, count }: Lines): Omit<Try, 'span'> {
  return { first: seqs[0] ?? 0, last: seqs[count - 1] ?? 0 }
}

function observerOf({ name, type }: Pick<Sink, 'name' | 'type'>, delivering: Delivering): SinkObserver {
  return {
    deliver({ lines, possibleDuplicate }, send) {
      const { count, ends } = lines
      const facts = { type, entries: count, bytes: ends[count - 1] ?? 0, again: possibleDuplicate }
      const span = beginTry(delivering, name, rangeOf(lines), facts)
      return within(span, send, ({ acknowledged, rejected, confirmation }) => ({
        acknowledged,
        refused: rejected.length,
        outcome: confirmation ? 'pending' : 'ok',
      }))
    },
    put({ first, last, count }, send) {
      const span = beginTry(delivering, name, { first, last }, { type, entries: count })
      return within(span, send, ({ bodyBytes, alreadyStored }) => ({
        bytes: bodyBytes,
        again: alreadyStored,
      }))
    },
  }
}

// Spans of reading: one per read of a source, with its requests and its appends below.

/** A source reads one page at a time: what it does during a read belongs to that read. */
type Reads = Map<string, Span>

const idOf = ({ workspace, source }: Stream): string => `${workspace} ${source}`

function tracedSource(source: Source, begin: Begin, reads: Reads): Source {
  const { stream } = source
  return {
    stream,
    plan: (cursor) => source.plan(cursor),
    async *read(cursor, signal): AsyncGenerator<PageChunk, void, Appended> {
      const span = begin('read', stream)
      reads.set(idOf(stream), span)
      let failed: unknown
      let outcome = 'left'
      try {
        yield* source.read(cursor, signal)
        outcome = 'ok'
      } catch (error) {
        failed = error
        throw error
      } finally {
        reads.delete(idOf(stream))
        setFacts(span, { outcome })
        endWith(span, failed)
      }
    },
  }
}

/** Ends with the head of the answer; its body arrives while page chunks are appended. */
function tracedTransport(stream: Stream, send: Transport, begin: Begin, reads: Reads): Transport {
  return async (request, signal) => {
    const span = begin('request', stream, { parent: reads.get(idOf(stream)) })
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

function tracedAppend(journal: Intake, begin: Begin, reads: Reads, pages: Pages) {
  return (part: Append): Promise<Appended> => {
    const { stream, entries } = part
    const { workspace, source } = stream
    const facts = { workspace, source, entries: entries.count, bytes: entries.bytes.length }
    const span = begin('append', facts, { parent: reads.get(idOf(stream)) })
    return within(
      span,
      () => journal.append(part),
      ({ added, late, known, filtered, quarantined, last }) => {
        const stored = added + late
        if (stored > 0 && last !== undefined) pages.keep(last - stored + 1, last, span.spanContext())
        return { new: added, late, known, filtered, quarantined }
      },
    )
  }
}
