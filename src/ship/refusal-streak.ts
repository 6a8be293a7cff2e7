// How many entries a receiver has refused in a row: one is at fault by itself; many mean the settings, or something on the way that spoils whatever it passes on.
import { ConnectorError } from '../model/errors.ts'
import type { Outcome } from '../model/sink.ts'

/** So many in a row are no longer each entry's own fault. */
const MOST_IN_A_ROW = 10

export class RefusalStreak {
  readonly #sink: string
  /** with nothing accepted between; a process begins anew */
  #inARow = 0

  constructor(sink: string) {
    this.#sink = sink
  }

  /** Once for each answer. */
  count({ settled, refused }: Outcome): void {
    const owns = new Map(refused.map(({ index, own = false }) => [index, own]))
    let last = 0
    for (let index = settled - 1; index >= 0; index--) {
      const own = owns.get(index)
      if (own === undefined) {
        this.#inARow = last
        return
      }
      if (!own) last++
    }
    this.#inARow += last
  }

  /** True: from here on one line is tried at a time. */
  get isTooLong(): boolean {
    return this.#inARow >= MOST_IN_A_ROW
  }

  /**
   * Throws what holds the sink where it is too long. What is parked stays parked: a run of bad entries comes to its end, slowly.
   * The receiver's words may hold content, and stay with the letters.
   */
  check(): void {
    if (!this.isTooLong) return
    throw new ConnectorError(
      'misconfigured',
      `Sink ${this.#sink}: its receiver has refused ${MOST_IN_A_ROW} entries in a row or more and taken none between, hardly their own fault. Its words: \`auditferry dead-letters list --sink ${this.#sink}\`. See whether a proxy on the way changes what is sent, and whether the sink's settings fit. One is tried at a time until one is taken; those parked come again by \`auditferry dead-letters retry --sink ${this.#sink}\``,
    )
  }
}
