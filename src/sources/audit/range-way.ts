// The way of a walk over the past where no page leads on: its place by time, an end that is proven, a place that is lost and found again.
import { ConnectorError } from '../../core/errors.ts'
import type { PageChunk } from '../../contracts/source.ts'
import { anchorAt, askLatestAlone, brokenEntry, REACH_MARGIN_US, reachUs } from './lookup.ts'
import type { Found } from './lookup.ts'
import { walkFrom } from './cursor.ts'
import type { Position, Walk } from './cursor.ts'
import { probeAfter, probeAt, quarantinedPage, skip } from './skip.ts'
import type { RangePlace } from './range-place.ts'
import { CLOCKS_APART_MS, nextSecondUs } from './clock.ts'
import type { PagingStep, Parts } from './step.ts'
import { lastChunk } from './step.ts'
import { isRightBehind } from './walk.ts'

/** What cannot be read or found at a place by time is asked for so often before it is passed: it may be an outage. */
const TRIES = 10
/** So often it may come back to an entry that it was at before, with nothing new read meanwhile. */
const MOST_AGAIN = 3

/** A step of the range: the readers' step with a cursor of its own, thrown away afterwards, and the place that is kept. */
export interface RangeStep extends PagingStep {
  readonly place: RangePlace
}

export function noteClock({ place, options }: RangeStep, serverAt: number | undefined): void {
  if (place.untilTold || serverAt === undefined) return
  if (Math.abs(serverAt - options.clock.now()) > CLOCKS_APART_MS) {
    // Not believed as an end; but its entries are dated by it, those that the walk makes too.
    place.begunAtUs = Math.min(place.begunAtUs, serverAt * 1000)
    return
  }
  place.untilTold = true
  place.untilUs = Math.min(place.untilUs, nextSecondUs(serverAt * 1000))
}

/** By time: at the start, behind what cannot be read, and where the walk's entry is gone. */
export async function* findPlace(step: RangeStep): Parts {
  const { place } = step
  const probe = place.probe ?? probeAt(place.anchorUs)
  const found = await anchorAt(step, probe.atUs, 'job')
  noteClock(step, found.serverAt)
  const knownUs = place.newestUs || undefined
  const skipped = await skip(step, probe, found, { priority: 'job', knownUs, endUs: place.untilUs })
  if (skipped.next === 'again') place.probe = skipped.probe
  if (skipped.next === 'again' || skipped.next === 'outage') {
    yield lastChunk(step, { fault: brokenEntry() })
    return
  }
  if (skipped.next === 'on') place.probe = skipped.probe
  if (skipped.next !== 'readable') place.gaps += skipped.gaps
  if (skipped.next === 'nothing' && !found.position && !found.unreadable) {
    yield await endByTime(step, probe.atUs)
    return
  }
  place.tries = 0
  if (skipped.next === 'nothing') {
    await settleKept(step, found.position)
    place.done = true
  } else if (skipped.next === 'readable') await goOnAt(step, skipped.position)
  yield lastChunk(step, found.unreadable || place.walk ? found.group : undefined)
}

/** The entry that can be read first, unless the walk was there before. */
async function goOnAt(step: RangeStep, position: Position): Promise<void> {
  const { place } = step
  if (position.id === place.dead) meetDead(step, position)
  else if (position.at < place.newestUs) rewind(step, position)
  else {
    await settleKept(step, position)
    place.walk = walkFrom(position)
    place.probe = null
  }
}

/** The quarantined bytes are skipped: a gap, unless `to` directly follows them. */
async function settleKept(step: RangeStep, to: Position | undefined): Promise<void> {
  const { kept } = step.place.probe ?? {}
  if (kept && !(to && (await isRightBehind(step, to, kept, 'job')) === true)) step.place.gaps++
}

/** There is nothing at this time or later. If `latest` contradicts that, asks again, and at last reports a gap. */
async function endByTime(step: RangeStep, atUs: number): Promise<PageChunk> {
  const { place } = step
  const { position, unreadable, failure } = await askLatestAlone(step, 'job')
  // Entries of this log were read, so a `latest` that shows nothing does not prove the end.
  const isContradicted = position ? position.at >= atUs : unreadable || failure || place.newestUs > 0
  if (isContradicted && ++place.tries < TRIES) {
    const message = 'The API finds no entry by time, and `latest` does not agree'
    return lastChunk(step, { fault: new ConnectorError('bad_reply', message) })
  }
  if (isContradicted) place.gaps++
  // In the very second of what is quarantined `search` finds no other.
  else if (position && position.id !== place.probe?.kept?.from) await settleKept(step, undefined)
  place.done = true
  return lastChunk(step)
}

/** `search` finds the entry that led nowhere: tries it some times more, then continues at the next second. */
function meetDead(step: RangeStep, position: Position): void {
  const { place } = step
  if (place.deadTries < MOST_AGAIN) {
    place.deadTries++
    walkAgain(place, position)
    return
  }
  place.gaps++
  // If `earliest` answers, no time gets past it.
  if (place.deadPassed) leap(step)
  else place.anchorUs = nextSecondUs(Math.max(place.anchorUs, position.at))
  place.probe = null
  place.deadPassed = true
}

/** `search` leads back before what was read: to the first entry of the same second or, before its reach, to the earliest of all. */
function rewind(step: RangeStep, position: Position): void {
  const { place } = step
  if (place.newestUs > place.rewoundUs) place.rewinds = 0
  place.rewoundUs = place.newestUs
  if (++place.rewinds > MOST_AGAIN) {
    place.gaps++
    leap(step)
    return
  }
  walkAgain(place, position)
}

/** What was sent up to here is left out until the walk is past it. */
function walkAgain(place: RangePlace, position: Position): void {
  place.sentUs = place.newestUs
  place.walk = walkFrom(position)
  place.probe = null
}

/** Nothing leads on from here: what `search` reaches of the span is read all the same. */
function leap(step: RangeStep): void {
  const { place } = step
  const toUs = reachUs(step) + REACH_MARGIN_US
  if (toUs <= place.anchorUs || toUs >= place.untilUs) place.done = true
  place.anchorUs = toUs
  place.probe = null
}

/** Nothing follows: the end of the log, or an entry from which no page leads on any more (invariant 6). */
export function endOrDoubt(place: RangePlace, walk: Walk): void {
  if (place.doubted) lose(place, walk)
  else place.checking = true
}

/** Held against `search`: is there something later, the page is read once more. What cannot be read is no end. */
export async function* checkEnd(step: RangeStep, walk: Walk): Parts {
  const { place } = step
  const afterUs = Math.max(walk.from.at, place.newestUs)
  const { position, unreadable, unreadableUs, isPastSpan } = await laterThan(step, afterUs)
  const atUs = position ? position.at : unreadableUs
  // Entries were read, so `latest` can show nothing but by mistake.
  const isUnproven = atUs === undefined && !isPastSpan
  if (isUnproven && ++place.tries < TRIES) {
    const shown = unreadable ? 'an entry that cannot be read' : 'with no entry'
    const message = `The API answered ${shown} where the end of the log was to be proven`
    yield lastChunk(step, { fault: new ConnectorError('bad_reply', message) })
    return
  }
  // Nor does `search` reach so far back.
  if (isUnproven && !unreadable && nextSecondUs(afterUs) < reachUs(step)) place.gaps++
  place.tries = 0
  place.checking = false
  const isLater = atUs === undefined ? unreadable : atUs > afterUs
  if (isLater) place.doubted = true
  else place.done = true
  yield lastChunk(step)
}

/** Before the reach of `search`, or if that finds nothing, `latest` decides: pages lead to the log's end, not the span's. */
async function laterThan(step: RangeStep, afterUs: number): Promise<Found & { isPastSpan?: boolean }> {
  const { place } = step
  if (nextSecondUs(afterUs) >= reachUs(step)) {
    const found = await anchorAt(step, nextSecondUs(afterUs), 'job')
    const atUs = found.position?.at ?? found.unreadableUs
    // The span's end is proven, if not the log's. What `search` left out of the last entry's own second it cannot prove.
    if (atUs !== undefined && atUs >= place.untilUs && nextSecondUs(afterUs) < place.untilUs)
      return { ...found, position: undefined, unreadable: false, unreadableUs: undefined, isPastSpan: true }
    if (found.position) return found
    const newest = await askLatestAlone(step, 'job')
    return found.unreadable && !newest.position ? found : newest
  }
  return askLatestAlone(step, 'job')
}

/** The walk's entry leads nowhere: its place is found again by time, its own second first. */
export function lose(place: RangePlace, walk: Walk): void {
  if (place.dead !== walk.from.id) place.deadTries = 0
  place.dead = walk.from.id
  place.deadPassed = false
  place.anchorUs = Math.max(walk.from.at, place.newestUs)
  place.doubted = false
  place.walk = null
  place.probe = null
}

/** Skips what stays unreadable right after the walk's entry, of which `keptTake` elements are quarantined. */
export function passFrom(place: RangePlace, walk: Walk, keptTake?: number): void {
  if (keptTake === undefined) place.gaps++
  place.probe = probeAfter(Math.max(walk.from.at, place.newestUs), quarantinedPage(walk, keptTake))
  place.walk = null
}
