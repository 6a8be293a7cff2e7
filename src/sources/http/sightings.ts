// Elements in the place of an entry: each may be malformed, or an error of the API. What later answers show decides.
import type { Quarantined } from '../../contracts/source.ts'

/** An element that comes in so many answers is malformed. */
const MALFORMED_ANSWERS = 3
/** Where so many answers in a row show other elements and no fewer entries, waiting for the next one brings nothing. */
const UNSTEADY_ANSWERS = 9
/** Both lists are kept with the stream's cursor, which is written often. */
const MOST_ELEMENTS = 100
const MOST_SPANS = 20

/** What an answer was about, in whatever the source counts. */
interface Span {
  readonly from: number
  readonly to: number
}

export interface KeptSightings {
  elements: { from: number; to: number; readonly sha256: string; times: number }[]
  /** answers in a row about a span, each with elements in doubt beside `good` entries or more */
  spans: { readonly from: number; to: number; good: number; times: number }[]
}

export const freshSightings = (): KeptSightings => ({ elements: [], spans: [] })

const covers = (outer: Span, { from, to }: Span): boolean => outer.from <= from && outer.to >= to

/**
 * `malformed`: each element came again and again. `unsteady`: other ones came each time, for long enough.
 * `in_doubt`: the next answer will say more.
 */
export type Sighted = 'clean' | 'in_doubt' | 'malformed' | 'unsteady'

export class Sightings {
  readonly #kept: KeptSightings

  constructor(kept: KeptSightings = freshSightings()) {
    this.#kept = kept
  }

  /** It came again and again, in answers within this span. */
  isMalformed(span: Span, { sha256 }: Quarantined): boolean {
    return this.#kept.elements.some(
      (one) => one.sha256 === sha256 && one.times >= MALFORMED_ANSWERS && covers(span, one),
    )
  }

  /** Of all that is asked within this span. */
  isUnsteady(span: Span): boolean {
    return this.#kept.spans.some((one) => one.times >= UNSTEADY_ANSWERS && covers(one, span))
  }

  /** One more answer about this span: these elements are in doubt, beside so many good entries. */
  note(span: Span, elements: readonly Quarantined[], good: number): Sighted {
    for (const element of elements) this.#add(span, element, 1)
    if (elements.every((element) => this.isMalformed(span, element))) {
      this.#kept.spans = this.#kept.spans.filter((one) => !covers(span, one))
      return elements.length === 0 ? 'clean' : 'malformed'
    }
    this.#count(span, good)
    return this.isUnsteady(span) ? 'unsteady' : 'in_doubt'
  }

  noteMalformed(span: Span, element: Quarantined): void {
    this.#add(span, element, MALFORMED_ANSWERS)
  }

  #add({ from, to }: Span, { sha256 }: Quarantined, times: number): void {
    const { elements } = this.#kept
    const known = elements.find((one) => one.sha256 === sha256 && one.from === from)
    if (known) {
      known.times += times
      known.to = to
    } else if (elements.push({ from, to, sha256, times }) > MOST_ELEMENTS) elements.shift()
  }

  #count({ from, to }: Span, good: number): void {
    const { spans } = this.#kept
    const known = spans.find((one) => one.from === from)
    if (!known) {
      if (spans.push({ from, to, good, times: 1 }) > MOST_SPANS) spans.shift()
      return
    }
    // Fewer entries than before: answers break off, now here and now there. That passes.
    known.times = good < known.good ? 1 : known.times + 1
    known.good = good
    known.to = to
  }
}
