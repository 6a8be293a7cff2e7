// Requests for one entry: `search` (by time), `earliest` and `latest` of spec §4.1.
import { Entries } from '../../contracts/entries.ts'
import type { Priority, Quarantined } from '../../contracts/source.ts'
import { ConnectorError } from '../../core/errors.ts'
import type { ErrorCode } from '../../core/errors.ts'
import { textsUnder } from '../../core/json.ts'
import { DAY_MS, SECOND_US, parseInstantText } from '../../core/time.ts'
import type { Answer, Client } from '../http/client.ts'
import { BodySample, bufferBody } from '../http/groups.ts'
import type { Group } from '../splitter/entries-builder.ts'
import { splitOne } from '../splitter/splitter.ts'
import type { SplitterOptions } from '../splitter/splitter.ts'
import type { Position } from './walk.ts'
import { badReply, entryOptions, fromStart, horizonUs } from './step.ts'
import type { PagingStep, Step } from './step.ts'

/** `search` reaches a year back (spec §4.1). A day less, as clocks differ. */
const SEARCH_REACH_MS = 364 * DAY_MS
/** The reach of `search` moves on during a request. */
export const REACH_MARGIN_US = 60 * SECOND_US

export interface Found extends FoundEntry {
  readonly serverAt: number | undefined
  /** a 404: no entry, or no such path */
  readonly missing?: boolean
  /** This request failed, though others may not: it is unknown whether there is an entry. */
  readonly failure?: ConnectorError
}

/** The time of what was found, even of an entry that cannot be read otherwise. */
export const timeOf = ({ position, unreadableUs }: FoundEntry): number | undefined =>
  position?.at ?? unreadableUs

/** Entries dated in the future are shipped, but reading does not continue from them. */
export const isFuture = (step: PagingStep, found: Found): boolean =>
  (timeOf(found) ?? -Infinity) > horizonUs(step, found.serverAt)

export const quarantinedBytes = ({ quarantined }: Pick<Group, 'quarantined'> = { quarantined: [] }): number =>
  quarantined.reduce((sum, { totalBytes }) => sum + totalBytes, 0)

export const brokenEntry = () =>
  badReply(
    'The API answered GET /api/v1/logs/audit/earliest, latest or search with something that is not an audit entry; it is asked again. If this stays so, check base_url',
  )

export const endUnchecked = (shown = 'an entry that cannot be read') =>
  badReply(
    `The end of the audit log could not be checked, because the API answered with ${shown}; it is checked again automatically`,
  )

/** An empty workspace may answer 404, null or an empty object: the specification does not say. */
async function readEntry(step: PagingStep, path: string, priority: Priority): Promise<Found> {
  const { options, signal } = step
  let serverAt: number | undefined
  try {
    const found = options.client.get(path, priority, signal, async function* (answer) {
      serverAt = answer.serverAt
      yield await readFoundEntry(answer, entryOptions(step.options))
    })
    for await (const entry of found)
      return { ...entry, group: entry.group && fromStart(step, entry.group), serverAt }
  } catch (error) {
    if (!(error instanceof ConnectorError) || error.code !== 'not_found') throw error
  }
  return { position: undefined, group: undefined, serverAt, unreadable: false, missing: true }
}

/** The earliest time that `search` accepts, µs. */
export const reachUs = ({ options }: PagingStep): number => (options.clock.now() - SEARCH_REACH_MS) * 1000

export function earliest(step: PagingStep, priority: Priority): Promise<Found> {
  return readEntry(step, '/api/v1/logs/audit/earliest', priority)
}

/** The entry at or after `atUs`; before the reach of `search`, the earliest entry of all. */
export function anchorAt(step: PagingStep, atUs: number, priority: Priority): Promise<Found> {
  if (Math.floor(atUs / SECOND_US) * SECOND_US < reachUs(step)) return earliest(step, priority)
  return search(step, atUs, priority)
}

/** The first entry of that second or later. The caller keeps within the reach of `search`. */
export async function search(step: PagingStep, atUs: number, priority: Priority): Promise<Found> {
  const seconds = Math.floor(atUs / SECOND_US)
  const found = await readEntry(step, `/api/v1/logs/audit/search?time=${seconds}`, priority)
  const { position } = found
  if (position?.at !== NO_TIME) return found
  // It has no time, but it is not earlier than the time searched for.
  return { ...found, position: { id: position.id, at: seconds * SECOND_US } }
}

// The answer of these requests: an entry, wrapped or not, malformed or not.

const textsOf = textsUnder(['id', 'timestamp'])

/** What may wrap an entry in its answer has at most so many bytes. */
const WRAPPING_BYTES = 64 * 1024

interface FoundEntry {
  /** undefined: there is no entry, or none that can be read */
  readonly position: Position | undefined
  /** the entry itself, or the bytes of a malformed one */
  readonly group: Group | undefined
  /** There is something without a position: reading continues at a later time. */
  readonly unreadable: boolean
  /** its time, if at least that can be read, µs */
  readonly unreadableUs?: number | undefined
}

export async function readFoundEntry(
  answer: Pick<Answer, 'body'>,
  options: SplitterOptions,
): Promise<FoundEntry> {
  const sample = new BodySample()
  const body = await bufferBody(answer, options.maxEntryBytes + WRAPPING_BYTES, sample)
  return body ? foundIn(body, sample, options) : unreadableEntry(sample, 'too_large')
}

function unreadableEntry(sample: BodySample, reason: Quarantined['reason']): FoundEntry {
  const group = { entries: Entries.none, quarantined: [sample.quarantined(reason)] }
  return { position: undefined, group, unreadable: true }
}

function foundIn(body: Uint8Array, sample: BodySample, options: SplitterOptions): FoundEntry {
  let group: Group
  try {
    group = splitOne(body, { ...options, wrapper: 'log' })
  } catch (error) {
    if (!(error instanceof ConnectorError)) throw error
    return unreadableEntry(sample, 'unreadable_page')
  }
  const { entries, quarantined } = group
  if (entries.count > 0)
    return { position: { id: entries.id(0), at: entries.at(0) }, group, unreadable: false }
  const [malformed] = quarantined
  if (!malformed) return { position: undefined, group: undefined, unreadable: false }
  const named = readMalformed(malformed)
  return { ...named, group, unreadable: named.position === undefined }
}

/** Time of an entry without a readable time, µs: it counts as older than all others. */
const NO_TIME = 0

/** A malformed entry may still have an id from which pages continue, if a URL can hold that id. */
function readMalformed({ reason, bytes }: Quarantined): Pick<FoundEntry, 'position' | 'unreadableUs'> {
  // Only the beginning of a large entry is kept, and that is no JSON.
  if (reason === 'too_large') return { position: undefined }
  const { id = '', timestamp = '' } = textsOf(bytes)
  const at = parseInstantText(timestamp)
  const unreadableUs = Number.isSafeInteger(at) ? at : undefined
  const isUsable = id !== '' && id.length <= 1024 && id.isWellFormed()
  return { position: isUsable ? { id, at: unreadableUs ?? NO_TIME } : undefined, unreadableUs }
}

// The newest entry, to check the end of the log. Reading continues if only this request fails.

/** Remembers the newest entry. A future-dated one hides it, and so proves nothing. */
export async function readLatest(step: Step): Promise<Found> {
  const { cursor } = step
  const found = await tryLatest(step, 'live')
  logFailing(step, found.failure)
  if (isFuture(step, found)) return { ...found, position: undefined }
  if (found.position) cursor.latestUs = Math.max(cursor.latestUs, found.position.at)
  return found
}

/** Returns a failure of this request alone. Throws errors that any request would meet. */
export async function tryLatest(step: PagingStep, priority: Priority): Promise<Found> {
  try {
    return await readEntry(step, '/api/v1/logs/audit/latest', priority)
  } catch (error) {
    if (!(error instanceof ConnectorError) || isOfAll(error)) throw error
    return { position: undefined, group: undefined, serverAt: undefined, unreadable: false, failure: error }
  }
}

const ofAll = new Set<ErrorCode>([
  ...(['aborted', 'unauthorized', 'rate_limited', 'unreachable', 'tls_invalid'] as const),
  // The permit of a request is recorded in the journal.
  ...(['disk_full', 'store_unavailable', 'lease_lost'] as const),
])

/** Any other request would have met this error too. */
export const isOfAll = ({ code }: ConnectorError): boolean => ofAll.has(code)

/** False in an outage: neither `knownUs` is readable, nor the newest entry, nor what follows it. */
export async function isReadByTime(
  step: PagingStep,
  knownUs: number | undefined,
  priority: Priority,
): Promise<boolean> {
  if (knownUs !== undefined && (await anchorAt(step, knownUs, priority)).position) return true
  const newestUs = timeOf(await tryLatest(step, priority)) ?? step.options.clock.now() * 1000
  if ((await anchorAt(step, newestUs, priority)).position) return true
  return !(await anchorAt(step, newestUs + SECOND_US, priority)).unreadable
}

/** Logs the first failure and the recovery only: reading may go on without `latest` forever. */
export function logFailing({ cursor, options: { log } }: Step, failure: ConnectorError | undefined): void {
  if (failure && cursor.latestFails === undefined) {
    log.warn(
      'The newest entry cannot be read (GET /api/v1/logs/audit/latest fails): reading continues, and the end of the log is checked with `search` instead',
      { code: failure.code, error: failure.message },
    )
    cursor.latestFails = failure.code
  } else if (!failure && cursor.latestFails !== undefined) {
    log.info('The newest entry can be read again')
    delete cursor.latestFails
  }
}

/** Distinguishes an empty log from a wrong address: `search` without `time` must be a 400 (spec §4.1). */
export async function isAuditThere(client: Client, signal: AbortSignal): Promise<boolean> {
  try {
    await client.touch('/api/v1/logs/audit/search', 'live', signal)
  } catch (error) {
    const code = error instanceof ConnectorError ? error.code : undefined
    if (code === 'not_found') return false
    if (code !== 'bad_request') throw error
  }
  return true
}
