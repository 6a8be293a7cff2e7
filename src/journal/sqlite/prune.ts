// Pruning: deletes delivered chunks and old keys, oldest first, in bounded steps.
import type { Database } from 'better-sqlite3'
import { droppable, keyCutoffUs } from '../rules/pruning.ts'
import type { ChunkSize } from '../rules/pruning.ts'
import type { Core } from './core.ts'

/** Bounds of a step: about ten milliseconds. */
const STEP_CHUNKS = 256
const STEP_KEYS = 20_000

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

function dropChunks(
  { pending, chunkStore, keepDeliveredBytes, transactions }: Core,
  statements: PruneStatements,
): boolean {
  const excess = pending.storedBytes - pending.bytes - keepDeliveredBytes
  if (excess <= 0) return false
  const dropped = transactions.write(() => {
    const found = droppable(statements.oldest.all(STEP_CHUNKS), pending.ackedTo, excess)
    const last = found.chunks.at(-1)
    if (last) statements.dropChunks.run(last.first)
    return found
  })
  for (const { first } of dropped.chunks) chunkStore.forget(first)
  pending.applyPruned(dropped.bytes)
  return dropped.bytes > 0 && dropped.bytes < excess
}

function dropKeys({ clock, keepKeysMs, transactions }: Core, statements: PruneStatements): boolean {
  return transactions.write(() => {
    const ages = { nowMs: clock.now(), keepKeysMs, newestUs: statements.newest.get() }
    for (const { id, low_at: lowUs, low_before: lowBeforeUs } of statements.lows.all()) {
      const cutoff = keyCutoffUs({ ...ages, lowUs, lowBeforeUs })
      if (cutoff === undefined) continue
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
