// The body of a list as groups of entries: held whole while it is small, streamed when it is not (invariant 4). The audit log and the history both come through here.
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
 * A body up to 4 MiB is held and checked to its end before a group of it comes out; of a larger one the groups come as they
 * are complete (invariant 4). Throws ConnectorError `bad_reply` when it is not a JSON array to its end.
 */
export async function* readGroups(
  answer: Answer,
  options: SplitterOptions,
  sample: BodySample | undefined,
): AsyncGenerator<Group> {
  yield* new GroupReader(options).read(answer, sample)
}

/**
 * The same, but of a body that breaks off or is no JSON from some byte on, the whole elements before it come out too, and
 * only then it throws: for answers that have no pages, so that asking again may break at the same place.
 */
export async function* readWholeElements(answer: Answer, options: SplitterOptions): AsyncGenerator<Group> {
  const reader = new GroupReader(options)
  try {
    yield* reader.read(answer, undefined)
  } catch (error) {
    // Who was told to stop takes nothing more in.
    if (!isAbort(error)) yield* reader.wholeOnes()
    throw error
  }
}

class GroupReader {
  readonly #splitter: Splitter
  #held: Pieces | undefined = new Pieces()

  constructor(options: SplitterOptions) {
    this.#splitter = openSplitter(options)
  }

  async *read(answer: Answer, sample: BodySample | undefined): AsyncGenerator<Group> {
    const splitter = this.#splitter
    for await (const piece of answer.body) {
      sample?.add(piece)
      if (this.#held) {
        this.#held.add(piece)
        if (this.#held.length <= WHOLE_BODY_BYTES) continue
        const held = this.#held
        this.#held = undefined
        for (const before of held.parts) splitter.push(before)
      } else {
        splitter.push(piece)
      }
      yield* this.#groups()
    }
    if (answer.none) return
    this.#pushHeld()
    // Throws before anything of a held page is out.
    splitter.end()
    yield* this.#groups()
  }

  /** What is whole of a body that has failed. */
  *wholeOnes(): Generator<Group> {
    try {
      this.#pushHeld()
      this.#splitter.end()
    } catch {
      // It has failed already, and the first reason is the one to tell.
    }
    yield* this.#groups()
  }

  #pushHeld(): void {
    const held = this.#held
    this.#held = undefined
    if (held) this.#splitter.push(joined(held.parts), true)
  }

  *#groups(): Generator<Group> {
    for (let group = this.#splitter.take(); group; group = this.#splitter.take()) yield group
  }
}

// What is kept of a body that cannot be read, or not whole: its first MiB, its length and its hash.

const HEAD_BYTES = 1024 * 1024

export class BodySample {
  #hash: Hash | undefined
  readonly #head = new Pieces()
  #totalBytes = 0

  add(piece: Uint8Array): void {
    this.#hash ??= createHash('sha256')
    this.#hash.update(piece)
    this.#totalBytes += piece.length
    const leftBytes = HEAD_BYTES - this.#head.length
    if (leftBytes > 0) this.#head.add(piece.subarray(0, leftBytes))
  }

  get isEmpty(): boolean {
    return this.#totalBytes === 0
  }

  /** Once, when all has passed. */
  quarantined(reason: Quarantined['reason']): Quarantined {
    return {
      reason,
      bytes: this.#head.whole(),
      totalBytes: this.#totalBytes,
      sha256: (this.#hash ?? createHash('sha256')).digest('hex'),
    }
  }
}

// A body that is held until it is whole, up to a bound.

/**
 * Undefined where it is larger than `mostBytes`. With a `sample`, which sees every byte, it is read to its end all the same;
 * without one the rest is not asked for.
 */
export async function hold(
  { body }: Pick<Answer, 'body'>,
  mostBytes: number,
  sample?: BodySample,
): Promise<Uint8Array | undefined> {
  let pieces: Pieces | undefined = new Pieces()
  let bytes = 0
  for await (const piece of body) {
    sample?.add(piece)
    bytes += piece.length
    if (bytes <= mostBytes) pieces?.add(piece)
    else if (!sample) return undefined
    else pieces = undefined
  }
  return pieces?.whole()
}

// The groups of an answer, one behind, since its last one goes out with the cursor. What is large waits for none, and never stands in memory beside the next.

export class OneBehind {
  #last: Group | undefined

  /** what has come last, where it is not out yet */
  get last(): Group | undefined {
    return this.#last
  }

  /** What goes out now that `group` has come. */
  next(group: Group): readonly Group[] {
    const ready = this.#last ? [this.#last, group] : [group]
    this.#last = isLarge(group) ? undefined : ready.pop()
    return ready
  }
}

/** One entry alone, larger than a group may be. */
const isLarge = ({ entries }: Group): boolean => entries.bytes.length > TRANSACTION_BYTES
