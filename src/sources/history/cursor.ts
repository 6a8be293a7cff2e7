// What the history readers remember between two reads: one JSON value, stored in the transaction of
// the entries. Pure.
import type { Cursor, SourceName } from '../../contracts/source.ts'
import { DAY_MS, dayStart, SECOND_MS, SECOND_US } from '../../core/time.ts'
import type { Fields } from '../shared.ts'
import { areNumbers, fieldsOf, isListOf, isNullOr, openStored } from '../shared.ts'
import { freshSightings, Sightings, type StoredSightings } from '../http/sightings.ts'
import { freshWidth, isWidth, type Width } from './width.ts'

/** A time span that is read window by window. Instants are epoch ms. */
export interface RangeRead {
  readonly from: number
  readonly to: number
  /** everything before this is read */
  at: number
  readonly begunAt: number
  /** failures of the window at `at` since another was requested, if no narrower one is possible */
  failures: number
  /** how often another window was read right after it had failed */
  proofs: number
  /** how often another window was requested */
  elsewhere: number
  /** the window that begins here was empty once */
  emptyAt?: number
  /** time that its requests took so far, ms, without pauses and other reads */
  spentMs?: number
}

/** An unreadable window that was skipped, to be retried later. */
export interface Trouble {
  from: number
  to: number
  readonly sinceAt: number
  tries: number
  dueAt: number
  /** its window that begins here was empty once */
  emptyAt?: number
}

export interface HistoryCursor {
  readonly v: 1
  /** the UTC day on which reading begins */
  startAt: number
  /** nothing before this instant (µs) is delivered */
  startUs: number
  unit: 's' | 'ms'
  /** an answer has proved the unit */
  unitSure: boolean
  /** epoch ms: until then an empty answer is not checked in the other unit */
  unitDoubtAt: number
  /** earlier days are read as v1, days from it on as v2 */
  boundaryAt: number
  /** earlier days have v1 rows in the journal; null: no day has */
  v1To: number | null
  /** days from it on have v2 events in the journal; null: no day has */
  v2From: number | null
  /** v1 rows without a readable time were seen: from then on windows of v1 are UTC days */
  timeless: boolean
  /** the first UTC day that is not known to be over and completely read */
  openDay: number
  /** live reading has read everything before this instant once; null: it has not finished yet */
  polledTo: number | null
  live: RangeRead | null
  lookback: RangeRead | null
  /** spans to be read for the first time, oldest first */
  todo: RangeRead[]
  /** UTC day (start, epoch ms) to its last complete read and the time of its requests, ms */
  rereads: Record<string, readonly [readAt: number, tookMs: number]>
  troubles: Trouble[]
  /** `backfill`: for all of the past; stored cursors use that name */
  widths: { live: Width; lookback: Width; backfill: Width }
  /** elements instead of events, as seen in answers; absent: none */
  sightings?: StoredSightings
  /** epoch ms of the next poll */
  dueAt: number
  /** how far the server's clock was behind ours in its last answer, ms */
  serverBehindMs: number
  /** the difference is larger than we believe, and a warning reports it */
  clocksApart?: boolean
  /** newest own time read so far, µs; future-dated entries do not count */
  headUs: number
}

export function rangeReadOver(from: number, to: number, now: number): RangeRead {
  return { from, to, at: from, begunAt: now, failures: 0, proofs: 0, elsewhere: 0 }
}

/** Retries an unreadable span: at most one day of it, and of one version. */
export function rangeReadOfTrouble({ from, to }: Trouble, boundaryAt: number, now: number): RangeRead {
  return rangeReadOver(from, Math.min(to, from + DAY_MS, from < boundaryAt ? boundaryAt : Infinity), now)
}

/** The window at `rangeRead.at` is read, or skipped. */
export function stepTo(rangeRead: RangeRead, at: number): void {
  rangeRead.at = at
  rangeRead.failures = 0
  rangeRead.proofs = 0
  rangeRead.elsewhere = 0
}

/** A span that is read only once is requested again before an empty answer is believed. */
export function isToProveEmpty(rangeRead: RangeRead): boolean {
  if (rangeRead.emptyAt === rangeRead.at) return false
  rangeRead.emptyAt = rangeRead.at
  return true
}

/** `startMs`: nothing earlier is wanted. */
export function freshHistoryCursor(now: number, startMs: number, boundaryAt: number): HistoryCursor {
  const startAt = dayStart(startMs)
  const today = dayStart(now)
  return {
    v: 1,
    startAt,
    // Event times have whole seconds (spec §2.3).
    startUs: Math.floor(startMs / SECOND_MS) * SECOND_US,
    unit: 's',
    unitSure: false,
    unitDoubtAt: 0,
    boundaryAt,
    v1To: null,
    v2From: null,
    timeless: false,
    openDay: today,
    polledTo: null,
    live: null,
    lookback: null,
    todo: startAt < today ? [rangeReadOver(startAt, today, now)] : [],
    rereads: {},
    troubles: [],
    widths: { live: freshWidth(), lookback: freshWidth(), backfill: freshWidth() },
    dueAt: now,
    serverBehindMs: 0,
    headUs: 0,
  }
}

/** Reads everything from the start again, with what was learned in between. */
export function restart(cursor: HistoryCursor, now: number): void {
  const { startAt, startUs, boundaryAt, unit, unitSure, timeless, v1To, v2From, unitDoubtAt } = cursor
  const learned = { startAt, startUs, unit, unitSure, timeless, v1To, v2From, unitDoubtAt }
  Object.assign(cursor, freshHistoryCursor(now, startAt, boundaryAt), learned)
}

/** Reading has found nothing yet and restarts at `startMs`. */
export function restartAt(cursor: HistoryCursor, now: number, startMs: number): void {
  const { startAt, startUs } = freshHistoryCursor(now, startMs, cursor.boundaryAt)
  cursor.startAt = startAt
  restart(cursor, now)
  cursor.startUs = startUs
}

/** A copy that a step may change. Throws ConnectorError `journal_corrupt` if it cannot be read. */
export function openHistoryCursor(cursor: Cursor, workspace: string, source: SourceName): HistoryCursor {
  return openStored(cursor, { workspace, source, isWhole, upgrade })
}

/** 0.1.0 had another name for the lookback; an earlier build of it stored more about failing windows. */
function upgrade({ sweep, ...fields }: Fields): Fields {
  const { live, lookback = sweep, todo, widths } = fields
  return {
    ...fields,
    live: upgradedRangeRead(live),
    lookback: upgradedRangeRead(lookback),
    todo: Array.isArray(todo) ? todo.map(upgradedRangeRead) : todo,
    widths: Object.fromEntries(
      Object.entries(fieldsOf(widths) ?? {}).map(([name, width]) => [
        name === 'sweep' ? 'lookback' : name,
        upgradedWidth(width),
      ]),
    ),
  }
}

function upgradedRangeRead(rangeRead: unknown): unknown {
  if (!areNumbers(rangeRead, 'failures', 'stuck', 'doubts')) return rangeRead
  const { from, to, at, begunAt, emptyAt } = rangeRead as Fields
  return {
    from,
    to,
    at,
    begunAt,
    failures: 0,
    proofs: 0,
    elsewhere: 0,
    ...(emptyAt !== undefined && { emptyAt }),
  }
}

const upgradedWidth = (width: unknown): unknown =>
  areNumbers(width, 'ms', 'good') && !Object.hasOwn(width as Fields, 'failedTo') ? freshWidth() : width

/** Nothing earlier is delivered, µs. A row without a time is dated with its day's start. */
export const deliverableFromUs = ({ timeless, startAt, startUs }: HistoryCursor): number =>
  timeless ? startAt * 1000 : startUs

/** Nothing of it is wanted. */
export const isBeforeStart = (cursor: HistoryCursor, { to }: Pick<Trouble, 'to'>): boolean =>
  to * 1000 <= deliverableFromUs(cursor)

/** Its state is stored with the cursor. */
export const sightingsOf = (cursor: HistoryCursor): Sightings =>
  new Sightings((cursor.sightings ??= freshSightings()))

export function closeHistoryCursor(cursor: HistoryCursor): Cursor {
  return JSON.stringify(cursor)
}

const isRangeRead = (value: unknown) =>
  areNumbers(value, 'from', 'to', 'at', 'begunAt', 'failures', 'proofs', 'elsewhere')
const isTrouble = (value: unknown) => areNumbers(value, 'from', 'to', 'sinceAt', 'tries', 'dueAt')
const isSightings = (value: unknown) => {
  const fields = fieldsOf(value)
  return (
    isListOf(fields?.['elements'], (one) => areNumbers(one, 'from', 'to', 'times')) &&
    isListOf(fields?.['spans'], (one) => areNumbers(one, 'from', 'to', 'good', 'times'))
  )
}

function isWhole(fields: Fields): fields is Fields & HistoryCursor {
  const widths = fieldsOf(fields['widths'])
  const numbers = ['startAt', 'startUs', 'unitDoubtAt', 'boundaryAt', 'openDay', 'dueAt', 'serverBehindMs']
  return (
    areNumbers(fields, ...numbers, 'headUs') &&
    (fields['unit'] === 's' || fields['unit'] === 'ms') &&
    typeof fields['unitSure'] === 'boolean' &&
    typeof fields['timeless'] === 'boolean' &&
    ['v1To', 'v2From', 'polledTo'].every((name) => isNullOr(fields[name], Number.isFinite)) &&
    isNullOr(fields['live'], isRangeRead) &&
    isNullOr(fields['lookback'], isRangeRead) &&
    isListOf(fields['todo'], isRangeRead) &&
    isListOf(fields['troubles'], isTrouble) &&
    (fields['sightings'] === undefined || isSightings(fields['sightings'])) &&
    fieldsOf(fields['rereads']) !== undefined &&
    Object.values(fields['rereads'] as object).every((read) => isListOf(read, Number.isFinite)) &&
    ['live', 'lookback', 'backfill'].every((name) => isWidth(widths?.[name]))
  )
}
