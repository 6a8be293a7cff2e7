// How far a walk over a span of the history's past is: a history cursor of its own, kept with what it speaks of. Pure.
import type { PastSpan, Unread } from '../../model/past.ts'
import type { Cursor, Origin } from '../../model/source.ts'
import { DAY_MS, dayStart } from '../../model/time.ts'
import { areNumbers, isListOf } from '../shared/stored-cursor.ts'
import type { HistoryCursor, Walk } from './cursor.ts'
import { freshHistoryCursor, openHistoryCursor, walkOver, walkOverTrouble } from './cursor.ts'
import type { Task } from './step.ts'

/** epoch ms */
interface SpanMs {
  readonly from: number
  to: number
}

/** Of a cursor `todo`, `troubles` and what was learned are used; nothing of it is live. */
export interface HistoryPlace extends HistoryCursor {
  /** what the API refused with a 400, oldest first; neighbours are one */
  refused: SpanMs[]
}

/** What stayed unreadable is tried again so often once all else is read; after that it is told. */
const LAST_TRIES = 2

/** What live reading knows of this API is not found out once more. */
export function freshPlace(
  span: PastSpan,
  live: HistoryCursor | undefined,
  boundaryAt: number,
  now: number,
): HistoryPlace {
  const from = Math.floor(span.fromUs / 1000)
  const fresh = freshHistoryCursor(now, from, boundaryAt)
  const { unit, unitSure, timeless } = live ?? fresh
  return {
    ...fresh,
    unit,
    unitSure,
    timeless,
    startUs: span.fromUs,
    todo: [wholeWalk(span, now)],
    refused: [],
  }
}

/** All of the span, from its beginning. */
export function wholeWalk({ fromUs, toUs }: PastSpan, now: number): Walk {
  return walkOver(Math.floor(fromUs / 1000), Math.ceil(toUs / 1000), now)
}

/** A copy that a step may change freely; undefined: not begun, or none of ours, and then it begins again. */
export function openPlace(text: Cursor | undefined, origin: Origin): HistoryPlace | undefined {
  if (text === undefined) return undefined
  try {
    const place = openHistoryCursor(text, origin.workspace, origin.source) as HistoryCursor &
      Partial<HistoryPlace>
    return isListOf(place.refused, (one) => areNumbers(one, 'from', 'to'))
      ? (place as HistoryPlace)
      : undefined
  } catch {
    return undefined
  }
}

export const isDone = (place: HistoryPlace): boolean =>
  place.todo.length === 0 && toTryAgain(place) === undefined

const toTryAgain = ({ troubles }: HistoryPlace) => troubles.find(({ tries }) => tries < LAST_TRIES)

/** What is read next: the span, then once more what of it was unreadable. */
export function taskOf(place: HistoryPlace, now: number): Task | undefined {
  const common = { lane: 'past', width: place.widths.backfill } as const
  const [walk] = place.todo
  if (walk) return { ...common, kind: 'todo', walk }
  const trouble = toTryAgain(place)
  return trouble && { ...common, kind: 'trouble', walk: walkOverTrouble(trouble, place.boundaryAt, now) }
}

/** True where it does not follow on what was refused before: a possible gap of its own. */
export function noteRefused({ refused }: HistoryPlace, { from, to }: Readonly<SpanMs>): boolean {
  const last = refused.at(-1)
  if (last?.to === from) {
    last.to = to
    return false
  }
  refused.push({ from, to })
  return true
}

/** What of the span was not read whole, so far as it is known to stay so. */
export function unreadOf(place: HistoryPlace | undefined): readonly Unread[] {
  if (!place) return []
  const unread = (why: Unread['why']) => (one: Readonly<SpanMs>) => ({
    fromUs: one.from * 1000,
    toUs: one.to * 1000,
    why,
  })
  const all = [...place.refused.map(unread('refused')), ...place.troubles.map(unread('unreadable'))]
  return all.toSorted((a, b) => a.fromUs - b.fromUs)
}

/** The UTC days that it touches, epoch ms: included, excluded. */
export function touchedDays({ fromUs, toUs }: PastSpan): readonly [from: number, to: number] {
  return [dayStart(fromUs / 1000), dayStart(toUs / 1000 - 0.001) + DAY_MS]
}
