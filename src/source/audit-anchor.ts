// Places in the feed by time: where reading begins, and where it goes on when the cursor's entry is gone. `search`, `earliest` and `latest` of spec §4.1.
import { ConnectorError } from '../model/errors.ts'
import type { Lane } from '../model/source.ts'
import type { Position } from './audit-cursor.ts'
import { atOrAfter, readWhole } from './audit-page.ts'
import type { Step, Steps } from './audit-step.ts'
import { currentPace, lastPart } from './audit-step.ts'
import { splitterOptions } from './audit-walk.ts'
import type { Group } from './splitter.ts'
import { splitOne } from './splitter.ts'

/** `search` reaches a year back (spec §4.1); a day less, so that no clock difference turns it into an error. */
const SEARCH_REACH_MS = 364 * 86_400_000

export interface Found {
  /** undefined: there is none */
  readonly position: Position | undefined
  /** the entry itself, or the bytes of one that is malformed */
  readonly group: Group | undefined
  readonly serverAt: number | undefined
}

/** Asks for one entry. An empty workspace may be told by 404, by null or by an empty object (spec: not shown). */
export async function readEntry(step: Step, path: string, lane: Lane): Promise<Found> {
  const { options, signal } = step
  let serverAt: number | undefined
  try {
    const groups = options.client.get(path, lane, signal, async function* (answer) {
      serverAt = answer.serverAt
      yield splitOne(await readWhole(answer), { ...splitterOptions(step), wrapper: 'log' })
    })
    for await (const group of groups) return { ...placeOf(group), serverAt }
  } catch (error) {
    if (!(error instanceof ConnectorError) || error.code !== 'not_found') throw error
  }
  return { position: undefined, group: undefined, serverAt }
}

function placeOf(group: Group | undefined): Pick<Found, 'position' | 'group'> {
  if (!group || (group.entries.count === 0 && group.quarantined.length === 0))
    return { position: undefined, group: undefined }
  if (group.entries.count === 0)
    throw new ConnectorError('bad_reply', 'The API answered an entry without a readable id or timestamp')
  return { position: { id: group.entries.id(0), at: group.entries.at(0) }, group }
}

/** The entry at or after `atUs`; behind the reach of `search` the earliest there is. */
export function anchorAt(step: Step, atUs: number, lane: Lane): Promise<Found> {
  const seconds = Math.floor(atUs / 1_000_000)
  if (seconds * 1000 < step.options.clock.now() - SEARCH_REACH_MS)
    return readEntry(step, '/api/v1/logs/audit/earliest', lane)
  return readEntry(step, `/api/v1/logs/audit/search?time=${seconds}`, lane)
}

/** The first reading of all: finds where to begin, and ships the entry there, since `from` may leave it out. */
export async function* anchor(step: Step): Steps {
  const { cursor, options } = step
  const { start } = options
  const now = options.clock.now()
  if (start.kind === 'span') cursor.startUs ??= (now - start.ms) * 1000
  if (start.kind === 'time') cursor.startUs ??= start.atUs
  const latest = start.kind === 'latest' && cursor.startUs === null
  const found = latest
    ? await readEntry(step, '/api/v1/logs/audit/latest', 'live')
    : cursor.startUs === null
      ? await readEntry(step, '/api/v1/logs/audit/earliest', 'live')
      : await anchorAt(step, cursor.startUs, 'live')
  if (!found.position) {
    // Nothing there yet. Of `latest`, whatever comes from now on is new.
    if (latest) cursor.startUs = Math.floor((found.serverAt ?? now) / 1000) * 1_000_000
    cursor.dueAt = now + currentPace(step).intervalMs
    cursor.caughtUp = true
    options.watch.caughtUp()
    yield lastPart(step, undefined)
    return
  }
  cursor.head = found.position
  if (latest) cursor.startUs = found.position.at + 1
  const { group } = found
  const part = group && lastPart(step, { ...group, entries: atOrAfter(group.entries, cursor.startUs) })
  cursor.headUs = found.position.at
  cursor.dueAt = now
  yield { ...(part ?? lastPart(step, undefined)), cursor: lastPart(step, undefined).cursor }
}
