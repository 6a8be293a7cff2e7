// What a source must be able to do for its past to be read again, and how that is watched without disturbing what is told of its live reading.
import { ConnectorError } from '../model/errors.ts'
import type { Journal, Note } from '../model/journal.ts'
import type { Log } from '../model/log.ts'
import type { Lacking, PastSpan, PastUse, Unread, WaitsFor } from '../model/past.ts'
import { isSameOrigin } from '../model/source.ts'
import type { Cursor, Origin, Source, SourceName } from '../model/source.ts'
import { silentWatch } from '../model/watch.ts'
import type { SourceState, SourceWatch } from '../model/watch.ts'

/** A source whose past can be read again. */
export interface RangeReader {
  readonly origin: Origin
  readonly watch: SourceWatch
  readonly log: Log
  readonly wanted: (type: string) => boolean
  /** where it is kept when the source last had a gap; absent: nowhere */
  readonly reads?: { notes(good: boolean, gaps: number): readonly Note[] } | undefined
  /** Reads the span once; the cursor of its parts is a place in that span. */
  open(span: PastSpan, watch: SourceWatch, use: PastUse): Source
  /** A 429 is waited out, whoever it was answered to. */
  readonly isLimited: () => boolean
  /** By the cursor of live reading: nothing before it is wanted, µs; undefined: all is. */
  readonly startUs: (live: Cursor | undefined) => number | undefined
  /** What of the span stayed unread, by a place in it; undefined: only how often something may have been left out is known. */
  readonly unread: (place: string | undefined) => readonly Unread[] | undefined
}

/** A sink of the configuration. */
export interface Taker {
  readonly name: string
  readonly sources: readonly SourceName[]
}

/** Throws ConnectorError `misconfigured` where there is none. */
export function rangeOf(ranges: readonly RangeReader[], wanted: Origin): RangeReader {
  const range = ranges.find(({ origin }) => isSameOrigin(origin, wanted))
  if (range) return range
  throw new ConnectorError(
    'misconfigured',
    `${wanted.workspace} ${wanted.source} is not switched on, or its past cannot be read again`,
  )
}

export function lackingSource(
  ranges: readonly RangeReader[],
  { origin: wanted }: { readonly origin: Origin },
): 'source' | undefined {
  return ranges.some(({ origin }) => isSameOrigin(origin, wanted)) ? undefined : 'source'
}

/** What a sink lacks for a source to be sent to it. */
export function lackingTaker(
  sinks: readonly Taker[],
  { sink, origin }: { readonly sink: string; readonly origin: Origin },
): Lacking | undefined {
  const taker = sinks.find(({ name }) => name === sink)
  if (!taker) return 'sink'
  return taker.sources.includes(origin.source) ? undefined : 'sources'
}

/** Counts requests and entries under the source, and says nothing of where its live reading is, nor that it lives. */
function quietly(watch: SourceWatch, told: Partial<SourceWatch> = {}): SourceWatch {
  const { aside = watch } = watch
  return {
    ...silentWatch,
    request: (code, durationMs) => aside.request(code, durationMs),
    waited: (durationMs) => aside.waited(durationMs),
    appended: (appended) => aside.appended(appended),
    gap: (count) => aside.gap(count),
    ...told,
  }
}

/** How what reads the past fares. */
export interface Progress {
  /** why it does not come on just now; it is tried again */
  error: ConnectorError | undefined
  waitsFor: WaitsFor | undefined
}

/** What reads the past is idle only until the budget has a place for it. */
export function waitsFor(
  state: SourceState,
  { isLimited }: Pick<RangeReader, 'isLimited'>,
): WaitsFor | undefined {
  if (state === 'paused') return 'room'
  if (state !== 'waiting' && state !== 'idle') return undefined
  return isLimited() ? 'limit' : 'budget'
}

/** The same, and `progress` has how it fares: to wait for room is no failure. */
export function watching(
  range: Pick<RangeReader, 'watch' | 'isLimited'>,
  progress: Progress,
  told: Partial<SourceWatch> & Pick<SourceWatch, 'cursor'>,
): SourceWatch {
  return quietly(range.watch, {
    state(state, error) {
      progress.waitsFor = waitsFor(state, range)
      if (error?.code !== 'journal_full') progress.error = error ?? progress.error
    },
    success: () => (progress.error = undefined),
    ...told,
  })
}

/** What of the journal's bound the past leaves to live reading, which stops when it is full. */
const FULL_SHARE = 0.5

/** As what reads the past sees them. */
export function statsForPast(journal: Pick<Journal, 'stats'>) {
  const stats = journal.stats()
  return { ...stats, full: stats.full || stats.bytes >= stats.capacityBytes * FULL_SHARE }
}

/** An answer may be larger than the room that was there when it was asked for. Throws ConnectorError `journal_full`. */
export function assertRoom(journal: Pick<Journal, 'stats'>): void {
  if (!statsForPast(journal).full) return
  throw new ConnectorError(
    'journal_full',
    "Half of journal.max_bytes is in use, and the other half is live reading's: it goes on when the sinks have taken some",
  )
}
