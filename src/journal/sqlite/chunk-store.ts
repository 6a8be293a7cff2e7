// The chunks on disk in journal order: appended at the end, read as slices. Consecutive from the
// oldest stored to the last.
import type { Database, Statement } from 'better-sqlite3'
import type { Entries } from '../../contracts/entries.ts'
import { makeWay } from '../../core/bytes.ts'
import type { Batch, LoneLimits, ChunkSlice, TakeLimits, TooLarge } from '../../contracts/journal.ts'
import type { Seq } from '../../core/sequence.ts'
import { ChunkCache, chunkOf } from '../rules/chunk-cache.ts'
import type { Chunk } from '../rules/chunk-cache.ts'
import { checksum, decode, encode, label, payloadBytes } from '../rules/chunk.ts'
import type { Address, Put } from '../rules/chunk.ts'
import type { ChunkSize } from '../rules/pruning.ts'
import { BatchBuilder } from '../rules/slicing.ts'
import { corrupt } from './database.ts'
import type { Streams } from './streams.ts'

interface ChunkRow extends ChunkSize {
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
  readonly #size: Statement<[number], ChunkSize>
  readonly #cache = new ChunkCache()

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
    for (const put of puts) this.#cache.touch(chunkOf(put, this.#streams))
  }

  /**
   * Entries [from, until] as far as the limits allow; undefined if the store has none of them.
   * Throws ConnectorError `journal_corrupt`.
   */
  slice(from: Seq, until: Seq, limits: LoneLimits): Batch | TooLarge | undefined
  slice(from: Seq, until: Seq, limits: TakeLimits): Batch | undefined
  slice(from: Seq, until: Seq, limits: TakeLimits & Partial<LoneLimits>): Batch | TooLarge | undefined {
    const { loneBytes = Infinity } = limits
    const builder = new BatchBuilder(from, until, limits)
    while (!builder.isFull) {
      const lone = this.#loneBytes(builder.next)
      if (builder.isEmpty && lone > loneBytes) return { rawBytes: lone }
      if (!builder.isEmpty && lone > builder.leftBytes) break
      const chunk = this.#chunkAt(builder.next, lone)
      if (chunk === undefined || !builder.add(chunk)) break
    }
    return builder.batch
  }

  /** One entry, with its chunk. */
  entry(seq: Seq): { readonly slice: ChunkSlice; readonly index: number } | undefined {
    const chunk = this.#chunkAt(seq)
    return chunk && { slice: chunk.slice, index: seq - chunk.first }
  }

  /** Removes chunks from the cache that are no longer pending. */
  release(ackedTo: Seq): void {
    this.#cache.release(ackedTo)
  }

  forget(first: Seq): void {
    this.#cache.forget(first)
  }

  /** The payload of an entry with a chunk of its own that is not cached; 0 for any other. */
  #loneBytes(seq: Seq): number {
    if (this.#cache.find(seq)) return 0
    const size = this.#size.get(seq)
    return size?.first === seq && size.last === seq ? size.payload : 0
  }

  #chunkAt(seq: Seq, loneBytes = this.#loneBytes(seq)): Chunk | undefined {
    const cached = this.#cache.find(seq)
    if (cached) return this.#cache.touch(cached)
    // The driver uses extra memory for it: of huge entries, new or requested by several sinks, only
    // one stays cached.
    makeWay(loneBytes)
    const row = this.#read.get(seq)
    if (row === undefined || row.last < seq) return undefined
    return this.#cache.touch(this.#open(row))
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
    const put = { first: row.first, last: row.last, payload: row.payload, address, entries }
    return chunkOf(put, this.#streams)
  }
}
