// A walk through the audit log, page by page, as every reader makes it. Pure.
import type { ConnectorError } from '../../core/errors.ts'
import type { PageView } from './page.ts'
import { probeAfter } from './skip.ts'
import type { Probe } from './skip.ts'
import { badReply } from './step.ts'

/*
 * The state machine. A failed request is sent again; `page.ts` narrows it. A page is gone after a 404 or
 * 400, and unreadable, or gone after server errors, only while other pages are good. `moveOn` alone
 * decides what comes next:
 *
 *   state        step                            outcome                             next
 *   page         reads the page at `from`        progress                            page, where this one ended
 *                                                nothing follows `from`              check_end
 *                                                malformed elements alone            check_end
 *                                                unreadable, or full of such         skip
 *                                                gone                                find
 *   page_again   the same                        nothing                             find
 *                                                malformed elements alone            skip
 *                                                all else                            as in page
 *   check_end    asks for the newest entry       later: it is after `from`          page_again
 *                                                unproven                            page
 *   find         searches for a place by time    found                               page, there
 *   skip         searches after the unreadable  found                               page, there
 *
 * A walk skips while it has a `probe` (`skip.ts`). Each reader decides itself when its walk is over and
 * what to do with a page that does not advance. Lookback never checks the end: it knows the last entry.
 */

/** Identifies an entry in the feed. */
export interface Position {
  readonly id: string
  /** the entry's own time, µs */
  readonly at: number
}

export interface Walk {
  state: 'page' | 'page_again' | 'check_end' | 'find'
  from: Position
  /** the position whose page led to `from`; absent: none did */
  before?: Position
  /** `take` after narrowing around a bad page; null: the usual one */
  narrowTake: number | null
  /** failures in a row of the page at `from`, or of the search that replaces it */
  badTries: number
  /** the most bytes that these answers had to quarantine; absent: none had any */
  mostBadBytes?: number
  /** time of the first of these failures, epoch ms; absent: none */
  failingSince?: number
  /** `take` that shows what follows malformed elements after `from`; absent: there are none */
  atLeast?: number
  /** good pages since the last narrowing */
  goodPages: number
  /** where to search on, since the page at `from` stays unreadable; null: it does not */
  probe: Probe | null
  /** ids at which the last pages ended: if one comes again, the feed does not advance */
  ends: string[]
  stuckPages: number
}

export function walkFrom(from: Position): Walk {
  const state = 'page'
  return { state, from, narrowTake: null, badTries: 0, goodPages: 0, probe: null, ends: [], stuckPages: 0 }
}

/** `future`: only future-dated entries follow; `repeated`: none, but others come before `from`. */
type PageOutcome = 'progress' | 'nothing' | 'repeated' | 'malformed' | 'future'

export function outcomeOf({ from }: Walk, { count, malformed, after, last }: PageView): PageOutcome {
  // A server may include `from` itself.
  if (after === 0 && count - malformed > 1) return 'repeated'
  if (after === 0) return malformed > 0 ? 'malformed' : 'nothing'
  return last === null || last.id === from.id ? 'future' : 'progress'
}

export type Outcome =
  | { readonly is: 'progress' | 'found'; readonly at: Position }
  | { readonly is: 'nothing' | 'gone' | 'later' | 'unproven' }
  | Unreadable

interface Unreadable {
  /** `malformed`: the page is not full, so an entry may follow */
  readonly is: 'malformed' | 'unreadable'
  /** everything up to here is read, µs */
  readonly readToUs: number
  /** so many elements of the page at `from` are quarantined; undefined: none */
  readonly take: number | undefined
}

export function moveOn(walk: Walk, outcome: Outcome): void {
  const isAgain = walk.state === 'page_again'
  switch (outcome.is) {
    case 'progress':
      if (outcome.at.id !== walk.from.id) walk.before = walk.from
      goTo(walk, outcome.at)
      break
    case 'found':
      forgetFailures(walk)
      delete walk.before
      // It may be an earlier entry of the same second: those after it come again.
      walk.ends = []
      walk.stuckPages = 0
      goTo(walk, outcome.at)
      break
    case 'nothing':
      walk.state = isAgain ? 'find' : 'check_end'
      break
    case 'gone':
      forgetFailures(walk)
      walk.state = 'find'
      break
    case 'later':
      walk.state = 'page_again'
      break
    case 'unproven':
      walk.state = 'page'
      break
    case 'malformed':
      if (isAgain) skipUnreadable(walk, outcome)
      else walk.state = 'check_end'
      break
    case 'unreadable':
      skipUnreadable(walk, outcome)
  }
}

function goTo(walk: Walk, at: Position): void {
  walk.state = 'page'
  walk.probe = null
  delete walk.atLeast
  walk.from = at
}

function skipUnreadable(walk: Walk, { readToUs, take }: Unreadable): void {
  forgetFailures(walk)
  walk.state = 'page'
  walk.probe = probeAfter(readToUs, take === undefined ? undefined : { from: walk.from.id, take })
}

/** The page at `walk.from` was good, the walk leaves it, or other pages fail too. */
export function forgetFailures(walk: Walk): void {
  walk.badTries = 0
  delete walk.mostBadBytes
  delete walk.failingSince
}

export const MAX_TAKE = 1000

/** How many elements to request; `usual`: where the walk has met no trouble. */
export const takeAt = ({ atLeast = 0, narrowTake }: Walk, usual: number): number =>
  Math.min(MAX_TAKE, Math.max(atLeast, narrowTake ?? usual))

/** How many page ends are remembered. */
const ENDS_LENGTH = 8
/** A walk gives up after so many pages that do not advance. */
export const STUCK_PAGES = 3

/** Undefined if the page advances. Otherwise the fault: it ends where one of the last pages did. */
export function recordEnd(walk: Walk, last: Position): ConnectorError | undefined {
  const isStuck = walk.ends.includes(last.id)
  walk.stuckPages = isStuck ? walk.stuckPages + 1 : 0
  if (!isStuck) walk.ends = [...walk.ends, last.id].slice(-ENDS_LENGTH)
  return isStuck
    ? badReply('A page of GET /api/v1/logs/audit does not advance: it ends where an earlier one did')
    : undefined
}
