// The end of the log: an empty page is checked against `latest`, then requested again, and at last checked with `search`.
// No single answer ends a drain if another contradicts it.
import type { PageChunk } from '../../contracts/source.ts'
import { ConnectorError } from '../../core/errors.ts'
import { SECOND_US } from '../../core/time.ts'
import { isFuture } from './clock.ts'
import { isKnownMalformed } from './cursor.ts'
import type { AuditCursor, Drain, Position } from './cursor.ts'
import { REACH_MARGIN_US, anchorAt, reachUs, readLatest } from './lookup.ts'
import type { Found } from './lookup.ts'
import { currentPace, lastChunk, smoothRate } from './step.ts'
import type { Parts, Step } from './step.ts'

/** So often the same place may show nothing, with no `latest` that agrees, before `search` decides. */
const EMPTY_ANSWERS = 3

export async function* askLatest(step: Step, drain: Drain): Parts {
  const { cursor } = step
  const found = await readLatest(step)
  const { position } = found
  const empty = drain.emptyAnswers ?? 0
  // The newest element is quarantined already: the page ended with it, and nothing follows.
  const isKept = isKnownMalformed(cursor, found.group?.quarantined)
  const isNewer = position !== undefined && position.at > readToUs(cursor) && !isKept
  // A malformed element with a time contradicts an empty page, but not a page of malformed elements.
  const isUnreadNewer = !position && empty > 0 && isLater(step, found)
  // The page held malformed elements only and `latest` fails: an entry may follow them.
  const isUndenied = found.failure !== undefined && empty === 0
  let fault: ConnectorError | undefined
  if (isNewer || isUnreadNewer || isUndenied) drain.doubt = 'read_again'
  else if (isKept || empty === 0 || (position && cursor.latestUs <= readToUs(cursor))) endDrain(step, drain)
  else if (empty >= EMPTY_ANSWERS) {
    yield* askSearch(step, drain)
    return
  } else {
    drain.doubt = 'none'
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
  if (isLater(step, found)) leaveEmptyPage(step, drain)
  else if (found.unreadable) fault = unreadable()
  else if (searchUs > fromUs)
    fault = new ConnectorError(
      'bad_reply',
      'The last entry read is older than `search` reaches, and `latest` does not confirm that it is the end of the log',
    )
  else {
    cursor.latestUs = readToUs(cursor)
    endDrain(step, drain)
  }
  if (fault) giveUpDrain(step, drain)
  yield lastChunk(step, { fault })
}

/** There is more after the cursor than its page shows: the cursor is dead (invariant 6). */
export function leaveEmptyPage({ options }: Step, drain: Drain): void {
  options.log.warn(
    'The page at the cursor stays empty although there are newer entries; finding the cursor again by time',
  )
  drain.doubt = 'cursor_gone'
}

/** `search` found nothing. If `latest` contradicts that, or fails, it is asked again some times; then a gap is reported. */
export function* endByTime(step: Step, drain: Drain, fromUs: number, found: Found): Generator<PageChunk> {
  const { cursor, options } = step
  const { position, failure } = found
  const isContradicted = position !== undefined && position.at >= fromUs
  if (isContradicted || failure) {
    drain.emptyAnswers = (drain.emptyAnswers ?? 0) + 1
    if (drain.emptyAnswers <= EMPTY_ANSWERS) {
      const speaker = failure ? 'and `latest` fails' : 'although `latest` shows one'
      const fault = new ConnectorError('bad_reply', `The API finds no entry by time ${speaker}`)
      yield lastChunk(step, { fault })
      return
    }
  }
  let gaps = 0
  if (isContradicted) {
    gaps = newGap(cursor, cursor.head)
    if (gaps > 0)
      options.log.error(
        'Possible gap: there are newer entries than the last, but the API finds none of them by time',
      )
  }
  endDrain(step, drain)
  yield lastChunk(step, { gaps })
}

/** A gap after `head` is reported once, however many polls meet it. */
export function newGap(cursor: AuditCursor, head: Position | null): number {
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
    'The API answered with an entry that cannot be read when the end of the log was checked',
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
