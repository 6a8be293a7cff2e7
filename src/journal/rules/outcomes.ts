// Results of the entries of a page chunk: which are wanted, and how many are new, late, known or
// filtered, in all and by the entries' own UTC day.
import { TYPE } from '../../contracts/entries.ts'
import type { Append } from '../../contracts/journal.ts'
import type { Appended } from '../../contracts/source.ts'
import { epochDay } from '../../core/time.ts'
import type { NewEntries } from './dedup.ts'

/** Indices of the entries whose type is wanted; undefined: all. Each type is checked once. */
export function wantedOf({ entries, wanted }: Pick<Append, 'entries' | 'wanted'>): Uint32Array | undefined {
  if (wanted === undefined || entries.count === 0) return undefined
  const answers: (boolean | undefined)[] = []
  const picked = new Uint32Array(entries.count)
  let count = 0
  for (let i = 0; i < entries.count; i++) {
    const type = entries.column(i, TYPE)
    if ((answers[type] ??= wanted(entries.type(i)))) picked[count++] = i
  }
  return count === entries.count ? undefined : picked.slice(0, count)
}

export interface DayCounts {
  /** new and not late */
  added: number
  late: number
  known: number
  filtered: number
  quarantined: number
}

interface PartCounts {
  readonly outcomes: Omit<Appended, 'quarantined' | 'findings'>
  /** by days since 1970 */
  readonly days: ReadonlyMap<number, DayCounts>
  /** µs, of the entries that were looked up; Infinity if there was none */
  readonly oldestUs: number
}

const FILTERED = 0
const KNOWN = 1
const FRESH = 2

/** One outcome per entry. */
function outcomesOf(count: number, wanted: Uint32Array | undefined, { fresh }: NewEntries): Uint8Array {
  const all = wanted === undefined && fresh === undefined
  const outcomes = new Uint8Array(count).fill(all ? FRESH : wanted === undefined ? KNOWN : FILTERED)
  if (all) return outcomes
  for (const index of wanted ?? []) outcomes[index] = KNOWN
  for (const index of fresh ?? wanted ?? []) outcomes[index] = FRESH
  return outcomes
}

class Days {
  readonly byDay = new Map<number, DayCounts>()
  #lastDay = NaN
  #last: DayCounts | undefined

  of(day: number): DayCounts {
    if (this.#last === undefined || day !== this.#lastDay) {
      this.#last = this.byDay.get(day) ?? { added: 0, late: 0, known: 0, filtered: 0, quarantined: 0 }
      this.byDay.set(day, this.#last)
      this.#lastDay = day
    }
    return this.#last
  }
}

/** `quarantined`: how many elements of the page chunk were not known. */
export function countsOf(
  { entries, headUs = -Infinity }: Pick<Append, 'entries' | 'headUs'>,
  wanted: Uint32Array | undefined,
  found: NewEntries,
  quarantined: number,
  nowMs: number,
): PartCounts {
  const outcomes = outcomesOf(entries.count, wanted, found)
  const days = new Days()
  let oldestUs = Infinity
  let late = 0
  let latestBehindUs = 0
  for (let i = 0; i < entries.count; i++) {
    const at = entries.at(i)
    const day = days.of(epochDay(at))
    if (outcomes[i] === FILTERED) day.filtered++
    else if (at < oldestUs) oldestUs = at
    if (outcomes[i] === KNOWN) day.known++
    if (outcomes[i] !== FRESH) continue
    if (at < headUs) {
      day.late++
      late++
      latestBehindUs = Math.max(latestBehindUs, headUs - at)
    } else day.added++
  }
  if (quarantined > 0) days.of(epochDay(nowMs * 1000)).quarantined += quarantined
  const filtered = wanted === undefined ? 0 : entries.count - wanted.length
  return {
    outcomes: { added: found.freshCount - late, late, known: found.knownCount, filtered, latestBehindUs },
    days: days.byDay,
    oldestUs,
  }
}

/**
 * Whether a finding of entry `index` is reported: known entries were reported when they were new. A
 * stolen key is reported whether or not its fetches are wanted as entries.
 */
export const isNews = (
  index: number,
  wanted: Uint32Array | undefined,
  { fresh = wanted }: NewEntries,
): boolean => fresh?.includes(index) !== false || wanted?.includes(index) === false
