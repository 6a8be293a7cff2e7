// Which interval a manifest is for, and which settlements it lists. Pure.
import type { Seq } from '../../../model/seq.ts'
import type { Chain, SettledNote } from './notes.ts'
import type { Manifest, ManifestStretch } from './manifest.ts'

/** A manifest lists about so many objects of so many settlements; what is more goes into the next one of the same interval. */
const MOST_OBJECTS = 2_000
export const MOST_RECORDS = 256

/** The clock's last round hour (or whatever the interval is) at or before `at`. */
const roundDown = (at: number, intervalMs: number): number => Math.floor(at / intervalMs) * intervalMs

/**
 * The end of the interval that is over by now, or how long to wait for that. Several that passed while nothing ran are one.
 * A clock that was set back by more than an interval begins a new one, so that the chain does not stand still until the
 * old time is reached again; the manifest then shows an end before its begin.
 */
export function intervalOver(chain: Chain, nowAt: number, intervalMs: number): { untilAt: number } | number {
  if (chain.untilAt !== undefined) return { untilAt: chain.untilAt }
  const untilAt = roundDown(nowAt, intervalMs)
  if (untilAt > chain.fromAt || nowAt < chain.fromAt - intervalMs) return { untilAt }
  return roundDown(Math.max(nowAt, chain.fromAt), intervalMs) + intervalMs - nowAt
}

export interface Listed {
  readonly records: readonly SettledNote[]
  readonly stretches: readonly ManifestStretch[]
  readonly gaps: Manifest['gaps']
  readonly through: Seq
  /** nothing more of the interval is left */
  readonly complete: boolean
}

/**
 * The settlements behind `after`, as far as they leave no hole. `position`: all up to there is settled; what of it no record
 * tells of is a gap (evidence was off). `records` are one more than MOST_RECORDS where there are more. What was settled ahead of a hole waits until the hole is settled.
 */
export function listSettled(records: readonly SettledNote[], after: Seq, position: Seq): Listed {
  const taken: SettledNote[] = []
  const stretches: ManifestStretch[] = []
  const gaps: Manifest['gaps'] = []
  let through = after
  let objects = 0
  for (const record of records) {
    const { first, last } = record.settled
    if (first > through + 1 && position < first - 1) break
    objects += record.settled.objects.length
    if (taken.length >= MOST_RECORDS || (taken.length > 0 && objects > MOST_OBJECTS))
      return { records: taken, stretches, gaps, through, complete: false }
    if (first > through + 1) gaps.push({ first: through + 1, last: first - 1 })
    join(stretches, record)
    taken.push(record)
    through = Math.max(through, last)
  }
  if (position > through) gaps.push({ first: through + 1, last: position })
  return { records: taken, stretches, gaps, through: Math.max(through, position), complete: true }
}

/** Settlements that follow each other are told as one stretch. */
function join(stretches: ManifestStretch[], { settled }: SettledNote): void {
  const { first, last, delivered, filtered, parked } = settled
  const before = stretches.at(-1)
  if (before?.last !== first - 1) {
    stretches.push({ first, last, delivered, filtered, parked })
    return
  }
  stretches[stretches.length - 1] = {
    first: before.first,
    last,
    delivered: before.delivered + delivered,
    filtered: before.filtered + filtered,
    parked: before.parked + parked,
  }
}
