// The chunks of a shard in journal order: appended at the end, read as slices. Consecutive from the
// oldest stored to the last.
import type { Entries } from '../../contracts/entries.ts'
import type { Batch, LoneLimits, ChunkSlice, TakeLimits, TooLarge } from '../../contracts/journal.ts'
import { makeWay } from '../../core/bytes.ts'
import { ConnectorError } from '../../core/errors.ts'
import type { Seq } from '../../core/sequence.ts'
import { ChunkCache, chunkOf } from '../rules/chunk-cache.ts'
import type { Chunk } from '../rules/chunk-cache.ts'
import { checksum, decode, encode, label, payloadBytes } from '../rules/chunk.ts'
import type { Address } from '../rules/chunk.ts'
import type { ChunkSize } from '../rules/pruning.ts'
import { BatchBuilder, chunksOf } from '../rules/slicing.ts'
import type { Queries } from './connection.ts'
import type { Core } from './core.ts'
import type { Transaction } from './transactions.ts'

/** Chunks whose sizes are looked up at once. */
const LOOK_AHEAD = 256

interface ChunkRow extends ChunkSize {
  source: number
  appendedAt: number
  checksum: number
  onlySink: string | null
  replay: boolean
  types: string
  times: Buffer
  columns: Buffer
  slab: Buffer
}

interface ChunkStoreOptions extends Pick<Core, 'shard' | 'schema' | 'where' | 'streams' | 'pending'> {
  readonly incarnation: string
}

export class ChunkStore {
  readonly #options: ChunkStoreOptions
  readonly #cache = new ChunkCache()

  constructor(options: ChunkStoreOptions) {
    this.#options = options
  }

  /** Splits entries into chunks at the journal's end. They stay cached: a sink takes them at once. */
  async put(transaction: Transaction, address: Address, entries: Entries): Promise<void> {
    const { pending, streams } = this.#options
    for (const chunk of chunksOf(entries)) {
      const first = transaction.nextSeq
      const put = {
        first,
        last: first + chunk.count - 1,
        payload: payloadBytes(chunk),
        address,
        entries: chunk,
      }
      await this.#insert(transaction, put)
      transaction.stored(chunk.count)
      transaction.afterCommit(() => {
        pending.applyAppended(put.payload, address.appendedAt)
        this.#cache.touch(chunkOf(put, streams))
      })
    }
  }

  async #insert(
    { query }: Transaction,
    { first, last, payload, address, entries }: Parameters<typeof chunkOf>[0],
  ): Promise<void> {
    const { shard, schema, incarnation } = this.#options
    const { source, appendedAt, onlySink, replay } = address
    const pieces = encode(entries)
    const sum = checksum(label(first, last, address), pieces)
    makeWay(pieces.slab.length)
    await query(
      `INSERT INTO ${schema}.chunks (shard, first, last, stream, payload, appended_at, checksum, only_sink, replay,
         incarnation, types, times, columns, slab)
       VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14)`,
      [
        ...[shard, first, last, source, payload, appendedAt, sum, onlySink ?? null, replay],
        ...[incarnation, pieces.types, pieces.times, pieces.columns, pieces.slab],
      ],
    )
  }

  /**
   * Entries [from, until] as far as the limits allow; undefined if the store has none of them.
   * Throws ConnectorError `journal_corrupt`.
   */
  slice(queries: Queries, from: Seq, until: Seq, limits: LoneLimits): Promise<Batch | TooLarge | undefined>
  slice(queries: Queries, from: Seq, until: Seq, limits: TakeLimits): Promise<Batch | undefined>
  async slice(
    queries: Queries,
    from: Seq,
    until: Seq,
    limits: TakeLimits & Partial<LoneLimits>,
  ): Promise<Batch | TooLarge | undefined> {
    const { loneBytes = Infinity } = limits
    const builder = new BatchBuilder(from, until, limits)
    let read: readonly Chunk[] = []
    while (!builder.isFull) {
      const { next, isEmpty } = builder
      const known = this.#cache.find(next) ?? read.find(({ first, last }) => first <= next && next <= last)
      if (known === undefined) {
        const left = { entries: builder.leftEntries, bytes: builder.leftBytes }
        const sizes = await this.#sizes(queries, next, until)
        const [lone] = sizes
        if (isEmpty && lone && isLone(lone) && lone.payload > loneBytes) return { rawBytes: lone.payload }
        read = await this.#read(queries, within(sizes, left, isEmpty))
        if (read.length === 0) break
      } else if (!builder.add(this.#cache.touch(known))) break
    }
    return builder.batch
  }

  /** One entry, with its chunk. */
  async entry(
    queries: Queries,
    seq: Seq,
  ): Promise<{ readonly slice: ChunkSlice; readonly index: number } | undefined> {
    const cached = this.#cache.find(seq)
    const [chunk] = cached
      ? [cached]
      : await this.#read(queries, (await this.#sizes(queries, seq, seq)).slice(0, 1))
    return chunk && { slice: this.#cache.touch(chunk).slice, index: seq - chunk.first }
  }

  /** Removes chunks from the cache that are no longer pending. */
  release(ackedTo: Seq): void {
    this.#cache.release(ackedTo)
  }

  forget(first: Seq): void {
    this.#cache.forget(first)
  }

  /** Of the chunks from the one that contains `from`. */
  async #sizes({ query }: Queries, from: Seq, until: Seq): Promise<readonly ChunkSize[]> {
    const { shard, schema } = this.#options
    const sizes = await query<ChunkSize>(
      `SELECT first, last, payload FROM ${schema}.chunks
       WHERE shard = $1 AND first <= $3
         AND first >= (SELECT max(first) FROM ${schema}.chunks WHERE shard = $1 AND first <= $2)
       ORDER BY first LIMIT ${LOOK_AHEAD}`,
      [shard, from, until],
    )
    return (sizes[0]?.last ?? 0) < from ? [] : sizes
  }

  async #read({ query }: Queries, sizes: readonly ChunkSize[]): Promise<readonly Chunk[]> {
    if (sizes.length === 0) return []
    // The driver needs about three times as much for them.
    makeWay(sizes.reduce((sum, { payload }) => sum + payload, 0))
    const { shard, schema } = this.#options
    const rows = await query<ChunkRow>(
      `SELECT first, last, stream AS source, payload, appended_at AS "appendedAt", checksum, only_sink AS "onlySink",
         replay, types, times, columns, slab
       FROM ${schema}.chunks WHERE shard = $1 AND first = ANY ($2::bigint[]) ORDER BY first`,
      [shard, sizes.map(({ first }) => first)],
    )
    return rows.map((row) => this.#open(row))
  }

  #open(row: ChunkRow): Chunk {
    const { first, last, payload, source, appendedAt, replay } = row
    const address = { source, appendedAt, onlySink: row.onlySink ?? undefined, replay }
    const isSound = checksum(label(first, last, address), row) === row.checksum
    const entries = isSound ? decode(last - first + 1, row) : undefined
    if (entries === undefined)
      throw corrupt(
        this.#options.where,
        `the chunk of entries ${first} to ${last} does not match its checksum`,
      )
    return chunkOf({ first, last, payload, address, entries }, this.#options.streams)
  }
}

const isLone = ({ first, last }: ChunkSize) => first === last

/** Those that a batch begins with that much left; of huge entries, only one is read at a time. */
function within(
  sizes: readonly ChunkSize[],
  left: { readonly entries: number; readonly bytes: number },
  isEmpty: boolean,
): readonly ChunkSize[] {
  let { entries, bytes } = left
  const end = sizes.findIndex((size, i) => {
    const isFirst = isEmpty && i === 0
    if (!isFirst && (entries <= 0 || bytes <= 0 || (isLone(size) && size.payload > bytes))) return true
    entries -= size.last - size.first + 1
    bytes -= size.payload
    return false
  })
  return end < 0 ? sizes : sizes.slice(0, end)
}

export function corrupt(where: string, what: string): ConnectorError {
  return new ConnectorError(
    'journal_corrupt',
    `The journal in ${where} is damaged (${what}). Stop the program and restore the database from a backup; nothing is ever deleted by this program`,
  )
}
