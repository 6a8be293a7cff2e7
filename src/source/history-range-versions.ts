// Which days backfills read as which version of the history API: held against what is to be read now, so that no day is kept as both.
import { ConnectorError } from '../model/errors.ts'
import type { Origin } from '../model/source.ts'
import { DAY_MS, dayText } from '../model/time.ts'
import type { HistoryCursor } from './history-cursor.ts'
import type { HistoryVersion } from './history-step.ts'
import { isListOf, storedFields } from './stored-cursor.ts'

/** UTC days, epoch ms: included, excluded. */
type Days = readonly [from: number, to: number]

/** The least stretch that holds all days of which something was kept; null: none. */
export interface ReadVersions {
  readonly v1: Days | null
  readonly v2: Days | null
}

/** Where it survives a restart: a small fact in the journal. */
export interface VersionStore {
  load(): Promise<string | undefined>
  save(versions: string): Promise<void>
}

const none: ReadVersions = { v1: null, v2: null }

/** What is none of ours is as good as none. */
export function openVersions(text: string | undefined): ReadVersions {
  const fields = text === undefined ? undefined : storedFields(text)
  const days = (name: HistoryVersion) =>
    isListOf(fields?.[name], Number.isFinite) ? (fields?.[name] as Days) : null
  return fields ? { v1: days('v1'), v2: days('v2') } : none
}

/** With what a walk over `days` has read so far. */
export function withRead(
  { v1, v2 }: ReadVersions,
  { v1To, v2From }: HistoryCursor,
  [from, to]: Days,
): ReadVersions {
  return {
    v1: v1To === null ? v1 : joined(v1, [from, v1To]),
    v2: v2From === null ? v2 : joined(v2, [v2From, to]),
  }
}

const joined = (a: Days | null, [from, to]: Days): Days =>
  a ? [Math.min(a[0], from), Math.max(a[1], to)] : [from, to]

const overlap = (a: Days | null, [from, to]: Days): Days | undefined => {
  const both = [Math.max(a?.[0] ?? Infinity, from), Math.min(a?.[1] ?? -Infinity, to)] as const
  return both[0] < both[1] ? both : undefined
}

/**
 * `boundaryAt`: days before it would be read as v1, the others as v2. Throws ConnectorError `misconfigured` where one of
 * these days was kept as the other version, by live reading or by a backfill.
 */
export function checkVersions(
  origin: Origin,
  [from, to]: Days,
  boundaryAt: number,
  read: ReadVersions,
  live: HistoryCursor | undefined,
): void {
  const asV1: Days = [from, Math.min(to, boundaryAt)]
  const asV2: Days = [Math.max(from, boundaryAt), to]
  const liveV1: Days | null = live && live.v1To !== null ? [live.startAt, live.v1To] : null
  const liveV2: Days | null = live && live.v2From !== null ? [live.v2From, Infinity] : null
  const wrong = (known: readonly (Days | null)[], days: Days) =>
    known.map((one) => overlap(one, days)).find((both) => both !== undefined)
  const wasV2 = wrong([read.v2, liveV2], asV1)
  const wasV1 = wrong([read.v1, liveV1], asV2)
  const [was, is, both] = wasV2 ? (['v2', 'v1', wasV2] as const) : (['v1', 'v2', wasV1] as const)
  if (!both) return
  throw new ConnectorError(
    'misconfigured',
    `${origin.source} of workspace ${origin.workspace}: days from ${dayText(both[0])} to ${dayText(both[1] - DAY_MS)} were read as ${was}, and as configured they would be read as ${is}, ` +
      'which ships each of their events again under another id: set history.v1_until as docs/sources/history.md says, or leave these days out (backfill --cancel ends this one)',
  )
}
