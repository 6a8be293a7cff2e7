// When projects were seen, by the server's clock, and what is new since the last whole look.
import type { Clock } from '../../model/clock.ts'
import { parseInstantText } from '../../model/time.ts'
import type { Answer } from '../client/client.ts'
import type { Pass, VaultCursor } from './cursor.ts'

/** A server without a `Date` header may be behind our clock by this. */
const CLOCK_DOUBT_US = 600_000_000

/** When a change was seen, and since when it can have happened; µs by the server's clock. */
export interface Sighting {
  readonly seenUs: number
  readonly sinceUs: number
}

/** When the projects of `answer` are seen, or the end of the list without one; the first of a pass says when the pass began. */
export function sightingOf(
  { last }: VaultCursor,
  pass: Pass,
  answer: Answer | undefined,
  clock: Clock,
): Sighting {
  const at = answer?.serverAt ?? answer?.sentAt ?? clock.now()
  const doubtUs = answer?.serverAt === undefined ? CLOCK_DOUBT_US : 0
  if (pass.startedUs === 0) pass.startedUs = at * 1000 - doubtUs
  return { seenUs: at * 1000, sinceUs: last?.startedUs ?? Infinity }
}

/** Made since the last whole look began, as far as it says when it was made; in the first pass all is old. */
export function isNew({ last }: VaultCursor, createdAt: string | undefined, { sinceUs }: Sighting): boolean {
  if (last === null) return false
  const createdUs = parseInstantText(createdAt ?? '')
  return Number.isNaN(createdUs) || createdUs >= sinceUs
}
