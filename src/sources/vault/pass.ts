// A pass over the project list: its counts, its end, and what two of them prove about projects that are not there any more. Pure.
import { LARGEST_PAGE } from './page.ts'
import type { VaultPage } from './page.ts'
import type { Ended, Known, Pass, VaultCursor } from './cursor.ts'

/** A pass that nobody went on with for so long begins anew: what its first pages said is old. */
const STALE_MS = 3_600_000
/** A list that repeats itself is over: one page may do so since projects moved, two in a row do since there is no more. */
const BARREN_PAGES = 2
/** Cursors are rewritten whole: one of so many bytes at every page, one twice as large at every second. */
const REWRITE_BYTES = 128 * 1024
const MOST_PAGES_AHEAD = 20
/** Where projects are missing, the next pass comes this soon, so many times; then with the interval. */
const CONFIRM_MS = 60_000
const EARLY_PASSES = 3

export function beginPass(cursor: VaultCursor, now: number, perPage: number = LARGEST_PAGE): Pass {
  // One that begins again goes the way of the one before it: only those that end have to go opposite ways.
  cursor.passes += cursor.pass ? 2 : 1
  cursor.pass = {
    n: cursor.passes,
    perPage,
    startedUs: 0,
    page: 1,
    seen: 0,
    repeats: 0,
    nameless: 0,
    total: null,
    lastPage: null,
    barren: 0,
    barrenRepeats: 0,
    at: now,
  }
  return cursor.pass
}

/** The pass that goes on; undefined: one has to begin. */
export function passUnderWay({ pass }: VaultCursor, now: number): Pass | undefined {
  return pass && Math.abs(now - pass.at) < STALE_MS ? pass : undefined
}

/** True, and counted, when this pass has seen the project already. */
export function noteAgain(pass: Pass, known: Known): boolean {
  if (known.seen !== pass.n) return false
  pass.repeats++
  return true
}

/** Marks one project as seen; false when this pass had it already. */
export function noteSeen(pass: Pass, known: Known): boolean {
  if (noteAgain(pass, known)) return false
  known.seen = pass.n
  pass.seen++
  return true
}

/** Adds a page to the pass. True when the list is over: `fresh` is how many of the page were not seen before. */
export function notePage(pass: Pass, page: VaultPage, fresh: number, now: number): boolean {
  const count = page.projects.length + page.malformed.length
  const nameless = page.malformed.filter(({ id }) => id === undefined).length
  // Behind the end some servers count nothing: what counts is what was said beside projects.
  if (count > 0 || pass.page === 1) pass.total = page.total ?? null
  pass.nameless += nameless
  pass.lastPage = page.totalPages === undefined ? null : pass.page >= page.totalPages
  pass.at = now
  const isNew = fresh > 0 || (nameless > 0 && pass.lastPage === false)
  pass.barren = isNew ? 0 : pass.barren + 1
  pass.barrenRepeats = isNew ? 0 : pass.barrenRepeats + page.projects.length
  // By its own pagination the list goes on: the same page is asked for once more, since a server may be ill for a moment.
  const isEarly = count === 0 && page.totalPages !== undefined && pass.page < page.totalPages
  if (isEarly && pass.barren < BARREN_PAGES) return false
  pass.page++
  if (count > 0 && pass.barren < BARREN_PAGES) return false
  // What came after the end says nothing about the list.
  if (count > 0) pass.repeats -= pass.barrenRepeats
  return true
}

/** More than people delete between two looks. */
export const isMany = (gone: number, of: number): boolean => gone > 5 && gone * 4 > of

/** How many pages may be read before the cursor is written. */
export function mostPagesAhead(cursorBytes: number): number {
  return Math.min(MOST_PAGES_AHEAD, Math.max(1, Math.ceil(cursorBytes / REWRITE_BYTES)))
}

export interface Verdict {
  /** proven to be gone */
  readonly gone: readonly Known[]
  /** missing once, or more often without proof */
  readonly missing: number
  /** why the proof failed although they are missing for longer */
  readonly doubt: 'none' | 'short' | 'unsteady'
}

/**
 * What is proven at the end of a pass. Let S be what the pass before this one saw. If every project of S was seen again in
 * this pass, all of S was still there when that pass read its last page, ids being made once; and if the API's own
 * total on that page was |S|, then there was nothing else: a project outside of S was gone by then, whatever moved between
 * the pages. Where no total is told, or one that is plainly wrong since it is below |S|, both passes must have seen
 * the same projects, each once, and no element without an id.
 */
export function judge({ projects, last }: VaultCursor, pass: Pass): Verdict {
  const missing: Known[] = []
  for (const known of projects.values()) if (known.seen < pass.n) missing.push(known)
  if (last === null) return { gone: [], missing: missing.length, doubt: 'none' }
  const longer = missing.filter(({ seen }) => seen < last.n)
  if (longer.length === 0) return { gone: [], missing: missing.length, doubt: 'none' }
  const doubt = doubtOf(last, pass, missing.length - longer.length)
  const gone = doubt === 'none' ? longer : []
  return { gone, missing: missing.length - gone.length, doubt }
}

function doubtOf(last: Ended, pass: Pass, newlyMissing: number): Verdict['doubt'] {
  if (newlyMissing > 0) return 'unsteady'
  if (last.total === last.seen) return 'none'
  if (last.total !== null && last.total > last.seen) return 'short'
  const steady =
    last.seen === pass.seen && last.repeats + pass.repeats === 0 && last.nameless + pass.nameless === 0
  return steady ? 'none' : 'unsteady'
}

/** Closes the pass and says when the next one is due. */
export function endPass(
  cursor: VaultCursor,
  pass: Pass,
  missing: number,
  now: number,
  intervalMs: number,
): void {
  const { n, startedUs, seen, repeats, nameless, total } = pass
  cursor.last = { n, startedUs, seen, repeats, nameless, total }
  cursor.pass = null
  // Most of a list does not go at once: that is looked at again in good time, not in the minute in which a server may be ill.
  const isEarly = missing > 0 && missing * 2 <= cursor.projects.size && cursor.early < EARLY_PASSES
  cursor.early = isEarly ? cursor.early + 1 : 0
  cursor.dueAt = now + (isEarly ? Math.min(CONFIRM_MS, intervalMs) : intervalMs)
}
