// How far a sink has settled: all up to `position`, and some stretches above it. Pure.
import type { Seq, Stretch } from '../model/seq.ts'

export interface Settled {
  readonly position: Seq
  /** settled above the position; ascending, apart from each other and from the position */
  readonly ahead: readonly Stretch[]
}

/**
 * Settles [first, last]. Position 10 with 21 to 30 ahead: settling 11 to 20 gives position 30 and nothing ahead,
 * settling 15 to 18 gives position 10 with 15 to 18 and 21 to 30 ahead.
 */
export function withSettled({ position, ahead }: Settled, { first, last }: Stretch): Settled {
  const merged: Stretch[] = []
  let reached = position
  for (const stretch of [...ahead, { first, last }].sort((a, b) => a.first - b.first)) {
    const before = merged.at(-1)
    if (stretch.first <= reached + 1) reached = Math.max(reached, stretch.last)
    else if (before && stretch.first <= before.last + 1)
      merged[merged.length - 1] = { first: before.first, last: Math.max(before.last, stretch.last) }
    else merged.push(stretch)
  }
  return { position: reached, ahead: merged }
}

/** The first stretch at or behind `from` that is neither settled nor busy: where to take next, and how far. */
export function nextFree(
  { position, ahead }: Settled,
  from: Seq,
  until: Seq,
  busy: readonly Stretch[] = [],
): Stretch {
  let first = Math.max(from, position + 1)
  for (const stretch of [...ahead, ...busy].sort((a, b) => a.first - b.first)) {
    if (stretch.first > first) return { first, last: Math.min(until, stretch.first - 1) }
    first = Math.max(first, stretch.last + 1)
  }
  return { first, last: until }
}

export function aheadCount({ ahead }: Settled): number {
  return ahead.reduce((sum, { first, last }) => sum + last - first + 1, 0)
}
