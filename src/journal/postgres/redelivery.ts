// Redelivery: entries of a span of time that are still stored, or were read again, are put at the
// journal's end for one sink, marked as a replay.
import { TRANSACTION_BYTES } from '../../contracts/entries.ts'
import { assertJobShare } from '../../contracts/jobs.ts'
import type { Replayed, ReplayQuery, Resend } from '../../contracts/journal.ts'
import { ConnectorError } from '../../core/errors.ts'
import type { Seq, SequenceRange } from '../../core/sequence.ts'
import type { Acknowledged } from '../rules/acknowledgement.ts'
import { pack, payloadBytes } from '../rules/chunk.ts'
import type { ChunkSize } from '../rules/pruning.ts'
import { acknowledgedRanges, daysOf, selected } from '../rules/replay.ts'
import type { Selected } from '../rules/replay.ts'
import { refuseWhenFull, sourceOf } from './append.ts'
import type { Queries } from './connection.ts'
import type { Core } from './core.ts'
import { versionsOf } from './dedup-index.ts'
import { writeState } from './state.ts'
import type { Transaction } from './transactions.ts'

/** Entries per step. */
const STEP_CHUNKS = 64
const STEP_BYTES = 2 * TRANSACTION_BYTES

const everything = { maxEntries: Infinity, maxBytes: Infinity }

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

function acknowledgedBy({ pending }: Core, sink: string): Acknowledged {
  if (pending.sinks.has(sink)) return pending.sink(sink).acknowledged
  throw new ConnectorError('misconfigured', `There is no sink ${sink} in the configuration`)
}

async function look(
  queries: Queries,
  core: Core,
  query: ReplayQuery,
): Promise<{ readonly replayed: Replayed; readonly found: readonly Selected[] }> {
  const { shard, schema } = core
  const acknowledged = acknowledgedBy(core, query.sink)
  const until = query.until ?? acknowledged.ahead.at(-1)?.last ?? acknowledged.position
  // Entries addressed to one sink only are copies: the originals are earlier.
  const chunks = await queries.query<ChunkSize>(
    `SELECT first, last, payload FROM ${schema}.chunks
     WHERE shard = $1 AND first > $2 AND first <= $3 AND only_sink IS NULL ORDER BY first LIMIT ${STEP_CHUNKS}`,
    [shard, query.after, until],
  )
  const ranges = acknowledgedRanges(acknowledged)
  const { found, through } = await select(queries, core, { ...query, until }, ranges, chunks)
  const [oldest] = await queries.query<{ at: number }>(
    `SELECT appended_at AS at FROM ${schema}.chunks WHERE shard = $1 ORDER BY first LIMIT 1`,
    [shard],
  )
  const replayed = {
    entries: found.reduce((sum, { entries: { count } }) => sum + count, 0),
    bytes: found.reduce((sum, each) => sum + payloadBytes(each.entries), 0),
    days: daysOf(found),
    ...{ through, until, more: chunks.length > 0, keptSince: oldest?.at },
  }
  return { replayed, found }
}

/** As many chunks as fit into a step, at least one. */
async function select(
  queries: Queries,
  core: Core,
  query: ReplayQuery & { readonly until: Seq },
  ranges: readonly SequenceRange[],
  chunks: readonly ChunkSize[],
): Promise<{ found: Selected[]; through: Seq }> {
  const found: Selected[] = []
  let through = query.after
  let bytes = 0
  for (const { first, last, payload } of chunks) {
    if (through > query.after && bytes + payload > STEP_BYTES) break
    bytes += payload
    through = last
    for (const range of ranges) {
      const [from, to] = [Math.max(first, range.first), Math.min(last, range.last, query.until)]
      const batch = from > to ? undefined : await core.chunks.slice(queries, from, to, everything)
      found.push(...selected(batch?.slices ?? [], query))
    }
  }
  return { found, through }
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
  acknowledgedBy(core, sink)
  if (entries.count > 0) {
    refuseWhenFull(core)
    const source = await sourceOf(transaction, core, stream)
    const versions = await versionsOf(transaction, core, { source, name: stream.source }, entries)
    const address = { source, appendedAt: runAt, onlySink: sink, replay: true }
    await core.chunks.put(transaction, address, pack(entries, undefined, versions))
  }
  await writeState(transaction, core, again.state)
}
