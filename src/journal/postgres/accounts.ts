// Delivery accounts: results of each entry at each sink, counted by stream and the entry's own UTC
// day and kept for good. `reconcile` compares them with the entries read.
import type { DayRange, KeptDayAccount, PendingStep, SinkDayAccount } from '../../contracts/accounts.ts'
import type { Stream } from '../../contracts/source.ts'
import type { Seq } from '../../core/sequence.ts'
import type { Acknowledged } from '../rules/acknowledgement.ts'
import { NO_SINK, pendingDays } from '../rules/pending-days.ts'
import type { ChunkTimes } from '../rules/pending-days.ts'
import type { Queries } from './connection.ts'
import type { Core } from './core.ts'
import type { Transaction } from './transactions.ts'

/** Chunks of one step: only their times are read, 8 bytes per entry. */
const STEP_CHUNKS = 64

/** What to add to the accounts of a sink, a source and a day. */
export interface AccountChange {
  readonly sink: string
  readonly source: number
  readonly day: number
  readonly before?: number
  readonly accepted?: number
  readonly filtered?: number
  readonly deadLettered?: number
  readonly dropped?: number
  readonly replayed?: number
}

export async function addAccounts(
  { query }: Transaction,
  { shard, schema }: Core,
  changes: readonly AccountChange[],
): Promise<void> {
  if (changes.length === 0) return
  const column = (key: keyof AccountChange) => changes.map((change) => change[key] ?? 0)
  await query(
    `INSERT INTO ${schema}.accounts AS known
       (shard, sink, stream, day, before, accepted, filtered, dead_lettered, dropped, replayed)
     SELECT $1, sink, stream, day, sum(before), sum(accepted), sum(filtered), sum(dead_lettered), sum(dropped), sum(replayed)
     FROM unnest($2::text[], $3::integer[], $4::integer[], $5::bigint[], $6::bigint[], $7::bigint[], $8::bigint[],
       $9::bigint[], $10::bigint[]) AS change
       (sink, stream, day, before, accepted, filtered, dead_lettered, dropped, replayed)
     GROUP BY sink, stream, day
     ON CONFLICT (shard, sink, stream, day) DO UPDATE SET before = known.before + excluded.before,
       accepted = known.accepted + excluded.accepted, filtered = known.filtered + excluded.filtered,
       dead_lettered = known.dead_lettered + excluded.dead_lettered, dropped = known.dropped + excluded.dropped,
       replayed = known.replayed + excluded.replayed`,
    [
      ...[shard, column('sink'), column('source'), column('day'), column('before'), column('accepted')],
      ...[column('filtered'), column('deadLettered'), column('dropped'), column('replayed')],
    ],
  )
}

/**
 * For a sink that was not counted so far, or lost entries while it was not configured: entries kept
 * that are neither counted nor pending become `before`. From then on kept = before + accepted +
 * filtered + dead_lettered + dropped + pending, on every day.
 */
export async function beginAccounts(
  transaction: Transaction,
  core: Core,
  sink: string,
  acknowledged: Acknowledged,
): Promise<void> {
  const { shard, schema } = core
  const pending = new Map<string, number>()
  for (let after = acknowledged.position; ;) {
    const step = await pendingStep(transaction, core, sink, acknowledged, after)
    for (const { source, day, count } of step.rows) {
      const key = `${source} ${day}`
      pending.set(key, (pending.get(key) ?? 0) + count)
    }
    if (!step.more) break
    after = step.through
  }
  const uncounted = await transaction.query<{ source: number; day: number; missing: number }>(
    `SELECT kept.stream AS source, kept.day, kept.new + kept.late -
       coalesce(known.before + known.accepted + known.filtered + known.dead_lettered + known.dropped, 0) AS missing
     FROM ${schema}.counts kept LEFT JOIN ${schema}.accounts known
       ON known.shard = $1 AND known.sink = $2 AND known.stream = kept.stream AND known.day = kept.day
     WHERE kept.shard = $1`,
    [shard, sink],
  )
  const changes = uncounted.map(({ source, day, missing }) => ({
    ...{ sink, source, day, before: missing - (pending.get(`${source} ${day}`) ?? 0) },
  }))
  await addAccounts(
    transaction,
    core,
    changes.filter(({ before }) => before !== 0),
  )
  await transaction.query(`UPDATE ${schema}.sinks SET counted = true WHERE shard = $1 AND name = $2`, [
    shard,
    sink,
  ])
}

interface Counted {
  readonly source: number
}

const named =
  ({ streams }: Core) =>
  <Row extends Counted>({ source, ...rest }: Row): Omit<Row, 'source'> & { stream: Stream } => ({
    stream: streams.stream(source),
    ...rest,
  })

export async function counts({ query }: Queries, core: Core, { fromDay, toDay }: DayRange) {
  const { shard, schema } = core
  const kept = await query<Counted & Omit<KeptDayAccount, 'stream'>>(
    `SELECT stream AS source, day, new + late AS kept, filtered, quarantined FROM ${schema}.counts
     WHERE shard = $1 AND day >= $2 AND day < $3 ORDER BY stream, day`,
    [shard, fromDay, toDay],
  )
  const delivered = await query<Counted & Omit<SinkDayAccount, 'stream'>>(
    `SELECT sink, stream AS source, day, before, accepted, filtered, dead_lettered AS "deadLettered", dropped, replayed
     FROM ${schema}.accounts WHERE shard = $1 AND day >= $2 AND day < $3 ORDER BY sink, stream, day`,
    [shard, fromDay, toDay],
  )
  return { kept: kept.map(named(core)), delivered: delivered.map(named(core)) }
}

/** One bounded step over the entries behind `after` that are pending for this sink. */
export async function pendingOf(
  queries: Queries,
  core: Core,
  sink: string,
  acknowledged: Acknowledged,
  after: Seq,
): Promise<PendingStep> {
  const { rows, ...step } = await pendingStep(queries, core, sink, acknowledged, after)
  return { ...step, rows: rows.map(named(core)) }
}

/** One bounded step over the entries behind `after` that are still stored, each entry once. */
export const storedDays = (queries: Queries, core: Core, after: Seq): Promise<PendingStep> =>
  pendingOf(queries, core, NO_SINK, { position: after, ahead: [] }, after)

async function pendingStep(
  { query }: Queries,
  { shard, schema }: Core,
  sink: string,
  { ahead }: Acknowledged,
  after: Seq,
) {
  const chunks = await query<ChunkTimes>(
    `SELECT first, last, stream AS source, only_sink, replay, times FROM ${schema}.chunks
     WHERE shard = $1 AND last >= $2
       AND first >= coalesce((SELECT max(first) FROM ${schema}.chunks WHERE shard = $1 AND first <= $2), 0)
     ORDER BY first LIMIT ${STEP_CHUNKS}`,
    [shard, after + 1],
  )
  return pendingDays(chunks, sink, ahead, after)
}
