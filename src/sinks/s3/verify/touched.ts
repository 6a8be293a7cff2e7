// What all faults together touch: how many entries, which sequence numbers, of which time. Pure.
import type { Touched } from './findings.ts'

export interface Span {
  readonly count: number
  readonly entries: number
  readonly first: number
  readonly last: number
  /** of the entries; undefined where no manifest says it */
  readonly from?: string | undefined
  readonly until?: string | undefined
}

/** `listed`: entries that manifests speak of. `planted`: objects of which none does, by what their names say. */
export interface AllTouched {
  readonly listed: Span | undefined
  readonly planted: Span | undefined
}

type Ends = Pick<Span, 'from' | 'until'>

/** The texts are of one form, so that they stand in the order of their times. */
function endsOf(span: Ends, { from, until }: Touched): Ends {
  const first = [span.from, from].filter((each) => typeof each === 'string').sort()[0]
  const last = [span.until, until]
    .filter((each) => typeof each === 'string')
    .sort()
    .at(-1)
  return { from: first, until: last }
}

function widened(span: Span | undefined, touched: Touched): Span {
  const { entries = 0, first, last } = touched
  return {
    count: (span?.count ?? 0) + 1,
    entries: (span?.entries ?? 0) + entries,
    first: Math.min(span?.first ?? Infinity, first),
    last: Math.max(span?.last ?? 0, last),
    ...endsOf(span ?? {}, touched),
  }
}

/** Adds each thing once, however many faults name it. */
export class TouchedSum {
  readonly #seen = new Set<string>()
  #listed: Span | undefined
  #planted: Span | undefined

  add(where: string, touched: Touched): void {
    const name = `${where} ${touched.first} ${touched.last}`
    if (this.#seen.has(name)) return
    this.#seen.add(name)
    if (touched.entries === undefined) this.#planted = widened(this.#planted, touched)
    else this.#listed = widened(this.#listed, touched)
  }

  all(): AllTouched {
    return { listed: this.#listed, planted: this.#planted }
  }
}
