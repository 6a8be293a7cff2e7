// Redelivery: entries of a span of time that are still stored, or were read again, are put at the
// journal's end for one sink, marked as a replay.
import { assertJobShare } from '../../contracts/jobs.ts'
import type { Replayed, ReplayQuery, Resend } from '../../contracts/journal.ts'
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
import { refuseWhenFull, sourceOf } from './append.ts'
import type { Queries } from './connection.ts'
import type { Core } from './core.ts'
import { versionsOf } from './dedup-index.ts'
import { writeState } from './state.ts'
import type { Transaction } from './transactions.ts'

/**
 * One bounded step. Skips entries that the sink has not acknowledged, since they are pending
 * already, but not those that it acknowledged out of order. Throws ConnectorError `journal_full` if
 * pending entries fill the share of jobs; then nothing of the step has landed. `misconfigured`: the
 * journal has no such sink.
 */
export async function replay(core: Core, query: ReplayQuery): Promise<Replayed> {
  const { transactions } = core
  if (query.dryRun) return transactions.read(async (queries) => (await look(queries, core, query)).replayed)
  return transactions.write(async (transaction) => {
    const { replayed, found } = await look(transaction, core, query)
    if (found.length > 0) {
      assertJobShare({ bytes: core.pending.bytes, capacityBytes: core.maxBytes })
      await put(transaction, core, query, found)
    }
    return replayed
  })
}

async function look(
  queries: Queries,
  core: Core,
  query: ReplayQuery,
): Promise<{ readonly replayed: Replayed; readonly found: readonly Selected[] }> {
  const { shard, schema } = core
  const acknowledged = acknowledgedBy(core.pending, query.sink)
  const until = untilOf(query, acknowledged)
  // Entries addressed to one sink only are copies: the originals are earlier.
  const chunks = await queries.query<ChunkSize>(
    `SELECT first, last, payload FROM ${schema}.chunks
     WHERE shard = $1 AND first > $2 AND first <= $3 AND only_sink IS NULL ORDER BY first LIMIT ${STEP_CHUNKS}`,
    [shard, query.after, until],
  )
  const { ranges, through } = stepOf(chunks, acknowledged, query.after, until)
  const found: Selected[] = []
  for (const { first, last } of ranges) {
    const batch = await core.chunks.slice(queries, first, last, everything)
    found.push(...selected(batch?.slices ?? [], query))
  }
  const [oldest] = await queries.query<{ at: number }>(
    `SELECT appended_at AS at FROM ${schema}.chunks WHERE shard = $1 ORDER BY first LIMIT 1`,
    [shard],
  )
  const replayed = {
    ...sumsOf(found),
    ...{ through, until, more: chunks.length > 0, keptSince: oldest?.at },
  }
  return { replayed, found }
}

async function put(
  transaction: Transaction,
  core: Core,
  { sink, runAt }: ReplayQuery,
  found: readonly Selected[],
): Promise<void> {
  for (const { slice, entries } of found) {
    const source = core.streams.find(slice.stream)
    if (source === undefined) throw new Error('A stream of the journal is unknown to it')
    const address = { source, appendedAt: runAt, onlySink: sink, replay: true }
    await core.chunks.put(transaction, address, pack(entries, undefined, undefined))
  }
}

/** Stores the entries read again and the progress of reading, in one transaction (invariant 1). */
export async function resend(transaction: Transaction, core: Core, again: Resend): Promise<void> {
  const { entries, stream, runAt, sink } = again
  acknowledgedBy(core.pending, sink)
  if (entries.count > 0) {
    refuseWhenFull(core)
    const source = await sourceOf(transaction, core, stream)
    const versions = await versionsOf(transaction, core, { source, name: stream.source }, entries)
    const address = { source, appendedAt: runAt, onlySink: sink, replay: true }
    await core.chunks.put(transaction, address, pack(entries, undefined, versions))
  }
  await writeState(transaction, core, again.state)
}
