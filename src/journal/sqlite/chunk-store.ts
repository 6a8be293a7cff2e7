// The chunks on disk in journal order: appended at the end, read as slices. Consecutive from the
// oldest stored to the last.
import type { Database, Statement } from 'better-sqlite3'
import type { Entries } from '../../contracts/entries.ts'
import { makeWay } from '../../core/bytes.ts'
import type { Batch, LoneLimits, ChunkSlice, TakeLimits, TooLarge } from '../../contracts/journal.ts'
import type { Seq } from '../../core/sequence.ts'
import { checksum, decode, encode, payloadBytes } from '../rules/chunk.ts'
import { fitting } from '../rules/slicing.ts'
import { corrupt } from './database.ts'
import type { Streams } from './streams.ts'

/** Cache of decoded chunks: several sinks, or a prefetch, read and verify each only once. */
const CACHE_BYTES = 8 * 1024 * 1024
const CACHE_CHUNKS = 64

export interface Address {
  readonly source: number
  readonly appendedAt: number
  readonly onlySink: string | undefined
  readonly replay: boolean
}

/** A chunk to be written. */
export interface Put {
  readonly payload: number
  readonly first: Seq
  readonly last: Seq
  readonly address: Address
  readonly entries: Entries
}

interface Chunk {
  readonly first: Seq
  readonly last: Seq
  readonly payload: number
  readonly slice: ChunkSlice
  /** its size in memory */
  readonly bytes: number
}

interface SizeRow {
  first: number
  last: number
  payload: number
}

interface ChunkRow extends SizeRow {
  source: number
  appended_at: number
  crc: number
  only_sink: string | null
  replay: number
  types: string
  times: Buffer
  columns: Buffer
  slab: Buffer
}

export class ChunkStore {
  readonly #path: string
  readonly #streams: Streams
  readonly #insert: Statement
  readonly #read: Statement<[number], ChunkRow>
  readonly #size: Statement<[number], SizeRow>
  readonly #cache = new Map<Seq, Chunk>()
  #cachedBytes = 0

  constructor(db: Database, path: string, streams: Streams) {
    this.#path = path
    this.#streams = streams
    this.#insert = db.prepare('INSERT INTO chunks VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)')
    this.#read = db.prepare('SELECT * FROM chunks WHERE first <= ? ORDER BY first DESC LIMIT 1')
    this.#size = db.prepare(
      'SELECT first, last, payload FROM chunks WHERE first <= ? ORDER BY first DESC LIMIT 1',
    )
  }

  /** Writes into the running transaction; pass the result to `cache` once that has landed. */
  put(first: Seq, address: Address, entries: Entries): Put {
    const { source, appendedAt, onlySink, replay } = address
    const last = first + entries.count - 1
    const payload = payloadBytes(entries)
    const pieces = encode(entries)
    const { types, times, columns, slab } = pieces
    const crc = checksum(label(first, last, address), pieces)
    // The driver needs twice as much again; for a huge entry, the freed pieces that it arrived in
    // are still in memory too.
    makeWay(slab.length)
    this.#insert.run(
      first,
      last,
      source,
      payload,
      appendedAt,
      crc,
      onlySink ?? null,
      replay ? 1 : 0,
      types,
      times,
      columns,
      slab,
    )
    return { payload, first, last, address, entries }
  }

  /** Caches the new chunks: nearly always a sink takes them at once and need not read them back. */
  cache(puts: readonly Put[]): void {
    for (const put of puts) this.#touch(this.#chunk(put))
  }

  #chunk({ first, last, payload, address, entries }: Put): Chunk {
    const { source, appendedAt, onlySink, replay } = address
    const stream = this.#streams.stream(source)
    const slice = { stream, firstSeq: first, appendedAt, onlySink, replay, entries }
    const bytes = entries.bytes.length + entries.columns.byteLength + entries.times.byteLength
    return { first, last, payload, slice, bytes }
  }

  /**
   * Entries [from, until] as far as the limits allow; undefined if the store has none of them.
   * Throws ConnectorError `journal_corrupt`.
   */
  slice(from: Seq, until: Seq, limits: LoneLimits): Batch | TooLarge | undefined
  slice(from: Seq, until: Seq, limits: TakeLimits): Batch | undefined
  slice(from: Seq, until: Seq, limits: TakeLimits & Partial<LoneLimits>): Batch | TooLarge | undefined {
    const slices: ChunkSlice[] = []
    let next = from
    let bytes = 0
    const { loneBytes = Infinity } = limits
    while (next <= until && next - from < limits.maxEntries) {
      const lone = this.#loneBytes(next)
      if (next === from && lone > loneBytes) return { rawBytes: lone }
      if (next > from && lone > limits.maxBytes - bytes) break
      const chunk = this.#chunkAt(next, lone)
      if (chunk === undefined) break
      const { entries } = chunk.slice
      const start = next - chunk.first
      const end = Math.min(entries.count, until - chunk.first + 1, start + limits.maxEntries - (next - from))
      const memory = limits.maxBytes - bytes
      const whole = end - start === entries.count && chunk.payload <= memory
      const { index, taken } = whole
        ? { index: end, taken: chunk.payload }
        : fitting(entries, start, end, memory, next === from)
      bytes += taken
      if (index > start) slices.push({ ...chunk.slice, firstSeq: next, entries: entries.slice(start, index) })
      next += index - start
      if (index < end) break
    }
    return next === from ? undefined : { first: from, last: next - 1, count: next - from, slices }
  }

  /** One entry, with its chunk. */
  entry(seq: Seq): { readonly slice: ChunkSlice; readonly index: number } | undefined {
    const chunk = this.#chunkAt(seq)
    return chunk && { slice: chunk.slice, index: seq - chunk.first }
  }

  /** Removes chunks from the cache that are no longer pending. */
  release(ackedTo: Seq): void {
    for (const { first, last } of this.#cache.values()) if (last <= ackedTo) this.forget(first)
  }

  forget(first: Seq): void {
    this.#cachedBytes -= this.#cache.get(first)?.bytes ?? 0
    this.#cache.delete(first)
  }

  #cachedChunk(seq: Seq): Chunk | undefined {
    for (const chunk of this.#cache.values()) if (chunk.first <= seq && seq <= chunk.last) return chunk
    return undefined
  }

  /** The payload of an entry with a chunk of its own that is not cached; 0 for any other. */
  #loneBytes(seq: Seq): number {
    if (this.#cachedChunk(seq)) return 0
    const size = this.#size.get(seq)
    return size?.first === seq && size.last === seq ? size.payload : 0
  }

  #chunkAt(seq: Seq, loneBytes = this.#loneBytes(seq)): Chunk | undefined {
    const cached = this.#cachedChunk(seq)
    if (cached) return this.#touch(cached)
    // The driver uses extra memory for it: of huge entries, new or requested by several sinks, only
    // one stays cached.
    makeWay(loneBytes)
    const row = this.#read.get(seq)
    if (row === undefined || row.last < seq) return undefined
    return this.#touch(this.#open(row))
  }

  #open(row: ChunkRow): Chunk {
    const address = {
      source: row.source,
      appendedAt: row.appended_at,
      onlySink: row.only_sink ?? undefined,
      replay: row.replay === 1,
    }
    const count = row.last - row.first + 1
    const sound = checksum(label(row.first, row.last, address), row) === row.crc
    const entries = sound ? decode(count, row) : undefined
    if (entries === undefined)
      throw corrupt(
        this.#path,
        `the chunk of entries ${row.first} to ${row.last} does not match its checksum`,
      )
    return this.#chunk({ first: row.first, last: row.last, payload: row.payload, address, entries })
  }

  /**
   * A Map keeps insertion order, so the least recently used is first. A single huge entry is read
   * again instead.
   */
  #touch(chunk: Chunk): Chunk {
    this.forget(chunk.first)
    if (chunk.bytes > CACHE_BYTES) return chunk
    this.#cache.set(chunk.first, chunk)
    this.#cachedBytes += chunk.bytes
    for (const oldest of this.#cache.keys()) {
      const few = this.#cachedBytes <= CACHE_BYTES && this.#cache.size <= CACHE_CHUNKS
      if (few) break
      this.forget(oldest)
    }
    return chunk
  }
}

function label(first: Seq, last: Seq, { source, appendedAt, onlySink, replay }: Address): string {
  return `${first} ${last} ${source} ${appendedAt} ${onlySink ?? ''} ${replay ? 1 : 0}`
}
