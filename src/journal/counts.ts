// What became of each entry of a part, summed over the part and by the entries' own UTC day. Pure.
import type { Appended } from '../model/appended.ts'
import type { Append } from '../model/journal.ts'
import { epochDay } from '../model/time.ts'
import type { Claim } from './keys.ts'

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
  /** µs, of the entries that were looked up; Infinity when there was none */
  readonly oldestUs: number
}

const FILTERED = 0
const KNOWN = 1
const FRESH = 2

/** One outcome an entry. */
function outcomesOf({ entries }: Append, wanted: Uint32Array | undefined, claim: Claim): Uint8Array {
  const all = wanted === undefined && claim.fresh === undefined
  const outcomes = new Uint8Array(entries.count).fill(all ? FRESH : wanted === undefined ? KNOWN : FILTERED)
  if (all) return outcomes
  for (const index of wanted ?? []) outcomes[index] = KNOWN
  for (const index of claim.fresh ?? wanted ?? []) outcomes[index] = FRESH
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

export function countsOf(
  part: Append,
  wanted: Uint32Array | undefined,
  claim: Claim,
  quarantined: number,
  nowMs: number,
): PartCounts {
  const { entries, headUs = -Infinity } = part
  const outcomes = outcomesOf(part, wanted, claim)
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
    outcomes: { added: claim.freshCount - late, late, known: claim.knownCount, filtered, latestBehindUs },
    days: days.byDay,
    oldestUs,
  }
}
