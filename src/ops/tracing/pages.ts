// Which page's span brought which entries: the link from a batch back across the journal. In memory only, of a fixed size.
import type { Link, SpanContext } from '@opentelemetry/api'
import type { Seq } from '../../model/seq.ts'

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
