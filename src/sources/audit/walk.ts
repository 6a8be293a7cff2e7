// One walk through the audit log, page by page: live reading, lookback, a job, the first look at the dates. Pure.
import { ConnectorError } from '../../core/errors.ts'
import type { PageView } from './page.ts'
import { probeAfter, quarantinedPage } from './skip.ts'
import type { Probe } from './skip.ts'

/*
 * The machine. Each step makes progress, finds nothing, or fails. After a failure the same request is sent again; `page.ts`
 * narrows it, and calls a page unreadable, or gone, only while pages elsewhere are good. `moveOn` alone decides what comes next:
 *
 *   state        step                            outcome                             next
 *   page         reads the page at `from`        progress                            page, where this one ended
 *                                                nothing follows `from`              check_end
 *                                                malformed elements alone            check_end; skip where they fill the page
 *                                                unreadable                          skip
 *                                                gone                                find
 *   page_again   the same                        nothing                             find
 *                                                malformed elements alone            skip
 *                                                all else                            as in page
 *   check_end    asks for the newest entry       later: it is behind `from`          page_again
 *                                                unproven                            page
 *   find         searches for a place by time    found                               page, there
 *   skip         searches behind the unreadable  found                               page, there
 *
 * A walk in state `skip` has a `probe` (`skip.ts`). Each walk itself decides when it is over, and what to do with a page that
 * does not advance. Lookback checks no end: it knows which entry comes last. It looks for its place only where it begins.
 */

/** An entry's place in the feed. */
export interface Position {
  readonly id: string
  /** its own time, µs */
  readonly at: number
}

export interface Walk {
  state: 'page' | 'page_again' | 'check_end' | 'find'
  from: Position
  /** the position whose page led to `from`; absent: none did */
  before?: Position
  /** `take` after narrowing around a bad page; null: the usual */
  narrowTake: number | null
  /** how often the page at `from` failed in a row, or what is found by time in its place */
  badTries: number
  /** bytes of the largest of these answers, where their bytes are kept; absent: none were */
  mostBadBytes?: number
  /** when the first of these failures was, epoch ms; absent: there was none */
  failingSince?: number
  /** elements that a page must hold to show one behind the malformed ones that follow `from`; absent: none follow it */
  atLeast?: number
  /** good pages since the last narrowing */
  goodPages: number
  /** the page at `from` stays unreadable even alone: the way on by `search` */
  probe: Probe | null
  /** ids at which the last pages ended: one seen again is a feed that does not advance */
  ends: string[]
  stuckPages: number
}

export function walkFrom(from: Position): Walk {
  const state = 'page'
  return { state, from, narrowTake: null, badTries: 0, goodPages: 0, probe: null, ends: [], stuckPages: 0 }
}

/** What follows `from` on a page. `future`: nothing but entries dated in the future; `repeated`: nothing, but others come before it. */
type PageOutcome = 'progress' | 'nothing' | 'repeated' | 'malformed' | 'future'

export function outcomeOf({ from }: Walk, view: PageView): PageOutcome {
  const { count, malformed, behind, last } = view
  // A server may include `from` itself.
  if (behind === 0 && count - malformed > 1) return 'repeated'
  if (behind === 0) return malformed > 0 ? 'malformed' : 'nothing'
  return last === null || last.id === from.id ? 'future' : 'progress'
}

/** Up to `behindUs` all is read; `take`: so many elements of the page at `from` are quarantined. */
interface Unreadable {
  readonly behindUs: number
  readonly take: number | undefined
}

export type Outcome =
  | { readonly is: 'progress' | 'found'; readonly at: Position }
  | { readonly is: 'nothing' | 'gone' | 'later' | 'unproven' }
  | ({ readonly is: 'malformed'; readonly isFull: boolean } & Unreadable)
  | ({ readonly is: 'unreadable' } & Unreadable)

/** Decides where the walk reads next. */
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
      // It may be an earlier one of the same second: what follows it is met again.
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
      // A page that is not full proves nothing.
      if (outcome.isFull || isAgain) skipBehind(walk, outcome)
      else walk.state = 'check_end'
      break
    case 'unreadable':
      skipBehind(walk, outcome)
  }
}

function goTo(walk: Walk, at: Position): void {
  walk.state = 'page'
  walk.probe = null
  delete walk.atLeast
  walk.from = at
}

function skipBehind(walk: Walk, { behindUs, take }: Unreadable): void {
  forgetFailures(walk)
  walk.state = 'page'
  walk.probe = probeAfter(behindUs, quarantinedPage(walk, take))
}

/** The page at `walk.from` was good, the walk leaves it, or other pages fail too. */
export function forgetFailures(walk: Walk): void {
  walk.badTries = 0
  delete walk.mostBadBytes
  delete walk.failingSince
}

export const MAX_TAKE = 1000

/** How many elements to ask for, where `usual` are asked for of a place about which nothing is known. */
export const takeAt = ({ atLeast = 0, narrowTake }: Walk, usual: number): number =>
  Math.min(MAX_TAKE, Math.max(atLeast, narrowTake ?? usual))

/** Page ends that are remembered, to see a feed that goes in circles. */
const ENDS_LENGTH = 8
/** A page that does not advance is asked for so often before the walk gives up. */
export const STUCK_PAGES = 3

/** Records where a page ends. True when the feed goes in circles: one of the last pages ended there too. The caller raises the alarm. */
export function recordEnd(walk: Walk, { last }: PageView): boolean {
  if (!last) return false
  const isCircling = walk.ends.includes(last.id)
  walk.stuckPages = isCircling ? walk.stuckPages + 1 : 0
  if (!isCircling) walk.ends = [...walk.ends, last.id].slice(-ENDS_LENGTH)
  return isCircling
}

/** The alarm. */
export const stuckPage = () =>
  new ConnectorError(
    'bad_reply',
    'A page of GET /api/v1/logs/audit does not advance: it ends where an earlier one did',
  )
