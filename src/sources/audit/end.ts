// The end of the log, proven: an empty page is held against `latest`, against itself, and at last against `search`. No single answer ends a drain where another speaks against it.
import type { Part } from '../../contracts/source.ts'
import { ConnectorError } from '../../core/errors.ts'
import { SECOND_US } from '../../core/time.ts'
import { isFuture } from './clock.ts'
import { isKnownMalformed } from './cursor.ts'
import type { AuditCursor, Drain, Position } from './cursor.ts'
import { REACH_MARGIN_US, anchorAt, reachUs, readLatest } from './lookup.ts'
import type { Found } from './lookup.ts'
import { currentPace, lastPart, smoothRate } from './step.ts'
import type { Parts, Step } from './step.ts'

/** So often the same place may show nothing, with no `latest` that agrees, before `search` decides. */
const EMPTY_ANSWERS = 3

export async function* askLatest(step: Step, drain: Drain): Parts {
  const { cursor } = step
  const found = await readLatest(step)
  const { position } = found
  const empty = drain.emptyAnswers ?? 0
  // A newest one that is quarantined already is what the page ended with: nothing stands behind it.
  const isKept = isKnownMalformed(cursor, found.group?.quarantined)
  const isNewer = position !== undefined && position.at > readToUs(cursor) && !isKept
  // A malformed one that tells its time is a witness for an empty page, not for one of malformed elements.
  const isUnreadNewer = !position && empty > 0 && isLater(step, found)
  // Where the page held malformed elements only and `latest` fails, an entry may stand behind them: no other witness is asked.
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
  yield lastPart(step, { fault })
}

/** `latest` is no witness: it shows nothing although there was something, what cannot be read, or less than it showed before. */
async function* askSearch(step: Step, drain: Drain): Parts {
  const { cursor } = step
  const fromUs = readToUs(cursor) + SECOND_US
  // Behind its reach the earliest entry would answer, which tells nothing of what follows the head.
  const searchUs = Math.max(fromUs, reachUs(step) + REACH_MARGIN_US)
  const found = await anchorAt(step, searchUs, 'live')
  let fault: ConnectorError | undefined
  if (isLater(step, found)) leaveEmptyPage(step, drain)
  else if (found.unreadable) fault = unreadable()
  else if (searchUs > fromUs)
    fault = new ConnectorError(
      'bad_reply',
      'The last entry read lies behind what `search` reaches, and `latest` does not prove it the end of the log',
    )
  else {
    cursor.latestUs = readToUs(cursor)
    endDrain(step, drain)
  }
  if (fault) giveUpDrain(step, drain)
  yield lastPart(step, { fault })
}

/** There is more behind the cursor than its page shows: the cursor is dead (invariant 6). */
export function leaveEmptyPage({ options }: Step, drain: Drain): void {
  options.log.warn(
    'The page behind the cursor stays empty although there are newer entries, finding the place by time',
  )
  drain.doubt = 'cursor_gone'
}

/** Nothing was found by time. Where `latest` speaks against it, or fails, it is asked for again some times; what it tells of is then told as a gap. */
export function* endByTime(step: Step, drain: Drain, fromUs: number, found: Found): Generator<Part> {
  const { cursor, options } = step
  const { position, failure } = found
  const isContradicted = position !== undefined && position.at >= fromUs
  if (isContradicted || failure) {
    drain.emptyAnswers = (drain.emptyAnswers ?? 0) + 1
    if (drain.emptyAnswers <= EMPTY_ANSWERS) {
      const speaker = failure ? 'and `latest` fails' : 'although `latest` tells of one'
      const fault = new ConnectorError('bad_reply', `The API finds no entry by time ${speaker}`)
      yield lastPart(step, { fault })
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
  yield lastPart(step, { gaps })
}

/** A gap behind `head` is told once, however many polls meet it. */
export function newGap(cursor: AuditCursor, head: Position | null): number {
  if (!head || cursor.gapBehind === head.id) return 0
  cursor.gapBehind = head.id
  return 1
}

/** What has been read. A first entry of all that is dated far ahead is the head, and lies behind `headUs`. */
const readToUs = ({ headUs, head }: AuditCursor): number => Math.max(headUs, head?.at ?? 0)

function isLater(step: Step, found: Found): boolean {
  return (found.position?.at ?? found.unreadableUs ?? 0) > readToUs(step.cursor) && !isFuture(step, found)
}

const unreadable = () =>
  new ConnectorError(
    'bad_reply',
    'The API answered an entry that cannot be read where the end of the log was to be proven',
  )

// The end of a drain: the head reader has nothing to ask for until its next poll.

/** The drain is over: everything that was there when it began has been read. */
export function endDrain(step: Step, drain: Drain): void {
  giveUpDrain(step, drain)
  step.cursor.caughtUp = true
  step.options.watch.caughtUp()
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
