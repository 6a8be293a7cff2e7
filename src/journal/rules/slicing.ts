// Cuts entries to limits: new ones into chunks, stored ones into batches.
import { TRANSACTION_BYTES, TRANSACTION_ENTRIES } from '../../contracts/entries.ts'
import type { Entries } from '../../contracts/entries.ts'
import { pack } from './chunk.ts'

/** The end of the chunk that begins at `from`: nearly always the end of the page chunk. */
function endOfChunk(entries: Entries, from: number): number {
  if (entries.count - from <= TRANSACTION_ENTRIES && entries.bytes.length <= TRANSACTION_BYTES)
    return entries.count
  let to = from
  for (let size = 0; to < entries.count && to - from < TRANSACTION_ENTRIES; to++) {
    size += entries.rawBytes(to)
    if (size > TRANSACTION_BYTES && to > from) break
  }
  return to
}

/** Packed entries as chunks, in order. A generator: only one chunk is in memory at a time. */
export function* chunksOf(entries: Entries): Generator<Entries> {
  for (let from = 0; from < entries.count;) {
    const to = endOfChunk(entries, from)
    const whole = from === 0 && to === entries.count
    yield whole ? entries : pack(entries.slice(from, to), undefined, undefined)
    from = to
  }
}

/**
 * The end of what fits of entries [start, end) into `memory` bytes, and its size; an entry that is
 * `alone` always fits.
 */
export function fitting(entries: Entries, start: number, end: number, memory: number, alone: boolean) {
  let taken = 0
  let index = start
  for (; index < end; index++) {
    const size = entries.rawBytes(index)
    if (taken + size > memory && !(alone && index === start)) break
    taken += size
  }
  return { index, taken }
}
