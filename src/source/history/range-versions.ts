// Which days backfills read as which version of the history API: held against what is to be read now, so that no day is kept as both.
import type { Entries } from '../../model/entries.ts'
import { ConnectorError } from '../../model/errors.ts'
import type { Origin } from '../../model/source.ts'
import { DAY_MS, dayStart, dayText } from '../../model/time.ts'
import { isListOf, storedFields } from '../shared/stored-cursor.ts'
import type { HistoryCursor } from './cursor.ts'
import type { HistoryVersion } from './step.ts'

/** UTC days, epoch ms: included, excluded. */
type Days = readonly [from: number, to: number]

/** The stretches of days of which something was kept; none of them touch. */
interface ReadVersions {
  readonly v1: readonly Days[]
  readonly v2: readonly Days[]
}

/** Where it survives a restart: a small fact in the journal. */
export interface VersionStore {
  load(): Promise<string | undefined>
  save(versions: string): Promise<void>
}

/** What is none of ours is as good as none. */
export function openVersions(text: string | undefined): ReadVersions {
  const fields = text === undefined ? undefined : storedFields(text)
  const daysOf = (version: HistoryVersion): readonly Days[] => {
    const list = fields?.[version]
    // Earlier it was one stretch, or null.
    if (isDays(list)) return [list]
    return Array.isArray(list) && list.every(isDays) ? list : []
  }
  return { v1: daysOf('v1'), v2: daysOf('v2') }
}

const isDays = (value: unknown): value is Days =>
  Array.isArray(value) && value.length === 2 && isListOf(value, Number.isFinite)

/** With the days of these entries, which are about to be kept; the same object where all of them were known. */
export function withRead(known: ReadVersions, { times }: Entries, boundaryAt: number): ReadVersions {
  let read = known
  let last = NaN
  for (const us of times) {
    const day = dayStart(us / 1000)
    if (day === last) continue
    last = day
    // As which version an entry was read follows from its time: each version ships only what lies on its side.
    const version = day < boundaryAt ? 'v1' : 'v2'
    if (!read[version].some(([from, to]) => from <= day && day < to))
      read = { ...read, [version]: joined(read[version], [day, day + DAY_MS]) }
  }
  return read
}

function joined(all: readonly Days[], [from, to]: Days): readonly Days[] {
  const touching = all.filter((one) => one[0] <= to && one[1] >= from)
  const whole: Days = [
    Math.min(from, ...touching.map((one) => one[0])),
    Math.max(to, ...touching.map((one) => one[1])),
  ]
  return [...all.filter((one) => !touching.includes(one)), whole].toSorted((a, b) => a[0] - b[0])
}

const overlap = (a: Days, [from, to]: Days): Days | undefined => {
  const both = [Math.max(a[0], from), Math.min(a[1], to)] as const
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
  const liveV1: readonly Days[] = live && live.v1To !== null ? [[live.startAt, live.v1To]] : []
  const liveV2: readonly Days[] = live && live.v2From !== null ? [[live.v2From, Infinity]] : []
  const wrong = (known: readonly Days[], days: Days) =>
    known.map((one) => overlap(one, days)).find((both) => both !== undefined)
  const wasV2 = wrong([...read.v2, ...liveV2], asV1)
  const wasV1 = wrong([...read.v1, ...liveV1], asV2)
  const [was, is, both] = wasV2 ? (['v2', 'v1', wasV2] as const) : (['v1', 'v2', wasV1] as const)
  if (!both) return
  throw new ConnectorError(
    'misconfigured',
    `${origin.source} of workspace ${origin.workspace}: days from ${dayText(both[0])} to ${dayText(both[1] - DAY_MS)} were read as ${was}, and as configured they would be read as ${is}, ` +
      'which ships each of their events again under another id: set history.v1_until as docs/sources/history.md says, or leave these days out',
  )
}
