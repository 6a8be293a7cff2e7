// Append: filter, deduplicate, store and count a page chunk and move the cursor, in one transaction
// (invariant 1).
import type { Database } from 'better-sqlite3'
import type { Entries } from '../../contracts/entries.ts'
import type { Append } from '../../contracts/journal.ts'
import type { Amount } from '../../contracts/records.ts'
import type { Appended, Stream } from '../../contracts/source.ts'
import { ConnectorError } from '../../core/errors.ts'
import type { Seq } from '../../core/sequence.ts'
import { epochDay } from '../../core/time.ts'
import { idBytes, pack } from '../rules/chunk.ts'
import type { Address, Put } from '../rules/chunk.ts'
import { countsOf, isNews, wantedOf } from '../rules/outcomes.ts'
import type { DayCounts } from '../rules/outcomes.ts'
import { chunksOf } from '../rules/slicing.ts'
import type { Core } from './core.ts'
import { RAISE_LIMIT, diskFull, inMib } from './space.ts'

/** Size of a thousand keys, with a margin. */
export const SMALL_BYTES = 1024 * 1024

type AppendStatements = ReturnType<typeof prepareAppend>

export function prepareAppend(db: Database) {
  return {
    // An unwanted entry takes no dedup key, and is seen again with every overlap.
    finding: db.prepare(
      `INSERT INTO findings (source, kind, entry_id, found_at, at) SELECT :source, :kind, :id, :now, :at
       WHERE NOT EXISTS (SELECT 1 FROM findings WHERE source = :source AND at = :at AND kind = :kind AND entry_id = :id)`,
    ),
    count: db.prepare(
      `INSERT INTO counts VALUES (?, ?, ?, ?, ?, ?, ?) ON CONFLICT DO UPDATE SET new = new + excluded.new, late = late + excluded.late,
       known = known + excluded.known, filtered = filtered + excluded.filtered, quarantined = quarantined + excluded.quarantined`,
    ),
    source: db.prepare('UPDATE sources SET cursor = coalesce(?, cursor), gaps = gaps + ? WHERE id = ?'),
    // The oldest time read on this day and on the reading day before: keys from there on may be
    // needed again.
    low: db.prepare(
      `UPDATE sources SET
         low_before = CASE WHEN low_day IS :day THEN low_before ELSE low_at END,
         low_at = CASE WHEN low_day IS :day THEN min(low_at, :at) ELSE :at END,
         low_day = :day
       WHERE id = :id AND (low_day IS NOT :day OR low_at > :at)`,
    ),
  }
}

/** Splits entries into chunks and puts them at the journal's end, after `lastSeq`. */
export function putChunks({ chunkStore }: Core, lastSeq: Seq, address: Address, entries: Entries): Put[] {
  const puts: Put[] = []
  for (const chunk of chunksOf(entries))
    puts.push(chunkStore.put(1 + (puts.at(-1)?.last ?? lastSeq), address, chunk))
  return puts
}

/** The new entries are pending from now on, and cached for sinks that take them at once. */
export function applyPut({ pending, chunkStore }: Core, puts: readonly Put[]): void {
  for (const { first, last, payload } of puts) pending.applyAppended(last - first + 1, payload)
  chunkStore.cache(puts)
}

function writeFindings(
  { finding }: AppendStatements,
  source: number,
  { entries, findings }: Append,
  news: (index: number) => boolean,
  now: number,
): number {
  let written = 0
  for (const { kind, index } of findings) {
    if (!news(index)) continue
    const entry = { id: idBytes(entries, index), at: entries.at(index) }
    written += finding.run({ source, kind, now, ...entry }).changes
  }
  return written
}

function writeCounts(
  { count }: AppendStatements,
  source: number,
  days: ReadonlyMap<number, DayCounts>,
): void {
  for (const [day, { added, late, known, filtered, quarantined }] of days)
    count.run(source, day, added, late, known, filtered, quarantined)
}

/** Throws ConnectorError `journal_full` if the pending payload has reached `max_bytes`. */
export function refuseWhenFull({ pending, maxBytes, path }: Core): void {
  if (pending.bytes < maxBytes) return
  throw new ConnectorError(
    'journal_full',
    `The journal ${path} holds ${pending.bytes} bytes that are not delivered yet, its bound is ${maxBytes} (journal.max_bytes): reading pauses until the sinks catch up`,
  )
}

/** The id of a source; a new source first gets its row, in a transaction of its own. */
export function sourceOf({ streams, transactions }: Core, stream: Stream): number {
  const known = streams.find(stream)
  if (known !== undefined) return known
  const id = transactions.writeNew(() => streams.insert(stream), SMALL_BYTES)
  return streams.remember(id, stream)
}

/** The file size that a page chunk needs, with its keys and counts. */
function bytesOf({ entries, quarantined, cursor = '' }: Append): number {
  const least = entries.bytes.length + Buffer.byteLength(cursor) + SMALL_BYTES
  return quarantined.reduce((sum, { bytes }) => sum + bytes.length, least)
}

/** One transaction. Memory is updated after it has landed: if it throws, nothing is kept. */
export function append(core: Core, statements: AppendStatements, part: Append): Appended {
  refuseWhenFull(core)
  const { entries, stream } = part
  const { pending, quarantine, transactions } = core
  const source = sourceOf(core, stream)
  const wanted = wantedOf(part)
  let puts: readonly Put[] = []
  let kept: Amount = { count: 0, bytes: 0 }
  const land = (): Appended => {
    const found = core.dedupIndex.add(source, stream.source, entries, wanted, () => transactions.restart())
    const now = core.clock.now()
    if (found.freshCount > 0) {
      const packed = pack(entries, found.fresh ?? wanted, found.versions)
      const address = { source, appendedAt: now, onlySink: undefined, replay: false }
      puts = putChunks(core, pending.lastSeq, address, packed)
    }
    kept = quarantine.writeKept(source, part.quarantined, now)
    const { outcomes, days, oldestUs } = countsOf(part, wanted, found, kept.count, now)
    writeCounts(statements, source, days)
    if (part.cursor !== undefined || part.gaps > 0)
      statements.source.run(part.cursor ?? null, part.gaps, source)
    if (oldestUs !== Infinity) statements.low.run({ id: source, at: oldestUs, day: epochDay(now * 1000) })
    const news = (index: number) => isNews(index, wanted, found)
    const appended = {
      ...outcomes,
      known: outcomes.known + part.quarantined.length - kept.count,
      quarantined: kept.count,
      findings: writeFindings(statements, source, part, news, now),
    }
    const put = typeof part.state === 'function' ? part.state(appended) : part.state
    if (put) core.state.write({ put })
    return appended
  }
  const bytes = bytesOf(part)
  const appended = explaining(core, bytes, () => transactions.writeNew(land, bytes))
  quarantine.applyKept(kept)
  applyPut(core, puts)
  return { ...appended, last: pending.lastSeq }
}

// Data that fills the journal's file to its bound and stays until an operator removes it, and the
// commands for that.

/** From this fraction of the file on, dead letters and quarantine are named as the cause. */
const SET_ASIDE_SHARE = 0.25

/**
 * Runs `land`, a write of up to `mostBytes`. If dead letters or quarantine fill the file, no
 * delivery will ever make room, and the error says so.
 */
export function explaining<T>(core: Core, mostBytes: number, land: () => T): T {
  try {
    return land()
  } catch (error) {
    throw explained(error, core, mostBytes)
  }
}

function explained(
  error: unknown,
  { path, pending, quarantine, transactions }: Core,
  mostBytes: number,
): unknown {
  if (!(error instanceof ConnectorError) || error.code !== 'disk_full') return error
  const { bound, left, isSystems } = transactions.fileBytes
  // The write was rolled back, and the file is as long as before: with this much left the disk was
  // full.
  if (left > mostBytes) return error
  const kinds = [
    { bytes: quarantine.stored.bytes, are: 'quarantined elements', command: 'quarantine' },
    { bytes: pending.deadLetterBytes, are: 'dead letters', command: 'dead-letters' },
  ]
  const filling = kinds.filter(({ bytes }) => bytes >= bound * SET_ASIDE_SHARE)
  if (filling.length === 0) return isSystems ? atSystemsBound(path, bound, error) : error
  const commands = filling.map(({ command }) => `"auditferry ${command} export", then "drop"`).join('; ')
  const parts = filling.map(({ bytes, are }) => `${inMib(bytes)} of them are ${are}`).join(', ')
  const remedy = { what: `export and drop what was set aside (${commands})` }
  const why = `the file has reached its bound of ${inMib(bound)}, and ${parts}, which no delivery removes`
  return diskFull(path, { remedy, why }, error)
}

function atSystemsBound(path: string, bound: number, cause: unknown): ConnectorError {
  const why = `the file has reached ${inMib(bound)}, and the system lets none become larger`
  return diskFull(path, { remedy: RAISE_LIMIT, why }, cause)
}
