// What the audit readers share: options, the step with its cursor, chunks, clock limits and pace.
import type { PageChunk } from '../../contracts/source.ts'
import { ConnectorError } from '../../core/errors.ts'
import { HOUR_MS, MINUTE_MS, SECOND_US } from '../../core/time.ts'
import { mayLeadUs, partOf } from '../shared.ts'
import type { SourceOptions, Start } from '../shared.ts'
import type { Group } from '../splitter/entries-builder.ts'
import type { SplitterLimits, SplitterOptions } from '../splitter/splitter.ts'
import { closeAuditCursor, recordMalformed } from './cursor.ts'
import type { AuditCursor, SentTimes } from './cursor.ts'

/** What every reader needs, live or of a job. */
export interface PagingOptions extends Omit<SourceOptions, 'once'> {
  /** part of our User-Agent, by which own fetches are recognised */
  readonly instance: string
  readonly expectedUserAgent: (userAgent: string) => boolean
  /** shared by all readers of this log */
  readonly sentTimes: SentTimes
}

/** What live reading and lookback need in addition. */
export interface AuditOptions extends PagingOptions, SourceOptions {
  readonly activity: Activity
  /** replaces the tier's interval */
  readonly intervalMs: number | undefined
  readonly start: Start
  /** 0: no lookback */
  readonly lookbackMs: number
  /** how long the dedup index remembers ids: an older entry read again would count as new */
  readonly keepKeysMs: number
}

export interface PagingStep {
  readonly options: PagingOptions
  /** a copy that the step may change */
  readonly cursor: AuditCursor
  /** the newest entry time read before this step: new entries before it are late */
  readonly headUs: number
  readonly signal: AbortSignal
}

export interface Step extends PagingStep {
  readonly options: AuditOptions
}

/** The chunks of one step. */
export type Parts = AsyncGenerator<PageChunk, void, unknown>

/** Drops entries before the start, from which reading may still continue. */
export function fromStart({ cursor }: PagingStep, group: Group): Group {
  return { ...group, entries: group.entries.between(cursor.startUs ?? -Infinity, Infinity) }
}

/** The last chunk of a page: it stores the cursor. */
export function lastChunk(step: PagingStep, more: Partial<PageChunk> = {}): PageChunk {
  return { ...middleChunk(step, more), cursor: closeAuditCursor(step.cursor) }
}

/** Not the last chunk of its page. */
export function middleChunk({ headUs, cursor }: PagingStep, more: Partial<PageChunk>): PageChunk {
  recordMalformed(cursor, more.quarantined ?? [])
  return partOf({ headUs: headUs === 0 ? undefined : headUs, ...more })
}

export const badReply = (message: string) => new ConnectorError('bad_reply', message)

export const faultChunk = (step: PagingStep, message: string): PageChunk =>
  lastChunk(step, { fault: badReply(message) })

export function entryOptions({ maxDepth, maxEntryBytes }: SplitterLimits): SplitterOptions {
  return { idKey: 'id', timeKey: 'timestamp', typeKey: 'type', maxDepth, maxEntryBytes }
}

// Clocks. The server's is used if it sends one that is near ours.

/** If the clocks differ by more, one is wrong: the server's is ignored. */
export const CLOCKS_APART_MS = HOUR_MS
/** So many future-dated entries are no client's mistake: our clock is slow. */
export const MOST_FUTURE = 10
/** A stored time this far in the future was written before our clock was set back. */
export const SET_BACK_MS = HOUR_MS
/** Margin if the server sends no clock: ours may be an hour slow, by a missed summer time. */
const NO_CLOCK_MS = HOUR_MS

/** Entries from here on came after an answer with this `Date`, which has whole seconds. */
export const nextSecondUs = (us: number): number => (Math.floor(us / SECOND_US) + 1) * SECOND_US

/** Entries after this instant (µs) are dated in the future, by the later of both clocks. */
export function horizonUs({ options, cursor }: PagingStep, serverAt?: number): number {
  const now = options.clock.now()
  if (serverAt !== undefined) return mayLeadUs(Math.max(now, serverAt))
  const withoutClockUs = mayLeadUs(now + NO_CLOCK_MS)
  // A head beyond it shows that our clock is slow.
  return cursor.head !== null && cursor.head.at > withoutClockUs ? Infinity : withoutClockUs
}

// How often the head is polled and with what `take`: the tiers of spec §8, or `auto`.

type Activity = 'high' | 'medium' | 'low' | 'auto'

interface Pace {
  readonly intervalMs: number
  readonly take: number
}

const tiers = {
  high: { intervalMs: 5 * MINUTE_MS, take: 1000 },
  medium: { intervalMs: 15 * MINUTE_MS, take: 500 },
  low: { intervalMs: HOUR_MS, take: 100 },
} as const satisfies Record<Exclude<Activity, 'auto'>, Pace>

export function currentPace({ options, cursor }: Pick<Step, 'options' | 'cursor'>): Pace {
  return paceOf(options.activity, options.intervalMs, cursor.perHour)
}

export function paceOf(activity: Activity, intervalMs: number | undefined, perHour: number): Pace {
  const tier = activity === 'auto' ? tierFor(perHour) : tiers[activity]
  return intervalMs === undefined ? tier : { intervalMs, take: tier.take }
}

/** The slowest tier whose interval fills at most half a page, which leaves room for a burst. */
const tierFor = (perHour: number): Pace =>
  [tiers.low, tiers.medium].find(({ intervalMs, take }) => perHour * (intervalMs / HOUR_MS) <= take / 2) ??
  tiers.high

/** Smooths over about four polls, so that one burst does not change the tier. */
export function smoothRate(perHour: number, entries: number, elapsedMs: number): number {
  if (elapsedMs <= 0) return perHour
  const now = (entries / elapsedMs) * HOUR_MS
  return perHour === 0 ? now : perHour * 0.75 + now * 0.25
}
