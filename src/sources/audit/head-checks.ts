// What the head reader does if a page does not lead on (invariant 6): it checks the end of the log,
// finds the head by time, or skips. No single answer ends a drain if another contradicts it.
import type { PageChunk } from '../../contracts/source.ts'
import { ConnectorError } from '../../core/errors.ts'
import { SECOND_US, secondText } from '../../core/time.ts'
import type { Group } from '../splitter/entries-builder.ts'
import { withNextStep } from '../http/reply.ts'
import { isKnownMalformed } from './cursor.ts'
import type { AuditCursor, Drain } from './cursor.ts'
import {
  anchorAt,
  brokenEntry,
  endUnchecked,
  isFuture,
  REACH_MARGIN_US,
  reachUs,
  readLatest,
  timeOf,
} from './lookup.ts'
import type { Found } from './lookup.ts'
import { isRightAfter, LEAVE_TRIES } from './page.ts'
import type { PageView } from './page.ts'
import { BAD_TRIES, skip } from './skip.ts'
import type { Probe } from './skip.ts'
import { badReply, currentPace, faultChunk, horizonUs, lastChunk, smoothRate } from './step.ts'
import type { Parts, Step } from './step.ts'
import { moveOn } from './walk.ts'
import type { Position } from './walk.ts'

/** After so many empty answers that `latest` does not confirm, `search` decides. */
const EMPTY_ANSWERS = 3

/** Checks an empty page against `latest`, then requests it again, and at last asks `search`. */
export async function* checkEnd(step: Step, drain: Drain): Parts {
  const { cursor } = step
  const found = await readLatest(step)
  const { position } = found
  const empty = drain.emptyAnswers ?? 0
  // The page ended with the newest element, which is quarantined already.
  const isQuarantined = isKnownMalformed(cursor, found.group?.quarantined)
  const isNewer = position !== undefined && position.at > readToUs(cursor) && !isQuarantined
  // A malformed element with a time contradicts an empty page, but not one of malformed elements.
  const isUnreadNewer = !position && empty > 0 && isLater(step, found)
  // The page had only malformed elements, and `latest` fails: an entry may follow.
  const isUndenied = found.failure !== undefined && empty === 0
  let fault: ConnectorError | undefined
  if (isNewer || isUnreadNewer || isUndenied) moveOn(drain, { is: 'later' })
  else if (isQuarantined || empty === 0 || (position && cursor.latestUs <= readToUs(cursor)))
    endDrain(step, drain)
  else if (empty >= EMPTY_ANSWERS) fault = await askSearch(step, drain)
  else {
    moveOn(drain, { is: 'unproven' })
    if (found.unreadable) fault = endUnchecked()
  }
  yield lastChunk(step, { fault })
}

/** For a `latest` that proves nothing: no entry, an unreadable one, or an older one than before. */
async function askSearch(step: Step, drain: Drain): Promise<ConnectorError | undefined> {
  const { cursor } = step
  const fromUs = readToUs(cursor) + SECOND_US
  // Beyond its reach the earliest entry would answer, which proves nothing.
  const searchUs = Math.max(fromUs, reachUs(step) + REACH_MARGIN_US)
  const found = await anchorAt(step, searchUs, 'live')
  if (isLater(step, found)) {
    warnOfDeadCursor(step)
    moveOn(drain, { is: 'gone' })
  } else if (found.unreadable || searchUs > fromUs) {
    giveUpDrain(step, drain)
    if (found.unreadable) return endUnchecked()
    return badReply(
      'It is unknown whether the audit log was read to its end: the last entry read is older than `search` reaches, and `latest` does not confirm that it is the newest. This is checked again at the next poll',
    )
  } else {
    cursor.latestUs = readToUs(cursor)
    endDrain(step, drain)
  }
  return undefined
}

/** The page of a dead cursor is empty (invariant 6). */
export function warnOfDeadCursor({ options }: Step): void {
  options.log.warn(
    'The API returns nothing after the last entry read, although newer entries exist; the position is looked up again by time',
  )
}

/** `search` found nothing. If `latest` does not agree, asks again, and at last reports a gap. */
function endByTime(step: Step, drain: Drain, fromUs: number, { position, failure }: Found): PageChunk {
  const isContradicted = position !== undefined && position.at >= fromUs
  if (isContradicted || failure) {
    drain.emptyAnswers = (drain.emptyAnswers ?? 0) + 1
    if (drain.emptyAnswers <= EMPTY_ANSWERS) {
      const speaker = failure ? 'and `latest` fails' : 'although `latest` shows one'
      return faultChunk(
        step,
        `The API finds no audit entry after the last one read by time, ${speaker}; it is asked again`,
      )
    }
  }
  const message =
    'Possible gap: the API has entries newer than the last one read, but finds none of them by time. Run the command in "run" now, and auditferry reconcile once the UTC day is over'
  const gaps = isContradicted ? newGap(step, step.cursor.head, message) : 0
  endDrain(step, drain)
  return lastChunk(step, { gaps })
}

/** A gap after `head` is reported once, however many polls meet it. */
function newGap(step: Step, head: Position | null, message: string, toUs?: number): number {
  const { cursor } = step
  if (!head || cursor.gapBehind === head.id) return 0
  cursor.gapBehind = head.id
  logGap(step, message, head.at, toUs)
  return 1
}

/** With the command that reads the span again; it ends now if its end is unknown. */
function logGap({ options }: Step, message: string, fromUs: number, toUs = Infinity): void {
  const { log, stream } = options
  const from = secondText(fromUs / 1000)
  const span = toUs < Infinity ? { from, to: secondText(toUs / 1000) } : { from }
  const bounds = Object.entries(span).map(([name, at]) => `--${name} ${at}`)
  const run = `auditferry backfill --workspace ${stream.workspace} --source audit ${bounds.join(' ')}`
  log.error(message, { ...span, run })
}

/** The log is read up to here, µs. A future-dated first entry is the head, later than `headUs`. */
const readToUs = ({ headUs, head }: AuditCursor): number => Math.max(headUs, head?.at ?? 0)

function isLater(step: Step, found: Found): boolean {
  return (timeOf(found) ?? 0) > readToUs(step.cursor) && !isFuture(step, found)
}

/** The drain has read everything that was there when it began. */
export function endDrain(step: Step, drain: Drain): void {
  giveUpDrain(step, drain)
  step.cursor.caughtUp = true
  step.options.reporter.caughtUp()
}

/** The drain ends; if it has not read everything, the next poll tries again. */
export function giveUpDrain(step: Step, drain: Drain): void {
  const { cursor, options } = step
  const now = options.clock.now()
  const elapsedMs = cursor.polledAt === 0 ? 0 : now - cursor.polledAt
  cursor.perHour = smoothRate(cursor.perHour, drain.entries, elapsedMs)
  cursor.polledAt = now
  cursor.dueAt = now + currentPace(step).intervalMs
  cursor.probe = drain.probe
  cursor.drain = null
}

/** Learns where the head is, so that the lag of a long drain is reported. */
export async function* askHead(step: Step, drain: Drain): Parts {
  await readLatest(step)
  drain.pages++
  yield lastChunk(step)
}

/** Finds the head by time, once a drain: contradictions must not use up the rate limit. */
export async function* findHead(step: Step, drain: Drain): Parts {
  const { cursor } = step
  const head = cursor.head as Position
  if (drain.reanchored) {
    giveUpDrain(step, drain)
    yield faultChunk(
      step,
      'No page leads on from the last entry although there are newer ones; trying again at the next poll',
    )
    return
  }
  const atUs = Math.min(head.at, cursor.headUs)
  let found = await anchorAt(step, atUs, 'live')
  const isThere = found.position?.id === head.id
  // The same dead entry leads nowhere: on to the next second.
  if (isThere) found = await anchorAt(step, atUs + SECOND_US, 'live')
  const { position, unreadable } = found
  if (!unreadable) drain.badTries = 0
  else if (++drain.badTries < BAD_TRIES) {
    yield lastChunk(step, { fault: brokenEntry() })
    return
  }
  // That the entry is gone may be a passing error. Only an entry that stays gone is a gap.
  if (isThere && position) {
    drain.askedAgain = (drain.askedAgain ?? 0) + 1
    if (drain.askedAgain < BAD_TRIES) {
      moveOn(drain, { is: 'unproven' })
      yield faultChunk(
        step,
        'The API reported the last entry as gone but still shows it; its page is requested again',
      )
      return
    }
  }
  cursor.lost ??= head
  if (!position && !unreadable) {
    yield endByTime(step, drain, cursor.headUs + 1, await readLatest(step))
    return
  }
  if (isFuture(step, found)) {
    // The next poll asks again whether something came before it.
    endDrain(step, drain)
    yield lastChunk(step, found.group)
    return
  }
  drain.reanchored = true
  if (position) stepOver(step, drain, position)
  else skipFrom(step, drain, undefined)
  yield lastChunk(step, { ...found.group, gaps: position ? gapAfter(step, position.at) : 0 })
}

/** Continues at an entry found by time, which becomes the head. */
function stepOver({ cursor }: Step, drain: Drain, position: Position): void {
  moveOn(drain, { is: 'found', at: position })
  drain.passedHead = true
  cursor.head = position
  cursor.headUs = Math.max(cursor.headUs, position.at)
}

/** Something newer than the lost entry was read, up to `atUs`: that entry is a gap. */
function gapAfter(step: Step, atUs: number): number {
  const { lost } = step.cursor
  if (!lost || atUs <= lost.at) return 0
  step.cursor.lost = null
  const message =
    'Possible gap: the API no longer shows the last entry read, and reading continues at the next one found by time. Run the command in "run" now, and auditferry reconcile once that UTC day is over'
  return newGap(step, lost, message, atUs)
}

/** The lost entry is no gap if a page shows it again before anything newer. */
export function settleLost(step: Step, { metLost, pastLost }: PageView): number {
  if (metLost) step.cursor.lost = null
  return pastLost ? gapAfter(step, Infinity) : 0
}

/** Continues with `search` after an entry that stays unreadable. */
export async function* skipUnreadable(step: Step, drain: Drain, probe: Probe): Parts {
  const found = await anchorAt(step, probe.atUs, 'live')
  const skipped = await skip(step, probe, found, {
    priority: 'live',
    from: drain.from,
    knownUs: Math.min(drain.from.at, step.cursor.headUs),
    endUs: horizonUs(step, found.serverAt) + 1,
  })
  switch (skipped.next) {
    case 'again':
      drain.probe = skipped.probe
      yield lastChunk(step, { fault: brokenEntry() })
      break
    case 'on':
      drain.probe = skipped.probe
      yield lastChunk(step, skipped.group)
      break
    case 'readable':
      yield await passed(step, drain, probe, skipped.position, found.group)
      break
    case 'nothing':
      if (!found.position) yield await endRightAfter(step, drain, probe)
      else {
        endDrain(step, drain)
        yield lastChunk(step, found.group)
      }
      break
    case 'outage':
      giveUpDrain(step, drain)
      yield faultChunk(
        step,
        'The answers of the API are unreadable at every time that was tried; retrying at the next poll',
      )
  }
}

/** The skipped entries are a gap, unless `to` directly follows the quarantined ones. */
async function passed(
  step: Step,
  drain: Drain,
  { kept }: Probe,
  to: Position,
  group: Group | undefined,
): Promise<PageChunk> {
  const found = await isRightAfter(step, to, kept, 'live')
  if (found instanceof ConnectorError && ++drain.badTries < LEAVE_TRIES)
    return lastChunk(step, {
      fault: withNextStep(found, 'the page that shows whether an entry is missing failed'),
    })
  const isNext = found === true
  const fromUs = drain.from.at
  stepOver(step, drain, to)
  if (isNext)
    step.options.log.warn(
      'An unreadable audit entry was skipped; its bytes are in quarantine (auditferry quarantine list)',
    )
  else
    logGap(
      step,
      'Possible gap: an unreadable audit entry was skipped; its bytes are in quarantine, but entries next to it may be missing. Run the command in "run" now, and auditferry reconcile once that UTC day is over',
      fromUs,
      to.at,
    )
  return lastChunk(step, { ...group, gaps: isNext ? 0 : 1 })
}

/** `latest` may show another entry of the unreadable one's second, which `search` never finds. */
async function endRightAfter(step: Step, drain: Drain, probe: Probe): Promise<PageChunk> {
  const newest = await readLatest(step)
  const { position, group } = newest
  return position && position.at > step.cursor.headUs && position.at < probe.atUs
    ? passed(step, drain, probe, position, group)
    : endByTime(step, drain, probe.atUs, newest)
}

/** `take` elements of the page are quarantined; what follows is found by time. */
export function skipFrom(step: Step, drain: Drain, take: number | undefined, isFull = true): void {
  // A first entry may have no time: then from where `search` reaches.
  const is = isFull ? 'unreadable' : 'malformed'
  moveOn(drain, { is, readToUs: drain.from.at || reachUs(step), take })
  if (drain.probe) step.cursor.overlap = []
}
