// What a sink has acknowledged: everything up to its position, and some ranges above it.
import type { Seq, SequenceRange } from '../../core/sequence.ts'

export interface Acknowledged {
  readonly position: Seq
  /** acknowledged above the position; ascending, not adjacent to each other or to the position */
  readonly ahead: readonly SequenceRange[]
}

/**
 * Acknowledges [first, last]. Position 10 with 21 to 30 ahead: acknowledging 11 to 20 gives
 * position 30 and nothing ahead; acknowledging 15 to 18 gives position 10 with 15 to 18 and 21 to
 * 30 ahead.
 */
export function withAcked({ position, ahead }: Acknowledged, { first, last }: SequenceRange): Acknowledged {
  const merged: SequenceRange[] = []
  let reached = position
  for (const range of [...ahead, { first, last }].sort((a, b) => a.first - b.first)) {
    const before = merged.at(-1)
    if (range.first <= reached + 1) reached = Math.max(reached, range.last)
    else if (before && range.first <= before.last + 1)
      merged[merged.length - 1] = { first: before.first, last: Math.max(before.last, range.last) }
    else merged.push(range)
  }
  return { position: reached, ahead: merged }
}

/** The first range from `from` on that is neither acknowledged nor busy: the next to take. */
export function nextFree(
  { position, ahead }: Acknowledged,
  from: Seq,
  until: Seq,
  busy: readonly SequenceRange[] = [],
): SequenceRange {
  let first = Math.max(from, position + 1)
  for (const range of [...ahead, ...busy].sort((a, b) => a.first - b.first)) {
    if (range.first > first) return { first, last: Math.min(until, range.first - 1) }
    first = Math.max(first, range.last + 1)
  }
  return { first, last: until }
}

export function aheadCount({ ahead }: Acknowledged): number {
  return ahead.reduce((sum, { first, last }) => sum + last - first + 1, 0)
}
