// What the audit readers' steps share: the options, the cursor that a step may change, and how a part is made of it.
import { ConnectorError } from '../model/errors.ts'
import type { Appended } from '../model/journal.ts'
import type { Part } from '../model/source.ts'
import { HOUR_MS, SECOND_US } from '../model/time.ts'
import type { AuditCursor, Position } from './audit-cursor.ts'
import { closeAuditCursor } from './audit-cursor.ts'
import type { SentTimes } from './own-fetches.ts'
import { partOf } from './part.ts'
import type { SourceOptions } from './source-options.ts'
import type { Group, SplitterLimits, SplitterOptions } from './splitter.ts'
import type { Start } from './start.ts'
import type { Activity, Pace } from './tiers.ts'
import { paceOf } from './tiers.ts'

export interface AuditOptions extends SourceOptions {
  readonly activity: Activity
  /** over the tier's */
  readonly intervalMs: number | undefined
  readonly start: Start
  /** 0: no sweep */
  readonly sweepMs: number
  /** what is older may be taken for new when it is read again */
  readonly keepKeysMs: number
  /** found again in the User-Agent of own fetches */
  readonly instance: string
  readonly expectedUserAgent: (userAgent: string) => boolean
  /** when this log was asked for pages, by all that read it */
  readonly sentTimes: SentTimes
}

/** What every step of a reader works with: the options, and a cursor that it may change. */
export interface Step {
  readonly options: AuditOptions
  readonly cursor: AuditCursor
  /** the newest own time read before this step: new entries behind it are late */
  readonly headUs: number
  readonly signal: AbortSignal
}

export type OptionsAndCursor = Pick<Step, 'options' | 'cursor'>

/** A server's clock that is further off from ours than this is not believed: one of them is wrong. */
export const CLOCKS_APART_MS = HOUR_MS

/** Where the next second begins. Of an answer's `Date`: what is dated from there on came after it (law 7). */
export const nextSecondUs = (us: number): number => (Math.floor(us / SECOND_US) + 1) * SECOND_US

/** Clocks differ, and entries are dated in the future by mistake: what is further off than this may not lead the way. */
const FUTURE_MS = 600_000
/**
 * The same where the server does not tell its clock, and only ours does. One that is kept at all is wrong by no more than
 * the hour of a summer time that it missed.
 */
const UNTOLD_FUTURE_MS = HOUR_MS + FUTURE_MS

/** Behind this instant (µs) lies the future, by our clock or by the server's where that is ahead. */
export function horizonUs({ options, cursor }: OptionsAndCursor, serverAt?: number): number {
  const now = options.clock.now()
  if (serverAt !== undefined) return 1000 * (Math.max(now, serverAt) + FUTURE_MS)
  const untoldUs = 1000 * (now + UNTOLD_FUTURE_MS)
  // The head lies there itself, since there was so much of it or it was the first: our clock is slow, and tells nothing.
  return cursor.head !== null && cursor.head.at > untoldUs ? Infinity : untoldUs
}

interface Dated {
  readonly position: Position | undefined
  /** of what is no place, but tells its time */
  readonly unreadableUs?: number | undefined
  readonly serverAt: number | undefined
}

/** Dated in the future: it is kept, but no place to go on from, since what comes now is dated before it. */
export function isFuture(step: OptionsAndCursor, { position, unreadableUs, serverAt }: Dated): boolean {
  const atUs = position?.at ?? unreadableUs
  return atUs !== undefined && atUs > horizonUs(step, serverAt)
}

/** How a step hands a part out and learns what became of it. */
export type Steps = AsyncGenerator<Part, void, Appended>

export function currentPace({ options, cursor }: OptionsAndCursor): Pace {
  return paceOf(options.activity, options.intervalMs, cursor.perHour)
}

/** Nothing before the start is shipped, though a place before it may be gone on from. */
export function fromStart({ cursor }: Step, group: Group): Group {
  return { ...group, entries: group.entries.between(cursor.startUs ?? -Infinity, Infinity) }
}

/** A part with the cursor as it stands now: the last of its page. */
export function lastPart(step: Step, more: Partial<Part> = {}): Part {
  return { ...midPart(step, more), cursor: closeAuditCursor(step.cursor) }
}

/** A part of a page that is not whole yet. */
export function midPart({ headUs }: Step, more: Partial<Part>): Part {
  return partOf({ headUs: headUs === 0 ? undefined : headUs, ...more })
}

/** How an entry of the audit log is cut. */
export function entryOptions({ options }: { readonly options: SplitterLimits }): SplitterOptions {
  return {
    idKey: 'id',
    timeKey: 'timestamp',
    typeKey: 'type',
    maxDepth: options.maxDepth,
    maxEntryBytes: options.maxEntryBytes,
  }
}

/** True for an answer that says: what you name is not there. */
export function isGone(error: unknown): boolean {
  return error instanceof ConnectorError && (error.code === 'not_found' || error.code === 'bad_request')
}

/** True when the other side answered, but not with what can be read. */
export function isUnreadable(error: unknown): error is ConnectorError {
  return error instanceof ConnectorError && (error.code === 'bad_reply' || error.code === 'too_large')
}
