// The first read: finds where in the feed to begin, or that there is nothing yet.
import type { PageChunk } from '../../contracts/source.ts'
import { ConnectorError } from '../../core/errors.ts'
import { SECOND_US, secondText } from '../../core/time.ts'
import type { AuditCursor } from './cursor.ts'
import {
  REACH_MARGIN_US,
  anchorAt,
  tryLatest,
  brokenEntry,
  earliest,
  isAuditThere,
  isFuture,
  reachUs,
  readLatest,
  search,
  logFailing,
} from './lookup.ts'
import type { Found } from './lookup.ts'
import { readPage } from './page.ts'
import type { PageView } from './page.ts'
import { probeAfter, probeAt, skip } from './skip.ts'
import type { Probe } from './skip.ts'
import {
  CLOCKS_APART_MS,
  currentPace,
  faultChunk,
  fromStart,
  horizonUs,
  lastChunk,
  middleChunk,
  MOST_FUTURE,
  SET_BACK_MS,
} from './step.ts'
import type { Parts, Step } from './step.ts'
import { moveOn, takeAt, walkFrom } from './walk.ts'
import type { Position } from './walk.ts'

/** Finds where to begin, and ships the entry there, because `from` may exclude it. */
export async function* anchor(step: Step): Parts {
  const { cursor, options } = step
  const wasEmpty = cursor.caughtUp
  cursor.caughtUp = false
  const isFirstTry = settleStart(step)
  if (isFirstTry) yield lastChunk(step, { underWay: true })
  const fromNow = options.start.kind === 'latest' && cursor.startUs === null
  // What came while the API could not be reached came after the start.
  const sinceUs = (serverAt?: number) => (isFirstTry ? Infinity : triedSinceUs(step, serverAt))
  const found = await firstEntry(step, fromNow)
  if (fromNow && found.failure) {
    // `latest` fails. If `earliest` fails too, it is an outage, and this throws.
    const { serverAt } = await earliest(step, 'live')
    logFailing(step, found.failure)
    yield awaitFirst(step, sinceUs(serverAt), { group: undefined, serverAt })
    return
  }
  const dated = yield* datedOf(step, found, fromNow)
  if (dated === 'unknown') return
  delete cursor.ahead
  // Reading does not begin at a future-dated entry.
  const endUs = dated === 'future' ? -Infinity : Infinity
  const skipped = await skip(step, probeOf(cursor), found, { priority: 'live', endUs })
  if (skipped.next === 'again') {
    cursor.probe = skipped.probe
    yield lastChunk(step, { fault: brokenEntry() })
  } else if (skipped.next === 'on') {
    cursor.probe = skipped.probe
    yield lastChunk(step, found.unreadable ? { ...skipped.group, gaps: skipped.gaps } : {})
  } else if (skipped.next === 'outage') {
    cursor.dueAt = options.clock.now() + currentPace(step).intervalMs
    yield lastChunk(step, { fault: brokenEntry() })
  } else if (skipped.next === 'nothing') {
    if (found.missing && !(await isAuditThere(options.client, step.signal)))
      throw new ConnectorError(
        'misconfigured',
        'The API answers 404 to every request for the audit log, even one that must answer 400: check base_url',
      )
    if (fromNow || dated === 'future')
      yield awaitFirst(step, fromNow ? sinceUs(found.serverAt) : undefined, found)
    else yield await beginNowhere(step, found, wasEmpty)
  } else if (fromNow && !isFuture(step, found) && skipped.position.at >= sinceUs(found.serverAt)) {
    // By the log's own times our clock is slow, and the time of the first try is wrong.
    cursor.startUs = sinceUs(found.serverAt)
    cursor.probe = null
    yield lastChunk(step)
  } else {
    if (fromNow) cursor.startUs = skipped.position.at + 1
    yield beginAt(step, skipped.position, found)
  }
}

function beginAt(step: Step, position: Position, { group, serverAt }: Found): PageChunk {
  const { cursor } = step
  // Set before `head`: a first entry dated far in the future does not prove that our clock is slow.
  cursor.headUs = Math.min(position.at, horizonUs(step, serverAt))
  cursor.head = position
  cursor.overlap = [position]
  cursor.probe = null
  return lastChunk(step, group && fromStart(step, group))
}

/** An empty log, or answers that contradict each other. */
async function beginNowhere(step: Step, found: Found, wasEmpty: boolean): Promise<PageChunk> {
  const { cursor } = step
  const newest = await readLatest(step)
  const { probe } = cursor
  const { position } = newest
  // The last entry, in the second of the unreadable one, where `search` never finds it.
  if (probe && position && position.at >= probe.lowUs && position.at < probe.atUs)
    return beginAt(step, position, newest)
  if (!(await isContradicted(step, newest, wasEmpty))) return awaitFirst(step, undefined, found)
  return faultChunk(step, 'The API shows no entry to begin at, although another of its answers shows one')
}

/** No entry yet, or only future-dated ones. For `start: latest`, all from `sinceUs` on is new. */
function awaitFirst(
  step: Step,
  sinceUs: number | undefined,
  { group, serverAt }: Pick<Found, 'group' | 'serverAt'>,
): PageChunk {
  const { cursor, options } = step
  const now = options.clock.now()
  if (sinceUs !== undefined)
    cursor.startUs = Math.min(sinceUs, Math.floor((serverAt ?? now) / 1000) * SECOND_US)
  cursor.dueAt = now + currentPace(step).intervalMs
  cursor.caughtUp = true
  options.reporter.caughtUp()
  return lastChunk(step, group)
}

/** Whether `latest` shows an entry, or, unless the log was empty before, a second look does. */
async function isContradicted(step: Step, { position, failure }: Found, wasEmpty: boolean): Promise<boolean> {
  const { startUs, probe } = step.cursor
  const fromUs = probe?.atUs ?? startUs ?? 0
  if (position && position.at >= fromUs) return true
  if (wasEmpty && !step.options.once) return false
  const again = await firstEntry(step, false)
  const isThere = ({ position, unreadable }: Found) => position !== undefined || unreadable
  if (isThere(again) || !failure) return isThere(again)
  return isThere(await search(step, Math.max(fromUs, reachUs(step) + REACH_MARGIN_US), 'live'))
}

function firstEntry(step: Step, fromNow: boolean): Promise<Found> {
  const { atUs, steps } = probeOf(step.cursor)
  return fromNow && steps < 0 ? tryLatest(step, 'live') : anchorAt(step, atUs, 'live')
}

/** Until something is skipped: at the start, which may have been set again. */
function probeOf({ probe, startUs }: Pick<AuditCursor, 'probe' | 'startUs'>): Probe {
  return probe && probe.steps >= 0 ? probe : { ...probe, ...probeAt(startUs ?? 0) }
}

// Whether the log begins in the future. If only our clock says so, it may be slow: the log decides.

/** As far as half a year, and back to the second. */
const MOST_PROBES = 150

/** `unknown`: the log could not be read, as the last chunk reported. */
type Dated = 'now' | 'future' | 'unknown'

async function* datedOf(step: Step, found: Found, fromNow: boolean): AsyncGenerator<PageChunk, Dated> {
  if (!isFuture(step, found)) return 'now'
  if (found.serverAt !== undefined) return 'future'
  if (!found.position) return 'now'
  if (!fromNow) {
    // Shipped before what follows it, in the order of the feed.
    yield middleChunk(step, found.group ?? {})
    return yield* datedByLog(step, found.position)
  }
  // Nothing follows `latest`: reads what is later than our clock, and ships none of it.
  const { position } = await search(step, horizonUs(step), 'live')
  if (!position) return 'future'
  const looks = datedByLog(step, position)
  for (let look = await looks.next(); ; look = await looks.next()) {
    if (look.done) return look.value
    if (look.value.fault) yield look.value
  }
}

/** Reads on: if many entries are future-dated, or one is of now, our clock is slow. */
async function* datedByLog(step: Step, position: Position): AsyncGenerator<PageChunk, Dated> {
  // The cursor keeps how a bad page was narrowed.
  const walk = (step.cursor.ahead ??= { ...walkFrom(position), entries: 0 })
  for (;;) {
    const seen: { view?: PageView; isLeft?: true } = {}
    yield* readPage(step, {
      walk,
      priority: 'live',
      // A single element may be `from` itself.
      take: Math.max(2, takeAt(walk, MOST_FUTURE + 1)),
      complete: (view) => {
        seen.view = view
        const read = view.count - view.malformed
        // A server may include `from` itself, which would be half of a small page.
        walk.entries += walk.narrowTake !== null && read > 1 ? read - 1 : read
        return {}
      },
      leave: () => void (seen.isLeft = true),
    })
    const { view, isLeft = false } = seen
    if (!view && !isLeft) return 'unknown'
    if (view?.last || walk.entries >= MOST_FUTURE) return 'now'
    const next = view ? view.lastOfAll : await readableBehind(step, walk.from)
    if (!next || next.id === walk.from.id) return 'future'
    if (!view) walk.entries++
    moveOn(walk, { is: 'progress', at: next })
  }
}

/** The next readable entry. The drain meets the unreadable ones again, and quarantines them. */
async function readableBehind(step: Step, from: Position): Promise<Position | undefined> {
  const options = { priority: 'live', from, knownUs: from.at, endUs: Infinity } as const
  let probe = probeAfter(from.at)
  for (let tries = 0; tries < MOST_PROBES; tries++) {
    const found = await search(step, probe.atUs, 'live')
    const skipped = await skip(step, probe, found, options)
    if (skipped.next === 'readable') return skipped.position
    if (skipped.next === 'nothing') return undefined
    if (skipped.next === 'outage') break
    probe = skipped.probe
  }
  throw brokenEntry()
}

// The start, before which nothing is shipped: by our clock, and set again if that was ahead.

/** An earlier time comes from a clock that was not set yet. */
const UNSET_US = 1000 * Date.UTC(2025, 0, 1)

/** True if the start or the first try must be stored now, however long reading fails. */
function settleStart({ cursor, options }: Step): boolean {
  const { start, clock, log } = options
  if (start.kind === 'time') cursor.startUs ??= start.atUs
  if (start.kind === 'time' || start.kind === 'earliest') return false
  const now = clock.now()
  if (start.kind === 'latest' && cursor.triedUs === undefined) {
    cursor.triedUs = now * 1000
    return true
  }
  const wantedUs = (start.kind === 'span' ? now - start.ms : now) * 1000
  const { startUs } = cursor
  if (startUs === null) {
    if (start.kind === 'span') cursor.startUs = wantedUs
    return start.kind === 'span'
  }
  if (startUs <= (now + SET_BACK_MS) * 1000) return false
  log.warn(
    'The start of the audit log was in the future, because the clock of this machine was ahead when it was set. It is set again. Check the clock of this machine',
    { was: secondText(startUs / 1000), is: secondText(wantedUs / 1000) },
  )
  cursor.startUs = wantedUs
  return true
}

/** The first try of `start: latest`, µs by the server's clock. Infinity: no clock is believed. */
function triedSinceUs({ cursor, options }: Step, serverAt: number | undefined): number {
  const { triedUs = Infinity } = cursor
  const now = options.clock.now()
  const behindMs = (serverAt ?? now) - now
  return triedUs < UNSET_US || Math.abs(behindMs) > CLOCKS_APART_MS ? Infinity : triedUs + 1000 * behindMs
}
