// What an auditor is told of a chain, and what it touches.

/** `fault`: the evidence does not hold. `note`: it holds, and an auditor should know this. */
export interface Finding {
  readonly level: 'fault' | 'note'
  readonly where: string
  readonly what: string
}

/** What a fault touches, as far as it is known. */
export interface Touched {
  readonly entries?: number
  readonly first: number
  readonly last: number
  /** of the entries, as the manifest has them */
  readonly from?: string | null
  readonly until?: string | null
}

export type Tell = (level: Finding['level'], where: string, what: string, touched?: Touched) => void
