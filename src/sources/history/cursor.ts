// What the history readers remember between two reads: one JSON value, persisted with the entries it speaks of. Pure.
import type { Cursor, SourceName } from '../../contracts/source.ts'
import { DAY_MS, dayStart, SECOND_MS, SECOND_US } from '../../core/time.ts'
import type { Fields } from '../shared.ts'
import { areNumbers, fieldsOf, isListOf, isNullOr, openStored } from '../shared.ts'
import { freshSightings, Sightings, type KeptSightings } from '../http/sightings.ts'
import { freshWidth, isWidth, type Width } from './width.ts'

/** A stretch of time that is read window by window. Instants are epoch ms. */
export interface Walk {
  readonly from: number
  readonly to: number
  /** all before is read */
  at: number
  readonly begunAt: number
  /** how often the window at `at` failed since another one was last asked for, where no narrower one can be */
  failures: number
  /** how often another one was read right after it had failed */
  proofs: number
  /** how often another one was asked for */
  elsewhere: number
  /** the window that begins here has shown nothing once */
  emptyAt?: number
  /** what its requests have taken so far, ms: pauses and what else was read meanwhile do not count */
  spentMs?: number
}

/** Windows that stayed unreadable and were passed: tried again later. */
export interface Trouble {
  from: number
  to: number
  readonly sinceAt: number
  tries: number
  dueAt: number
  /** its window that begins here has shown nothing once */
  emptyAt?: number
}

export interface HistoryCursor {
  readonly v: 1
  /** the UTC day that reading begins with */
  startAt: number
  /** nothing before this instant (µs) is shipped */
  startUs: number
  unit: 's' | 'ms'
  /** an answer proved the unit */
  unitSure: boolean
  /** epoch ms; before it an empty answer is believed */
  unitDoubtAt: number
  /** days before it are read as v1, days from it on as v2 */
  boundaryAt: number
  /** days before it have v1 rows in the journal; null: none has */
  v1To: number | null
  /** days from it on have v2 events in the journal; null: none has */
  v2From: number | null
  /** v1 rows without a readable time were met: windows of v1 are UTC days from then on */
  timeless: boolean
  /** the first UTC day that is not known to be over and read to its end */
  openDay: number
  /** live reading has read all before this instant once; null: it has not come to an end yet */
  polledTo: number | null
  live: Walk | null
  sweep: Walk | null
  /** what is to be read for the first time, oldest first */
  todo: Walk[]
  /** UTC day (its start, epoch ms, as text) to when it was last read whole and how long its requests took, ms */
  rereads: Record<string, readonly [readAt: number, tookMs: number]>
  troubles: Trouble[]
  /** `backfill`: of all that lies in the past; kept cursors have that name */
  widths: { live: Width; sweep: Width; backfill: Width }
  /** elements in the place of events, as answers showed them; absent: none was met */
  sightings?: KeptSightings
  /** epoch ms of the next poll */
  dueAt: number
  /** how far the server's clock was behind ours at its last answer, ms */
  serverBehindMs: number
  /** it is further behind than is believed, and that is told */
  clocksApart?: boolean
  /** the newest own time read so far, µs; dated in the future does not count */
  headUs: number
}

export function walkOver(from: number, to: number, now: number): Walk {
  return { from, to, at: from, begunAt: now, failures: 0, proofs: 0, elsewhere: 0 }
}

/** What was unreadable, once more: a day of it at most, and of one version. */
export function walkOverTrouble({ from, to }: Trouble, boundaryAt: number, now: number): Walk {
  return walkOver(from, Math.min(to, from + DAY_MS, from < boundaryAt ? boundaryAt : Infinity), now)
}

/** The window at `walk.at` is read, or passed. */
export function stepTo(walk: Walk, at: number): void {
  walk.at = at
  walk.failures = 0
  walk.proofs = 0
  walk.elsewhere = 0
}

/** What is read once only is asked for once more before it is believed that there is nothing. */
export function isToProveEmpty(walk: Walk): boolean {
  if (walk.emptyAt === walk.at) return false
  walk.emptyAt = walk.at
  return true
}

/** `startMs`: nothing before is wanted. */
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
    sweep: null,
    todo: startAt < today ? [walkOver(startAt, today, now)] : [],
    rereads: {},
    troubles: [],
    widths: { live: freshWidth(), sweep: freshWidth(), backfill: freshWidth() },
    dueAt: now,
    serverBehindMs: 0,
    headUs: 0,
  }
}

/** All of it is read from the start again, under what was learned meanwhile. */
export function beginAgain(cursor: HistoryCursor, now: number): void {
  const { startAt, startUs, boundaryAt, unit, unitSure, timeless, v1To, v2From, unitDoubtAt } = cursor
  const learned = { startAt, startUs, unit, unitSure, timeless, v1To, v2From, unitDoubtAt }
  Object.assign(cursor, freshHistoryCursor(now, startAt, boundaryAt), learned)
}

/** Reading has shown nothing yet and begins elsewhere: at `startMs`. */
export function startAnew(cursor: HistoryCursor, now: number, startMs: number): void {
  const { startAt, startUs } = freshHistoryCursor(now, startMs, cursor.boundaryAt)
  cursor.startAt = startAt
  beginAgain(cursor, now)
  cursor.startUs = startUs
}

/** A copy that a step may change freely. Throws ConnectorError `journal_corrupt` where it is damaged or not of our version. */
export function openHistoryCursor(cursor: Cursor, workspace: string, source: SourceName): HistoryCursor {
  return openStored(cursor, { workspace, source, isWhole, upgrade })
}

/** What an earlier build of 0.1.0 knew of failing windows is left out. */
function upgrade(fields: Fields): Fields {
  const { live, sweep, todo, widths } = fields
  return {
    ...fields,
    live: upgradedWalk(live),
    sweep: upgradedWalk(sweep),
    todo: Array.isArray(todo) ? todo.map(upgradedWalk) : todo,
    widths: Object.fromEntries(
      Object.entries(fieldsOf(widths) ?? {}).map(([name, width]) => [name, upgradedWidth(width)]),
    ),
  }
}

function upgradedWalk(walk: unknown): unknown {
  if (!areNumbers(walk, 'failures', 'stuck', 'doubts')) return walk
  const { from, to, at, begunAt, emptyAt } = walk as Fields
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

/** Nothing before is shipped, µs. A row without a time is dated with its day, which may begin before the start does. */
export const shippableFromUs = ({ timeless, startAt, startUs }: HistoryCursor): number =>
  timeless ? startAt * 1000 : startUs

/** Nothing of it is wanted. */
export const isBeforeStart = (cursor: HistoryCursor, { to }: Pick<Trouble, 'to'>): boolean =>
  to * 1000 <= shippableFromUs(cursor)

/** What it learns is kept with the cursor. */
export const sightingsOf = (cursor: HistoryCursor): Sightings =>
  new Sightings((cursor.sightings ??= freshSightings()))

export function closeHistoryCursor(cursor: HistoryCursor): Cursor {
  return JSON.stringify(cursor)
}

const isWalk = (value: unknown) =>
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
    isNullOr(fields['live'], isWalk) &&
    isNullOr(fields['sweep'], isWalk) &&
    isListOf(fields['todo'], isWalk) &&
    isListOf(fields['troubles'], isTrouble) &&
    (fields['sightings'] === undefined || isSightings(fields['sightings'])) &&
    fieldsOf(fields['rereads']) !== undefined &&
    Object.values(fields['rereads'] as object).every((read) => isListOf(read, Number.isFinite)) &&
    ['live', 'sweep', 'backfill'].every((name) => isWidth(widths?.[name]))
  )
}
