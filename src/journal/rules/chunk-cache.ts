// Cache of decoded chunks: several sinks, or a prefetch, read and verify each only once.
import type { ChunkSlice } from '../../contracts/journal.ts'
import type { Seq } from '../../core/sequence.ts'
import type { Put } from './chunk.ts'
import type { StreamIds } from './streams.ts'

const CACHE_BYTES = 8 * 1024 * 1024
const CACHE_CHUNKS = 64

export interface Chunk {
  readonly first: Seq
  readonly last: Seq
  readonly payload: number
  readonly slice: ChunkSlice
  /** its size in memory */
  readonly bytes: number
}

export function chunkOf({ first, last, payload, address, entries }: Put, streams: StreamIds): Chunk {
  const { source, appendedAt, onlySink, replay } = address
  const stream = streams.stream(source)
  const slice = { stream, firstSeq: first, appendedAt, onlySink, replay, entries }
  const bytes = entries.bytes.length + entries.columns.byteLength + entries.times.byteLength
  return { first, last, payload, slice, bytes }
}

export class ChunkCache {
  readonly #chunks = new Map<Seq, Chunk>()
  #bytes = 0

  /** The chunk that contains this entry. */
  find(seq: Seq): Chunk | undefined {
    for (const chunk of this.#chunks.values()) if (chunk.first <= seq && seq <= chunk.last) return chunk
    return undefined
  }

  /**
   * A Map keeps insertion order, so the least recently used is first. A single huge entry is read
   * again instead.
   */
  touch(chunk: Chunk): Chunk {
    this.forget(chunk.first)
    if (chunk.bytes > CACHE_BYTES) return chunk
    this.#chunks.set(chunk.first, chunk)
    this.#bytes += chunk.bytes
    for (const oldest of this.#chunks.keys()) {
      const few = this.#bytes <= CACHE_BYTES && this.#chunks.size <= CACHE_CHUNKS
      if (few) break
      this.forget(oldest)
    }
    return chunk
  }

  /** Removes chunks that are no longer pending. */
  release(ackedTo: Seq): void {
    for (const { first, last } of this.#chunks.values()) if (last <= ackedTo) this.forget(first)
  }

  forget(first: Seq): void {
    this.#bytes -= this.#chunks.get(first)?.bytes ?? 0
    this.#chunks.delete(first)
  }
}
