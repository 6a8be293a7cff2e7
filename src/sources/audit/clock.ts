// What of the audit log is of now and what is of the future: by the server's clock where it is told and believed, else by ours.
import { HOUR_MS, SECOND_US } from '../../core/time.ts'
import { mayLeadUs } from '../shared.ts'
import type { Position } from './cursor.ts'
import type { PagingStep } from './step.ts'

/** A server's clock that is further off from ours than this is not believed: one of them is wrong. */
export const CLOCKS_APART_MS = HOUR_MS

/** Fewer entries dated in the future may be somebody's mistake; where there are more, it is our clock that is slow. */
export const MOST_FUTURE = 10

/** Where the next second begins. Of an answer's `Date`: what is dated from there on came after it (invariant 7). */
export const nextSecondUs = (us: number): number => (Math.floor(us / SECOND_US) + 1) * SECOND_US

/** What we wrote down ourselves and lies further in the future than this was written under a clock since set back. */
export const SET_BACK_MS = HOUR_MS

/**
 * Where the server does not tell its clock, and only ours does. One that is kept at all is wrong by no more than the hour of
 * a summer time that it missed.
 */
const UNTOLD_MS = HOUR_MS

type Around = Pick<PagingStep, 'options' | 'cursor'>

/** Behind this instant (µs) lies the future, by our clock or by the server's where that is ahead. */
export function horizonUs({ options, cursor }: Around, serverAt?: number): number {
  const now = options.clock.now()
  if (serverAt !== undefined) return mayLeadUs(Math.max(now, serverAt))
  const untoldUs = mayLeadUs(now + UNTOLD_MS)
  // The head lies there itself, since there was so much of it or it was the first: our clock is slow, and tells nothing.
  return cursor.head !== null && cursor.head.at > untoldUs ? Infinity : untoldUs
}

interface Dated {
  readonly position: Position | undefined
  /** of what is no place, but tells its time */
  readonly unreadableUs?: number | undefined
  readonly serverAt: number | undefined
}

/** Dated in the future: it is kept, but no place to go on from, since what comes now is dated before it. */
export function isFuture(step: Around, { position, unreadableUs, serverAt }: Dated): boolean {
  const atUs = position?.at ?? unreadableUs
  return atUs !== undefined && atUs > horizonUs(step, serverAt)
}
