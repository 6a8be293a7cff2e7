// When a source was last read and last had a gap, kept in the journal: a restart forgets what the board knew, and "never" would be untrue until the next poll.
import type { Clock } from '../core/clock.ts'
import type { Journal } from '../contracts/journal.ts'
import type { Note } from '../contracts/records.ts'
import type { Origin } from '../contracts/source.ts'
import type { SourceWatch } from '../contracts/reporter.ts'

export interface KeptReads {
  /** to be told instead of the watch given: it passes all on */
  readonly watch: SourceWatch
  /** What a part puts into its own transaction, no commit more. `good`: it ends a read that went well; `gaps`: it met so many. */
  notes(good: boolean, gaps: number): readonly Note[]
  /** Tells the watch what an earlier process knew. Once, before the first read. */
  recall(): Promise<void>
}

interface Around {
  readonly journal: Pick<Journal, 'note'>
  readonly clock: Pick<Clock, 'now'>
}

/** Instants, epoch ms; two where reads are told: `read caught-up`. */
const SHAPE = /^\d{1,16}( \d{1,16})?$/

export function keptReads(
  { workspace, source }: Origin,
  watch: SourceWatch,
  { journal, clock }: Around,
): KeptReads {
  const [readName, gapName] = [`read:${workspace}:${source}`, `gap:${workspace}:${source}`]
  let caughtUpAt = 0
  const instants = async (name: string): Promise<readonly number[]> => {
    const value = (await journal.note(name)) ?? ''
    // What lies in the future was written by a clock that has since been set back: it says nothing.
    const believed = (at: number) => (at <= clock.now() ? at : 0)
    return SHAPE.test(value) ? value.split(' ').map((text) => believed(Number(text))) : []
  }
  return {
    watch: {
      ...watch,
      caughtUp() {
        caughtUpAt = clock.now()
        watch.caughtUp()
      },
    },
    notes(good, gaps) {
      const now = clock.now()
      const read = good ? [{ name: readName, value: `${now} ${caughtUpAt}` }] : []
      return gaps > 0 ? [...read, { name: gapName, value: String(now) }] : read
    },
    async recall() {
      const [readAt = 0, knownAt = 0] = await instants(readName)
      const [gapAt = 0] = await instants(gapName)
      caughtUpAt ||= knownAt
      watch.recalled({ readAt, caughtUpAt: knownAt, gapAt })
    },
  }
}
