// Splits the body of a list into groups of entries: buffered if small, streamed if large (invariant
// 4). Used by the audit log and the history.
import { createHash } from 'node:crypto'
import type { Hash } from 'node:crypto'
import { TRANSACTION_BYTES, WHOLE_BODY_BYTES } from '../../contracts/entries.ts'
import type { Quarantined } from '../../contracts/source.ts'
import { Pieces } from '../../core/bytes.ts'
import { isAbort } from '../../core/errors.ts'
import type { Group } from '../splitter/entries-builder.ts'
import { joined } from '../splitter/slab.ts'
import { openSplitter } from '../splitter/splitter.ts'
import type { Splitter, SplitterOptions } from '../splitter/splitter.ts'
import type { Answer } from './client.ts'

/**
 * A body up to 4 MiB is buffered and checked to its end before the first group; the groups of a
 * larger one come as they are complete (invariant 4). Throws ConnectorError `bad_reply` if it is
 * not a complete JSON array.
 */
export async function* readGroups(
  answer: Answer,
  options: SplitterOptions,
  sample: BodySample | undefined,
): AsyncGenerator<Group> {
  yield* new GroupReader(options).read(answer, sample)
}

/**
 * The same, but if a body breaks off or stops being JSON, its complete elements are yielded before
 * the error: for answers without pages, where a retry may break at the same byte.
 */
export async function* readCompleteElements(answer: Answer, options: SplitterOptions): AsyncGenerator<Group> {
  const reader = new GroupReader(options)
  try {
    yield* reader.read(answer, undefined)
  } catch (error) {
    // After an abort nothing more is yielded.
    if (!isAbort(error)) yield* reader.completeElements()
    throw error
  }
}

class GroupReader {
  readonly #splitter: Splitter
  #buffered: Pieces | undefined = new Pieces()

  constructor(options: SplitterOptions) {
    this.#splitter = openSplitter(options)
  }

  async *read(answer: Answer, sample: BodySample | undefined): AsyncGenerator<Group> {
    const splitter = this.#splitter
    for await (const piece of answer.body) {
      sample?.add(piece)
      if (this.#buffered) {
        this.#buffered.add(piece)
        if (this.#buffered.length <= WHOLE_BODY_BYTES) continue
        const buffered = this.#buffered
        this.#buffered = undefined
        for (const before of buffered.parts) splitter.push(before)
      } else {
        splitter.push(piece)
      }
      yield* this.#groups()
    }
    if (answer.none) return
    this.#pushBuffered()
    // Throws before any group of a buffered page is yielded.
    splitter.end()
    yield* this.#groups()
  }

  /** The complete elements of a body that has failed. */
  *completeElements(): Generator<Group> {
    try {
      this.#pushBuffered()
      this.#splitter.end()
    } catch {
      // It has failed already, and the first reason is the one to report.
    }
    yield* this.#groups()
  }

  #pushBuffered(): void {
    const buffered = this.#buffered
    this.#buffered = undefined
    if (buffered) this.#splitter.push(joined(buffered.parts), true)
  }

  *#groups(): Generator<Group> {
    for (let group = this.#splitter.take(); group; group = this.#splitter.take()) yield group
  }
}

// The stored part of an unreadable or incomplete body: its first MiB, its length and its hash.

const SAMPLE_BYTES = 1024 * 1024

export class BodySample {
  #hash: Hash | undefined
  readonly #beginning = new Pieces()
  #totalBytes = 0

  add(piece: Uint8Array): void {
    this.#hash ??= createHash('sha256')
    this.#hash.update(piece)
    this.#totalBytes += piece.length
    const leftBytes = SAMPLE_BYTES - this.#beginning.length
    if (leftBytes > 0) this.#beginning.add(piece.subarray(0, leftBytes))
  }

  get isEmpty(): boolean {
    return this.#totalBytes === 0
  }

  /** Call once, after all bytes. */
  quarantined(reason: Quarantined['reason']): Quarantined {
    return {
      reason,
      bytes: this.#beginning.toBuffer(),
      totalBytes: this.#totalBytes,
      sha256: (this.#hash ?? createHash('sha256')).digest('hex'),
    }
  }
}

// Buffers a body until it is complete, up to a bound.

/**
 * Undefined if it is larger than `maxBytes`. With a `sample`, which sees every byte, it is still
 * read to its end; without one the rest is not read.
 */
export async function bufferBody(
  { body }: Pick<Answer, 'body'>,
  maxBytes: number,
  sample?: BodySample,
): Promise<Uint8Array | undefined> {
  let pieces: Pieces | undefined = new Pieces()
  let bytes = 0
  for await (const piece of body) {
    sample?.add(piece)
    bytes += piece.length
    if (bytes <= maxBytes) pieces?.add(piece)
    else if (!sample) return undefined
    else pieces = undefined
  }
  return pieces?.toBuffer()
}

// The groups of an answer, delayed by one, because the last one is stored with the cursor.
// A large group is not delayed, and is never in memory together with the next.

export class OneBehind {
  #last: Group | undefined

  /** the last group, if it is not yielded yet */
  get last(): Group | undefined {
    return this.#last
  }

  /** The groups to yield now that `group` has arrived. */
  next(group: Group): readonly Group[] {
    const ready = this.#last ? [this.#last, group] : [group]
    this.#last = isLarge(group) ? undefined : ready.pop()
    return ready
  }
}

/** A single entry that is larger than a group may be. */
const isLarge = ({ entries }: Group): boolean => entries.bytes.length > TRANSACTION_BYTES
