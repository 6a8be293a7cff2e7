// The body of a list as groups of entries: held whole while it is small, streamed when it is not (law 4). The audit log and the history both come through here.
import { WHOLE_BODY_BYTES } from '../../model/entries.ts'
import { isAbort } from '../../model/errors.ts'
import { Pieces } from '../../model/pieces.ts'
import type { Answer } from '../client/client.ts'
import type { Group } from '../cutting/group.ts'
import type { Splitter, SplitterOptions } from '../cutting/splitter.ts'
import { joined } from '../cutting/slab.ts'
import { openSplitter } from '../cutting/splitter.ts'
import type { BodySample } from './body-sample.ts'

/**
 * A body up to 4 MiB is held and checked to its end before a group of it comes out; of a larger one the groups come as they
 * are complete (law 4). Throws ConnectorError `bad_reply` when it is not a JSON array to its end.
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
