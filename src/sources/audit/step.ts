// What the audit readers' steps share: the options, the cursor that a step may change, and how a part is made of it.
import type { Appended, PageChunk } from '../../contracts/source.ts'
import { partOf } from '../shared.ts'
import type { SourceOptions, Start } from '../shared.ts'
import type { Group } from '../splitter/entries-builder.ts'
import type { SplitterLimits, SplitterOptions } from '../splitter/splitter.ts'
import { closeAuditCursor, recordMalformed } from './cursor.ts'
import type { AuditCursor } from './cursor.ts'
import type { SentTimes } from './own-fetches.ts'

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
  /** 0: no lookback */
  readonly lookbackMs: number
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
export type Parts = AsyncGenerator<PageChunk, void, Appended>

export function currentPace({ options, cursor }: OptionsAndCursor): Pace {
  return paceOf(options.activity, options.intervalMs, cursor.perHour)
}

/** Nothing before the start is shipped, though reading may continue from before it. */
export function fromStart({ cursor }: PagingStep, group: Group): Group {
  return { ...group, entries: group.entries.between(cursor.startUs ?? -Infinity, Infinity) }
}

/** A part with the current cursor: the last of its page. */
export function lastChunk(step: PagingStep, more: Partial<PageChunk> = {}): PageChunk {
  const part = middleChunk(step, more)
  return { ...part, cursor: closeAuditCursor(step.cursor) }
}

/** A part of a page that is not whole yet. */
export function middleChunk({ headUs, cursor }: PagingStep, more: Partial<PageChunk>): PageChunk {
  recordMalformed(cursor, more.quarantined ?? [])
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

// How often and how much the head reader asks: the recommended tiers of spec §8, and `auto`, which follows what it sees. Pure.

type Activity = 'high' | 'medium' | 'low' | 'auto'

interface Pace {
  readonly intervalMs: number
  readonly take: number
}

const tiers = {
  high: { intervalMs: 5 * 60_000, take: 1000 },
  medium: { intervalMs: 15 * 60_000, take: 500 },
  low: { intervalMs: 60 * 60_000, take: 100 },
} as const satisfies Record<Exclude<Activity, 'auto'>, Pace>

/** `auto`: the slowest tier whose one page holds what an interval brings, with room for a burst. */
function tierFor(perHour: number): Pace {
  if (perHour * (tiers.low.intervalMs / 3_600_000) <= tiers.low.take / 2) return tiers.low
  if (perHour * (tiers.medium.intervalMs / 3_600_000) <= tiers.medium.take / 2) return tiers.medium
  return tiers.high
}

export function paceOf(activity: Activity, intervalMs: number | undefined, perHour: number): Pace {
  const tier = activity === 'auto' ? tierFor(perHour) : tiers[activity]
  return intervalMs === undefined ? tier : { intervalMs, take: tier.take }
}

/** Smooths over some four polls, so that one burst does not turn the tier and back. */
export function smoothRate(perHour: number, entries: number, elapsedMs: number): number {
  if (elapsedMs <= 0) return perHour
  const now = (entries / elapsedMs) * 3_600_000
  return perHour === 0 ? now : perHour * 0.75 + now * 0.25
}
