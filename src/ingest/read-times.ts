// When a source was last read and last had a gap, stored in the journal: after a restart the status
// registry would otherwise show "never" until the next poll.
import type { Clock } from '../core/clock.ts'
import type { Journal } from '../contracts/journal.ts'
import type { Note } from '../contracts/records.ts'
import type { Stream } from '../contracts/source.ts'
import type { StreamReporter } from '../contracts/reporter.ts'

export interface ReadTimes {
  /** use instead of the given reporter: it passes everything on */
  readonly reporter: StreamReporter
  /**
   * State written in the part's transaction, without an extra commit. `good`: it ends a successful
   * read; `gaps`: the number it found.
   */
  notes(good: boolean, gaps: number): readonly Note[]
  /** Reports the state of an earlier process. Call once, before the first read. */
  recall(): Promise<void>
}

interface Around {
  readonly journal: Pick<Journal, 'note'>
  readonly clock: Pick<Clock, 'now'>
}

/** Times, epoch ms; two for reads: `read caught-up`. */
const FORMAT = /^\d{1,16}( \d{1,16})?$/

export function openReadTimes(
  { workspace, source }: Stream,
  reporter: StreamReporter,
  { journal, clock }: Around,
): ReadTimes {
  const [readName, gapName] = [`read:${workspace}:${source}`, `gap:${workspace}:${source}`]
  let caughtUpAt = 0
  const instants = async (name: string): Promise<readonly number[]> => {
    const value = (await journal.note(name)) ?? ''
    // A time in the future was written by a clock that has since been set back: it is ignored.
    const believed = (at: number) => (at <= clock.now() ? at : 0)
    return FORMAT.test(value) ? value.split(' ').map((text) => believed(Number(text))) : []
  }
  return {
    reporter: {
      ...reporter,
      caughtUp() {
        caughtUpAt = clock.now()
        reporter.caughtUp()
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
      reporter.recalled({ readAt, caughtUpAt: knownAt, gapAt })
    },
  }
}
