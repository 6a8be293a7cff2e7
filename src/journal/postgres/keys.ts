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

type Place = Pick<Core, 'shard' | 'schema'>

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
  place: Place,
  stream: StreamKeys,
  entries: Entries,
  wanted: Uint32Array | undefined,
): Promise<NewEntries> {
  const count = wanted?.length ?? entries.count
  if (count === 0) return { fresh: undefined, freshCount: 0, knownCount: 0, versions: undefined }
  return hasVersions(stream.name)
    ? takeVersions(queries, place, stream, entries, wanted)
    : takeFirsts(queries, place, stream, entries, wanted)
}

async function takeFirsts(
  { query }: Queries,
  { shard, schema }: Place,
  { source }: StreamKeys,
  entries: Entries,
  wanted: Uint32Array | undefined,
): Promise<NewEntries> {
  const { ids, times } = keysOf(entries, wanted)
  const taken = await query<{ at: number; id: Buffer }>(
    `INSERT INTO ${schema}.keys (shard, stream, at, id)
     SELECT $1, $2, page.at, ${idOf('page.n')} FROM unnest($4::bigint[]) WITH ORDINALITY page (at, n)
     ON CONFLICT DO NOTHING RETURNING at, id`,
    [shard, source, ids, times],
  )
  const count = times.length
  if (taken.length === count)
    return { fresh: undefined, freshCount: count, knownCount: 0, versions: undefined }
  const free = new Set(taken.map(({ at, id }) => keyText(at, id)))
  const known = Uint8Array.from(times, (at, i) => (free.has(keyText(at, idAt(ids, i))) ? 0 : 1))
  const fresh = firstsOf(entries, wanted, ids, known)
  return { fresh, freshCount: fresh.length, knownCount: count - fresh.length, versions: undefined }
}

async function takeVersions(
  queries: Queries,
  { shard, schema }: Place,
  { source }: StreamKeys,
  entries: Entries,
  wanted: Uint32Array | undefined,
): Promise<NewEntries> {
  const { ids, times } = keysOf(entries, wanted)
  const stored = await storedMarks(queries, { shard, schema }, source, ids, times)
  const marks = new Map(
    stored.flatMap(({ at, id, mark }) => (mark ? [[keyText(at, id), mark] as const] : [])),
  )
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
      `INSERT INTO ${schema}.keys (shard, stream, at, id, content)
       SELECT $1, $2, * FROM unnest($3::bigint[], $4::bytea[], $5::bytea[])
       ON CONFLICT (shard, stream, at, id) DO UPDATE SET content = excluded.content`,
      [shard, source, rows.map(({ at }) => at), rows.map(({ id }) => id), rows.map(({ mark }) => mark)],
    )
  return found
}

/** One byte per entry: 1 if its key is taken, 2 if it is and this content would be a new version. */
export async function knownKeys(
  queries: Queries,
  place: Place,
  { source, name }: StreamKeys,
  entries: Entries,
): Promise<Uint8Array> {
  const known = new Uint8Array(entries.count)
  const { ids, times } = keysOf(entries, undefined)
  for (const { n, isTaken, mark } of await storedMarks(queries, place, source, ids, times))
    if (isTaken)
      known[n - 1] = hasVersions(name) && mark && versionOf(entries.raw(n - 1), mark).version > 0 ? 2 : 1
  return known
}

/**
 * Takes no key: returns the version of each entry, by its index; unknown content has the version
 * that it would get.
 */
export async function versionsOf(
  queries: Queries,
  place: Place,
  { source, name }: StreamKeys,
  entries: Entries,
): Promise<Uint32Array | undefined> {
  if (!hasVersions(name)) return undefined
  const { ids, times } = keysOf(entries, undefined)
  const versions = new Uint32Array(entries.count)
  for (const { n, mark } of await storedMarks(queries, place, source, ids, times))
    if (mark) versions[n - 1] = versionToSend(entries.raw(n - 1), mark)
  return versions
}

interface StoredMark {
  /** position in the page, from 1 */
  readonly n: number
  readonly at: number
  readonly id: Buffer
  readonly isTaken: boolean
  readonly mark: Buffer | null
}

/**
 * One row per key of the page. A query per key inside, which looks into the index whatever the
 * planner believes of the table; the bounds name the few partitions that it may look into.
 */
async function storedMarks(
  { query }: Queries,
  { shard, schema }: Place,
  source: number,
  ids: Buffer,
  times: readonly number[],
): Promise<readonly StoredMark[]> {
  if (times.length === 0) return []
  const rows = await query<{ n: number; found: Buffer | null }>(
    `SELECT page.n, (SELECT '\\x00'::bytea || coalesce(content, '') FROM ${schema}.keys
        WHERE shard = $1 AND stream = $2 AND at = page.at AND id = ${idOf('page.n')} AND at BETWEEN $5 AND $6) AS found
     FROM unnest($4::bigint[]) WITH ORDINALITY page (at, n)`,
    [shard, source, ids, times, Math.min(...times), Math.max(...times)],
  )
  return rows.map(({ n, found }) => ({
    ...{ n, at: times[n - 1] ?? NaN, id: idAt(ids, n - 1), isTaken: found !== null },
    mark: found === null || found.length === 1 ? null : found.subarray(1),
  }))
}

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
