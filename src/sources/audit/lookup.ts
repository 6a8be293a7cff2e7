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
import { isFuture } from './clock.ts'
import type { Position } from './walk.ts'
import { entryOptions, fromStart } from './step.ts'
import type { PagingStep, Step } from './step.ts'

/** `search` reaches a year back (spec §4.1); a day less, so that no clock difference turns it into an error. */
const SEARCH_REACH_MS = 364 * DAY_MS

export interface Found extends FoundEntry {
  readonly serverAt: number | undefined
  /** a 404: no entry, or no such path */
  readonly missing?: boolean
  /** The request failed, and others need not: nothing is known. */
  readonly failure?: ConnectorError
}

/** The size of an answer that is no entry. */
export const quarantinedBytes = ({ quarantined }: Pick<Group, 'quarantined'> = { quarantined: [] }): number =>
  quarantined.reduce((sum, { totalBytes }) => sum + totalBytes, 0)

/** The fault of a part that asks for it once more. */
export const brokenEntry = () =>
  new ConnectorError(
    'bad_reply',
    'The API answered GET /api/v1/logs/audit/earliest, latest or search with something that is not an audit entry; it is asked again. If this stays so, check base_url',
  )

/** Asks for one entry. An empty workspace may answer 404, null or an empty object (the specification does not say). */
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

/** From here on `search` may be asked, µs. */
export const reachUs = ({ options }: PagingStep): number => (options.clock.now() - SEARCH_REACH_MS) * 1000

/** The reach of `search` moves on while one asks. */
export const REACH_MARGIN_US = 60 * SECOND_US

export function earliest(step: PagingStep, priority: Priority): Promise<Found> {
  return readEntry(step, '/api/v1/logs/audit/earliest', priority)
}

/** The entry at or after `atUs`; before the reach of `search`, the earliest entry of all. */
export function anchorAt(step: PagingStep, atUs: number, priority: Priority): Promise<Found> {
  if (Math.floor(atUs / SECOND_US) * SECOND_US < reachUs(step)) return earliest(step, priority)
  return search(step, atUs, priority)
}

/** The first entry of that second or later. Within the reach of `search`, which is the caller's to see to. */
export async function search(step: PagingStep, atUs: number, priority: Priority): Promise<Found> {
  const seconds = Math.floor(atUs / SECOND_US)
  const found = await readEntry(step, `/api/v1/logs/audit/search?time=${seconds}`, priority)
  const { position } = found
  if (position?.at !== NO_TIME) return found
  // It has no time, but it is no earlier than what was asked for.
  return { ...found, position: { id: position.id, at: seconds * SECOND_US } }
}

// The answer of `latest`, `earliest` and `search`: the entry's position in the feed, whatever wraps it and however malformed it is.

const textsOf = textsUnder(['id', 'timestamp'])

/** Bound on what may wrap an entry in its answer. */
const WRAPPING_BYTES = 64 * 1024

interface FoundEntry {
  /** undefined: there is none, or none that can be read */
  readonly position: Position | undefined
  /** the entry itself, or the bytes of one that is malformed */
  readonly group: Group | undefined
  /** There is something, but no place to go on from: the way on is a later time. */
  readonly unreadable: boolean
  /** its own time, where at least that can be read, µs */
  readonly unreadableUs?: number | undefined
}

/** An empty body, null and an empty object mean that there is none (the specification does not say). */
export async function readFoundEntry(
  answer: Pick<Answer, 'body'>,
  options: SplitterOptions,
): Promise<FoundEntry> {
  const sample = new BodySample()
  const body = await bufferBody(answer, options.maxEntryBytes + WRAPPING_BYTES, sample)
  return body ? foundIn(body, sample, options) : kept(sample, 'too_large')
}

/** No place to go on from; its bytes are what there is of it. */
function kept(sample: BodySample, reason: Quarantined['reason']): FoundEntry {
  const group = { entries: Entries.none, quarantined: [sample.quarantined(reason)] }
  return { position: undefined, group, unreadable: true }
}

function foundIn(body: Uint8Array, sample: BodySample, options: SplitterOptions): FoundEntry {
  let group: Group
  try {
    group = splitOne(body, { ...options, wrapper: 'log' })
  } catch (error) {
    if (!(error instanceof ConnectorError)) throw error
    return kept(sample, 'unreadable_page')
  }
  const { entries, quarantined } = group
  if (entries.count > 0)
    return { position: { id: entries.id(0), at: entries.at(0) }, group, unreadable: false }
  const [malformed] = quarantined
  if (!malformed) return { position: undefined, group: undefined, unreadable: false }
  const { position, atUs } = readMalformed(malformed)
  return { position, group, unreadable: position === undefined, unreadableUs: atUs }
}

/** Time of an entry without a time, µs. */
const NO_TIME = 0

/**
 * A malformed entry may still have an id from which pages continue, unless it has half a surrogate pair, which no URL can
 * hold. Without a readable time it counts as older than all others.
 */
function readMalformed({ reason, bytes }: Quarantined): {
  position: Position | undefined
  atUs: number | undefined
} {
  // Of one too large there is only the head, which is no JSON.
  if (reason === 'too_large') return { position: undefined, atUs: undefined }
  const { id = '', timestamp = '' } = textsOf(bytes)
  const at = parseInstantText(timestamp)
  const atUs = Number.isSafeInteger(at) ? at : undefined
  const named = id !== '' && id.length <= 1024 && id.isWellFormed()
  return { position: named ? { id, at: atUs ?? NO_TIME } : undefined, atUs }
}

// The newest entry, to check the end of the log. If only this request fails, reading continues without it.

const LATEST = '/api/v1/logs/audit/latest'

/** Remembers what it shows. An entry dated in the future hides the newest of now, so it proves nothing. */
export async function readLatest(step: Step): Promise<Found> {
  const { cursor } = step
  const found = await tryLatest(step, 'live')
  logFailing(step, found.failure)
  if (isFuture(step, found)) return { ...found, position: undefined }
  if (found.position) cursor.latestUs = Math.max(cursor.latestUs, found.position.at)
  return found
}

/** If this request alone fails, returns the failure. Throws errors that would meet any request. */
export async function tryLatest(step: PagingStep, priority: Priority): Promise<Found> {
  try {
    return await readEntry(step, LATEST, priority)
  } catch (error) {
    if (!(error instanceof ConnectorError) || isOfAll(error)) throw error
    return { position: undefined, group: undefined, serverAt: undefined, unreadable: false, failure: error }
  }
}

/** Nothing here is about one endpoint. */
const ofAll: ReadonlySet<ErrorCode> = new Set([
  'aborted',
  'unauthorized',
  'rate_limited',
  'unreachable',
  'tls_invalid',
])

/**
 * Whether the log is read by time elsewhere: at `knownUs`, at its newest entry, or behind that. If not, what cannot be read by
 * time is an outage, and nothing is passed. `latest` proves nothing: it only says where to look.
 */
export async function isReadByTime(
  step: PagingStep,
  knownUs: number | undefined,
  priority: Priority,
): Promise<boolean> {
  if (knownUs !== undefined && (await anchorAt(step, knownUs, priority)).position) return true
  const { position, unreadableUs } = await tryLatest(step, priority)
  const newestUs = position?.at ?? unreadableUs ?? step.options.clock.now() * 1000
  if ((await anchorAt(step, newestUs, priority)).position) return true
  return !(await anchorAt(step, newestUs + SECOND_US, priority)).unreadable
}

/** It would have met any other request too. */
export const isOfAll = ({ code }: ConnectorError): boolean => ofAll.has(code)

/** Told once, and once more when it answers again: pages may lead to the end without it for ever. */
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

// Whether the audit log's paths are there at all: a 404 alone may mean an empty log, or a wrong address.

/** `search` without its `time` must be a 400 (spec §4.1). False if that is a 404 too. Throws ConnectorError for any other answer. */
export async function isAuditThere(client: Client, signal: AbortSignal): Promise<boolean> {
  try {
    await client.touch('/api/v1/logs/audit/search', 'live', signal)
    return true
  } catch (error) {
    if (!(error instanceof ConnectorError)) throw error
    if (error.code === 'bad_request') return true
    if (error.code === 'not_found') return false
    throw error
  }
}
