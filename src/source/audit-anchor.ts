// Places in the feed by time: where reading begins, and where it goes on when the cursor's entry is gone. `search`, `earliest` and `latest` of spec §4.1.
import { ConnectorError } from '../model/errors.ts'
import type { Lane, Part } from '../model/source.ts'
import { DAY_MS, SECOND_US } from '../model/time.ts'
import type { Position } from './audit-cursor.ts'
import { askedAgain, probeAfter, readableAt, unreadableAt } from './audit-probe.ts'
import type { Step, Steps } from './audit-step.ts'
import { currentPace, horizonUs, isAhead, lastPart } from './audit-step.ts'
import { settleStart } from './audit-start.ts'
import { isAuditThere } from './audit-there.ts'
import { splitterOptions } from './audit-walk.ts'
import { NO_TIME, readPlace } from './audit-place.ts'
import type { Place } from './audit-place.ts'
import type { Group } from './splitter.ts'

/** `search` reaches a year back (spec §4.1); a day less, so that no clock difference turns it into an error. */
const SEARCH_REACH_MS = 364 * DAY_MS

export interface Found extends Place {
  readonly serverAt: number | undefined
  /** told by a 404: no entry, or no such path */
  readonly missing?: boolean
  /** The request failed, and others need not: nothing is known. */
  readonly failure?: ConnectorError
}

/** It cannot be read and tells nothing at all: its answer may just have broken off. */
export const isBroken = ({ unreadable, unreadableUs }: Found): boolean =>
  unreadable && unreadableUs === undefined

/** The fault of a part that asks for it once more. */
export const brokenEntry = () =>
  new ConnectorError('bad_reply', 'The API answered an entry that cannot be read')

/** Asks for one entry. An empty workspace may be told by 404, by null or by an empty object (spec: not shown). */
export async function readEntry(step: Step, path: string, lane: Lane): Promise<Found> {
  const { options, signal } = step
  let serverAt: number | undefined
  try {
    const found = options.client.get(path, lane, signal, async function* (answer) {
      serverAt = answer.serverAt
      yield await readPlace(answer, splitterOptions(step))
    })
    for await (const place of found)
      return { ...place, group: place.group && fromStart(step, place.group), serverAt }
  } catch (error) {
    if (!(error instanceof ConnectorError) || error.code !== 'not_found') throw error
  }
  return { position: undefined, group: undefined, serverAt, unreadable: false, missing: true }
}

/** Where everything is a 404 the address is wrong, and not the log empty. Throws ConnectorError `misconfigured`. */
async function assertThere({ options, signal }: Step): Promise<void> {
  if (await isAuditThere(options.client, signal)) return
  throw new ConnectorError(
    'misconfigured',
    'The API answers 404 to whatever is asked of the audit log, also where it must not: check base_url',
  )
}

/** Nothing before the start is shipped, though a place before it may be gone on from. */
function fromStart({ cursor }: Step, group: Group): Group {
  return { ...group, entries: group.entries.between(cursor.startUs ?? -Infinity, Infinity) }
}

/** From here on `search` may be asked, µs. */
export const reachUs = ({ options }: Step): number => (options.clock.now() - SEARCH_REACH_MS) * 1000

/** The reach of `search` moves on while one asks. */
export const REACH_MARGIN_US = 60 * SECOND_US

/** The entry at or after `atUs`; behind the reach of `search` the earliest there is. */
export function anchorAt(step: Step, atUs: number, lane: Lane): Promise<Found> {
  if (Math.floor(atUs / SECOND_US) * SECOND_US < reachUs(step))
    return readEntry(step, '/api/v1/logs/audit/earliest', lane)
  return search(step, atUs, lane)
}

async function search(step: Step, atUs: number, lane: Lane): Promise<Found> {
  const seconds = Math.floor(atUs / SECOND_US)
  const found = await readEntry(step, `/api/v1/logs/audit/search?time=${seconds}`, lane)
  const { position } = found
  if (position?.at !== NO_TIME) return found
  // It does not tell its time, but it stands no earlier than what was asked for.
  return { ...found, position: { id: position.id, at: seconds * SECOND_US } }
}

/** An entry that stays unreadable at the very start is asked for so often before it is passed. */
const UNREADABLE_TRIES = 10

/** The first reading of all: finds where to begin, and ships the entry there, since `from` may leave it out. */
export async function* anchor(step: Step): Steps {
  const { cursor, options } = step
  if (settleStart(step)) yield lastPart(step, undefined, { underWay: true })
  const latest = options.start.kind === 'latest' && cursor.startUs === null
  const found = await firstEntry(step, latest)
  if (found.serverAt !== undefined && isAhead(step, found)) {
    // By a clock of ours alone no beginning is put off: were it slow, a log that is there would be waited for.
    yield awaitFirst(step, latest, found)
  } else if (found.unreadable) {
    yield await passUnreadable(step, found)
  } else if (!found.position) {
    if (found.missing) await assertThere(step)
    yield latest ? awaitFirst(step, latest, found) : await beginNowhere(step, found)
  } else if (cursor.probe && (cursor.probe = readableAt(cursor.probe) ?? null)) {
    // Readable, but perhaps not the first that is.
    yield lastPart(step, undefined)
  } else {
    if (latest) cursor.startUs = found.position.at + 1
    yield beginAt(step, found.position, found)
  }
}

function beginAt(step: Step, position: Position, { group, serverAt }: Found): Part {
  const { cursor } = step
  // Before it is the head: a first one dated far in the future is no proof of a slow clock.
  cursor.headUs = Math.min(position.at, horizonUs(step, serverAt))
  cursor.head = position
  cursor.probe = null
  return lastPart(step, group && fromStart(step, group))
}

/** Nothing is found to begin at: an empty log, or answers that contradict each other. */
async function beginNowhere(step: Step, found: Found): Promise<Part> {
  const { cursor } = step
  const newest = await readEntry(step, '/api/v1/logs/audit/latest', 'live')
  const { probe } = cursor
  const { position } = newest
  if (probe && position && position.at >= probe.lowUs && position.at < probe.atUs && !isAhead(step, newest)) {
    // In the unreadable's own second it is the last there is, and `search` never finds it.
    cursor.probe = readableAt(probe) ?? null
    return cursor.probe ? lastPart(step, undefined) : beginAt(step, position, newest)
  }
  if (!(await isContradicted(step, position))) return awaitFirst(step, false, found)
  const message = 'The API shows no entry to begin at, and then tells of one all the same'
  return lastPart(step, undefined, { fault: new ConnectorError('bad_reply', message) })
}

/** Nothing there yet, or nothing but what is dated in the future. Of `latest`, whatever comes from now on is new. */
function awaitFirst(step: Step, latest: boolean, { group, serverAt }: Found): Part {
  const { cursor, options } = step
  const now = options.clock.now()
  if (latest) cursor.startUs = Math.floor((serverAt ?? now) / 1000) * SECOND_US
  cursor.dueAt = now + currentPace(step).intervalMs
  cursor.caughtUp = true
  options.watch.caughtUp()
  return lastPart(step, group)
}

/** Whether there is an entry all the same where none was found: by the `newest` there is, and, before a log counts as empty at all, by a second look. */
async function isContradicted(step: Step, newest: Position | undefined): Promise<boolean> {
  const { startUs, probe, caughtUp } = step.cursor
  if (newest !== undefined && newest.at >= (probe?.atUs ?? startUs ?? -Infinity)) return true
  if (caughtUp && !step.options.once) return false
  const again = await firstEntry(step, false)
  return again.position !== undefined || again.unreadable
}

function firstEntry(step: Step, latest: boolean): Promise<Found> {
  const { startUs, probe } = step.cursor
  if (probe) return search(step, probe.atUs, 'live')
  if (latest) return readEntry(step, '/api/v1/logs/audit/latest', 'live')
  if (startUs === null) return readEntry(step, '/api/v1/logs/audit/earliest', 'live')
  return anchorAt(step, startUs, 'live')
}

/** Past a first entry that cannot be read: at once where it is plainly malformed, after some tries where it may be an outage. */
async function passUnreadable(step: Step, found: Found): Promise<Part> {
  const { cursor, options } = step
  const { probe, startUs } = cursor
  if (isBroken(found)) {
    const fault = brokenEntry()
    const again = probe ? askedAgain(probe) : undefined
    if (again) cursor.probe = again
    else if (!probe) cursor.anchorTries++
    if (again || (!probe && cursor.anchorTries < UNREADABLE_TRIES))
      return lastPart(step, undefined, { fault })
    // A server that cannot tell any entry is out of order: nothing is passed on its word.
    const witness = await readEntry(step, '/api/v1/logs/audit/latest', 'live')
    if (!witness.position) {
      cursor.dueAt = options.clock.now() + currentPace(step).intervalMs
      return lastPart(step, undefined, { fault })
    }
  }
  const from = probeAfter(found.unreadableUs ?? Math.max(startUs ?? 0, reachUs(step)))
  cursor.probe = probe ? unreadableAt(probe, found.unreadableUs) : from
  return lastPart(step, found.group, { gaps: probe ? 0 : 1 })
}
