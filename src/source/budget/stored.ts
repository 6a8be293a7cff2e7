// A budget's window as the journal keeps it over a restart.
import { MINUTE_MS } from '../../model/time.ts'

/** Ages and spans, not instants: only `savedAt` meets the wall clock, which may have been set meanwhile. */
export interface StoredBudget {
  /** epoch ms */
  readonly savedAt: number
  /** [how long ago the answer came, how many] */
  readonly answered: readonly (readonly [number, number])[]
  /** requests without an answer yet, and those that may have been sent since this was written */
  readonly ahead: number
  readonly blockedMs: number
  /** [what a 429 left of the limit, how long ago that was or it last grew]; absent: all of it */
  readonly lowered?: readonly [number, number]
}

/** The one that was saved last: whoever shares a budget may have been without it for a while. */
export function lastSaved(texts: readonly (string | undefined)[]): string | undefined {
  const savedAt = (text: string) => (JSON.parse(text) as StoredBudget).savedAt
  return texts.filter((text) => text !== undefined).toSorted((a, b) => savedAt(b) - savedAt(a))[0]
}

/** After this a lowered limit has grown back too. */
const TELLING_MS = 60 * MINUTE_MS

/** What it says is over: a budget that begins with nothing is the same. */
export function isStale(text: string, now: number): boolean {
  const { savedAt, blockedMs } = JSON.parse(text) as StoredBudget
  return savedAt + Math.max(blockedMs, TELLING_MS) < now
}
