// A place in the journal's one order.

/** Position in the journal's one order: 1, 2, 3, … without end, an integer below 2^53. */
export type Seq = number

/** Sequence numbers from `first` to `last`, both included. */
export interface Stretch {
  readonly first: Seq
  readonly last: Seq
}
