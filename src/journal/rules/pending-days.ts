// Pending entries by source and day, from the times that the chunks hold.
import type { Seq, SequenceRange } from '../../core/sequence.ts'
import { epochDay } from '../../core/time.ts'

export interface ChunkTimes {
  readonly first: Seq
  readonly last: Seq
  readonly source: number
  readonly only_sink: string | null
  readonly replay: number | boolean
  readonly times: Buffer
}

export interface SourceDayCount {
  readonly source: number
  readonly day: number
  count: number
}

/** No sink's name: leaves out entries addressed to one sink; nothing counts as acknowledged. */
export const NO_SINK = ''

/**
 * Entries of these chunks behind `after` that are pending for this sink for the first time, or
 * again after they were dead letters. `ahead`: ranges that it has acknowledged.
 */
export function pendingDays(
  chunks: readonly ChunkTimes[],
  sink: string,
  ahead: readonly SequenceRange[],
  after: Seq,
) {
  const isAcknowledged = (seq: Seq) => ahead.some(({ first, last }) => first <= seq && seq <= last)
  const counts = new Map<string, SourceDayCount>()
  let through = after
  for (const chunk of chunks) {
    through = chunk.last
    if (Boolean(chunk.replay) || (chunk.only_sink !== null && chunk.only_sink !== sink)) continue
    const times = new DataView(chunk.times.buffer, chunk.times.byteOffset, chunk.times.byteLength)
    for (let seq = Math.max(chunk.first, after + 1); seq <= chunk.last; seq++) {
      if (ahead.length > 0 && isAcknowledged(seq)) continue
      const day = epochDay(times.getFloat64(8 * (seq - chunk.first), true))
      const key = `${chunk.source} ${day}`
      const known = counts.get(key)
      if (known) known.count++
      else counts.set(key, { source: chunk.source, day, count: 1 })
    }
  }
  return { rows: [...counts.values()], through, more: chunks.length > 0 }
}
