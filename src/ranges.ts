// What a source must be able to do for its past to be read again, and how that is watched without disturbing what is told of its live reading.
import type { Note } from './model/journal.ts'
import type { Log } from './model/log.ts'
import type { PastSpan, Unread } from './model/past.ts'
import type { Origin, Source } from './model/source.ts'
import { silentWatch } from './model/watch.ts'
import type { SourceWatch } from './model/watch.ts'

/** A source whose past can be read again. */
export interface RangeReader {
  readonly origin: Origin
  readonly watch: SourceWatch
  readonly log: Log
  readonly wanted: (type: string) => boolean
  /** where it is kept when the source last had a gap; absent: nowhere */
  readonly reads?: { notes(good: boolean, gaps: number): readonly Note[] } | undefined
  /** Reads the span once; the cursor of its parts is a place in that span. `keeps`: what it shows goes into the journal. */
  open(span: PastSpan, watch: SourceWatch, keeps: boolean): Source
  /** What of the span stayed unread, by a place in it; undefined: only how often something may have been left out is known. */
  readonly unread: (place: string | undefined) => readonly Unread[] | undefined
}

/** Counts requests and entries under the source, and says nothing of where its live reading is. */
export function quietly(watch: SourceWatch, told: Partial<SourceWatch> = {}): SourceWatch {
  return {
    ...silentWatch,
    request: (code, durationMs) => watch.request(code, durationMs),
    waited: (durationMs) => watch.waited(durationMs),
    appended: (appended) => watch.appended(appended),
    gap: (count) => watch.gap(count),
    ...told,
  }
}
