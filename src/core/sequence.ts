// Sequence numbers of the journal.

/** Position in the journal: 1, 2, 3, …, unbounded, an integer below 2^53. */
export type Seq = number

/** Sequence numbers from `first` to `last`, both inclusive. */
export interface SequenceRange {
  readonly first: Seq
  readonly last: Seq
}
