// The first reading of all: finds where in the feed to begin, or that there is nothing yet.
import { ConnectorError } from '../../model/errors.ts'
import type { Part } from '../../model/source.ts'
import { SECOND_US } from '../../model/time.ts'
import { anchorAt, brokenEntry, earliest, reachUs, REACH_MARGIN_US, search } from './by-time.ts'
import type { Found } from './by-time.ts'
import type { Position } from './cursor.ts'
import { askLatestAlone, isReadByTime, readLatest, tellFailing } from './latest.ts'
import { askedAgain, probeAfter, readableAt, unreadableAt } from './probe.ts'
import { settleStart, triedSinceUs } from './start.ts'
import { datedOf } from './ahead.ts'
import { horizonUs, isFuture } from './clock.ts'
import type { Step, Parts } from './step.ts'
import { currentPace, fromStart, lastPart } from './step.ts'
import { isAuditThere } from './there.ts'

/** An entry that stays unreadable at the very start is asked for so often before it is passed. */
const UNREADABLE_TRIES = 10

/** The instant from which on what came is new to `start: latest`, of a former try, by the server's clock; Infinity: there was none. */
type Since = (serverAt: number | undefined) => number

/** The first reading of all: finds where to begin, and ships the entry there, since `from` may leave it out. */
export async function* anchor(step: Step): Parts {
  const { cursor, options } = step
  const wasEmpty = cursor.caughtUp
  // Said again only where nothing is found now: with an entry there is something to read.
  cursor.caughtUp = false
  const isFirstTry = settleStart(step)
  if (isFirstTry) yield lastPart(step, { underWay: true })
  const fromNow = options.start.kind === 'latest' && cursor.startUs === null
  // The API could not be reached at first: what came meanwhile came after the start.
  const sinceUs: Since = (serverAt) => (isFirstTry ? Infinity : triedSinceUs(step, serverAt))
  const found = await firstEntry(step, fromNow)
  if (fromNow && found.failure) {
    yield await awaitFromNow(step, sinceUs, found.failure)
    return
  }
  const back = cursor.probe ? readableAt(cursor.probe) : undefined
  const dated = yield* datedOf(step, found, fromNow)
  if (dated === 'unknown') return
  if (dated === 'future') {
    yield awaitFirst(step, fromNow ? sinceUs : undefined, found)
  } else if (found.unreadable) {
    yield await passUnreadable(step, found)
  } else if (!found.position) {
    if (found.missing) await assertThere(step)
    yield fromNow ? awaitFirst(step, sinceUs, found) : await beginNowhere(step, found, wasEmpty)
  } else if (back) {
    // Readable, but perhaps not the first that is.
    cursor.probe = back
    yield lastPart(step)
  } else if (fromNow && !isFuture(step, found) && found.position.at >= sinceUs(found.serverAt)) {
    // What is of now and lies far ahead of our clock was told apart by the log: then that clock is slow, and no word on the first try.
    cursor.startUs = sinceUs(found.serverAt)
    cursor.probe = null
    yield lastPart(step)
  } else {
    if (fromNow) cursor.startUs = found.position.at + 1
    yield beginAt(step, found.position, found)
  }
}

/** Where everything is a 404 the address is wrong, and not the log empty. Throws ConnectorError `misconfigured`. */
async function assertThere({ options, signal }: Step): Promise<void> {
  if (await isAuditThere(options.client, signal)) return
  throw new ConnectorError(
    'misconfigured',
    'The API answers 404 to whatever is asked of the audit log, also where it must not: check base_url',
  )
}

function beginAt(step: Step, position: Position, { group, serverAt }: Found): Part {
  const { cursor } = step
  // Before it is the head: a first one dated far in the future is no proof of a slow clock.
  cursor.headUs = Math.min(position.at, horizonUs(step, serverAt))
  cursor.head = position
  cursor.trail = [position]
  cursor.probe = null
  return lastPart(step, group && fromStart(step, group))
}

/** Nothing is found to begin at: an empty log, or answers that contradict each other. */
async function beginNowhere(step: Step, found: Found, wasEmpty: boolean): Promise<Part> {
  const { cursor } = step
  const newest = await readLatest(step)
  const { probe } = cursor
  const { position } = newest
  if (probe && position && position.at >= probe.lowUs && position.at < probe.atUs) {
    // In the unreadable's own second it is the last there is, and `search` never finds it.
    cursor.probe = readableAt(probe) ?? null
    return cursor.probe ? lastPart(step) : beginAt(step, position, newest)
  }
  if (!(await isContradicted(step, newest, wasEmpty))) return awaitFirst(step, undefined, found)
  const message = 'The API shows no entry to begin at, and then tells of one all the same'
  return lastPart(step, { fault: new ConnectorError('bad_reply', message) })
}

/** The newest of all cannot be told: what comes from now on is shipped, by the server's clock where another answer tells it. */
async function awaitFromNow(step: Step, sinceUs: Since, failure: ConnectorError): Promise<Part> {
  const { serverAt } = await earliest(step, 'live')
  // Not before: in an outage of all this one throws, and nothing is known of `latest`.
  tellFailing(step, failure)
  return awaitFirst(step, sinceUs, { group: undefined, serverAt })
}

/** Nothing there yet, or nothing but what is dated in the future. Of `latest`, whatever comes from now on is new, or from `sinceUs` on. */
function awaitFirst(
  step: Step,
  sinceUs: Since | undefined,
  { group, serverAt }: Pick<Found, 'group' | 'serverAt'>,
): Part {
  const { cursor, options } = step
  const now = options.clock.now()
  if (sinceUs) cursor.startUs = Math.min(sinceUs(serverAt), Math.floor((serverAt ?? now) / 1000) * SECOND_US)
  cursor.dueAt = now + currentPace(step).intervalMs
  cursor.caughtUp = true
  options.watch.caughtUp()
  return lastPart(step, group)
}

/** True where none was found and there is one all the same: `newest` shows it, or, before the whole log counts as empty, a second look does. */
async function isContradicted(step: Step, { position, failure }: Found, wasEmpty: boolean): Promise<boolean> {
  const { startUs, probe } = step.cursor
  const fromUs = probe?.atUs ?? startUs ?? 0
  if (position && position.at >= fromUs) return true
  if (wasEmpty && !step.options.once) return false
  const again = await firstEntry(step, false)
  if (again.position || again.unreadable || !failure) return again.position !== undefined || again.unreadable
  const byTime = await search(step, Math.max(fromUs, reachUs(step) + REACH_MARGIN_US), 'live')
  return byTime.position !== undefined || byTime.unreadable
}

function firstEntry(step: Step, fromNow: boolean): Promise<Found> {
  const { startUs, probe } = step.cursor
  if (probe) return search(step, probe.atUs, 'live')
  if (fromNow) return askLatestAlone(step, 'live')
  if (startUs === null) return earliest(step, 'live')
  return anchorAt(step, startUs, 'live')
}

/** Past a first entry that stays unreadable while others are read by time. */
async function passUnreadable(step: Step, found: Found): Promise<Part> {
  const { cursor, options } = step
  const { probe, startUs } = cursor
  const fault = brokenEntry()
  const again = probe ? askedAgain(probe) : undefined
  if (again) cursor.probe = again
  else if (!probe) cursor.anchorTries++
  if (again || (!probe && cursor.anchorTries < UNREADABLE_TRIES)) return lastPart(step, { fault })
  if (!(await isReadByTime(step, undefined, 'live'))) {
    cursor.dueAt = options.clock.now() + currentPace(step).intervalMs
    return lastPart(step, { fault })
  }
  const from = probeAfter(found.unreadableUs ?? Math.max(startUs ?? 0, reachUs(step)))
  cursor.probe = probe ? unreadableAt(probe, found.unreadableUs) : from
  return lastPart(step, { ...found.group, gaps: probe ? 0 : 1 })
}
