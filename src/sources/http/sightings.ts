// Elements that may be an error in the place of an entry: only what comes again and again beside good ones is malformed.
import type { Quarantined } from '../../contracts/source.ts'

/** In so many answers one must come before it is taken for malformed. */
const MALFORMED_TRIES = 3
/** What is remembered of answers before. */
const MOST_SIGHTINGS = 1000

/** What an answer was about, in whatever the source counts. */
interface Span {
  readonly from: number
  readonly to: number
}

interface Sighting {
  from: number
  to: number
  readonly sha256: string
  times: number
}

/** What this process saw. Where it is lost with the process that costs two requests each. */
export class Sightings {
  #all: Sighting[] = []

  /** It came again and again, in answers within this span. */
  isMalformed({ from, to }: Span, { sha256 }: Quarantined): boolean {
    return this.#all.some(
      (one) => one.sha256 === sha256 && one.times >= MALFORMED_TRIES && one.from >= from && one.to <= to,
    )
  }

  /** One more answer about this span showed it beside good ones. */
  note({ from, to }: Span, { sha256 }: Quarantined, times = 1): void {
    const known = this.#all.find((one) => one.sha256 === sha256 && one.from === from)
    if (known) {
      known.times += times
      known.to = to
      return
    }
    if (this.#all.push({ from, to, sha256, times }) > MOST_SIGHTINGS) this.#all.shift()
  }

  noteMalformed(span: Span, element: Quarantined): void {
    this.note(span, element, MALFORMED_TRIES)
  }
}
