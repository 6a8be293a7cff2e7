// The unit of start_time and end_time is left open (spec §4.2): seconds until what the server answers proves otherwise, and only then milliseconds.
import { ConnectorError } from '../../model/errors.ts'
import type { Lane } from '../../model/source.ts'
import { DAY_MS, dayStart, HOUR_MS, MINUTE_MS } from '../../model/time.ts'
import { passedAt } from './clock.ts'
import type { HistoryCursor } from './cursor.ts'
import { beginAgain } from './cursor.ts'
import { RowNaming } from './rows.ts'
import type { Step, Parts } from './step.ts'
import type { Reading, Window } from './window.ts'
import { ask, isAboutWindow, readWindow } from './window.ts'

/** As long as no answer held anything, an empty one is held against the other unit so often; in a single run, to which there is no later, each is. */
const DOUBT_EVERY_MS = HOUR_MS
/** No row can lie so far ahead of today. */
const AHEAD_MS = 7 * DAY_MS

const otherThan = (unit: HistoryCursor['unit']): HistoryCursor['unit'] => (unit === 's' ? 'ms' : 's')

export const isRefused = (error: unknown): error is ConnectorError =>
  error instanceof ConnectorError && error.code === 'bad_request'

/**
 * Reads the window in the unit that is known; where a 400 answers and no unit is proven, in the other one. Throws
 * ConnectorError `bad_request` when neither is taken.
 */
export async function* readInUnits(
  step: Step,
  window: Window,
  lane: Lane,
  headUs: number | undefined,
): Parts<Reading> {
  const { cursor } = step
  const { unit } = cursor
  try {
    return noted(cursor, yield* readWindow(step, window, lane, headUs))
  } catch (error) {
    if (!isRefused(error) || cursor.unitSure) throw error
    cursor.unit = otherThan(unit)
    try {
      return noted(cursor, yield* readWindow(step, window, lane, headUs))
    } catch (second) {
      cursor.unit = unit
      if (!isRefused(second)) throw second
      const message = `${error.message}, with times in seconds as well as in milliseconds`
      throw new ConnectorError('bad_request', message, { cause: error })
    }
  }
}

function noted(cursor: HistoryCursor, reading: Reading): Reading {
  if (reading.elements > 0) cursor.unitSure = true
  return reading
}

/**
 * An empty answer of a server that has shown nothing yet: would the other unit show events of this window? Then that is
 * the unit, and all is read again from the start. True when it was so.
 */
export async function turnsUnit(step: Step, window: Window, lane: Lane): Promise<boolean> {
  const { cursor, options } = step
  const now = options.clock.now()
  if (cursor.unitSure || (cursor.unitDoubtAt > now && !options.once)) return false
  cursor.unitDoubtAt = now + DOUBT_EVERY_MS
  const unit = otherThan(cursor.unit)
  if (!(await showsWindow(step, window, unit, lane))) return false
  options.log.info('The history API counts its times in another unit than was thought, reading again', {
    unit,
  })
  cursor.unit = unit
  cursor.unitSure = true
  beginAgain(cursor, now)
  return true
}

/**
 * Nothing of it is kept. Only events that lie in the window are believed: a server that cannot read the times may answer
 * anything. Rows that say no time are believed where the same question about a day to come shows none.
 */
async function showsWindow(
  step: Step,
  window: Window,
  unit: HistoryCursor['unit'],
  lane: Lane,
): Promise<boolean> {
  const now = step.options.clock.now()
  const [, passed] = passedAt(step.cursor, now)
  const to = Math.max(window.from + 1, Math.min(window.to, passed))
  const shown = await shownOf(step, { ...window, to }, unit, lane)
  if (shown !== 'rows') return shown === 'events'
  const from = dayStart(now) + AHEAD_MS
  return (await shownOf(step, { ...window, from, to: from + MINUTE_MS }, unit, lane)) === 'nothing'
}

/** `rows`: without a time. `unknown`: what came says nothing. */
async function shownOf(
  step: Step,
  window: Window,
  unit: HistoryCursor['unit'],
  lane: Lane,
): Promise<'events' | 'rows' | 'nothing' | 'unknown'> {
  const seen = { answered: false }
  const naming = window.version === 'v1' ? new RowNaming(undefined) : undefined
  const least = (window.from - MINUTE_MS) * 1000
  const most = (window.to + MINUTE_MS) * 1000
  try {
    for await (const { entries } of ask(step, window, unit, lane, naming, () => (seen.answered = true))) {
      if (entries.count > 0)
        return entries.times.every((at) => at >= least && at <= most) ? 'events' : 'unknown'
    }
    return naming && naming.leftOut > 0 ? 'rows' : 'nothing'
  } catch (error) {
    if (isRefused(error)) return 'nothing'
    if (isAboutWindow(error, seen.answered)) return 'unknown'
    throw error
  }
}
