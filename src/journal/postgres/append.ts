// Append: filter, deduplicate, store and count a page chunk and move the cursor, in one
// transaction (invariant 1).
import type { Append } from '../../contracts/journal.ts'
import type { Appended, Stream } from '../../contracts/source.ts'
import { ConnectorError } from '../../core/errors.ts'
import { epochDay } from '../../core/time.ts'
import { pack } from '../rules/chunk.ts'
import { countsOf, isNews, wantedOf } from '../rules/outcomes.ts'
import type { DayCounts } from '../rules/outcomes.ts'
import type { Core } from './core.ts'
import { takeKeys } from './dedup-index.ts'
import { writeFindings, writeQuarantined } from './records.ts'
import { writeState } from './state.ts'
import type { Transaction } from './transactions.ts'

/** If it throws, nothing of the page chunk is kept. */
export async function append(transaction: Transaction, core: Core, part: Append): Promise<Appended> {
  refuseWhenFull(core)
  const { clock, chunks, totals } = core
  const { entries, stream } = part
  const source = await sourceOf(transaction, core, stream)
  const wanted = wantedOf(part)
  const found = await takeKeys(transaction, core, { source, name: stream.source }, entries, wanted)
  const now = clock.now()
  if (found.freshCount > 0) {
    const packed = pack(entries, found.fresh ?? wanted, found.versions)
    await chunks.put(transaction, { source, appendedAt: now, onlySink: undefined, replay: false }, packed)
  }
  const quarantined = await writeQuarantined(transaction, core, source, part.quarantined, now)
  const { outcomes, days, oldestUs } = countsOf(part, wanted, found, quarantined, now)
  await writeCounts(transaction, core, source, days)
  await writeStream(transaction, core, source, part, { oldestUs, newestUs: newestOf(part, wanted), now })
  const news = (index: number) => isNews(index, wanted, found)
  const appended = {
    ...outcomes,
    known: outcomes.known + part.quarantined.length - quarantined,
    quarantined,
    findings: await writeFindings(transaction, core, source, part, news, now),
  }
  const put = typeof part.state === 'function' ? part.state(appended) : part.state
  if (put) await writeState(transaction, core, { put })
  transaction.afterCommit(() => totals.add({ gaps: part.gaps }))
  return { ...appended, last: transaction.nextSeq - 1 }
}

/** Throws ConnectorError `journal_full` if the pending payload has reached `max_bytes`. */
export function refuseWhenFull({ pending, maxBytes, shard, where }: Core): void {
  if (pending.bytes < maxBytes) return
  throw new ConnectorError(
    'journal_full',
    `The journal of shard ${shard} in ${where} holds ${pending.bytes} bytes that are not delivered yet, its bound is ${maxBytes} (journal.max_bytes): reading pauses until the sinks catch up`,
  )
}

/** The number of a source; a new source gets its row with its first page chunk. */
export async function sourceOf(
  transaction: Transaction,
  { shard, schema, streams }: Core,
  stream: Stream,
): Promise<number> {
  const known = streams.find(stream)
  if (known !== undefined) return known
  const [row] = await transaction.query<{ id: number }>(
    `INSERT INTO ${schema}.streams (shard, id, workspace, source)
     SELECT $1, coalesce(max(id), 0) + 1, $2, $3 FROM ${schema}.streams WHERE shard = $1 RETURNING id`,
    [shard, stream.workspace, stream.source],
  )
  if (row === undefined) throw new Error('A stream of the journal got no number')
  transaction.afterCommit(() => streams.remember(row.id, stream))
  return row.id
}

async function writeCounts(
  { query }: Transaction,
  { shard, schema }: Core,
  source: number,
  days: ReadonlyMap<number, DayCounts>,
): Promise<void> {
  if (days.size === 0) return
  const column = (key: keyof DayCounts) => [...days.values()].map((counts) => counts[key])
  await query(
    `INSERT INTO ${schema}.counts AS sum (shard, stream, day, new, late, known, filtered, quarantined)
     SELECT $1, $2, * FROM unnest($3::integer[], $4::bigint[], $5::bigint[], $6::bigint[], $7::bigint[], $8::bigint[])
     ON CONFLICT (shard, stream, day) DO UPDATE SET new = sum.new + excluded.new, late = sum.late + excluded.late,
       known = sum.known + excluded.known, filtered = sum.filtered + excluded.filtered,
       quarantined = sum.quarantined + excluded.quarantined`,
    [
      ...[shard, source, [...days.keys()], column('added'), column('late'), column('known')],
      ...[column('filtered'), column('quarantined')],
    ],
  )
}

/** µs, of the entries that are wanted; -Infinity if there is none. */
function newestOf({ entries }: Append, wanted: Uint32Array | undefined): number {
  let newest = -Infinity
  const count = wanted?.length ?? entries.count
  for (let i = 0; i < count; i++) newest = Math.max(newest, entries.at(wanted?.[i] ?? i))
  return newest
}

interface Times {
  readonly oldestUs: number
  readonly newestUs: number
  readonly now: number
}

/**
 * The cursor, the gaps, and the oldest time read on this day and on the reading day before: keys
 * from there on may be needed again.
 */
async function writeStream(
  { query }: Transaction,
  { shard, schema }: Core,
  source: number,
  { cursor, gaps }: Append,
  { oldestUs, newestUs, now }: Times,
): Promise<void> {
  const finite = (us: number) => (Number.isFinite(us) ? us : null)
  await query(
    `UPDATE ${schema}.streams SET cursor = coalesce($3, cursor), gaps = gaps + $4,
       newest_us = greatest(newest_us, $6),
       low_before_us = CASE WHEN $5::bigint IS NULL OR low_day IS NOT DISTINCT FROM $7 THEN low_before_us ELSE low_us END,
       low_us = CASE WHEN $5 IS NULL THEN low_us WHEN low_day IS NOT DISTINCT FROM $7 THEN least(low_us, $5) ELSE $5 END,
       low_day = CASE WHEN $5 IS NULL THEN low_day ELSE $7 END
     WHERE shard = $1 AND id = $2`,
    [shard, source, cursor ?? null, gaps, finite(oldestUs), finite(newestUs), epochDay(now * 1000)],
  )
}
