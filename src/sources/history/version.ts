// Decides in which version of the history API a day is read, so that no day is read in both,
// even across a change of the configuration.
import { hash } from 'node:crypto'
import type { Entries } from '../../contracts/entries.ts'
import type { Stream } from '../../contracts/source.ts'
import { ConnectorError } from '../../core/errors.ts'
import { memberValue } from '../../core/json.ts'
import { DAY_MS, dayStart, dayText } from '../../core/time.ts'
import { Ordinals } from '../http/ordinals.ts'
import { isListOf, storedFields } from '../shared.ts'
import type { Moment, Naming } from '../splitter/entries-builder.ts'
import { rangeReadOver } from './cursor.ts'
import type { HistoryCursor } from './cursor.ts'
import type { HistoryOptions, HistoryVersion } from './step.ts'

/** The boundary if everything is read as v1: every day is before it. */
const NEVER = Number.MAX_SAFE_INTEGER

/** Earlier days are read as v1, days from it on as v2; epoch ms. */
export function boundaryOf({ version, v1Until }: Pick<HistoryOptions, 'version' | 'v1Until'>): number {
  return version === 'v1' ? NEVER : (v1Until ?? 0)
}

export function versionAt(cursor: HistoryCursor, at: number): HistoryVersion {
  return at < cursor.boundaryAt ? 'v1' : 'v2'
}

/**
 * Applies the configured boundary to the cursor. Days that change their version and have nothing in
 * the journal are read again. Throws ConnectorError `misconfigured` if a day would be delivered in
 * both.
 */
export function adoptBoundary(cursor: HistoryCursor, options: HistoryOptions): void {
  const boundaryAt = boundaryOf(options)
  const { v1To, v2From, boundaryAt: before } = cursor
  if (boundaryAt === before) return
  const tooEarly = v1To !== null && v1To > boundaryAt
  const tooLate = v2From !== null && v2From < boundaryAt
  if (tooEarly || tooLate) throw new ConnectorError('misconfigured', whatToWrite(cursor, options, tooEarly))
  cursor.boundaryAt = boundaryAt
  const from = Math.max(cursor.startAt, Math.min(before, boundaryAt))
  const to = Math.min(cursor.openDay, Math.max(before, boundaryAt))
  const now = options.clock.now()
  // Each read may be past days that change their version, the live one even past the open day.
  if (cursor.live) cursor.live = rangeReadOver(cursor.live.from, cursor.live.to, now)
  cursor.lookback = null
  if (from >= to) return
  // An existing read may be anywhere in it, so all of it is read again; dedup removes repeats.
  cursor.todo = [...cursor.todo, rangeReadOver(from, to, now)].sort((a, b) => a.at - b.at)
}

function whatToWrite(
  { v1To, v2From }: HistoryCursor,
  { version, stream }: HistoryOptions,
  tooEarly: boolean,
): string {
  const read = tooEarly
    ? `days up to ${dayText((v1To ?? 0) - DAY_MS)} were read as v1`
    : `days from ${dayText(v2From ?? 0)} on were read as v2`
  const until = tooEarly
    ? ` and v1_until: ${dayText(v1To ?? 0)} (or a later day)`
    : v1To === null
      ? ''
      : ` and v1_until: ${dayText(v2From ?? 0)}`
  return (
    `${stream.source} of workspace ${stream.workspace}: ${read}, and with version: ${version} as configured they would be read as the other version too, ` +
    `which delivers each of their events again under another id: set version: v2${until} under history, as docs/sources/history.md says`
  )
}

/** Entries of this window are about to be stored. True if the cursor must record that first. */
export function recordVersion(cursor: HistoryCursor, from: number, to: number): boolean {
  const { v1To, v2From } = cursor
  if (versionAt(cursor, from) === 'v1')
    cursor.v1To = Math.max(v1To ?? 0, Math.min(dayStart(to - 1) + DAY_MS, cursor.boundaryAt))
  else cursor.v2From = Math.min(v2From ?? Infinity, dayStart(from))
  return cursor.v1To !== v1To || cursor.v2From !== v2From
}

// Records which days backfills read in which version, so that no day is stored in both.

/** UTC days, epoch ms: inclusive, exclusive. */
type Days = readonly [from: number, to: number]

/** The ranges of days with something stored; none of them touch. */
interface ReadVersions {
  readonly v1: readonly Days[]
  readonly v2: readonly Days[]
}

/** A state entry in the journal, so that it survives a restart. */
export interface VersionStore {
  load(): Promise<string | undefined>
  save(versions: string): Promise<void>
}

/** Text in another format counts as none. */
export function openVersions(text: string | undefined): ReadVersions {
  const fields = text === undefined ? undefined : storedFields(text)
  const daysOf = (version: HistoryVersion): readonly Days[] => {
    const list = fields?.[version]
    // An earlier build stored one range, or null.
    if (isDays(list)) return [list]
    return Array.isArray(list) && list.every(isDays) ? list : []
  }
  return { v1: daysOf('v1'), v2: daysOf('v2') }
}

const isDays = (value: unknown): value is Days =>
  Array.isArray(value) && value.length === 2 && isListOf(value, Number.isFinite)

/** Adds the days of entries about to be stored; returns the same object if all were known. */
export function withRead(known: ReadVersions, { times }: Entries, boundaryAt: number): ReadVersions {
  let read = known
  let last = NaN
  for (const us of times) {
    const day = dayStart(us / 1000)
    if (day === last) continue
    last = day
    // The time of an entry determines its version: each version delivers only entries on its side.
    const version = day < boundaryAt ? 'v1' : 'v2'
    if (!read[version].some(([from, to]) => from <= day && day < to))
      read = { ...read, [version]: joined(read[version], [day, day + DAY_MS]) }
  }
  return read
}

function joined(all: readonly Days[], [from, to]: Days): readonly Days[] {
  const touching = all.filter((one) => one[0] <= to && one[1] >= from)
  const union: Days = [
    Math.min(from, ...touching.map((one) => one[0])),
    Math.max(to, ...touching.map((one) => one[1])),
  ]
  return [...all.filter((one) => !touching.includes(one)), union].toSorted((a, b) => a[0] - b[0])
}

const overlap = (a: Days, [from, to]: Days): Days | undefined => {
  const both = [Math.max(a[0], from), Math.min(a[1], to)] as const
  return both[0] < both[1] ? both : undefined
}

/**
 * `boundaryAt`: earlier days would be read as v1, later ones as v2. Throws ConnectorError
 * `misconfigured` if one of these days was stored in the other version, by live reading or by a
 * backfill.
 */
export function checkVersions(
  stream: Stream,
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
    `${stream.source} of workspace ${stream.workspace}: days from ${dayText(both[0])} to ${dayText(both[1] - DAY_MS)} were read as ${was}, and with this configuration they would be read as ${is}, ` +
      'the other version of the API, which would deliver each of their events a second time under another id: set history.v1_until as docs/sources/history.md says, or leave these days out',
  )
}

// Rows of version 1 of the history have no id: it is derived from the row's bytes, its day if it
// has no time, and the number of equal rows before it in its window (invariant 8).

/** Bytes of a row's SHA-256 in its id. */
const HASH_BYTES = 16

/** Columns that the specification names for version 1 rows; a row may have any of them. */
const COLUMNS = ['Task', 'Client Matter #', 'Documents', 'email', 'source'] as const

/** Derives the ids of the rows of one answer. */
export class RowNaming implements Naming {
  /** rows without a readable time that were left out, because their window is no day */
  omitted = 0
  readonly #ordinals = new Ordinals()
  readonly #day: Moment | undefined

  /** `dayAt`: epoch ms of the UTC day of the window, if it is a day. */
  constructor(dayAt: number | undefined) {
    if (dayAt !== undefined)
      this.#day = {
        text: Buffer.from(new Date(dayAt).toISOString().replace('.000Z', 'Z')),
        at: dayAt * 1000,
      }
  }

  /** Rows without a time may be equal on every day, so the day is part of their id. */
  id(bytes: Uint8Array, start: number, end: number, dated?: Moment): Uint8Array {
    const row = bytes.subarray(start, end)
    const named = dated === undefined ? row : Buffer.concat([row, dated.text])
    const digest = hash('sha256', named, 'buffer').subarray(0, HASH_BYTES)
    const ordinal = this.#ordinals.next(digest.readUInt32LE(0), digest.readUInt32LE(4))
    return Buffer.from(`${digest.toString('hex')}-${ordinal}`, 'latin1')
  }

  /** A row has a documented column (spec §2.4). Anything else may be an API error. */
  untimed(bytes: Uint8Array, start: number, end: number): Moment | undefined | 'no_entry' {
    const row = bytes.subarray(start, end)
    if (memberValue(row, 'error') !== undefined) return 'no_entry'
    if (COLUMNS.every((column) => memberValue(row, column) === undefined)) return 'no_entry'
    if (this.#day === undefined) this.omitted++
    return this.#day
  }
}
