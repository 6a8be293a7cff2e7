// The spans themselves: their names, their closed set of attributes, how they end. Stands between the decorators and OpenTelemetry's API.
import { ROOT_CONTEXT, SpanKind, SpanStatusCode, trace } from '@opentelemetry/api'
import type { Link, Span, SpanContext, Tracer } from '@opentelemetry/api'
import { ConnectorError } from '../../core/errors.ts'
import type { Seq } from '../../core/sequence.ts'

type SpanName = 'read' | 'request' | 'append' | 'deliver' | 'ack'

/** All that a span may say: names of the configuration, counts, bytes, codes. */
export interface Facts {
  readonly workspace?: string
  readonly source?: string
  readonly sink?: string
  readonly type?: string
  /** entries of a page or batch */
  readonly entries?: number
  readonly new?: number
  readonly late?: number
  readonly known?: number
  readonly filtered?: number
  readonly quarantined?: number
  readonly acknowledged?: number
  readonly refused?: number
  readonly dead_lettered?: number
  /** an earlier try may have sent some or all of it */
  readonly again?: boolean
  readonly bytes?: number
  /** `ok`, `pending` where the receiver confirms later, `left` where a read was given up, a refusing status, or an error's code */
  readonly outcome?: string
}

export const setFacts = (span: Span, facts: Facts): void => {
  for (const [name, value] of Object.entries(facts) as [string, string | number | boolean | undefined][])
    if (value !== undefined) span.setAttribute(`auditferry.${name}`, value)
}

/** Of our own errors the code; of any other only that it was one: its message may hold content. */
const outcomeOf = (error: unknown): string => (error instanceof ConnectorError ? error.code : 'bug')

export function endWith(span: Span, error?: unknown): void {
  if (error !== undefined) {
    const code = outcomeOf(error)
    setFacts(span, { outcome: code })
    span.setAttribute('error.type', code)
    // To be told to stop is no failure.
    if (code !== 'aborted') span.setStatus({ code: SpanStatusCode.ERROR })
  }
  span.end()
}

const kinds: Readonly<Record<SpanName, SpanKind>> = {
  read: SpanKind.INTERNAL,
  request: SpanKind.CLIENT,
  append: SpanKind.INTERNAL,
  deliver: SpanKind.CLIENT,
  ack: SpanKind.INTERNAL,
}

interface Place {
  readonly parent?: Span | undefined
  readonly links?: Link[]
}

export type Begin = (name: SpanName, facts: Facts, place?: Place) => Span

export function beginner(tracer: Tracer): Begin {
  return (name, facts, { parent, links = [] } = {}) => {
    const context = parent ? trace.setSpan(ROOT_CONTEXT, parent) : ROOT_CONTEXT
    const span = tracer.startSpan(name, { kind: kinds[name], links }, context)
    setFacts(span, facts)
    return span
  }
}

/** The work within the span; what `factsOf` says of its result is added. */
export async function within<T>(
  span: Span,
  work: () => Promise<T>,
  factsOf: (result: T) => Facts = () => ({}),
): Promise<T> {
  try {
    const result = await work()
    setFacts(span, { outcome: 'ok', ...factsOf(result) })
    endWith(span)
    return result
  } catch (error) {
    endWith(span, error)
    throw error
  }
}

// Which page's span brought which entries: the link from a batch back across the journal. In memory only, of a fixed size.

/** The newest pages; what is delivered later than so many has no link. */
const MOST_PAGES = 4096
/** A batch over more pages links to the newest of them. */
const MOST_LINKS = 32

interface Page {
  readonly first: Seq
  readonly last: Seq
  readonly context: SpanContext
}

export interface Pages {
  keep(first: Seq, last: Seq, context: SpanContext): void
  /** The pages whose entries lie in [first, last], the newest first. */
  links(first: Seq, last: Seq): Link[]
}

export function openPages(): Pages {
  const ring: Page[] = []
  /** where the oldest stands once the ring is full */
  let oldest = 0
  return {
    keep(first, last, context) {
      if (ring.length < MOST_PAGES) ring.push({ first, last, context })
      else {
        ring[oldest] = { first, last, context }
        oldest = (oldest + 1) % MOST_PAGES
      }
    },
    links(first, last) {
      const found: Link[] = []
      for (let age = 1; age <= ring.length && found.length < MOST_LINKS; age++) {
        const page = ring[(oldest + ring.length - age) % ring.length]
        // Sequence numbers only grow: what is older lies before.
        if (!page || page.last < first) break
        if (page.first <= last) found.push({ context: page.context })
      }
      return found
    },
  }
}
