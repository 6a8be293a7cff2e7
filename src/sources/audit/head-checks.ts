// What live reading does where a page does not lead on: it checks the end of the log, finds the head again by time, or skips
// what cannot be read (invariant 6). No single answer ends a drain if another contradicts it.
import type { PageChunk } from '../../contracts/source.ts'
import { ConnectorError } from '../../core/errors.ts'
import { SECOND_US, secondText } from '../../core/time.ts'
import type { Group } from '../splitter/entries-builder.ts'
import { withNextStep } from '../http/reply.ts'
import { horizonUs, isFuture } from './clock.ts'
import { isKnownMalformed } from './cursor.ts'
import type { AuditCursor, Drain } from './cursor.ts'
import { REACH_MARGIN_US, anchorAt, brokenEntry, reachUs, readLatest } from './lookup.ts'
import type { Found } from './lookup.ts'
import { isRightBehind, LEAVE_TRIES } from './page.ts'
import type { PageView } from './page.ts'
import { BAD_TRIES, skip } from './skip.ts'
import type { Probe } from './skip.ts'
import { currentPace, lastChunk, smoothRate } from './step.ts'
import type { Parts, Step } from './step.ts'
import { moveOn } from './walk.ts'
import type { Position } from './walk.ts'

/** Empty answers at one place that `latest` does not confirm, before `search` decides. */
const EMPTY_ANSWERS = 3

/** The end of the log: an empty page is checked against `latest`, then requested again, and at last checked with `search`. */
export async function* checkEnd(step: Step, drain: Drain): Parts {
  const { cursor } = step
  const found = await readLatest(step)
  const { position } = found
  const empty = drain.emptyAnswers ?? 0
  // The newest element is quarantined already: the page ended with it, and nothing follows.
  const isQuarantined = isKnownMalformed(cursor, found.group?.quarantined)
  const isNewer = position !== undefined && position.at > readToUs(cursor) && !isQuarantined
  // A malformed element with a time contradicts an empty page, but not a page of malformed elements.
  const isUnreadNewer = !position && empty > 0 && isLater(step, found)
  // The page held malformed elements only and `latest` fails: an entry may follow them.
  const isUndenied = found.failure !== undefined && empty === 0
  let fault: ConnectorError | undefined
  if (isNewer || isUnreadNewer || isUndenied) moveOn(drain, { is: 'later' })
  else if (isQuarantined || empty === 0 || (position && cursor.latestUs <= readToUs(cursor)))
    endDrain(step, drain)
  else if (empty >= EMPTY_ANSWERS) {
    yield* askSearch(step, drain)
    return
  } else {
    moveOn(drain, { is: 'unproven' })
    if (found.unreadable) fault = unreadable()
  }
  yield lastChunk(step, { fault })
}

/** `latest` proves nothing here: it shows no entry, one that cannot be read, or an older one than before. */
async function* askSearch(step: Step, drain: Drain): Parts {
  const { cursor } = step
  const fromUs = readToUs(cursor) + SECOND_US
  // Beyond the reach of `search` the earliest entry would answer, which proves nothing about what follows the head.
  const searchUs = Math.max(fromUs, reachUs(step) + REACH_MARGIN_US)
  const found = await anchorAt(step, searchUs, 'live')
  let fault: ConnectorError | undefined
  if (isLater(step, found)) {
    warnOfDeadCursor(step)
    moveOn(drain, { is: 'gone' })
  } else if (found.unreadable) fault = unreadable()
  else if (searchUs > fromUs)
    fault = new ConnectorError(
      'bad_reply',
      'It is unknown whether the audit log was read to its end: the last entry read is older than `search` reaches, and `latest` does not confirm that it is the newest. This is checked again at the next poll',
    )
  else {
    cursor.latestUs = readToUs(cursor)
    endDrain(step, drain)
  }
  if (fault) giveUpDrain(step, drain)
  yield lastChunk(step, { fault })
}

/** There is more after the cursor than its page shows: the cursor is dead (invariant 6). */
export function warnOfDeadCursor({ options }: Step): void {
  options.log.warn(
    'The API returns nothing after the last entry read, although newer entries exist; the position is looked up again by time',
  )
}

/** `search` found nothing. If `latest` contradicts that, or fails, it is asked again some times; then a gap is reported. */
function* endByTime(step: Step, drain: Drain, fromUs: number, found: Found): Generator<PageChunk> {
  const { cursor, options } = step
  const { position, failure } = found
  const isContradicted = position !== undefined && position.at >= fromUs
  if (isContradicted || failure) {
    drain.emptyAnswers = (drain.emptyAnswers ?? 0) + 1
    if (drain.emptyAnswers <= EMPTY_ANSWERS) {
      const speaker = failure ? 'and `latest` fails' : 'although `latest` shows one'
      const fault = new ConnectorError(
        'bad_reply',
        `The API finds no audit entry after the last one read by time, ${speaker}; it is asked again`,
      )
      yield lastChunk(step, { fault })
      return
    }
  }
  let gaps = 0
  if (isContradicted) {
    gaps = newGap(cursor, cursor.head)
    if (gaps > 0)
      options.log.error(
        'Possible gap: the API has entries newer than the last one read, but finds none of them by time. Run auditferry backfill from there now, and auditferry reconcile once the UTC day is over',
      )
  }
  endDrain(step, drain)
  yield lastChunk(step, { gaps })
}

/** A gap after `head` is reported once, however many polls meet it. */
function newGap(cursor: AuditCursor, head: Position | null): number {
  if (!head || cursor.gapBehind === head.id) return 0
  cursor.gapBehind = head.id
  return 1
}

/** Up to where the log is read, µs. A first entry dated in the future is the head, later than `headUs`. */
const readToUs = ({ headUs, head }: AuditCursor): number => Math.max(headUs, head?.at ?? 0)

function isLater(step: Step, found: Found): boolean {
  return (found.position?.at ?? found.unreadableUs ?? 0) > readToUs(step.cursor) && !isFuture(step, found)
}

const unreadable = () =>
  new ConnectorError(
    'bad_reply',
    'The end of the audit log could not be checked, because the API answered with an entry that cannot be read; it is checked again automatically',
  )

// The end of a drain: the head reader waits for its next poll.

/** The drain is over: everything that was there when it began has been read. */
export function endDrain(step: Step, drain: Drain): void {
  giveUpDrain(step, drain)
  step.cursor.caughtUp = true
  step.options.reporter.caughtUp()
}

/** The drain ends without having read all: the next poll tries again. */
export function giveUpDrain(step: Step, drain: Drain): void {
  const { cursor, options } = step
  const now = options.clock.now()
  cursor.perHour = smoothRate(
    cursor.perHour,
    drain.entries,
    cursor.polledAt === 0 ? 0 : now - cursor.polledAt,
  )
  cursor.polledAt = now
  cursor.dueAt = now + currentPace(step).intervalMs
  cursor.probe = drain.probe
  cursor.drain = null
}

/** A long drain asks once where the head is, so that its lag can be shown meanwhile. */
export async function* askHead(step: Step, drain: Drain): Parts {
  await readLatest(step)
  drain.pages++
  yield lastChunk(step)
}

/** Finds the place by time: once a drain, so that a server that contradicts itself cannot use up the rate limit. */
export async function* findHead(step: Step, drain: Drain): Parts {
  const { cursor } = step
  const head = cursor.head as Position
  if (drain.reanchored) {
    giveUpDrain(step, drain)
    const message =
      'No page leads on from the last entry although there are newer ones; trying again at the next poll'
    yield lastChunk(step, { fault: new ConnectorError('bad_reply', message) })
    return
  }
  const atUs = Math.min(head.at, cursor.headUs)
  let found = await anchorAt(step, atUs, 'live')
  const isThere = found.position?.id === head.id
  // The same dead entry again leads nowhere: on to the next second.
  if (isThere) found = await anchorAt(step, atUs + SECOND_US, 'live')
  if (!found.unreadable) drain.badTries = 0
  else if (++drain.badTries < BAD_TRIES) {
    yield lastChunk(step, { fault: brokenEntry() })
    return
  }
  if (isThere && found.position && askHeadAgain(drain)) {
    const message = 'The API reported the last entry as gone but still shows it; its page is requested again'
    yield lastChunk(step, { fault: new ConnectorError('bad_reply', message) })
    return
  }
  cursor.lost ??= head
  if (!found.position && !found.unreadable) {
    yield* endByTime(step, drain, cursor.headUs + 1, await readLatest(step))
    return
  }
  if (isFuture(step, found)) {
    yield endBeforeFuture(step, drain, found)
    return
  }
  drain.reanchored = true
  if (found.position) stepOver(step, drain, found.position)
  else skipFrom(step, drain, undefined)
  yield lastChunk(step, { ...found.group, gaps: found.position ? gapAfter(step, found.position) : 0 })
}

/** The error may pass: only then is something missing. */
function askHeadAgain(drain: Drain): boolean {
  drain.askedAgain = (drain.askedAgain ?? 0) + 1
  if (drain.askedAgain >= BAD_TRIES) return false
  moveOn(drain, { is: 'unproven' })
  return true
}

/** Nothing follows but what is dated in the future: the next poll asks again whether something came before it. */
function endBeforeFuture(step: Step, drain: Drain, { group }: Found): PageChunk {
  endDrain(step, drain)
  return lastChunk(step, group)
}

/** Goes on at an entry found by time; the head stays where it is until something newer is read. */
function stepOver({ cursor }: Step, drain: Drain, position: Position): void {
  moveOn(drain, { is: 'found', at: position })
  drain.passedHead = true
  cursor.head = position
  cursor.headUs = Math.max(cursor.headUs, position.at)
}

/** The lost entry is no gap when it is met again before anything newer. */
function gapAfter(step: Step, position: Position): number {
  const { cursor, options } = step
  if (!cursor.lost || position.at <= cursor.lost.at) return 0
  const { lost } = cursor
  const gaps = newGap(cursor, lost)
  cursor.lost = null
  if (gaps > 0)
    options.log.error(
      'Possible gap: the API no longer shows the last entry read, and reading continues at the next one found by time. Run auditferry backfill over that span now, and auditferry reconcile once its UTC day is over',
      { from: secondText(lost.at / 1000), ...(position.id !== '' && { to: secondText(position.at / 1000) }) },
    )
  return gaps
}

export function settleLost(step: Step, view: PageView): number {
  const { cursor } = step
  if (!cursor.lost) return 0
  if (view.metLost) cursor.lost = null
  else if (view.pastLost) return gapAfter(step, { id: '', at: Number.MAX_SAFE_INTEGER })
  return 0
}

/**
 * Continues with `search` after an entry that stays unreadable. If that answer cannot be read either, the next entry is
 * bad too or the server is failing: only a readable entry proves the former.
 */
export async function* skipUnreadable(step: Step, drain: Drain, probe: Probe): Parts {
  const found = await anchorAt(step, probe.atUs, 'live')
  const skipped = await skip(step, probe, found, {
    priority: 'live',
    from: drain.from,
    knownUs: Math.min(drain.from.at, step.cursor.headUs),
    endUs: horizonUs(step, found.serverAt) + 1,
  })
  if (skipped.next === 'again') {
    drain.probe = skipped.probe
    yield lastChunk(step, { fault: brokenEntry() })
  } else if (skipped.next === 'on') {
    drain.probe = skipped.probe
    yield lastChunk(step, skipped.group)
  } else if (skipped.next === 'readable') {
    yield await passed(step, drain, probe, skipped.position, found.group)
  } else if (skipped.next === 'nothing') {
    if (found.position) yield endBeforeFuture(step, drain, found)
    else yield* endRightBehind(step, drain, probe)
  } else {
    giveUpDrain(step, drain)
    const message =
      'The answers of the API are unreadable at every time that was tried; retrying at the next poll'
    yield lastChunk(step, { fault: new ConnectorError('bad_reply', message) })
  }
}

async function passed(
  step: Step,
  drain: Drain,
  { kept }: Probe,
  to: Position,
  group: Group | undefined,
): Promise<PageChunk> {
  const behind = await isRightBehind(step, to, kept, 'live')
  if (behind instanceof ConnectorError && ++drain.badTries < LEAVE_TRIES)
    return lastChunk(step, {
      fault: withNextStep(behind, 'the page that shows whether an entry is missing failed'),
    })
  const isNext = behind === true
  stepOver(step, drain, to)
  const { log } = step.options
  if (isNext)
    log.warn(
      'An unreadable audit entry was skipped; its bytes are in quarantine (auditferry quarantine list)',
    )
  else
    log.error(
      'Possible gap: an unreadable audit entry was skipped; its bytes are in quarantine, but entries next to it may be missing. Run auditferry backfill around it now, and auditferry reconcile once its UTC day is over',
    )
  return lastChunk(step, { ...group, gaps: isNext ? 0 : 1 })
}

/** Nothing from the next second on. What `latest` shows in the unreadable's own second is the last there is, and `search` never finds it. */
async function* endRightBehind(step: Step, drain: Drain, probe: Probe): Parts {
  const newest = await readLatest(step)
  const { position, group } = newest
  if (position && position.at > step.cursor.headUs && position.at < probe.atUs)
    yield await passed(step, drain, probe, position, group)
  else yield* endByTime(step, drain, probe.atUs, newest)
}

/** The page at `drain.from` stays unreadable: `take` of its elements are quarantined. */
export function skipFrom(step: Step, drain: Drain, take: number | undefined): void {
  moveOn(drain, { is: 'unreadable', behindUs: readBehindUs(step, drain), take })
  step.cursor.overlap = []
}

/**
 * Malformed elements alone name no position to continue from. If more follows, they are skipped by time. A page that is
 * not full is checked against `latest` first, like an empty one.
 */
export function skipMalformed(step: Step, drain: Drain, take: number, isFull: boolean): void {
  moveOn(drain, { is: 'malformed', behindUs: readBehindUs(step, drain), take, isFull })
  if (drain.probe) step.cursor.overlap = []
}

/** The first entry of all may have no time: then from where `search` reaches. */
const readBehindUs = (step: Step, { from }: Drain): number => from.at || reachUs(step)
