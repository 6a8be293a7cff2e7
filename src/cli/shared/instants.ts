// Times on the command line: a time, a day, or a span back from now.
import { instantUs } from '../../config/fields.ts'
import type { DayRange } from '../../contracts/accounts.ts'
import type { JobSpan } from '../../contracts/jobs.ts'
import { epochDay, isPlausibleInstant, plausibleInstants } from '../../core/time.ts'
import { durationMs, durationPattern } from '../../core/units.ts'
import { stampText } from '../../observability/words.ts'
import { assertUsage } from './context.ts'

/** Epoch µs; NaN if invalid. A day means its start, `24h` means 24 hours before `nowMs`. */
function atUs(text: string, nowMs: number): number {
  if (text === 'now') return nowMs * 1000
  return durationPattern.test(text) ? (nowMs - durationMs(text)) * 1000 : instantUs(text)
}

/** For a table column, in UTC: `2026-01-31 12:00:00`. */
export const instantText = (at: number): string => stampText(new Date(at).toISOString())

const EXPECTED_TIME =
  'expected a time with its seconds such as 2026-01-31T00:00:00Z (UTC where it names no zone), a day such as 2026-01-31, or a span such as 24h'

/** Throws WrongUsage if the two are not a valid span. `to` defaults to now. */
export function spanOf(from: string, to: string | undefined, nowMs: number): JobSpan {
  const fromUs = atUs(from, nowMs)
  const toUs = to === undefined ? nowMs * 1000 : atUs(to, nowMs)
  assertUsage(faultOf({ from, to }, { fromUs, toUs }, nowMs))
  return { fromUs, toUs }
}

function faultOf(
  { from, to }: { readonly from: string; readonly to: string | undefined },
  { fromUs, toUs }: JobSpan,
  nowMs: number,
): string | undefined {
  if (Number.isNaN(fromUs)) return `--from ${from}: ${EXPECTED_TIME}`
  if (Number.isNaN(toUs)) return `--to ${to ?? ''}: ${EXPECTED_TIME}`
  if (!isPlausibleInstant(fromUs)) return `--from ${from}: expected a time ${plausibleInstants}`
  if (fromUs >= toUs) return `--from must be earlier than ${to === undefined ? 'now' : '--to'}`
  if (fromUs >= nowMs * 1000) return '--from must be earlier than now'
  return undefined
}

/** The UTC days that the span touches. */
export const wholeDays = ({ fromUs, toUs }: JobSpan): DayRange => ({
  fromDay: epochDay(fromUs),
  toDay: epochDay(toUs - 1) + 1,
})
