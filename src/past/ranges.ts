// What a source must be able to do for its past to be read again, and what of the configuration an order lacks for that.
import { ConnectorError } from '../model/errors.ts'
import type { KeyWait } from '../model/key-waits.ts'
import type { Note } from '../model/note.ts'
import type { Log } from '../model/log.ts'
import type { Lacking, PastSpan, PastUse, Unread } from '../model/past.ts'
import { isSameOrigin } from '../model/source.ts'
import type { Cursor, Origin, Source, SourceName } from '../model/source.ts'
import type { SourceWatch } from '../model/watch.ts'

/** A source whose past can be read again. */
export interface RangeReader {
  readonly origin: Origin
  readonly watch: SourceWatch
  readonly log: Log
  readonly wanted: (type: string) => boolean
  /** where it is kept when the source last had a gap; absent: nowhere */
  readonly reads?: { notes(good: boolean, gaps: number): readonly Note[] } | undefined
  /** of the key that it is read with; absent: it is shared with nobody */
  readonly keyWait?: KeyWait | undefined
  /** Reads the span once; the cursor of its parts is a place in that span. */
  open(span: PastSpan, watch: SourceWatch, use: PastUse): Source
  /** What a job waits for when the rate limiter has no permit for it, and why, in words. `isLimited`: the end of a 429. */
  readonly rateWait: () => { readonly isLimited: boolean; readonly reason: string }
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
