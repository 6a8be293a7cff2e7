// What may be pruned: never data that may still be needed.
import type { Seq } from '../../core/sequence.ts'

/** Bound of a step: about ten milliseconds. */
const STEP_BYTES = 16 * 1024 * 1024

export interface ChunkSize {
  readonly first: Seq
  readonly last: Seq
  readonly payload: number
}

/**
 * Of the oldest chunks, those that every sink has acknowledged, as far as they exceed the bound by
 * `excess` bytes: entries sent again count like the others.
 */
export function droppable(oldest: readonly ChunkSize[], ackedTo: Seq, excess: number) {
  const chunks: ChunkSize[] = []
  let bytes = 0
  for (const chunk of oldest) {
    if (chunk.last > ackedTo || bytes >= excess || bytes >= STEP_BYTES) break
    chunks.push(chunk)
    bytes += chunk.payload
  }
  return { chunks, bytes }
}

interface KeyAges {
  readonly nowMs: number
  readonly keepKeysMs: number
  /** µs: of the newest entry of any source */
  readonly newestUs: number | null | undefined
  /** µs: the oldest entry read on the source's last reading day, and on the one before */
  readonly lowUs: number | null
  readonly lowBeforeUs: number | null
}

/**
 * Keys before this time (µs) are deleted; undefined: none. They are older than the retention of
 * keys, and than everything that this source has read on its last two reading days: while it reads
 * last year's entries it may read a page again, and must recognise it. The time is that of the
 * newest entry: a clock that is ahead deletes no keys that are needed once it is corrected.
 */
export function keyCutoffUs({ nowMs, keepKeysMs, newestUs, lowUs, lowBeforeUs }: KeyAges) {
  const oldest = Math.min(nowMs * 1000, newestUs ?? -Infinity) - keepKeysMs * 1000
  const cutoff = Math.floor(Math.min(oldest, lowUs ?? -Infinity, lowBeforeUs ?? Infinity))
  return Number.isFinite(cutoff) ? cutoff : undefined
}
