// The newest entry there is, as a witness for the end of the log. One that fails by itself is no witness, and stops no reading that is under way.
import { ConnectorError } from '../../model/errors.ts'
import type { ErrorCode } from '../../model/errors.ts'
import type { Lane } from '../../model/source.ts'
import { SECOND_US } from '../../model/time.ts'
import { anchorAt, readEntry } from './by-time.ts'
import type { Found } from './by-time.ts'
import { isFuture } from './clock.ts'
import type { PagingStep, Step } from './step.ts'

const LATEST = '/api/v1/logs/audit/latest'

/** What it tells is known from now on. Dated in the future, it hides what is the newest of now, and is no witness. */
export async function readLatest(step: Step): Promise<Found> {
  const { cursor } = step
  const found = await askLatestAlone(step, 'live')
  tellFailing(step, found.failure)
  if (isFuture(step, found)) return { ...found, position: undefined }
  if (found.position) cursor.latestUs = Math.max(cursor.latestUs, found.position.at)
  return found
}

/** Shows nothing, and why, where it fails by itself. Throws what would have met any other request too. */
export async function askLatestAlone(step: PagingStep, lane: Lane): Promise<Found> {
  try {
    return await readEntry(step, LATEST, lane)
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
  lane: Lane,
): Promise<boolean> {
  if (knownUs !== undefined && (await anchorAt(step, knownUs, lane)).position) return true
  const { position, unreadableUs } = await askLatestAlone(step, lane)
  const newestUs = position?.at ?? unreadableUs ?? step.options.clock.now() * 1000
  if ((await anchorAt(step, newestUs, lane)).position) return true
  return !(await anchorAt(step, newestUs + SECOND_US, lane)).unreadable
}

/** It would have met any other request too. */
export const isOfAll = ({ code }: ConnectorError): boolean => ofAll.has(code)

/** Told once, and once more when it answers again: pages may lead to the end without it for ever. */
export function tellFailing({ cursor, options: { log } }: Step, failure: ConnectorError | undefined): void {
  if (failure && cursor.latestFails === undefined) {
    log.warn(
      'The newest entry cannot be asked for: reading goes on, and the end of the log is proven by `search` instead',
      { code: failure.code, error: failure.message },
    )
    cursor.latestFails = failure.code
  } else if (!failure && cursor.latestFails !== undefined) {
    log.info('The newest entry can be asked for again')
    delete cursor.latestFails
  }
}
