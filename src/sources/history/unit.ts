// The unit of start_time and end_time is left open (spec §4.2): seconds until what the server answers proves otherwise, and only then milliseconds.
import type { Lane } from '../../contracts/source.ts'
import { ConnectorError } from '../../core/errors.ts'
import type { Log } from '../../core/log.ts'
import { DAY_MS, HOUR_MS, MINUTE_MS, SECOND_MS, dayStart } from '../../core/time.ts'
import { beginAgain } from './cursor.ts'
import type { HistoryCursor } from './cursor.ts'
import type { Parts, Step } from './step.ts'
import { RowNaming } from './version.ts'
import { ask, isAboutWindow, readWindow } from './window.ts'
import type { Reading, Window } from './window.ts'

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

// The server's clock, as the history's answers tell it: how far it is behind ours.

/** Further off than this it is the server's clock that is wrong, or a cache that answers. */
const MOST_BEHIND_MS = 30 * DAY_MS

/** By so much a server that does not tell its clock may be behind, and is read all the same where it refuses an end still to come. */
const UNTOLD_MS = MINUTE_MS

/**
 * A window that ends here, epoch ms, is asked for with no end still to come: by the slower of both clocks, of which the
 * server's is told in whole seconds, with the margin of a second that is asked for. The second, where that is not told.
 */
export function passedAt(
  { serverBehindMs }: HistoryCursor,
  now: number,
): readonly [told: number, untold: number] {
  const told = Math.floor((now - serverBehindMs) / SECOND_MS) * SECOND_MS - 2 * SECOND_MS
  return [told, told - UNTOLD_MS]
}

/** Returns by how much it is behind, as it says, ms; what is kept of that is what may be believed. */
export function noteServer(cursor: HistoryCursor, serverAt: number | undefined, now: number): number {
  const behindMs = serverAt === undefined ? 0 : now - serverAt - SECOND_MS
  cursor.serverBehindMs = behindMs > 0 && behindMs < MOST_BEHIND_MS ? behindMs : 0
  return behindMs
}

/** Where it is ours that is ahead, days are read that have not come, and that is seen nowhere else. */
export function noteClocks(log: Log, cursor: HistoryCursor, behindMs: number): void {
  const apart = behindMs >= MOST_BEHIND_MS
  if (apart && cursor.clocksApart !== true)
    log.warn(
      'The clock of this machine is more than 30 days ahead of the API server’s and is believed all the same: where it is wrong, nothing of the history is found until it is set right',
      { daysAhead: Math.round(behindMs / DAY_MS) },
    )
  cursor.clocksApart = apart
}
