// Which entries are dated in the future: by the server's clock if it sends a believable one, else by ours.
import { HOUR_MS, SECOND_US } from '../../core/time.ts'
import { mayLeadUs } from '../shared.ts'
import type { Position } from './walk.ts'
import type { PagingStep } from './step.ts'

/** A server's clock that is further off from ours than this is not believed: one of them is wrong. */
export const CLOCKS_APART_MS = HOUR_MS

/** Fewer future-dated entries than this may be a mistake of a client; more of them mean that our clock is slow. */
export const MOST_FUTURE = 10

/** Where the next second begins. Of an answer's `Date`: what is dated from there on came after it (invariant 7). */
export const nextSecondUs = (us: number): number => (Math.floor(us / SECOND_US) + 1) * SECOND_US

/** A time of our own further in the future than this was written before our clock was set back. */
export const SET_BACK_MS = HOUR_MS

/**
 * Margin where the server sends no clock. Our clock, if it is kept at all, is wrong by no more than the hour of
 * a summer time that it missed.
 */
const NO_CLOCK_MS = HOUR_MS

type Around = Pick<PagingStep, 'options' | 'cursor'>

/** Later instants (µs) are the future, by the later of our clock and the server's. */
export function horizonUs({ options, cursor }: Around, serverAt?: number): number {
  const now = options.clock.now()
  if (serverAt !== undefined) return mayLeadUs(Math.max(now, serverAt))
  const withoutClockUs = mayLeadUs(now + NO_CLOCK_MS)
  // The head itself is later: there were many such entries, or it was the first. Our clock is slow, so no horizon.
  return cursor.head !== null && cursor.head.at > withoutClockUs ? Infinity : withoutClockUs
}

interface Dated {
  readonly position: Position | undefined
  /** own time of an entry that cannot be read otherwise */
  readonly unreadableUs?: number | undefined
  readonly serverAt: number | undefined
}

/** Dated in the future: it is kept, but no place to go on from, since what comes now is dated before it. */
export function isFuture(step: Around, { position, unreadableUs, serverAt }: Dated): boolean {
  const atUs = position?.at ?? unreadableUs
  return atUs !== undefined && atUs > horizonUs(step, serverAt)
}
