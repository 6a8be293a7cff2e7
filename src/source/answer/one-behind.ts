// The groups of an answer, one behind, since its last one goes out with the cursor. What is large waits for none, and never stands in memory beside the next.
import { TRANSACTION_BYTES } from '../../model/entries.ts'
import type { Group } from '../cutting/group.ts'

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
