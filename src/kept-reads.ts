// When a source was last read, kept in the journal: a restart forgets what the board knew, and "never" would be untrue until the next poll.
import type { Clock } from './model/clock.ts'
import type { Journal, Note } from './model/journal.ts'
import type { Origin } from './model/source.ts'
import type { SourceWatch } from './model/watch.ts'

export interface KeptReads {
  /** to be told instead of the watch given: it passes all on */
  readonly watch: SourceWatch
  /** What the part that ends a good read puts into its own transaction: no commit more. */
  notes(): readonly Note[]
  /** Tells the watch what an earlier process knew. Once, before the first read. */
  recall(): Promise<void>
}

interface Around {
  readonly journal: Pick<Journal, 'note'>
  readonly clock: Pick<Clock, 'now'>
}

/** Two instants, epoch ms: `read caught-up`. */
const SHAPE = /^(\d{1,16}) (\d{1,16})$/

export function keptReads(
  { workspace, source }: Origin,
  watch: SourceWatch,
  { journal, clock }: Around,
): KeptReads {
  const name = `read:${workspace}:${source}`
  let caughtUpAt = 0
  return {
    watch: {
      ...watch,
      caughtUp() {
        caughtUpAt = clock.now()
        watch.caughtUp()
      },
    },
    notes: () => [{ name, value: `${clock.now()} ${caughtUpAt}` }],
    async recall() {
      const [, ...instants] = SHAPE.exec((await journal.note(name)) ?? '') ?? []
      // What lies in the future was written by a clock that has since been set back: it says nothing.
      const [readAt = 0, knownAt = 0] = instants.map(Number).map((at) => (at <= clock.now() ? at : 0))
      caughtUpAt ||= knownAt
      if (readAt > 0) watch.recalled(readAt, knownAt)
    },
  }
}
