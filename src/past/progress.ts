// How what reads the past fares, watched without disturbing what is told of its source's live reading.
import type { ConnectorError } from '../model/errors.ts'
import type { WaitsFor } from '../model/past.ts'
import { silentWatch } from '../model/watch.ts'
import type { SourceState, SourceWatch } from '../model/watch.ts'
import type { RangeReader } from './ranges.ts'

export interface Progress {
  /** why it does not come on just now; it is tried again */
  error: ConnectorError | undefined
  waitsFor: WaitsFor | undefined
  /** in words, where more is known of it */
  waitReason: string | undefined
  /** the own time of what was read last, µs; undefined: nothing yet */
  atUs: number | undefined
}

export const notBegun: Progress = {
  error: undefined,
  waitsFor: undefined,
  waitReason: undefined,
  atUs: undefined,
}

/** Of a job in this state. @internal for tests */
export function waitOf(
  state: SourceState,
  { rateWait }: Pick<RangeReader, 'rateWait'>,
): Pick<Progress, 'waitsFor' | 'waitReason'> {
  if (state === 'paused') return { waitsFor: 'room', waitReason: undefined }
  if (state !== 'waiting') return { waitsFor: undefined, waitReason: undefined }
  const { isLimited, reason } = rateWait()
  return { waitsFor: isLimited ? 'limit' : 'budget', waitReason: reason }
}

/** Counts requests and entries under the source, and says nothing of where its live reading is, nor that it lives. To wait for room is no failure. */
export function watching(
  { watch, rateWait }: Pick<RangeReader, 'watch' | 'rateWait'>,
  progress: Progress,
  more: Partial<SourceWatch> = {},
): SourceWatch {
  const { aside = watch } = watch
  return {
    ...silentWatch,
    request: (code, durationMs) => aside.request(code, durationMs),
    waited: (durationMs) => aside.waited(durationMs),
    waitsForMemory() {
      progress.waitsFor = 'memory'
      return () => (progress.waitsFor = undefined)
    },
    appended: (appended) => aside.appended(appended),
    gap: (count) => aside.gap(count),
    state(state, error) {
      Object.assign(progress, waitOf(state, { rateWait }))
      if (error?.code !== 'journal_full') progress.error = error ?? progress.error
    },
    success: () => (progress.error = undefined),
    cursor: (atUs) => (progress.atUs = atUs),
    ...more,
  }
}
