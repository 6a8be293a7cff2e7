// The unit of start_time and end_time is unspecified (spec §4.2): seconds until an answer proves
// otherwise, then milliseconds.
import type { Priority } from '../../contracts/source.ts'
import { ConnectorError } from '../../core/errors.ts'
import type { Log } from '../../core/log.ts'
import { DAY_MS, HOUR_MS, MINUTE_MS, SECOND_MS, dayStart } from '../../core/time.ts'
import { withNextStep } from '../http/reply.ts'
import { restart } from './cursor.ts'
import type { HistoryCursor } from './cursor.ts'
import type { Parts, Step } from './step.ts'
import { RowNaming } from './version.ts'
import { ask, isAboutWindow, readWindow } from './window.ts'
import type { Reading, Window } from './window.ts'

/** Until an answer has events, an empty one is checked in the other unit, and not again for so long. */
const UNIT_CHECK_MS = HOUR_MS
/** No row can be this far ahead of today. */
const FUTURE_DAY_MS = 7 * DAY_MS

const otherThan = (unit: HistoryCursor['unit']): HistoryCursor['unit'] => (unit === 's' ? 'ms' : 's')

export const isRefused = (error: unknown): error is ConnectorError =>
  error instanceof ConnectorError && error.code === 'bad_request'

/**
 * Reads the window in the known unit; on a 400 with an unproven unit, in the other one. Throws
 * ConnectorError `bad_request` if neither is accepted.
 */
export async function* readInUnits(
  step: Step,
  window: Window,
  priority: Priority,
  headUs: number | undefined,
): Parts<Reading> {
  const { cursor } = step
  const { unit } = cursor
  try {
    return provingUnit(cursor, yield* readWindow(step, window, priority, headUs))
  } catch (error) {
    if (!isRefused(error) || cursor.unitSure) throw error
    cursor.unit = otherThan(unit)
    try {
      return provingUnit(cursor, yield* readWindow(step, window, priority, headUs))
    } catch (second) {
      cursor.unit = unit
      if (!isRefused(second)) throw second
      const message = `${error.message}, with times in seconds as well as in milliseconds`
      throw new ConnectorError('bad_request', message, { cause: error })
    }
  }
}

function provingUnit(cursor: HistoryCursor, reading: Reading): Reading {
  if (reading.elements > 0) cursor.unitSure = true
  return reading
}

/**
 * For an empty answer of a server that has shown nothing yet: if the other unit shows events of
 * this window, that is the unit, and everything is read again from the start. Returns true in that
 * case. `isLast`: no later read of this window is planned, so it is checked now.
 */
export async function switchesUnit(
  step: Step,
  window: Window,
  priority: Priority,
  isLast: boolean,
): Promise<boolean> {
  const { cursor, options } = step
  const now = options.clock.now()
  if (cursor.unitSure || (cursor.unitDoubtAt > now && !isLast)) return false
  cursor.unitDoubtAt = now + UNIT_CHECK_MS
  const unit = otherThan(cursor.unit)
  if (!(await showsWindow(step, window, unit, priority))) return false
  options.log.info('The history API uses another unit of time than assumed; reading again', { unit })
  cursor.unit = unit
  cursor.unitSure = true
  restart(cursor, now)
  return true
}

/**
 * Stores nothing. Only events within the window count: a server that cannot read the times may send
 * anything. Rows without a time count if the same request for a future day shows none.
 */
async function showsWindow(
  step: Step,
  window: Window,
  unit: HistoryCursor['unit'],
  priority: Priority,
): Promise<boolean> {
  const now = step.options.clock.now()
  const [, passed] = passedAt(step.cursor, now)
  const to = Math.max(window.from + 1, Math.min(window.to, passed))
  const shown = await shownOf(step, { ...window, to }, unit, priority)
  if (shown !== 'rows') return shown === 'events'
  const from = dayStart(now) + FUTURE_DAY_MS
  return (await shownOf(step, { ...window, from, to: from + MINUTE_MS }, unit, priority)) === 'nothing'
}

/** `rows`: without a time. `unknown`: the answer proves nothing. */
async function shownOf(
  step: Step,
  window: Window,
  unit: HistoryCursor['unit'],
  priority: Priority,
): Promise<'events' | 'rows' | 'nothing' | 'unknown'> {
  const seen = { answered: false }
  const naming = window.version === 'v1' ? new RowNaming(undefined) : undefined
  const least = (window.from - MINUTE_MS) * 1000
  const most = (window.to + MINUTE_MS) * 1000
  try {
    for await (const { entries } of ask(step, window, unit, priority, naming, () => (seen.answered = true))) {
      if (entries.count > 0)
        return entries.times.every((at) => at >= least && at <= most) ? 'events' : 'unknown'
    }
    return naming && naming.omitted > 0 ? 'rows' : 'nothing'
  } catch (error) {
    if (isRefused(error)) return 'nothing'
    if (isAboutWindow(error, seen.answered)) return 'unknown'
    throw error
  }
}

// The server's clock, from the answers of the history: how far it is behind ours.

/** With a larger difference the server's clock is wrong, or a cache answers. */
const MAX_BEHIND_MS = 30 * DAY_MS

/** A server without a `Date` header may be this far behind, and still reject a future end. */
const UNKNOWN_CLOCK_MS = MINUTE_MS

/**
 * A window with this end, epoch ms, is requested so that the end is not in the future: by the
 * slower clock. The server's clock has whole seconds, and a margin of one second is requested;
 * without a server clock the margin is UNKNOWN_CLOCK_MS.
 */
export function passedAt(
  { serverBehindMs }: HistoryCursor,
  now: number,
): readonly [reported: number, unreported: number] {
  const reported = Math.floor((now - serverBehindMs) / SECOND_MS) * SECOND_MS - 2 * SECOND_MS
  return [reported, reported - UNKNOWN_CLOCK_MS]
}

/**
 * A window of the past that ended a moment ago may be refused only for its end, and is accepted soon.
 * Throws `error`, the refusal, if that is possible: it proves nothing about the window.
 */
export function assertEndPassed({ cursor, options }: Step, { to }: Window, error: ConnectorError): void {
  const [, passed] = passedAt(cursor, options.clock.now())
  if (to <= passed) return
  throw withNextStep(
    error,
    'perhaps because its end is in the future by the clock of the server; nothing is skipped, and it is requested again',
  )
}

/** Returns how far the server says it is behind, ms; only a believable value is stored. */
export function recordServerClock(cursor: HistoryCursor, serverAt: number | undefined, now: number): number {
  const behindMs = serverAt === undefined ? 0 : now - serverAt - SECOND_MS
  cursor.serverBehindMs = behindMs > 0 && behindMs < MAX_BEHIND_MS ? behindMs : 0
  return behindMs
}

/** If our clock is ahead, future days are read, which no other check would detect. */
export function warnOfClocks(log: Log, cursor: HistoryCursor, behindMs: number): void {
  const apart = behindMs >= MAX_BEHIND_MS
  if (apart && cursor.clocksApart !== true)
    log.warn(
      'The clock of this machine is more than 30 days ahead of the API server’s and is still used: if it is wrong, no history is found until it is corrected',
      { daysAhead: Math.round(behindMs / DAY_MS) },
    )
  cursor.clocksApart = apart
}
