// Pruning: deletes delivered chunks and old keys, oldest first, in bounded steps; never data that
// may still be needed.
import type { Database } from 'better-sqlite3'
import type { Core } from './core.ts'

/** Bounds of a step: about ten milliseconds. */
const STEP_CHUNKS = 256
const STEP_BYTES = 16 * 1024 * 1024
const STEP_KEYS = 20_000

interface ChunkSize {
  first: number
  last: number
  payload: number
}

interface SourceLow {
  id: number
  low_at: number | null
  low_before: number | null
}

type PruneStatements = ReturnType<typeof preparePrune>

export function preparePrune(db: Database) {
  return {
    oldest: db.prepare<[number], ChunkSize>('SELECT first, last, payload FROM chunks ORDER BY first LIMIT ?'),
    dropChunks: db.prepare('DELETE FROM chunks WHERE first <= ?'),
    lows: db.prepare<[], SourceLow>('SELECT id, low_at, low_before FROM sources ORDER BY id'),
    newest: db
      .prepare<[], number | null>(
        'SELECT max((SELECT max(at) FROM keys WHERE source = sources.id)) FROM sources',
      )
      .pluck(),
    keyBehind: db.prepare<[number, number, number], { at: number; id: Buffer }>(
      'SELECT at, id FROM keys WHERE source = ? AND at < ? ORDER BY at, id LIMIT 1 OFFSET ?',
    ),
    dropKeysBefore: db.prepare('DELETE FROM keys WHERE source = ? AND (at, id) < (?, ?)'),
    dropKeys: db.prepare('DELETE FROM keys WHERE source = ? AND at < ?'),
  }
}

/**
 * The oldest chunks that all sinks have acknowledged, as far as these exceed their bound: entries
 * sent again count like the others.
 */
function dropChunks(
  { ledger, chunkStore, keepSettledBytes, transactions }: Core,
  statements: PruneStatements,
): boolean {
  const excess = ledger.keptBytes - ledger.pendingBytes - keepSettledBytes
  if (excess <= 0) return false
  const { ackedTo } = ledger
  const dropped = transactions.write(() => {
    const chunks: ChunkSize[] = []
    let bytes = 0
    for (const chunk of statements.oldest.all(STEP_CHUNKS)) {
      if (chunk.last > ackedTo || bytes >= excess || bytes >= STEP_BYTES) break
      chunks.push(chunk)
      bytes += chunk.payload
    }
    const last = chunks.at(-1)
    if (last) statements.dropChunks.run(last.first)
    return { chunks, bytes }
  })
  for (const { first } of dropped.chunks) chunkStore.forget(first)
  ledger.applyPruned(dropped.bytes)
  return dropped.bytes > 0 && dropped.bytes < excess
}

/**
 * A key is deleted if its entry is older than the retention of keys, and older than everything that
 * this source has read on its last two reading days: a drain of last year's entries may have to
 * read a page again, and must recognise it. The time is that of the newest entry of any source: a
 * clock that is ahead deletes no keys that are needed once it is corrected.
 */
function dropKeys({ clock, keepKeysMs, transactions }: Core, statements: PruneStatements): boolean {
  return transactions.write(() => {
    const oldest = Math.min(clock.now() * 1000, statements.newest.get() ?? -Infinity) - keepKeysMs * 1000
    for (const { id, low_at, low_before } of statements.lows.all()) {
      const cutoff = Math.floor(Math.min(oldest, low_at ?? -Infinity, low_before ?? Infinity))
      if (!Number.isFinite(cutoff)) continue
      const behind = statements.keyBehind.get(id, cutoff, STEP_KEYS)
      if (behind) {
        statements.dropKeysBefore.run(id, behind.at, behind.id)
        return true
      }
      statements.dropKeys.run(id, cutoff)
    }
    return false
  })
}

export function prune(core: Core, statements: PruneStatements): boolean {
  const moreChunks = dropChunks(core, statements)
  const moreKeys = dropKeys(core, statements)
  return moreChunks || moreKeys
}
