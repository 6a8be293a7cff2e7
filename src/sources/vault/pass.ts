// A pass over the project list: its counts, its end, and what two passes prove about deleted
// projects. Pure.
import { LARGEST_PAGE } from './page.ts'
import type { VaultPage } from './page.ts'
import type { Ended, Known, Pass, VaultCursor } from './cursor.ts'

/** A pass interrupted for this long restarts, because its first pages are outdated. */
const STALE_MS = 3_600_000
/** A repeating list is over: one such page can be due to moved projects, two in a row cannot. */
const BARREN_PAGES = 2
/** The cursor is rewritten whole: up to this size at every page, at twice this at every second. */
const REWRITE_BYTES = 128 * 1024
const MAX_UNSAVED_PAGES = 20
/** If projects are missing, the next few passes come after this time, then at the interval. */
const CONFIRM_MS = 60_000
const EARLY_PASSES = 3

export function beginPass(cursor: VaultCursor, now: number, perPage: number = LARGEST_PAGE): Pass {
  // A restarted pass keeps its direction: only completed passes must alternate.
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

/** The current pass; undefined: a new one must begin. */
export function passUnderWay({ pass }: VaultCursor, now: number): Pass | undefined {
  return pass && Math.abs(now - pass.at) < STALE_MS ? pass : undefined
}

/** True if this pass has seen the project already; counts the repeat. */
export function countRepeat(pass: Pass, known: Known): boolean {
  if (known.seen !== pass.n) return false
  pass.repeats++
  return true
}

/** Marks one project as seen; false if this pass had it already. */
export function markSeen(pass: Pass, known: Known): boolean {
  if (countRepeat(pass, known)) return false
  known.seen = pass.n
  pass.seen++
  return true
}

/** Adds a page to the pass; `fresh`: projects not seen before. True at the end of the list. */
export function addPage(pass: Pass, page: VaultPage, fresh: number, now: number): boolean {
  const count = page.projects.length + page.malformed.length
  const nameless = page.malformed.filter(({ id }) => id === undefined).length
  // After the end some servers report no total: only the total beside projects counts.
  if (count > 0 || pass.page === 1) pass.total = page.total ?? null
  pass.nameless += nameless
  pass.lastPage = page.totalPages === undefined ? null : pass.page >= page.totalPages
  pass.at = now
  const isNew = fresh > 0 || (nameless > 0 && pass.lastPage === false)
  pass.barren = isNew ? 0 : pass.barren + 1
  pass.barrenRepeats = isNew ? 0 : pass.barrenRepeats + page.projects.length
  // By its own pagination the list is not over: the page is requested once more, because the
  // failure may be temporary.
  const isEarly = count === 0 && page.totalPages !== undefined && pass.page < page.totalPages
  if (isEarly && pass.barren < BARREN_PAGES) return false
  pass.page++
  if (count > 0 && pass.barren < BARREN_PAGES) return false
  // Pages after the end prove nothing about the list.
  if (count > 0) pass.repeats -= pass.barrenRepeats
  return true
}

/** More than are usually deleted between two passes. */
export const isMany = (gone: number, of: number): boolean => gone > 5 && gone * 4 > of

/** Number of pages that may be read before the cursor is written. */
export function maxUnsavedPages(cursorBytes: number): number {
  return Math.min(MAX_UNSAVED_PAGES, Math.max(1, Math.ceil(cursorBytes / REWRITE_BYTES)))
}

export interface Verdict {
  /** proven to be deleted */
  readonly gone: readonly Known[]
  /** missing once, or repeatedly without proof */
  readonly missing: number
  /** why there is no proof although projects are missing for longer */
  readonly unproven: 'none' | 'short' | 'unsteady'
}

/**
 * What the end of a pass proves. Let S be the projects of the previous pass. If this pass saw every
 * project of S again, all of S still existed when the previous pass read its last page, because ids
 * are never reused. If the API's total on that page was |S|, no other project existed then, even if
 * projects moved between pages. Without a total, or with an implausible one below |S|, both passes
 * must have seen the same projects, each once, and no element without an id.
 */
export function verdictOf({ projects, last }: VaultCursor, pass: Pass): Verdict {
  const missing: Known[] = []
  for (const known of projects.values()) if (known.seen < pass.n) missing.push(known)
  if (last === null) return { gone: [], missing: missing.length, unproven: 'none' }
  const longer = missing.filter(({ seen }) => seen < last.n)
  if (longer.length === 0) return { gone: [], missing: missing.length, unproven: 'none' }
  const unproven = whyUnproven(last, pass, missing.length - longer.length)
  const gone = unproven === 'none' ? longer : []
  return { gone, missing: missing.length - gone.length, unproven }
}

function whyUnproven(last: Ended, pass: Pass, newlyMissing: number): Verdict['unproven'] {
  if (newlyMissing > 0) return 'unsteady'
  if (last.total === last.seen) return 'none'
  if (last.total !== null && last.total > last.seen) return 'short'
  const steady =
    last.seen === pass.seen && last.repeats + pass.repeats === 0 && last.nameless + pass.nameless === 0
  return steady ? 'none' : 'unsteady'
}

/** Closes the pass and sets the time of the next one. */
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
  // Most of a list does not disappear at once: it is checked at the normal interval, not while the
  // server may have a problem.
  const isEarly = missing > 0 && missing * 2 <= cursor.projects.size && cursor.early < EARLY_PASSES
  cursor.early = isEarly ? cursor.early + 1 : 0
  cursor.dueAt = now + (isEarly ? Math.min(CONFIRM_MS, intervalMs) : intervalMs)
}
