// What all entries of one origin and instant share in their lines: made once, copied from then on. Of the run itself nothing is kept, or a sink that waits would hold entries that it has sent.
import type { Run } from './journal.ts'

export type Shared = Pick<Run, 'origin' | 'appendedAt' | 'replay'>

/** The answer of `make`, asked anew where a run is of another origin or instant than the one before it. */
export function perOrigin<T>(make: (shared: Shared) => T): (run: Shared) => T {
  let known: (Shared & { readonly made: T }) | undefined
  return ({ origin, appendedAt, replay }) => {
    if (known?.origin !== origin || known.appendedAt !== appendedAt || known.replay !== replay)
      known = { origin, appendedAt, replay, made: make({ origin, appendedAt, replay }) }
    return known.made
  }
}
