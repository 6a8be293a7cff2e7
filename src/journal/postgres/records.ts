// Records kept for operators until they act on them: dead letters, quarantine, findings.
import type { Append, JournalStats, Rejected } from '../../contracts/journal.ts'
import type {
  DeadLetter,
  DeadLetterQuery,
  FindingRecord,
  QuarantineQuery,
  QuarantineRecord,
} from '../../contracts/records.ts'
import type { Quarantined } from '../../contracts/source.ts'
import { epochDay } from '../../core/time.ts'
import { idBytes, timeBytes } from '../rules/chunk.ts'
import { bundlesOf, deadLetterOf, entriesOf } from '../rules/dead-letters.ts'
import type { DeadLetterRow } from '../rules/dead-letters.ts'
import { addAccounts } from './accounts.ts'
import type { Queries } from './connection.ts'
import type { Core } from './core.ts'
import type { Transaction } from './transactions.ts'

// Dead letters.

/** Copies rejected entries from their chunks, which will be pruned. One that is there stays. */
export async function writeDeadLetters(
  transaction: Transaction,
  core: Core,
  sink: string,
  rejected: readonly Rejected[],
): Promise<void> {
  for (const step of stepsOf(rejected)) await writeStep(transaction, core, sink, step)
}

async function writeStep(transaction: Transaction, core: Core, sink: string, rejected: readonly Rejected[]) {
  const { shard, schema, chunks, clock, pending, streams } = core
  const copies = []
  for (const { seq, code, reason } of rejected) {
    const found = await chunks.entry(transaction, seq)
    if (found === undefined)
      throw new Error(`Sink ${sink} rejected entry ${seq}, which the journal does not hold`)
    const { slice, index } = found
    const { entries, replay, stream } = slice
    const source = streams.find(stream)
    if (source === undefined) throw new Error('The stream of a rejected entry is unknown to the journal')
    copies.push({ seq, code, reason, replay, source, entries, index, at: entries.at(index) })
  }
  const rows = await transaction.query<{ seq: number }>(
    `INSERT INTO ${schema}.dead_letters
       (shard, sink, seq, stream, entry_id, time, at, type, version, code, reason, dead_lettered_at, replay, raw)
     SELECT $1, $2, seq, stream, entry_id, time, at, type, version, code, reason, $3, replay, raw
     FROM unnest($4::bigint[], $5::integer[], $6::bytea[], $7::bytea[], $8::bigint[], $9::text[], $10::bigint[], $11::text[],
       $12::text[], $13::boolean[], $14::bytea[])
       AS page (seq, stream, entry_id, time, at, type, version, code, reason, replay, raw)
     ON CONFLICT DO NOTHING RETURNING seq`,
    [
      ...[shard, sink, clock.now(), copies.map(({ seq }) => seq), copies.map(({ source }) => source)],
      copies.map(({ entries, index }) => Buffer.from(idBytes(entries, index))),
      copies.map(({ entries, index }) => Buffer.from(timeBytes(entries, index))),
      copies.map(({ at }) => at),
      copies.map(({ entries, index }) => JSON.stringify(entries.type(index))),
      copies.map(({ entries, index }) => entries.version(index)),
      copies.map(({ code }) => code),
      copies.map(({ reason }) => JSON.stringify(reason)),
      copies.map(({ replay }) => replay),
      copies.map(({ entries, index }) => Buffer.from(entries.raw(index))),
    ],
  )
  const isNew = new Set(rows.map(({ seq }) => seq))
  const added = copies.filter(({ seq, replay }) => isNew.has(seq) && !replay)
  await addAccounts(
    transaction,
    core,
    added.map(({ source, at }) => ({ sink, source, day: epochDay(at), deadLettered: 1 })),
  )
  const state = pending.sink(sink)
  transaction.afterCommit(() => void (state.deadLetters += rows.length))
}

/** In steps of bounded memory. */
function* stepsOf<T>(all: readonly T[], count = 250): Generator<readonly T[]> {
  for (let from = 0; from < all.length; from += count) yield all.slice(from, from + count)
}

export async function deadLetters(
  queries: Queries,
  core: Core,
  query: DeadLetterQuery,
): Promise<DeadLetter[]> {
  const rows = await deadLetterRows(queries, core, query)
  return rows.map((row) => deadLetterOf(row, core.streams.stream(row.source)))
}

async function deadLetterRows(
  { query }: Queries,
  { shard, schema }: Core,
  { sink, ids, after = 0, limit }: DeadLetterQuery,
): Promise<DeadLetterRow[]> {
  const rows = await query<DeadLetterRow>(
    `SELECT id, sink, seq, stream AS source, entry_id, time, at, type, version, code, reason, dead_lettered_at,
       length(raw)::bigint AS bytes, replay::integer AS replay FROM ${schema}.dead_letters
     WHERE shard = $1 AND id > $2 AND ($3::text IS NULL OR sink = $3) AND ($4::bigint[] IS NULL OR id = ANY ($4))
     ORDER BY id LIMIT $5`,
    [shard, after, sink ?? null, ids ?? null, limit ?? null],
  )
  return rows.map((row) => ({
    ...row,
    type: JSON.parse(row.type) as string,
    reason: JSON.parse(row.reason) as string,
  }))
}

export async function deadLetterRaw({ query }: Queries, { shard, schema }: Core, id: number) {
  const [row] = await query<{ raw: Buffer }>(
    `SELECT raw FROM ${schema}.dead_letters WHERE shard = $1 AND id = $2`,
    [shard, id],
  )
  return row?.raw
}

/**
 * Puts them at the journal's end. A dead letter of a sink that left the configuration stays: no
 * sink would take it. Returns how many.
 */
export async function retryDeadLetters(
  transaction: Transaction,
  core: Core,
  query: DeadLetterQuery,
): Promise<number> {
  const { shard, schema, chunks, clock, pending } = core
  const found = await deadLetterRows(transaction, core, query)
  const rows = found.filter(({ sink }) => pending.sinks.has(sink))
  for (const { source, sink, replay, rows: bundled } of bundlesOf(rows)) {
    const raws = await transaction.query<{ id: number; raw: Buffer }>(
      `SELECT id, raw FROM ${schema}.dead_letters WHERE shard = $1 AND id = ANY ($2::bigint[])`,
      [shard, bundled.map(({ id }) => id)],
    )
    const rawOf = new Map(raws.map(({ id, raw }) => [id, raw]))
    const address = { source, appendedAt: clock.now(), onlySink: sink, replay }
    await chunks.put(
      transaction,
      address,
      entriesOf(bundled, (id) => rawOf.get(id)),
    )
  }
  await removeDeadLetters(transaction, core, rows, 0)
  return rows.length
}

export async function dropDeadLetters(
  transaction: Transaction,
  core: Core,
  query: DeadLetterQuery,
): Promise<number> {
  const rows = await deadLetterRows(transaction, core, query)
  await removeDeadLetters(transaction, core, rows, 1)
  return rows.length
}

/** Replayed entries were counted when they were first sent. */
async function removeDeadLetters(
  transaction: Transaction,
  core: Core,
  rows: readonly DeadLetterRow[],
  dropped: 0 | 1,
): Promise<void> {
  if (rows.length === 0) return
  const { shard, schema, pending } = core
  await transaction.query(`DELETE FROM ${schema}.dead_letters WHERE shard = $1 AND id = ANY ($2::bigint[])`, [
    ...[shard, rows.map(({ id }) => id)],
  ])
  const counted = rows.filter(({ replay }) => replay === 0)
  await addAccounts(
    transaction,
    core,
    counted.map(({ sink, source, at }) => ({ sink, source, day: epochDay(at), deadLettered: -1, dropped })),
  )
  transaction.afterCommit(() => {
    for (const { sink } of rows) {
      const state = pending.sinks.get(sink)
      if (state) state.deadLetters--
    }
  })
}

// Quarantine.

/**
 * Elements that are already there, or were dropped, are not stored again. Returns how many were
 * stored.
 */
export async function writeQuarantined(
  transaction: Transaction,
  { shard, schema, totals }: Core,
  source: number,
  elements: readonly Quarantined[],
  now: number,
): Promise<number> {
  let count = 0
  for (const step of stepsOf(elements, 4)) {
    const rows = await transaction.query(
      `INSERT INTO ${schema}.quarantine (shard, stream, reason, total_bytes, sha256, kept_at, bytes)
       SELECT $1, $2, reason, total_bytes, sha256, $3, bytes
       FROM unnest($4::text[], $5::bigint[], $6::text[], $7::bytea[]) AS element (reason, total_bytes, sha256, bytes)
       ON CONFLICT DO NOTHING RETURNING id`,
      [
        ...[shard, source, now, step.map(({ reason }) => reason), step.map(({ totalBytes }) => totalBytes)],
        ...[step.map(({ sha256 }) => sha256), step.map(({ bytes }) => Buffer.from(bytes))],
      ],
    )
    count += rows.length
  }
  transaction.afterCommit(() => totals.add({ quarantined: count }))
  return count
}

export async function quarantined(
  { query }: Queries,
  { shard, schema, streams }: Core,
  { ids, limit, after = 0 }: QuarantineQuery,
): Promise<QuarantineRecord[]> {
  const rows = await query<Omit<QuarantineRecord, 'stream'> & { source: number }>(
    `SELECT id, stream AS source, reason, total_bytes AS "totalBytes", length(bytes)::bigint AS "keptBytes", sha256,
       kept_at AS "keptAt" FROM ${schema}.quarantine
     WHERE shard = $1 AND id > $2 AND dropped_at IS NULL AND ($3::bigint[] IS NULL OR id = ANY ($3))
     ORDER BY id LIMIT $4`,
    [shard, after, ids ?? null, limit ?? null],
  )
  return rows.map(({ source, ...row }) => ({ ...row, stream: streams.stream(source) }))
}

export async function quarantinedRaw({ query }: Queries, { shard, schema }: Core, id: number) {
  const [row] = await query<{ bytes: Buffer }>(
    `SELECT bytes FROM ${schema}.quarantine WHERE shard = $1 AND id = $2 AND dropped_at IS NULL`,
    [shard, id],
  )
  return row?.bytes
}

/** Deletes the bytes but keeps a record of the element, or the next re-read would bring it back. */
export async function dropQuarantined(
  transaction: Transaction,
  core: Core,
  query: QuarantineQuery,
): Promise<number> {
  const { shard, schema, clock, totals } = core
  const found = await quarantined(transaction, core, query)
  await transaction.query(
    `UPDATE ${schema}.quarantine SET dropped_at = $3, bytes = '' WHERE shard = $1 AND id = ANY ($2::bigint[])`,
    [shard, found.map(({ id }) => id), clock.now()],
  )
  transaction.afterCommit(() => totals.add({ quarantined: -found.length }))
  return found.length
}

/** Elements dropped before `before` (epoch ms) are no longer known. */
export async function forgetQuarantined({ query }: Transaction, { shard, schema }: Core, before: number) {
  await query(`DELETE FROM ${schema}.quarantine WHERE shard = $1 AND dropped_at < $2`, [shard, before])
}

// Findings.

/**
 * Stores the new findings of a page chunk. An entry that is not wanted takes no dedup key and is
 * read again with every overlap, so the finding itself is looked up. Returns how many were stored.
 */
export async function writeFindings(
  transaction: Transaction,
  core: Core,
  source: number,
  { entries, findings }: Append,
  isNews: (index: number) => boolean,
  now: number,
): Promise<number> {
  const found = new Map<string, { kind: string; id: Buffer; at: number }>()
  for (const { kind, index } of findings) {
    const id = Buffer.from(idBytes(entries, index))
    const at = entries.at(index)
    if (isNews(index)) found.set(`${kind} ${at} ${id.toString('latin1')}`, { kind, id, at })
  }
  if (found.size === 0) return 0
  const { shard, schema, totals } = core
  const rows = [...found.values()]
  const stored = await transaction.query(
    `INSERT INTO ${schema}.findings (shard, stream, kind, entry_id, at, found_at)
     SELECT $1, $2, page.kind, page.entry_id, page.at, $3
     FROM unnest($4::text[], $5::bytea[], $6::bigint[]) AS page (kind, entry_id, at)
     WHERE NOT EXISTS (SELECT FROM ${schema}.findings known WHERE known.shard = $1 AND known.stream = $2
       AND known.at = page.at AND known.kind = page.kind AND known.entry_id = page.entry_id)
     RETURNING id`,
    [shard, source, now, rows.map(({ kind }) => kind), rows.map(({ id }) => id), rows.map(({ at }) => at)],
  )
  if (stored.length > 0) {
    const last = await lastFindings(transaction, core)
    transaction.afterCommit(() => totals.add({ findings: stored.length }, () => findingsOf(core, last)))
  }
  return stored.length
}

// Totals since the journal began, read once: after that, memory follows what lands.

/** This many findings are returned with the totals; all of them stay stored. */
const LAST_FINDINGS = 10

type Stats = Pick<JournalStats, 'quarantined' | 'gaps' | 'findings' | 'lastFindings'>
type Sums = Omit<Stats, 'lastFindings'>

export class Totals {
  #stats: Stats = { quarantined: 0, gaps: 0, findings: 0, lastFindings: [] }

  get stats(): Stats {
    return this.#stats
  }

  async load(queries: Queries, core: Core): Promise<void> {
    const { shard, schema } = core
    const [sums] = await queries.query<Sums>(
      `SELECT (SELECT count(*) FROM ${schema}.quarantine WHERE shard = $1 AND dropped_at IS NULL) AS quarantined,
         (SELECT coalesce(sum(gaps), 0)::bigint FROM ${schema}.streams WHERE shard = $1) AS gaps,
         (SELECT count(*) FROM ${schema}.findings WHERE shard = $1) AS findings`,
      [shard],
    )
    const last = await lastFindings(queries, core)
    this.add(sums ?? {}, () => findingsOf(core, last))
  }

  add(
    { quarantined = 0, gaps = 0, findings = 0 }: Partial<Sums>,
    last?: () => readonly FindingRecord[],
  ): void {
    const stats = this.#stats
    this.#stats = {
      quarantined: stats.quarantined + quarantined,
      gaps: stats.gaps + gaps,
      findings: stats.findings + findings,
      lastFindings: last?.() ?? stats.lastFindings,
    }
  }
}

type FindingRow = Omit<FindingRecord, 'stream' | 'entryId'> & { source: number; entryId: Buffer }

const lastFindings = ({ query }: Queries, { shard, schema }: Core) =>
  query<FindingRow>(
    `SELECT stream AS source, kind, entry_id AS "entryId", at AS "entryUs", found_at AS "foundAt" FROM ${schema}.findings
     WHERE shard = $1 ORDER BY id DESC LIMIT ${LAST_FINDINGS}`,
    [shard],
  )

const findingsOf = ({ streams }: Core, rows: readonly FindingRow[]): FindingRecord[] =>
  rows.map(({ source, ...row }) => ({
    ...row,
    stream: streams.stream(source),
    entryId: row.entryId.toString(),
  }))
