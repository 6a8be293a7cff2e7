// What became of a part that was handed to the journal.
import type { Seq } from './seq.ts'

/**
 * Each element of the part has one outcome. added: new and not late; known: entries by their keys, and malformed elements that
 * were quarantined before; quarantined: those that were not.
 */
export interface Appended {
  readonly added: number
  readonly late: number
  readonly known: number
  readonly filtered: number
  readonly quarantined: number
  readonly findings: number
  /** how far behind the head the latest of the late ones was, µs; 0 where none */
  readonly latestBehindUs: number
  /** the journal's last entry by now: nothing of this part stands behind it */
  readonly last?: Seq | undefined
}

/** What is answered of a part that is not taken in. */
export const nothingAppended: Appended = {
  added: 0,
  late: 0,
  known: 0,
  filtered: 0,
  quarantined: 0,
  findings: 0,
  latestBehindUs: 0,
}
