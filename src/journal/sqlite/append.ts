// Append: filter, deduplicate, store and count a part and move the cursor, in one transaction
// (invariant 1).
import type { Database } from 'better-sqlite3'
import { TRANSACTION_BYTES, TRANSACTION_ENTRIES, TYPE } from '../../contracts/entries.ts'
import type { Entries } from '../../contracts/entries.ts'
import type { Append } from '../../contracts/journal.ts'
import type { Amount } from '../../contracts/records.ts'
import type { Appended, Stream } from '../../contracts/source.ts'
import { ConnectorError } from '../../core/errors.ts'
import type { Seq } from '../../core/sequence.ts'
import { epochDay } from '../../core/time.ts'
import { idBytes, pack } from '../rules/chunk.ts'
import type { Address, Put } from './chunk-store.ts'
import type { Core } from './core.ts'
import type { Claim } from './dedup-index.ts'
import { RAISE_LIMIT, diskFull, inMib } from './space.ts'
import { writeNotes } from './state.ts'
import type { NoteStatements } from './state.ts'

/** Size of a thousand keys, with a margin. */
export const SMALL_BYTES = 1024 * 1024

type AppendStatements = ReturnType<typeof prepareAppend>

export function prepareAppend(db: Database, notes: NoteStatements) {
  return {
    notes,
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

/** Indices of the entries whose type is wanted; undefined: all. Each type is checked once. */
function sift({ entries, wanted }: Append): Uint32Array | undefined {
  if (wanted === undefined || entries.count === 0) return undefined
  const answers: (boolean | undefined)[] = []
  const picked = new Uint32Array(entries.count)
  let count = 0
  for (let i = 0; i < entries.count; i++) {
    const type = entries.column(i, TYPE)
    if ((answers[type] ??= wanted(entries.type(i)))) picked[count++] = i
  }
  return count === entries.count ? undefined : picked.slice(0, count)
}

/** The end of the chunk that begins at `from`: nearly always the end of the part. */
function endOfChunk(entries: Entries, from: number): number {
  if (entries.count - from <= TRANSACTION_ENTRIES && entries.bytes.length <= TRANSACTION_BYTES)
    return entries.count
  let to = from
  for (let size = 0; to < entries.count && to - from < TRANSACTION_ENTRIES; to++) {
    size += entries.rawBytes(to)
    if (size > TRANSACTION_BYTES && to > from) break
  }
  return to
}

/** Splits entries into chunks and puts them at the journal's end, after `lastSeq`. */
export function putChunks({ chunkStore }: Core, lastSeq: Seq, address: Address, entries: Entries): Put[] {
  const puts: Put[] = []
  for (let from = 0; from < entries.count;) {
    const to = endOfChunk(entries, from)
    const whole = from === 0 && to === entries.count
    const packed = whole ? entries : pack(entries.slice(from, to), undefined, undefined)
    puts.push(chunkStore.put(lastSeq + from + 1, address, packed))
    from = to
  }
  return puts
}

/** The new entries are pending from now on, and cached for sinks that take them at once. */
export function applyPut({ ledger, chunkStore }: Core, puts: readonly Put[]): void {
  for (const { first, last, payload } of puts) ledger.applyAppended(last - first + 1, payload)
  chunkStore.keepAtHand(puts)
}

/** `news`: reported if found; known entries were reported when they were new. */
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
export function refuseWhenFull({ ledger, maxBytes, path }: Core): void {
  if (ledger.pendingBytes < maxBytes) return
  throw new ConnectorError(
    'journal_full',
    `The journal ${path} holds ${ledger.pendingBytes} bytes that are not delivered yet, its bound is ${maxBytes} (journal.max_bytes): reading pauses until the sinks catch up`,
  )
}

/** The id of a source; a new source first gets its row, in a transaction of its own. */
export function sourceOf({ origins, transactions }: Core, stream: Stream): number {
  const known = origins.find(stream)
  if (known !== undefined) return known
  const id = transactions.writeNew(() => origins.insert(stream), SMALL_BYTES)
  return origins.remember(id, stream)
}

/** The file size that a part needs, with its keys and counts. */
function bytesOf({ entries, quarantined, cursor = '' }: Append): number {
  const least = entries.bytes.length + Buffer.byteLength(cursor) + SMALL_BYTES
  return quarantined.reduce((sum, { bytes }) => sum + bytes.length, least)
}

/**
 * One transaction. Memory is updated only after it has landed: if it throws, nothing of the part is
 * kept.
 */
export function append(core: Core, statements: AppendStatements, part: Append): Appended {
  refuseWhenFull(core)
  const { entries, stream } = part
  const { ledger, quarantine, transactions } = core
  const source = sourceOf(core, stream)
  const wanted = sift(part)
  let puts: readonly Put[] = []
  let kept: Amount = { count: 0, bytes: 0 }
  const land = (): Appended => {
    const claim = core.keys.claim(source, stream.source, entries, wanted, () => transactions.restart())
    const fresh = claim.fresh ?? wanted
    const now = core.clock.now()
    if (claim.freshCount > 0) {
      const packed = pack(entries, fresh, claim.versions)
      const address = { source, appendedAt: now, onlySink: undefined, replay: false }
      puts = putChunks(core, ledger.lastSeq, address, packed)
    }
    kept = quarantine.writeKept(source, part.quarantined, now)
    const { outcomes, days, oldestUs } = countsOf(part, wanted, claim, kept.count, now)
    writeCounts(statements, source, days)
    if (part.cursor !== undefined || part.gaps > 0)
      statements.source.run(part.cursor ?? null, part.gaps, source)
    if (oldestUs !== Infinity) statements.low.run({ id: source, at: oldestUs, day: epochDay(now * 1000) })
    // A stolen key is reported whether or not its fetches are wanted as entries.
    const news = (index: number) => fresh?.includes(index) !== false || wanted?.includes(index) === false
    const appended = {
      ...outcomes,
      known: outcomes.known + part.quarantined.length - kept.count,
      quarantined: kept.count,
      findings: writeFindings(statements, source, part, news, now),
    }
    const put = typeof part.notes === 'function' ? part.notes(appended) : part.notes
    if (put) writeNotes(statements.notes, { put })
    return appended
  }
  const bytes = bytesOf(part)
  const appended = explaining(core, bytes, () => transactions.writeNew(land, bytes))
  quarantine.applyKept(kept)
  applyPut(core, puts)
  return { ...appended, last: ledger.lastSeq }
}

// Results of the entries of a part, summed over the part and by the entries' own UTC day. Pure.

interface DayCounts {
  /** new and not late */
  added: number
  late: number
  known: number
  filtered: number
  quarantined: number
}

interface PartCounts {
  readonly outcomes: Omit<Appended, 'quarantined' | 'findings'>
  /** by days since 1970 */
  readonly days: ReadonlyMap<number, DayCounts>
  /** µs, of the entries that were looked up; Infinity if there was none */
  readonly oldestUs: number
}

const FILTERED = 0
const KNOWN = 1
const FRESH = 2

/** One outcome per entry. */
function outcomesOf({ entries }: Append, wanted: Uint32Array | undefined, claim: Claim): Uint8Array {
  const all = wanted === undefined && claim.fresh === undefined
  const outcomes = new Uint8Array(entries.count).fill(all ? FRESH : wanted === undefined ? KNOWN : FILTERED)
  if (all) return outcomes
  for (const index of wanted ?? []) outcomes[index] = KNOWN
  for (const index of claim.fresh ?? wanted ?? []) outcomes[index] = FRESH
  return outcomes
}

class Days {
  readonly byDay = new Map<number, DayCounts>()
  #lastDay = NaN
  #last: DayCounts | undefined

  of(day: number): DayCounts {
    if (this.#last === undefined || day !== this.#lastDay) {
      this.#last = this.byDay.get(day) ?? { added: 0, late: 0, known: 0, filtered: 0, quarantined: 0 }
      this.byDay.set(day, this.#last)
      this.#lastDay = day
    }
    return this.#last
  }
}

function countsOf(
  part: Append,
  wanted: Uint32Array | undefined,
  claim: Claim,
  quarantined: number,
  nowMs: number,
): PartCounts {
  const { entries, headUs = -Infinity } = part
  const outcomes = outcomesOf(part, wanted, claim)
  const days = new Days()
  let oldestUs = Infinity
  let late = 0
  let latestBehindUs = 0
  for (let i = 0; i < entries.count; i++) {
    const at = entries.at(i)
    const day = days.of(epochDay(at))
    if (outcomes[i] === FILTERED) day.filtered++
    else if (at < oldestUs) oldestUs = at
    if (outcomes[i] === KNOWN) day.known++
    if (outcomes[i] !== FRESH) continue
    if (at < headUs) {
      day.late++
      late++
      latestBehindUs = Math.max(latestBehindUs, headUs - at)
    } else day.added++
  }
  if (quarantined > 0) days.of(epochDay(nowMs * 1000)).quarantined += quarantined
  const filtered = wanted === undefined ? 0 : entries.count - wanted.length
  return {
    outcomes: { added: claim.freshCount - late, late, known: claim.knownCount, filtered, latestBehindUs },
    days: days.byDay,
    oldestUs,
  }
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
  { path, ledger, quarantine, transactions }: Core,
  mostBytes: number,
): unknown {
  if (!(error instanceof ConnectorError) || error.code !== 'disk_full') return error
  const { bound, left, isSystems } = transactions.fileBytes
  // The write was rolled back, and the file is as long as before: with this much left the disk was
  // full.
  if (left > mostBytes) return error
  const kinds = [
    { bytes: quarantine.held.bytes, are: 'quarantined elements', command: 'quarantine' },
    { bytes: ledger.letterBytes, are: 'dead letters', command: 'dead-letters' },
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
