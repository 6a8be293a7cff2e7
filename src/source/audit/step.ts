// What the audit readers' steps share: the options, the cursor that a step may change, and how a part is made of it.
import type { Appended } from '../../model/appended.ts'
import type { Part } from '../../model/source.ts'
import { partOf } from '../shared/part.ts'
import type { SourceOptions } from '../shared/source-options.ts'
import type { Group } from '../cutting/group.ts'
import type { SplitterLimits, SplitterOptions } from '../cutting/splitter.ts'
import type { Start } from '../shared/start.ts'
import type { AuditCursor } from './cursor.ts'
import { closeAuditCursor } from './cursor.ts'
import type { SentTimes } from './own-fetches.ts'
import type { Activity, Pace } from './tiers.ts'
import { paceOf } from './tiers.ts'

/** What paging through the log takes, be it live reading or a walk over the past. */
export interface PagingOptions extends Omit<SourceOptions, 'once'> {
  /** found again in the User-Agent of own fetches */
  readonly instance: string
  readonly expectedUserAgent: (userAgent: string) => boolean
  /** when this log was asked for pages, by all that read it */
  readonly sentTimes: SentTimes
}

/** Of live reading. */
export interface AuditOptions extends PagingOptions, SourceOptions {
  readonly activity: Activity
  /** over the tier's */
  readonly intervalMs: number | undefined
  readonly start: Start
  /** 0: no sweep */
  readonly sweepMs: number
  /** what is older may be taken for new when it is read again */
  readonly keepKeysMs: number
}

/** What every step of a reader works with: the options, and a cursor that it may change. */
export interface PagingStep {
  readonly options: PagingOptions
  readonly cursor: AuditCursor
  /** the newest own time read before this step: new entries behind it are late */
  readonly headUs: number
  readonly signal: AbortSignal
}

/** Of live reading. */
export interface Step extends PagingStep {
  readonly options: AuditOptions
}

export type OptionsAndCursor = Pick<Step, 'options' | 'cursor'>

/** How a step hands a part out and learns what became of it. */
export type Parts = AsyncGenerator<Part, void, Appended>

export function currentPace({ options, cursor }: OptionsAndCursor): Pace {
  return paceOf(options.activity, options.intervalMs, cursor.perHour)
}

/** Nothing before the start is shipped, though a place before it may be gone on from. */
export function fromStart({ cursor }: PagingStep, group: Group): Group {
  return { ...group, entries: group.entries.between(cursor.startUs ?? -Infinity, Infinity) }
}

/** A part with the cursor as it stands now: the last of its page. */
export function lastPart(step: PagingStep, more: Partial<Part> = {}): Part {
  return { ...midPart(step, more), cursor: closeAuditCursor(step.cursor) }
}

/** A part of a page that is not whole yet. */
export function midPart({ headUs }: PagingStep, more: Partial<Part>): Part {
  return partOf({ headUs: headUs === 0 ? undefined : headUs, ...more })
}

/** How an entry of the audit log is cut. */
export function entryOptions({ maxDepth, maxEntryBytes }: SplitterLimits): SplitterOptions {
  return {
    idKey: 'id',
    timeKey: 'timestamp',
    typeKey: 'type',
    maxDepth,
    maxEntryBytes,
  }
}
