// How often and how much the head reader asks: the recommended tiers of spec §8, and `auto`, which follows what it sees. Pure.

export type Activity = 'high' | 'medium' | 'low' | 'auto'

export interface Pace {
  readonly intervalMs: number
  readonly take: number
}

export const MAX_TAKE = 1000

const tiers = {
  high: { intervalMs: 5 * 60_000, take: 1000 },
  medium: { intervalMs: 15 * 60_000, take: 500 },
  low: { intervalMs: 60 * 60_000, take: 100 },
} as const satisfies Record<Exclude<Activity, 'auto'>, Pace>

/** `auto`: the slowest tier whose one page holds what an interval brings, with room for a burst. */
function tierFor(perHour: number): Pace {
  if (perHour * (tiers.low.intervalMs / 3_600_000) <= tiers.low.take / 2) return tiers.low
  if (perHour * (tiers.medium.intervalMs / 3_600_000) <= tiers.medium.take / 2) return tiers.medium
  return tiers.high
}

export function paceOf(activity: Activity, intervalMs: number | undefined, perHour: number): Pace {
  const tier = activity === 'auto' ? tierFor(perHour) : tiers[activity]
  return intervalMs === undefined ? tier : { intervalMs, take: tier.take }
}

/** Smooths over some four polls, so that one burst does not turn the tier and back. */
export function smoothRate(perHour: number, entries: number, elapsedMs: number): number {
  if (elapsedMs <= 0) return perHour
  const now = (entries / elapsedMs) * 3_600_000
  return perHour === 0 ? now : perHour * 0.75 + now * 0.25
}
