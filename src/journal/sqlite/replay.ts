// Replay: entries of a span of time that are still stored, or were read again, are put at the
// journal's end for one sink, marked as a replay.
import type { Database } from 'better-sqlite3'
import { assertJobShare } from '../../contracts/jobs.ts'
import type { Replayed, ReplayQuery, Resend } from '../../contracts/journal.ts'
import type { Seq } from '../../core/sequence.ts'
import { pack } from '../rules/chunk.ts'
import type { ChunkSize } from '../rules/pruning.ts'
import {
  STEP_CHUNKS,
  acknowledgedBy,
  everything,
  selected,
  stepOf,
  sumsOf,
  untilOf,
} from '../rules/replay.ts'
import type { Selected } from '../rules/replay.ts'
import { applyPut, putChunks, refuseWhenFull, SMALL_BYTES, sourceOf } from './append.ts'
import type { Core } from './core.ts'

type ReplayStatements = ReturnType<typeof prepareReplay>

export function prepareReplay(db: Database) {
  return {
    // Entries addressed to one sink only are copies: the originals are earlier.
    next: db.prepare<[Seq, Seq, number], ChunkSize>(
      'SELECT first, last, payload FROM chunks WHERE first > ? AND first <= ? AND only_sink IS NULL ORDER BY first LIMIT ?',
    ),
    keptSince: db
      .prepare<[], number | null>(
        'SELECT appended_at FROM chunks WHERE first = (SELECT min(first) FROM chunks)',
      )
      .pluck(),
  }
}

/**
 * One bounded step. Skips entries that the sink has not acknowledged, since they are pending
 * already, but not those that it acknowledged out of order. Throws ConnectorError `journal_full` if
 * pending entries fill the share of jobs; then nothing of the step has landed. `misconfigured`: the
 * journal has no such sink.
 */
export function replay(core: Core, statements: ReplayStatements, query: ReplayQuery): Replayed {
  const { chunkStore, pending, transactions } = core
  const acknowledged = acknowledgedBy(pending, query.sink)
  const until = untilOf(query, acknowledged)
  const chunks = transactions.read(() => statements.next.all(query.after, until, STEP_CHUNKS))
  const { ranges, through } = stepOf(chunks, acknowledged, query.after, until)
  const found = transactions.read(() =>
    ranges.flatMap(({ first, last }) =>
      selected(chunkStore.slice(first, last, everything)?.slices ?? [], query),
    ),
  )
  const { entries, bytes, days } = sumsOf(found)
  if (!query.dryRun && entries > 0) {
    assertJobShare({ bytes: pending.bytes, capacityBytes: core.maxBytes })
    transactions.writeNew(() => put(core, query, found), bytes + SMALL_BYTES)
    pending.applyAppended(entries, bytes)
  }
  const keptSince = transactions.read(() => statements.keptSince.get()) ?? undefined
  return { entries, bytes, days, through, until, more: chunks.length > 0, keptSince }
}

function put(core: Core, { sink, runAt }: ReplayQuery, found: readonly Selected[]): void {
  let { lastSeq } = core.pending
  for (const { slice, entries } of found) {
    const source = core.streams.find(slice.stream)
    if (source === undefined) throw new Error('A stream of the journal is unknown to it')
    const address = { source, appendedAt: runAt, onlySink: sink, replay: true }
    putChunks(core, lastSeq, address, pack(entries, undefined, undefined))
    lastSeq += entries.count
  }
}

/** Stores the entries read again and the progress of reading, in one transaction (invariant 1). */
export function resend(core: Core, again: Resend): void {
  const { dedupIndex, pending, transactions } = core
  const { entries, stream, runAt, sink } = again
  acknowledgedBy(pending, sink)
  if (entries.count === 0) {
    transactions.write(() => core.state.write(again.state))
    return
  }
  refuseWhenFull(core)
  const source = sourceOf(core, stream)
  const puts = transactions.writeNew(() => {
    const packed = pack(entries, undefined, dedupIndex.versions(source, stream.source, entries))
    const address = { source, appendedAt: runAt, onlySink: sink, replay: true }
    const put = putChunks(core, pending.lastSeq, address, packed)
    core.state.write(again.state)
    return put
  }, entries.bytes.length + SMALL_BYTES)
  applyPut(core, puts)
}
