// What a stream must offer for its spans to be read again, and the progress of that.
import type { JobFilter, JobProgress, JobSpan, Missing, RangeUse, Unread } from '../contracts/jobs.ts'
import type { StateEntry } from '../contracts/journal.ts'
import { silentReporter } from '../contracts/reporter.ts'
import type { SourceState, StreamReporter } from '../contracts/reporter.ts'
import { isSameStream } from '../contracts/source.ts'
import type { Cursor, Stream, Source, SourceName } from '../contracts/source.ts'
import type { KeyWait } from '../core/key-waits.ts'
import type { Log } from '../core/log.ts'

export interface RangeReader {
  readonly stream: Stream
  readonly reporter: StreamReporter
  readonly log: Log
  readonly wanted: (type: string) => boolean
  /** keeps when the source last had a gap; absent: not kept */
  readonly reads?: { state(good: boolean, gaps: number): readonly StateEntry[] } | undefined
  /** the waits of its key; absent: no other reader uses that key */
  readonly keyWait?: KeyWait | undefined
  /** Reads the span once; the cursor of its page chunks is a place in that span. */
  open(span: JobSpan, reporter: StreamReporter, use: RangeUse): Source
  /** Why the rate limiter has no permit for a job, in words. `isLimited`: until a 429 ends. */
  readonly rateWait: () => { readonly isLimited: boolean; readonly reason: string }
  /** Start of live reading, by its cursor, µs; undefined: it reads everything. */
  readonly startUs: (live: Cursor | undefined) => number | undefined
  /** The unread parts of the span, by its last place; undefined: only their number is known. */
  readonly unread: (place: string | undefined) => readonly Unread[] | undefined
}

/** A sink of the configuration. */
export interface JobSink {
  readonly name: string
  readonly sources: readonly SourceName[]
}

/** What the configuration lacks for a job of this stream and sink. */
export function missingFor(
  { ranges, sinks }: { readonly ranges: readonly RangeReader[]; readonly sinks: readonly JobSink[] },
  { stream, sink: name }: { readonly stream: Stream } & Pick<JobFilter, 'sink'>,
): Missing | undefined {
  if (!ranges.some((range) => isSameStream(range.stream, stream))) return 'source'
  if (name === undefined) return undefined
  const sink = sinks.find((one) => one.name === name)
  if (!sink) return 'sink'
  return sink.sources.includes(stream.source) ? undefined : 'sources'
}

// Progress of reading a span, kept apart from what is reported about live reading of its stream.

export type Progress = { -readonly [name in keyof JobProgress]: JobProgress[name] }

export const notBegun: Progress = {
  error: undefined,
  waitsFor: undefined,
  waitReason: undefined,
  atUs: undefined,
}

/** As commands and the status page see it: of an error, only code and message. */
export const reported = ({ error, ...rest }: Progress): JobProgress => ({
  ...rest,
  error: error && { code: error.code, message: error.message },
})

/** What a job waits for while its reader is in this state. @internal for tests */
export function waitOf(
  state: SourceState,
  { rateWait }: Pick<RangeReader, 'rateWait'>,
): Pick<Progress, 'waitsFor' | 'waitReason'> {
  if (state === 'paused') return { waitsFor: 'room', waitReason: undefined }
  if (state !== 'waiting') return { waitsFor: undefined, waitReason: undefined }
  const { isLimited, reason } = rateWait()
  return { waitsFor: isLimited ? 'limit' : 'rate_limit', waitReason: reason }
}

/** Counts for the source, but not as live reading. Waiting for room or after a 429 is no failure. */
export function reporting(
  { reporter, rateWait }: Pick<RangeReader, 'reporter' | 'rateWait'>,
  progress: Progress,
  use: RangeUse,
): StreamReporter {
  const { aside = reporter } = reporter
  // Only a backfill appends to the stream; what the others miss is no gap of live reading.
  const kept = use === 'keep' ? aside : silentReporter
  return {
    ...silentReporter,
    request: (code, durationMs) => aside.request(code, durationMs),
    waited: (durationMs) => aside.waited(durationMs),
    waitsForMemory() {
      progress.waitsFor = 'memory'
      return () => (progress.waitsFor = undefined)
    },
    appended: (appended) => kept.appended(appended),
    gap: (count) => kept.gap(count),
    state(state, error) {
      Object.assign(progress, waitOf(state, { rateWait }))
      if (error?.code === 'rate_limited') progress.error = undefined
      else if (error?.code !== 'journal_full') progress.error = error ?? progress.error
    },
    success: () => (progress.error = undefined),
    cursor: (atUs) => (progress.atUs = atUs),
  }
}
