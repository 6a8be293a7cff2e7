// Elements instead of entries: each may be malformed, or an API error. Later answers decide.
import type { Quarantined } from '../../contracts/source.ts'

/** An element in this many answers is malformed. */
const MALFORMED_ANSWERS = 3
/** After this many answers with other elements and no fewer entries, waiting is useless. */
const UNSTEADY_ANSWERS = 9
/** Both lists are stored with the stream's cursor, which is written often. */
const MAX_ELEMENTS = 100
const MAX_SPANS = 20

/** The span of an answer, in the unit of the source. */
interface Span {
  readonly from: number
  readonly to: number
}

export interface StoredSightings {
  elements: { from: number; to: number; readonly sha256: string; times: number }[]
  /** consecutive answers about a span: undecided elements beside at least `good` entries */
  spans: { readonly from: number; to: number; good: number; times: number }[]
}

export const freshSightings = (): StoredSightings => ({ elements: [], spans: [] })

const covers = (outer: Span, { from, to }: Span): boolean => outer.from <= from && outer.to >= to

/**
 * `malformed`: each element came repeatedly. `unsteady`: different ones came each time, for long
 * enough. `undecided`: the next answer will decide.
 */
export type Sighted = 'clean' | 'undecided' | 'malformed' | 'unsteady'

export class Sightings {
  readonly #stored: StoredSightings

  constructor(stored: StoredSightings = freshSightings()) {
    this.#stored = stored
  }

  /** It came repeatedly, in answers within this span. */
  isMalformed(span: Span, { sha256 }: Quarantined): boolean {
    return this.#stored.elements.some(
      (one) => one.sha256 === sha256 && one.times >= MALFORMED_ANSWERS && covers(span, one),
    )
  }

  /** For every request within this span. */
  isUnsteady(span: Span): boolean {
    return this.#stored.spans.some((one) => one.times >= UNSTEADY_ANSWERS && covers(one, span))
  }

  /** Records one more answer about this span: undecided elements beside this many good entries. */
  record(span: Span, elements: readonly Quarantined[], good: number): Sighted {
    for (const element of elements) this.#add(span, element, 1)
    if (elements.every((element) => this.isMalformed(span, element))) {
      this.#stored.spans = this.#stored.spans.filter((one) => !covers(span, one))
      return elements.length === 0 ? 'clean' : 'malformed'
    }
    this.#count(span, good)
    return this.isUnsteady(span) ? 'unsteady' : 'undecided'
  }

  recordMalformed(span: Span, element: Quarantined): void {
    this.#add(span, element, MALFORMED_ANSWERS)
  }

  #add({ from, to }: Span, { sha256 }: Quarantined, times: number): void {
    const { elements } = this.#stored
    const known = elements.find((one) => one.sha256 === sha256 && one.from === from)
    if (known) {
      known.times += times
      known.to = to
    } else if (elements.push({ from, to, sha256, times }) > MAX_ELEMENTS) elements.shift()
  }

  #count({ from, to }: Span, good: number): void {
    const { spans } = this.#stored
    const known = spans.find((one) => one.from === from)
    if (!known) {
      if (spans.push({ from, to, good, times: 1 }) > MAX_SPANS) spans.shift()
      return
    }
    // Fewer entries than before: answers break off at changing places, which is temporary.
    known.times = good < known.good ? 1 : known.times + 1
    known.good = good
    known.to = to
  }
}
