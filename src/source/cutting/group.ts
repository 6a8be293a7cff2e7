// What the splitter hands out: some of a body's entries in their order, and beside them what stood between them and is no entry.
import type { Entries } from '../../model/entries.ts'
import type { Quarantined } from '../../model/source.ts'

export interface Group {
  readonly entries: Entries
  readonly quarantined: readonly Quarantined[]
}

/** A group whose malformed elements are not made yet. */
export interface ClosedGroup {
  readonly entries: Entries
  readonly quarantined: () => readonly Quarantined[]
}
