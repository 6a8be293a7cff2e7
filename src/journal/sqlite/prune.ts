// Making room: delivered chunks and old keys go, oldest first, a bounded step at a time; never what somebody may still ask for.
import type { Database } from 'better-sqlite3'
import type { Core } from './core.ts'

/** A step's bounds: some ten milliseconds. */
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

/** The oldest chunks that all sinks have settled, as far as what is kept of such exceeds its bound: what was sent again counts like the rest. */
function dropChunks(
  { ledger, shelf, keepSettledBytes, transactions }: Core,
  statements: PruneStatements,
): boolean {
  const excess = ledger.keptBytes - ledger.owedBytes - keepSettledBytes
  if (excess <= 0) return false
  const { settledTo } = ledger
  const dropped = transactions.write(() => {
    const chunks: ChunkSize[] = []
    let bytes = 0
    for (const chunk of statements.oldest.all(STEP_CHUNKS)) {
      if (chunk.last > settledTo || bytes >= excess || bytes >= STEP_BYTES) break
      chunks.push(chunk)
      bytes += chunk.payload
    }
    const last = chunks.at(-1)
    if (last) statements.dropChunks.run(last.first)
    return { chunks, bytes }
  })
  for (const { first } of dropped.chunks) shelf.forget(first)
  ledger.applyPruned(dropped.bytes)
  return dropped.bytes > 0 && dropped.bytes < excess
}

/**
 * A key goes when its entry is older than keys are kept, and older than all that this source has read on its last two days
 * of reading: a drain of last year's entries may have to read a page again, and must know it then. Whichever source has the
 * newest entry tells how late it is: a clock that is ahead takes no keys that are wanted once it is set right.
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
