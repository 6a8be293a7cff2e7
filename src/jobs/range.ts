// What a stream must offer for its spans to be read again, and the progress of that.
import type { JobFilter, JobProgress, JobSpan, Missing, RangeUse, Unread } from '../contracts/jobs.ts'
import type { Note } from '../contracts/records.ts'
import { silentReporter } from '../contracts/reporter.ts'
import type { SourceState, StreamReporter } from '../contracts/reporter.ts'
import { isSameStream } from '../contracts/source.ts'
import type { Cursor, Stream, Source, SourceName } from '../contracts/source.ts'
import { ConnectorError } from '../core/errors.ts'
import type { KeyWait } from '../core/key-waits.ts'
import type { Log } from '../core/log.ts'

export interface RangeReader {
  readonly stream: Stream
  readonly reporter: StreamReporter
  readonly log: Log
  readonly wanted: (type: string) => boolean
  /** where it is kept when the source last had a gap; absent: nowhere */
  readonly reads?: { notes(good: boolean, gaps: number): readonly Note[] } | undefined
  /** waits of the key that it is read with; absent: no other reader has this key */
  readonly keyWait?: KeyWait | undefined
  /** Reads the span once; the cursor of its parts is a place in that span. */
  open(span: JobSpan, reporter: StreamReporter, use: RangeUse): Source
  /** What a job waits for when the rate limiter has no permit for it, and why, in words. `isLimited`: the end of a 429. */
  readonly rateWait: () => { readonly isLimited: boolean; readonly reason: string }
  /** By the cursor of live reading: nothing before it is wanted, µs; undefined: all is. */
  readonly startUs: (live: Cursor | undefined) => number | undefined
  /** What of the span stayed unread, by a place in it; undefined: only how often something may have been left out is known. */
  readonly unread: (place: string | undefined) => readonly Unread[] | undefined
}

/** A sink of the configuration. */
export interface JobSink {
  readonly name: string
  readonly sources: readonly SourceName[]
}

/** Throws ConnectorError `misconfigured` where there is none. */
export function rangeOf(ranges: readonly RangeReader[], wanted: Stream): RangeReader {
  const range = ranges.find(({ stream }) => isSameStream(stream, wanted))
  if (range) return range
  throw new ConnectorError(
    'misconfigured',
    `${wanted.workspace} ${wanted.source} is not switched on, or its past cannot be read again`,
  )
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

/** Of a job in this state. @internal for tests */
export function waitOf(
  state: SourceState,
  { rateWait }: Pick<RangeReader, 'rateWait'>,
): Pick<Progress, 'waitsFor' | 'waitReason'> {
  if (state === 'paused') return { waitsFor: 'room', waitReason: undefined }
  if (state !== 'waiting') return { waitsFor: undefined, waitReason: undefined }
  const { isLimited, reason } = rateWait()
  return { waitsFor: isLimited ? 'limit' : 'rate_limit', waitReason: reason }
}

/** Counts requests and entries under the source, but reports nothing about its live reading. Waiting for room is no failure. */
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
      if (error?.code !== 'journal_full') progress.error = error ?? progress.error
    },
    success: () => (progress.error = undefined),
    cursor: (atUs) => (progress.atUs = atUs),
  }
}
