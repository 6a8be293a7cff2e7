// Pending entries: what each sink has acknowledged, its in-flight records, and the running totals.
// Memory is updated after the database, never before.
import type { InFlight, SinkPosition } from '../../contracts/journal.ts'
import type { Log } from '../../core/log.ts'
import type { Seq, SequenceRange } from '../../core/sequence.ts'
import { PendingEntries, aheadCount, withAcked } from '../rules/acknowledgement.ts'
import type { Acknowledged, Released, SinkState } from '../rules/acknowledgement.ts'
import { logLeftSink, logNewSink, logReturnedSink } from '../rules/streams.ts'
import { beginAccounts } from './accounts.ts'
import type { Queries } from './connection.ts'
import type { Core } from './core.ts'
import type { Transaction } from './transactions.ts'

interface PendingSink extends SinkState {
  /** epoch ms at which the oldest pending entry was stored */
  oldestPendingAt: number | undefined
}

export class Pending extends PendingEntries<PendingSink> {
  /** Before any sink is registered. */
  async load({ query }: Queries, { shard, schema, transactions }: Core): Promise<void> {
    const [stored] = await query<{ oldest: Seq | null; bytes: number }>(
      `SELECT min(first) AS oldest, coalesce(sum(payload), 0)::bigint AS bytes FROM ${schema}.chunks WHERE shard = $1`,
      [shard],
    )
    this.storedBytes = this.bytes = stored?.bytes ?? 0
    this.pendingFrom = stored?.oldest ?? transactions.lastSeq + 1
  }

  applyAppended(payload: number, appendedAt: number): void {
    this.bytes += payload
    this.storedBytes += payload
    for (const sink of this.sinks.values()) sink.oldestPendingAt ??= appendedAt
  }

  positions(lastSeq: Seq): SinkPosition[] {
    return [...this.sinks].map(([sink, { acknowledged, deadLetters, oldestPendingAt }]) => ({
      sink,
      position: acknowledged.position,
      pendingEntries: lastSeq - acknowledged.position - aheadCount(acknowledged),
      oldestPendingAt,
      deadLetters,
    }))
  }
}

async function released(
  { query }: Queries,
  { shard, schema, pending }: Core,
  ackedTo: Seq,
): Promise<Released> {
  if (ackedTo < pending.pendingFrom) return { last: null, bytes: 0 }
  const [chunks] = await query<Released>(
    `SELECT max(last) AS last, coalesce(sum(payload), 0)::bigint AS bytes FROM ${schema}.chunks
     WHERE shard = $1 AND first BETWEEN $2 AND $3 AND last <= $3`,
    [shard, pending.pendingFrom, ackedTo],
  )
  return chunks ?? { last: null, bytes: 0 }
}

async function appendedAt(
  { query }: Queries,
  { shard, schema }: Core,
  seq: Seq,
): Promise<number | undefined> {
  const [chunk] = await query<{ at: number }>(
    `SELECT appended_at AS at FROM ${schema}.chunks WHERE shard = $1 AND first <= $2 ORDER BY first DESC LIMIT 1`,
    [shard, seq],
  )
  return chunk?.at
}

const oldestPendingAt = async (queries: Queries, core: Core, position: Seq) =>
  position < core.transactions.lastSeq ? appendedAt(queries, core, position + 1) : undefined

/** Moves the sink's position, and removes its in-flight records of the range. */
export async function writeAck(
  transaction: Transaction,
  core: Core,
  name: string,
  range: SequenceRange,
): Promise<void> {
  const { shard, schema, pending, chunks, transactions } = core
  const sink = pending.sink(name)
  const before = sink.acknowledged
  const acknowledged = pending.ackedWith(name, range, transactions.lastSeq)
  const hasMoved = acknowledged.position !== before.position
  await transaction.query(
    `WITH moved AS (UPDATE ${schema}.sinks SET position = $5 WHERE shard = $1 AND name = $2 AND position <> $5)
     DELETE FROM ${schema}.in_flight WHERE shard = $1 AND sink = $2 AND first BETWEEN $3 AND $4`,
    [shard, name, range.first, range.last, acknowledged.position],
  )
  if (before.ahead.length + acknowledged.ahead.length > 0)
    await writeAhead(transaction, core, name, acknowledged)
  const sinks = new Map(pending.sinks).set(name, { ...sink, acknowledged })
  const gone = await released(transaction, core, pending.ackedToWith(sinks))
  const oldest = hasMoved
    ? await oldestPendingAt(transaction, core, acknowledged.position)
    : sink.oldestPendingAt
  transaction.afterCommit(() => {
    sink.acknowledged = acknowledged
    sink.oldestPendingAt = oldest
    pending.applyReleased(gone)
    chunks.release(pending.ackedTo)
  })
}

async function writeAhead(
  { query }: Transaction,
  { shard, schema }: Core,
  name: string,
  { ahead }: Acknowledged,
) {
  await query(`DELETE FROM ${schema}.acknowledged_ranges WHERE shard = $1 AND sink = $2`, [shard, name])
  if (ahead.length > 0)
    await query(
      `INSERT INTO ${schema}.acknowledged_ranges SELECT $1, $2, * FROM unnest($3::bigint[], $4::bigint[])`,
      [...[shard, name, ahead.map(({ first }) => first), ahead.map(({ last }) => last)]],
    )
}

// In-flight records.

export async function writeInFlight(
  { query }: Transaction,
  { shard, schema, pending }: Core,
  name: string,
  { first, last, shape, detail }: InFlight,
): Promise<void> {
  pending.sink(name)
  await query(
    `INSERT INTO ${schema}.in_flight VALUES ($1, $2, $3, $4, $5, $6) ON CONFLICT (shard, sink, first)
     DO UPDATE SET last = excluded.last, fingerprint = excluded.fingerprint, detail = excluded.detail`,
    [shard, name, first, last, shape, detail],
  )
}

export async function inFlightOf(
  { query }: Queries,
  { shard, schema, pending }: Core,
  name: string,
): Promise<readonly InFlight[]> {
  pending.sink(name)
  return query<InFlight>(
    `SELECT first, last, fingerprint AS shape, detail FROM ${schema}.in_flight
     WHERE shard = $1 AND sink = $2 ORDER BY first`,
    [shard, name],
  )
}

// Registration: which sinks there are, and where each continues.

interface SinkRow {
  readonly name: string
  readonly position: Seq
  /** the operator knows that this sink left the configuration */
  readonly reported: boolean
  readonly counted: boolean
}

/** The log speaks once all has landed. */
export async function registerSinks(
  transaction: Transaction,
  core: Core,
  names: readonly string[],
  log: Log,
): Promise<void> {
  const { shard, schema, pending, transactions } = core
  const { query } = transaction
  const rows = await query<SinkRow>(
    `SELECT name, position, reported, counted FROM ${schema}.sinks WHERE shard = $1 ORDER BY name`,
    [shard],
  )
  const [chunks] = await query<{ oldest: Seq | null }>(
    `SELECT min(first) AS oldest FROM ${schema}.chunks WHERE shard = $1`,
    [shard],
  )
  const begin = (chunks?.oldest ?? transactions.lastSeq + 1) - 1
  const known = new Map(rows.map((row) => [row.name, row]))
  const sinks = new Map<string, PendingSink>()
  for (const name of names)
    sinks.set(name, await registered(transaction, core, name, known.get(name), begin, log))
  const left = rows.filter(({ name }) => !names.includes(name))
  for (const row of left) if (!row.reported) await reportLeft(transaction, core, row, log)
  const gone = await released(transaction, core, pending.ackedToWith(sinks))
  transaction.afterCommit(() => {
    pending.sinks = sinks
    pending.unconfigured = left.map(({ name }) => name)
    pending.applyReleased(gone)
  })
}

/** A known sink continues where it was, but never before the oldest stored entry. */
async function registered(
  transaction: Transaction,
  core: Core,
  name: string,
  row: SinkRow | undefined,
  begin: Seq,
  log: Log,
): Promise<PendingSink> {
  const { shard, schema } = core
  const { query } = transaction
  const hasLost = row !== undefined && row.position < begin
  const entries = row === undefined ? await storedFor(transaction, core, name, 0) : 0
  const position = Math.max(row?.position ?? 0, begin)
  await query(
    `INSERT INTO ${schema}.sinks (shard, name, position) VALUES ($1, $2, $3) ON CONFLICT (shard, name)
     DO UPDATE SET position = excluded.position, reported = false`,
    [shard, name, position],
  )
  await query(`DELETE FROM ${schema}.in_flight WHERE shard = $1 AND sink = $2 AND first <= $3`, [
    ...[shard, name, position],
  ])
  const acknowledged = await ackedFrom(transaction, core, name, position)
  if (row?.counted !== true || hasLost) await beginAccounts(transaction, core, name, acknowledged)
  const [counted] = await query<{ count: number }>(
    `SELECT count(*) AS count FROM ${schema}.dead_letters WHERE shard = $1 AND sink = $2`,
    [shard, name],
  )
  transaction.afterCommit(() => {
    if (entries > 0) logNewSink(log, name, entries)
    if (hasLost) logReturnedSink(log, name)
  })
  const oldest = await oldestPendingAt(transaction, core, acknowledged.position)
  return { acknowledged, deadLetters: counted?.count ?? 0, oldestPendingAt: oldest }
}

async function reportLeft(transaction: Transaction, core: Core, { name, position }: SinkRow, log: Log) {
  const acknowledged = await ackedFrom(transaction, core, name, position)
  const stored = await storedFor(transaction, core, name, acknowledged.position)
  const { shard, schema } = core
  await transaction.query(`UPDATE ${schema}.sinks SET reported = true WHERE shard = $1 AND name = $2`, [
    shard,
    name,
  ])
  transaction.afterCommit(() => logLeftSink(log, name, stored - aheadCount(acknowledged)))
}

/**
 * Ranges stored as acknowledged ahead may be below the position by now: a sink may come back
 * behind them.
 */
async function ackedFrom({ query }: Queries, { shard, schema }: Core, name: string, position: Seq) {
  const ahead = await query<SequenceRange>(
    `SELECT first, last FROM ${schema}.acknowledged_ranges WHERE shard = $1 AND sink = $2`,
    [shard, name],
  )
  return ahead.reduce<Acknowledged>(withAcked, { position, ahead: [] })
}

/** Stored entries behind `after`, without those for another sink only, such as its replay. */
async function storedFor(
  { query }: Queries,
  { shard, schema }: Core,
  name: string,
  after: Seq,
): Promise<number> {
  const [found] = await query<{ count: number }>(
    `SELECT coalesce(sum(last - greatest(first - 1, $3)), 0)::bigint AS count FROM ${schema}.chunks
     WHERE shard = $1 AND last > $3 AND (only_sink IS NULL OR only_sink = $2)`,
    [shard, name, after],
  )
  return found?.count ?? 0
}
