// Which walks that keep nothing are under way: one a source, for as long as whoever asks for it is there.
import type { Clock } from '../model/clock.ts'
import { ConnectorError } from '../model/errors.ts'

/** Longer than the longest pause that an asker makes between an answer and its next question. */
const GONE_MS = 40_000

interface Walk {
  /** each that it has come to: it may tell of them together, so they are its own until it ends */
  readonly sources: Set<string>
  /** by the clock that never jumps */
  heardAt: number
}

export class Walks {
  readonly #clock: Pick<Clock, 'elapsed'>
  readonly #walks = new Map<string, Walk>()

  constructor(clock: Pick<Clock, 'elapsed'>) {
    this.#clock = clock
  }

  /**
   * False: it is under way and has to wait here for another. Two that each wait for what the other has would wait for ever: all
   * go through the sources in the one order in which they are told. Throws ConnectorError where it would only begin.
   */
  mayStep(walk: string, source: string): boolean {
    const now = this.#clock.elapsed()
    for (const [name, { heardAt }] of this.#walks) if (now - heardAt > GONE_MS) this.#walks.delete(name)
    const own = this.#walks.get(walk)
    const isTaken = [...this.#walks].some(([name, { sources }]) => name !== walk && sources.has(source))
    if (isTaken && !own)
      throw new ConnectorError(
        'misconfigured',
        `${source} is walked by another reconcile just now: wait until it has ended, or stop it (Ctrl-C where it runs), then begin again; one that was killed counts for ${GONE_MS / 1000} s more`,
      )
    const { sources } = own ?? { sources: new Set() }
    if (!isTaken) sources.add(source)
    this.#walks.set(walk, { sources, heardAt: now })
    return !isTaken
  }

  /** An answer may have taken long: the asker's time begins with it. */
  answered(walk: string): void {
    const own = this.#walks.get(walk)
    if (own) own.heardAt = this.#clock.elapsed()
  }

  end(walk: string): void {
    this.#walks.delete(walk)
  }
}
