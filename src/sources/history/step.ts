// What all steps of the history readers share: options, a cursor that a step may change, and how to
// build a part.
import type { Appended, Priority, PageChunk } from '../../contracts/source.ts'
import { partOf } from '../shared.ts'
import type { SourceOptions, Start } from '../shared.ts'
import type { HistoryCursor, RangeRead } from './cursor.ts'
import { closeHistoryCursor } from './cursor.ts'
import type { Width } from './width.ts'

export type HistoryKind = 'usage' | 'query'
export type HistoryVersion = 'v1' | 'v2'

/** Its source is `history.usage` or `history.query`. */
export interface HistoryOptions extends SourceOptions {
  readonly kind: HistoryKind
  readonly version: HistoryVersion
  /** of v2: days before this UTC midnight (epoch ms) are read as v1; undefined: none */
  readonly v1Until: number | undefined
  readonly intervalMs: number
  readonly start: Start
  /** the trailing span whose days are read again; 0: none */
  readonly lookbackMs: number
  /** older entries are no longer in the dedup index when they are read again */
  readonly keepKeysMs: number
}

/** The context of a step: options, and a cursor that it may change. */
export interface Step {
  readonly options: HistoryOptions
  readonly cursor: HistoryCursor
  readonly signal: AbortSignal
}

/** One window of one of the tasks. */
export interface Task {
  readonly kind: 'live' | 'lookback' | 'todo' | 'trouble'
  readonly priority: Priority
  readonly rangeRead: RangeRead
  readonly width: Width
}

/** How a step yields parts, receives the result of each append, and returns what it found. */
export type Parts<T = void> = AsyncGenerator<PageChunk, T, Appended>

/** A part with the current cursor: the last of its answer. */
export function lastChunk(step: Step, more: Partial<PageChunk> = {}): PageChunk {
  return { ...partOf(more), cursor: closeHistoryCursor(step.cursor) }
}
