// Decides what part of the history is read next, and when: the open day at every interval,
// the last days again for late entries, the past with spare permits.
import { believed } from '../../core/clock.ts'
import type { Priority, Plan } from '../../contracts/source.ts'
import { DAY_MS, dayStart, HOUR_MS, MINUTE_MS } from '../../core/time.ts'
import type { HistoryCursor, RangeRead } from './cursor.ts'
import { rangeReadOver, rangeReadOfTrouble } from './cursor.ts'
import type { HistoryOptions, Task } from './step.ts'

/** A day is read again when half of its age has passed since the last read, within these bounds. */
const REREAD_MIN_MS = 30 * MINUTE_MS
export const REREAD_MAX_MS = 6 * HOUR_MS
/** Slow reads are repeated less often: at most this share of the time is spent on them. */
const MAX_REREAD_SHARE = 1 / 10

type Kind = Task['kind']
type Due = readonly [kind: Kind, dueAt: number]

const priorityOf: Readonly<Record<Kind, Priority>> = {
  live: 'live',
  lookback: 'lookback',
  todo: 'job',
  trouble: 'job',
}

/**
 * What comes next and when, epoch ms. Among due reads with a permit, live reading comes first and
 * the past last (invariant 5).
 */
export function nextDue(options: HistoryOptions, cursor: HistoryCursor): Due {
  const { client, clock } = options
  const now = clock.now()
  const when = (kind: Kind, dueAt: number): Due => [
    kind,
    dueAt > now ? dueAt : Math.max(dueAt, client.announce(priorityOf[kind])),
  ]
  const { live, lookback, todo } = cursor
  const others: readonly Due[] = [
    when('lookback', lookback ? now : (nextReread(options, cursor, now)?.dueAt ?? Infinity)),
    when('todo', todo.length > 0 ? now : Infinity),
    when('trouble', troubleDueAt(cursor, now)),
  ]
  const poll: Due = ['live', live ? now : believed(cursor.dueAt, options.intervalMs, now)]
  const other = others.find(([, dueAt]) => dueAt <= now) ?? others.reduce((a, b) => (b[1] < a[1] ? b : a))
  // The read with the earlier permit goes first: some permits are reserved for others than live.
  const liveAt = poll[1] > now ? poll[1] : Math.max(now, client.freeAt('live'))
  return Math.max(now, other[1]) < liveAt ? other : poll
}

export function planOf(options: HistoryOptions, cursor: HistoryCursor): Plan {
  const [kind, dueAt] = nextDue(options, cursor)
  return { dueAt, priority: priorityOf[kind], caughtUp: isCaughtUp(cursor) }
}

/**
 * What a single run still has to read: first what was never read, oldest first, then the open day,
 * then repeated reads that are due. Undefined: nothing.
 */
export function nextOnce(options: HistoryOptions, cursor: HistoryCursor): Kind | undefined {
  const now = options.clock.now()
  const { live, polledTo, lookback, todo } = cursor
  if (todo.length > 0) return 'todo'
  if (live || polledTo === null) return 'live'
  if (lookback || (nextReread(options, cursor, now)?.dueAt ?? Infinity) <= now) return 'lookback'
  return troubleDueAt(cursor, now) <= now ? 'trouble' : undefined
}

export const isCaughtUp = (cursor: HistoryCursor): boolean =>
  cursor.polledTo !== null && cursor.live === null && cursor.todo.length === 0

const TROUBLE_MAX_MS = 6 * HOUR_MS
const TROUBLE_FIRST_MS = 15 * MINUTE_MS

export function troubleDelayMs(tries: number): number {
  return Math.min(TROUBLE_FIRST_MS * 2 ** tries, TROUBLE_MAX_MS)
}

/** @internal for tests */
export function troubleDueAt({ troubles }: HistoryCursor, now: number): number {
  const dues = troubles.map(({ dueAt }) => believed(dueAt, TROUBLE_MAX_MS, now))
  return Math.min(Infinity, ...dues)
}

interface Reread {
  readonly day: number
  readonly dueAt: number
}

/** The trailing day that is to be read again first. */
function nextReread(options: HistoryOptions, cursor: HistoryCursor, now: number): Reread | undefined {
  let first: Reread | undefined
  for (const day of daysToReread(options, cursor, now)) {
    if (cursor.todo.some(({ at, to }) => at < day + DAY_MS && to > day)) continue
    const dueAt = rereadDueAt(cursor, day, now)
    if (first === undefined || dueAt < first.dueAt) first = { day, dueAt }
  }
  return first
}

function* daysToReread(options: HistoryOptions, cursor: HistoryCursor, now: number): Generator<number> {
  const newest = Math.min(cursor.openDay, dayStart(now)) - DAY_MS
  const oldest = Math.max(cursor.startAt, dayStart(now - options.lookbackMs))
  for (let day = newest; day >= oldest; day -= DAY_MS) yield day
  for (const day of Object.keys(cursor.rereads).map(Number))
    if (day < oldest && day >= cursor.startAt && isMissed(options, cursor, day, now)) yield day
}

/**
 * It was due but not read, because the daemon was down or reads failed: it is made up for while its
 * dedup keys are kept.
 */
function isMissed(
  { lookbackMs, keepKeysMs }: HistoryOptions,
  cursor: HistoryCursor,
  day: number,
  now: number,
): boolean {
  return rereadDueAt(cursor, day, now) <= day + DAY_MS + lookbackMs && day >= now - keepKeysMs + DAY_MS
}

function rereadDueAt({ rereads }: HistoryCursor, day: number, now: number): number {
  const [readAt, tookMs] = rereads[String(day)] ?? [-Infinity, 0]
  // A read time in the future comes from a clock that has since been set back.
  if (readAt > now) return now
  const ageMs = readAt - (day + DAY_MS)
  const paceMs = Math.min(Math.max(ageMs / 2, REREAD_MIN_MS), REREAD_MAX_MS)
  return readAt + Math.max(paceMs, Math.min(tookMs / MAX_REREAD_SHARE, DAY_MS))
}

/** The task of a kind; begins it if it is not under way. */
export function taskOf(options: HistoryOptions, cursor: HistoryCursor, kind: Kind): Task | undefined {
  const now = options.clock.now()
  const { widths } = cursor
  const priority = options.once ? 'live' : priorityOf[kind]
  switch (kind) {
    case 'live':
      return { kind, priority, rangeRead: (cursor.live ??= beginLive(cursor, now)), width: widths.live }
    case 'lookback': {
      const day = nextReread(options, cursor, now)?.day
      if (day !== undefined) cursor.lookback ??= rangeReadOver(day, day + DAY_MS, now)
      return cursor.lookback
        ? { kind, priority, rangeRead: cursor.lookback, width: widths.lookback }
        : undefined
    }
    case 'todo': {
      const rangeRead = cursor.todo[0]
      return rangeRead && { kind, priority, rangeRead, width: widths.backfill }
    }
    case 'trouble': {
      const rangeRead = troubleRead(cursor, now)
      return rangeRead && { kind, priority, rangeRead, width: widths.backfill }
    }
  }
}

/**
 * From the first day that is not completely read; after a long downtime only from yesterday, and
 * the rest counts as the past.
 */
export function beginLive(cursor: HistoryCursor, now: number): RangeRead {
  const today = dayStart(now)
  // A day after today was read under a clock that was since set back: it may be incomplete.
  if (cursor.openDay > today) cursor.openDay = today
  const yesterday = today - DAY_MS
  if (cursor.openDay < yesterday) {
    cursor.todo.push(rangeReadOver(cursor.openDay, yesterday, now))
    cursor.openDay = yesterday
  }
  return rangeReadOver(cursor.openDay, Math.max(now, cursor.openDay + 1), now)
}

/** The trouble that is due first. */
function troubleRead({ troubles, boundaryAt }: HistoryCursor, now: number): RangeRead | undefined {
  const [first] = troubles.toSorted((a, b) => a.dueAt - b.dueAt)
  return first && rangeReadOfTrouble(first, boundaryAt, now)
}

/** A read of a range has ended. */
export function endRangeRead(
  options: HistoryOptions,
  cursor: HistoryCursor,
  { kind, rangeRead }: Task,
): void {
  const { clock, intervalMs, reporter } = options
  const now = clock.now()
  recordRead(options, cursor, rangeRead, now)
  if (kind === 'lookback') cursor.lookback = null
  if (kind === 'todo') cursor.todo = cursor.todo.filter((other) => other !== rangeRead)
  if (kind === 'live') {
    cursor.live = null
    // Instants that the server's clock has not reached cannot be read yet.
    cursor.polledTo = rangeRead.to - cursor.serverBehindMs
    cursor.openDay = Math.max(dayStart(cursor.polledTo), Math.min(cursor.startAt, dayStart(now)))
    // Counted from its start: a read that a pause delayed for hours read only up to then. Lookback
    // and jobs still get their turn.
    cursor.dueAt = Math.max(rangeRead.begunAt + intervalMs, now + Math.min(intervalMs, MINUTE_MS))
  }
  // Under a clock far ahead, days in the future were requested, so the empty answer proves nothing.
  if ((kind === 'live' || kind === 'todo') && isCaughtUp(cursor) && cursor.clocksApart !== true)
    reporter.caughtUp()
}

/** Records when each lookback day was last completely read, and its share of the duration. */
function recordRead(options: HistoryOptions, cursor: HistoryCursor, rangeRead: RangeRead, now: number): void {
  const { from, to, spentMs = 0 } = rangeRead
  const tookMs = Math.round((spentMs * DAY_MS) / Math.max(DAY_MS, to - from))
  for (let day = dayStart(from); day + DAY_MS <= to; day += DAY_MS)
    if (day >= from) cursor.rereads[String(day)] = [now, tookMs]
  const oldest = dayStart(now - options.lookbackMs)
  const isToReread = (day: number) =>
    day < dayStart(now) && (day >= oldest || isMissed(options, cursor, day, now))
  const days = Object.entries(cursor.rereads).filter(([day]) => isToReread(Number(day)))
  cursor.rereads = Object.fromEntries(days)
}
