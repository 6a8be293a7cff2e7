// Which version of the history API a day is read as, so that no day is read as both: across a change of the configuration too.
import { ConnectorError } from '../../model/errors.ts'
import { DAY_MS, dayStart, dayText } from '../../model/time.ts'
import type { HistoryCursor } from './cursor.ts'
import { walkOver } from './cursor.ts'
import type { HistoryOptions, HistoryVersion } from './step.ts'

/** The boundary where all is read as v1: every day lies before it. */
const NEVER = Number.MAX_SAFE_INTEGER

/** Days before it are read as v1, days from it on as v2; epoch ms. */
export function boundaryOf({ version, v1Until }: Pick<HistoryOptions, 'version' | 'v1Until'>): number {
  return version === 'v1' ? NEVER : (v1Until ?? 0)
}

export function versionAt(cursor: HistoryCursor, at: number): HistoryVersion {
  return at < cursor.boundaryAt ? 'v1' : 'v2'
}

/**
 * Takes the configured boundary over into the cursor. Days that change their version and have nothing in the journal are read
 * again. Throws ConnectorError `misconfigured` where a day would be shipped as both.
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
  // Either may stand behind days that change their version, the live one even behind the open day.
  if (cursor.live) cursor.live = walkOver(cursor.live.from, cursor.live.to, now)
  cursor.sweep = null
  if (from >= to) return
  // A walk that is there already may stand anywhere in it: all of it once more, as dedup allows.
  cursor.todo = [...cursor.todo, walkOver(from, to, now)].sort((a, b) => a.at - b.at)
}

function whatToWrite(
  { v1To, v2From }: HistoryCursor,
  { version, origin }: HistoryOptions,
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
    `${origin.source} of workspace ${origin.workspace}: ${read}, and with version: ${version} as configured they would be read as the other version too, ` +
    `which ships each of their events again under another id: write version: v2${until} under history, as docs/sources/history.md says`
  )
}

/** Entries of this window are about to be kept. True when the cursor must say so before they are. */
export function noteVersion(cursor: HistoryCursor, from: number, to: number): boolean {
  const { v1To, v2From } = cursor
  if (versionAt(cursor, from) === 'v1')
    cursor.v1To = Math.max(v1To ?? 0, Math.min(dayStart(to - 1) + DAY_MS, cursor.boundaryAt))
  else cursor.v2From = Math.min(v2From ?? Infinity, dayStart(from))
  return cursor.v1To !== v1To || cursor.v2From !== v2From
}
