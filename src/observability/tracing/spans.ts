// The spans: names, a closed set of attributes, and outcomes. Between the decorators and the API of
// OpenTelemetry.
import { ROOT_CONTEXT, SpanKind, SpanStatusCode, trace } from '@opentelemetry/api'
import type { Link, Span, SpanContext, Tracer } from '@opentelemetry/api'
import { ConnectorError } from '../../core/errors.ts'
import type { Seq } from '../../core/sequence.ts'

type SpanName = 'read' | 'request' | 'append' | 'deliver' | 'ack'

/** The only values that a span may contain: names from the configuration, counts, bytes, codes. */
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
  /**
   * `ok`, `pending` if the receiver confirms later, `left` if a read was aborted, a rejecting
   * status, or the code of an error
   */
  readonly outcome?: string
}

export const setFacts = (span: Span, facts: Facts): void => {
  for (const [name, value] of Object.entries(facts) as [string, string | number | boolean | undefined][])
    if (value !== undefined) span.setAttribute(`auditferry.${name}`, value)
}

/** Our own errors give their code; others only `bug`, because their message may contain content. */
const outcomeOf = (error: unknown): string => (error instanceof ConnectorError ? error.code : 'bug')

export function endWith(span: Span, error?: unknown): void {
  if (error !== undefined) {
    const code = outcomeOf(error)
    setFacts(span, { outcome: code })
    span.setAttribute('error.type', code)
    // An abort is no failure.
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

interface Ancestry {
  readonly parent?: Span | undefined
  readonly links?: Link[]
}

export type Begin = (name: SpanName, facts: Facts, ancestry?: Ancestry) => Span

export function beginner(tracer: Tracer): Begin {
  return (name, facts, { parent, links = [] } = {}) => {
    const context = parent ? trace.setSpan(ROOT_CONTEXT, parent) : ROOT_CONTEXT
    const span = tracer.startSpan(name, { kind: kinds[name], links }, context)
    setFacts(span, facts)
    return span
  }
}

/** Runs the work within the span, and adds what `factsOf` says about its result. */
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

// Maps entries to the span of the page that brought them, to link batches across the journal. In
// memory, with a fixed size.

/** The newest pages; entries of older pages have no link when they are delivered. */
const MAX_PAGES = 4096
/** A batch over more pages links to the newest of them. */
const MAX_LINKS = 32

interface Page {
  readonly first: Seq
  readonly last: Seq
  readonly context: SpanContext
}

export interface Pages {
  keep(first: Seq, last: Seq, context: SpanContext): void
  /** The pages with entries in [first, last], the newest first. */
  links(first: Seq, last: Seq): Link[]
}

export function openPages(): Pages {
  const ring: Page[] = []
  /** index of the oldest once the ring is full */
  let oldest = 0
  return {
    keep(first, last, context) {
      if (ring.length < MAX_PAGES) ring.push({ first, last, context })
      else {
        ring[oldest] = { first, last, context }
        oldest = (oldest + 1) % MAX_PAGES
      }
    },
    links(first, last) {
      const found: Link[] = []
      for (let age = 1; age <= ring.length && found.length < MAX_LINKS; age++) {
        const page = ring[(oldest + ring.length - age) % ring.length]
        // Sequence numbers only grow: all older pages are before this one.
        if (!page || page.last < first) break
        if (page.first <= last) found.push({ context: page.context })
      }
      return found
    },
  }
}
