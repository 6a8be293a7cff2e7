// One entry, asked for by itself: a place in the feed by time, the earliest and the newest. `search`, `earliest` and `latest` of spec §4.1.
import { ConnectorError } from '../../model/errors.ts'
import type { Lane } from '../../model/source.ts'
import { DAY_MS, SECOND_US } from '../../model/time.ts'
import { NO_TIME, readFoundEntry } from './found.ts'
import type { FoundEntry } from './found.ts'
import type { PagingStep } from './step.ts'
import { entryOptions, fromStart } from './step.ts'

/** `search` reaches a year back (spec §4.1); a day less, so that no clock difference turns it into an error. */
const SEARCH_REACH_MS = 364 * DAY_MS

export interface Found extends FoundEntry {
  readonly serverAt: number | undefined
  /** told by a 404: no entry, or no such path */
  readonly missing?: boolean
  /** The request failed, and others need not: nothing is known. */
  readonly failure?: ConnectorError
}

/** The fault of a part that asks for it once more. */
export const brokenEntry = () =>
  new ConnectorError(
    'bad_reply',
    'GET /api/v1/logs/audit (`earliest`, `latest` or `search`) answered an entry that cannot be read; it is asked for again, and what stays unreadable is passed, as a gap',
  )

/** Asks for one entry. An empty workspace may be told by 404, by null or by an empty object (spec: not shown). */
export async function readEntry(step: PagingStep, path: string, lane: Lane): Promise<Found> {
  const { options, signal } = step
  let serverAt: number | undefined
  try {
    const found = options.client.get(path, lane, signal, async function* (answer) {
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

export function earliest(step: PagingStep, lane: Lane): Promise<Found> {
  return readEntry(step, '/api/v1/logs/audit/earliest', lane)
}

/** The entry at or after `atUs`; behind the reach of `search` the earliest there is. */
export function anchorAt(step: PagingStep, atUs: number, lane: Lane): Promise<Found> {
  if (Math.floor(atUs / SECOND_US) * SECOND_US < reachUs(step)) return earliest(step, lane)
  return search(step, atUs, lane)
}

/** The first entry of that second or later. Within the reach of `search`, which is the caller's to see to. */
export async function search(step: PagingStep, atUs: number, lane: Lane): Promise<Found> {
  const seconds = Math.floor(atUs / SECOND_US)
  const found = await readEntry(step, `/api/v1/logs/audit/search?time=${seconds}`, lane)
  const { position } = found
  if (position?.at !== NO_TIME) return found
  // It does not tell its time, but it stands no earlier than what was asked for.
  return { ...found, position: { id: position.id, at: seconds * SECOND_US } }
}
