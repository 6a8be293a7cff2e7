// Dedup index: which entries were never seen before, by stream, time and id.
import type { Entries } from '../../contracts/entries.ts'
import type { SourceName } from '../../contracts/source.ts'
import {
  KEY_BYTES,
  firstsOf,
  hasVersions,
  keyInto,
  newVersions,
  versionOf,
  versionToSend,
} from '../rules/dedup.ts'
import type { NewEntries } from '../rules/dedup.ts'
import type { Queries } from './connection.ts'
import type { Core } from './core.ts'

type Tables = Pick<Core, 'shard' | 'schema'>

/** A source of a workspace: its number, and what it is. */
export interface StreamKeys {
  readonly source: number
  readonly name: SourceName
}

/**
 * Takes the keys of the entries of `wanted` (all if undefined) and returns which were free. The
 * holder of the shard is its only writer: what is read here stays true in this transaction.
 */
export async function takeKeys(
  queries: Queries,
  tables: Tables,
  stream: StreamKeys,
  entries: Entries,
  wanted: Uint32Array | undefined,
): Promise<NewEntries> {
  const count = wanted?.length ?? entries.count
  if (count === 0) return { fresh: undefined, freshCount: 0, knownCount: 0, versions: undefined }
  return hasVersions(stream.name)
    ? takeVersions(queries, tables, stream, entries, wanted)
    : takeFirsts(queries, tables, stream, entries, wanted)
}

async function takeFirsts(
  { query }: Queries,
  { shard, schema }: Tables,
  { source }: StreamKeys,
  entries: Entries,
  wanted: Uint32Array | undefined,
): Promise<NewEntries> {
  const { ids, times } = keysOf(entries, wanted)
  // The usual answers are "all" and "none", which the count gives. Otherwise the server says which,
  // as one text: a row for each would take longer to read than all the rest.
  const [taken] = await query<{ count: number; indices: string | null }>(
    `WITH page AS (SELECT n, at, ${idOf('n')} AS id FROM unnest($4::bigint[]) WITH ORDINALITY page (at, n)),
     taken AS (INSERT INTO ${schema}.dedup_keys (shard, stream, at, id) SELECT $1, $2, at, id FROM page
       ON CONFLICT DO NOTHING RETURNING at, id),
     counted AS (SELECT count(*) AS count FROM taken)
     SELECT count, CASE WHEN count BETWEEN 1 AND $5 - 1
       THEN (SELECT string_agg(n::text, ',') FROM page JOIN taken USING (at, id)) END AS indices FROM counted`,
    [shard, source, ids, arrayOf(times), times.length],
  )
  const count = times.length
  if (taken?.count === count)
    return { fresh: undefined, freshCount: count, knownCount: 0, versions: undefined }
  const known = new Uint8Array(count).fill(1)
  for (const index of indicesOf(taken?.indices)) known[index] = 0
  const fresh = firstsOf(entries, wanted, ids, known)
  return { fresh, freshCount: fresh.length, knownCount: count - fresh.length, versions: undefined }
}

async function takeVersions(
  queries: Queries,
  { shard, schema }: Tables,
  { source }: StreamKeys,
  entries: Entries,
  wanted: Uint32Array | undefined,
): Promise<NewEntries> {
  const { ids, times } = keysOf(entries, wanted)
  const stored = await storedMarks(queries, { shard, schema }, source, ids, times)
  const marks = new Map([...stored].map(([i, mark]) => [keyText(times[i] ?? NaN, idAt(ids, i)), mark]))
  const changed = new Map<string, { readonly at: number; readonly id: Buffer; readonly mark: Buffer }>()
  const found = newVersions(entries, wanted, ids, {
    get: (index, id) => marks.get(keyText(entries.at(index), id)),
    put: (index, id, mark) => {
      const at = entries.at(index)
      marks.set(keyText(at, id), mark)
      changed.set(keyText(at, id), { at, id, mark })
    },
  })
  const rows = [...changed.values()]
  if (rows.length > 0)
    await queries.query(
      `INSERT INTO ${schema}.dedup_keys (shard, stream, at, id, content)
       SELECT $1, $2, * FROM unnest($3::bigint[], $4::bytea[], $5::bytea[])
       ON CONFLICT (shard, stream, at, id) DO UPDATE SET content = excluded.content`,
      [shard, source, rows.map(({ at }) => at), rows.map(({ id }) => id), rows.map(({ mark }) => mark)],
    )
  return found
}

/** One byte per entry: 1 if its key is taken, 2 if it is and this content would be a new version. */
export async function knownKeys(
  queries: Queries,
  tables: Tables,
  { source, name }: StreamKeys,
  entries: Entries,
): Promise<Uint8Array> {
  const known = new Uint8Array(entries.count)
  if (entries.count === 0) return known
  const { ids, times } = keysOf(entries, undefined)
  if (hasVersions(name)) {
    for (const [i, mark] of await storedMarks(queries, tables, source, ids, times))
      known[i] = versionOf(entries.raw(i), mark).version > 0 ? 2 : 1
    return known
  }
  const [taken] = await queries.query<{ indices: string | null }>(
    `SELECT string_agg(n::text, ',') AS indices FROM (${storedKeys(tables, '1')}) page WHERE found IS NOT NULL`,
    [tables.shard, source, ids, arrayOf(times), ...boundsOf(times)],
  )
  for (const i of indicesOf(taken?.indices)) known[i] = 1
  return known
}

/**
 * Takes no key: returns the version of each entry, by its index; unknown content has the version
 * that it would get.
 */
export async function versionsOf(
  queries: Queries,
  tables: Tables,
  { source, name }: StreamKeys,
  entries: Entries,
): Promise<Uint32Array | undefined> {
  if (!hasVersions(name)) return undefined
  const { ids, times } = keysOf(entries, undefined)
  const versions = new Uint32Array(entries.count)
  for (const [i, mark] of await storedMarks(queries, tables, source, ids, times))
    versions[i] = versionToSend(entries.raw(i), mark)
  return versions
}

/** The marks of those keys of a page that are taken, by their index. */
async function storedMarks(
  { query }: Queries,
  tables: Tables,
  source: number,
  ids: Buffer,
  times: readonly number[],
): Promise<ReadonlyMap<number, Buffer>> {
  if (times.length === 0) return new Map()
  const rows = await query<{ n: number; found: Buffer }>(
    `SELECT n, found FROM (${storedKeys(tables, 'content')}) page WHERE found IS NOT NULL`,
    [tables.shard, source, ids, arrayOf(times), ...boundsOf(times)],
  )
  return new Map(rows.map(({ n, found }) => [n - 1, found]))
}

/**
 * One row per key of the page; `found` is null where it is free. A query per key inside, which looks
 * into the index whatever the planner believes of the table; the bounds name the few partitions that
 * it may look into. OFFSET keeps it inside.
 */
const storedKeys = ({ schema }: Tables, column: string) =>
  `SELECT page.n, (SELECT ${column} FROM ${schema}.dedup_keys WHERE shard = $1 AND stream = $2 AND at = page.at
     AND id = ${idOf('page.n')} AND at BETWEEN $5 AND $6) AS found
   FROM unnest($4::bigint[]) WITH ORDINALITY page (at, n) OFFSET 0`

/** A loop, since a page may have more entries than a call may have arguments. */
const boundsOf = (times: readonly number[]): readonly [least: number, greatest: number] =>
  times.reduce<[number, number]>(([a, b], at) => [Math.min(a, at), Math.max(b, at)], [Infinity, -Infinity])

/** As PostgreSQL reads it: the driver would quote each number. */
const arrayOf = (numbers: readonly number[]) => `{${numbers.join(',')}}`

/** Positions in the page, which SQL counts from 1. */
const indicesOf = (indices: string | null | undefined): readonly number[] =>
  (indices ?? '').split(',').flatMap((n) => (n === '' ? [] : [Number(n) - 1]))

/** The ids of a page are one value: 16 bytes each. */
const idOf = (n: string) => `substr($3::bytea, ((${n} - 1) * ${KEY_BYTES} + 1)::integer, ${KEY_BYTES})`
const idAt = (ids: Buffer, i: number) => ids.subarray(i * KEY_BYTES, (i + 1) * KEY_BYTES)
const keyText = (at: number, id: Buffer) => `${at} ${id.toString('latin1')}`

/** The dedup keys of these entries. */
function keysOf(entries: Entries, wanted: Uint32Array | undefined): { ids: Buffer; times: number[] } {
  const count = wanted?.length ?? entries.count
  const ids = Buffer.alloc(count * KEY_BYTES)
  const times = Array.from({ length: count }, (_, i) => keyInto(ids, i, entries, wanted?.[i] ?? i))
  return { ids, times }
}
