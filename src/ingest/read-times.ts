// When a source was last read and last had a gap, stored in the journal: after a restart the status
// registry would otherwise show "never" until the next poll.
import type { Clock } from '../core/clock.ts'
import type { State, StateEntry } from '../contracts/journal.ts'
import type { Stream } from '../contracts/source.ts'
import type { StreamReporter } from '../contracts/reporter.ts'

export interface ReadTimes {
  /** use instead of the given reporter: it passes everything on */
  readonly reporter: StreamReporter
  /**
   * State written in the part's transaction, without an extra commit. `good`: it ends a successful
   * read; `gaps`: the number it found.
   */
  state(good: boolean, gaps: number): readonly StateEntry[]
  /** Reports the state of an earlier process. Call once, before the first read. */
  recall(): Promise<void>
}

/** Times, epoch ms; two for reads: `read caught-up`. */
const FORMAT = /^\d{1,16}( \d{1,16})?$/

export function openReadTimes(
  { workspace, source }: Stream,
  reporter: StreamReporter,
  { state, clock }: { readonly state: State; readonly clock: Pick<Clock, 'now'> },
): ReadTimes {
  const name = `${workspace}:${source}`
  const [reads, gapsAt] = [state.scope('read'), state.scope('gap')]
  let caughtUpAt = 0
  const instants = async (scope: State): Promise<readonly number[]> => {
    const value = (await scope.get(name)) ?? ''
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
    state(good, gaps) {
      const now = clock.now()
      const read = good ? [reads.entry(name, `${now} ${caughtUpAt}`)] : []
      return gaps > 0 ? [...read, gapsAt.entry(name, String(now))] : read
    },
    async recall() {
      const [readAt = 0, knownAt = 0] = await instants(reads)
      const [gapAt = 0] = await instants(gapsAt)
      caughtUpAt ||= knownAt
      reporter.recalled({ readAt, caughtUpAt: knownAt, gapAt })
    },
  }
}
