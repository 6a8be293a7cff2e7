// Batches that the receiver has taken and not confirmed yet: who they are, and which of them was judged meanwhile.
import type { DayTally } from '../model/balance.ts'
import { Tether } from '../model/abort.ts'
import type { Intent } from '../model/journal.ts'
import type { Later } from '../model/sink.ts'

export interface TakenBatch {
  /** as it stands in the journal, with what `resume` needs */
  readonly intent: Intent
  /** own times of its lines, µs */
  readonly times: Float64Array
  /** what is settled once it is confirmed */
  readonly tally: readonly DayTally[]
}

export interface Judged extends TakenBatch {
  /** why it goes out again; undefined: confirmed */
  readonly error: unknown
}

interface Waiting extends TakenBatch {
  readonly judgement: Promise<void>
  judged: Judged | undefined
}

export class Unconfirmed {
  readonly #waiting: Waiting[] = []

  get size(): number {
    return this.#waiting.length
  }

  get intents(): readonly Intent[] {
    return this.#waiting.map(({ intent }) => intent)
  }

  add(batch: TakenBatch, later: Later, signal: AbortSignal): void {
    const waiting: Waiting = {
      ...batch,
      judged: undefined,
      judgement: later.confirmed(signal).then(
        () => void (waiting.judged = { ...batch, error: undefined }),
        (error: unknown) => void (waiting.judged = { ...batch, error }),
      ),
    }
    this.#waiting.push(waiting)
  }

  /** The first that was judged; it stays until `remove`. */
  get judged(): Judged | undefined {
    return this.#waiting.find(({ judged }) => judged)?.judged
  }

  /** All that are to go out again, in the order in which they were sent. */
  takeLapsed(): readonly Judged[] {
    const lapsed = this.#waiting.flatMap(({ judged }) => (judged?.error === undefined ? [] : [judged]))
    for (const judged of lapsed) this.remove(judged)
    return lapsed
  }

  remove({ intent }: Judged): void {
    this.#waiting.splice(
      this.#waiting.findIndex((waiting) => waiting.intent === intent),
      1,
    )
  }

  /** Resolves when one is judged, when `others` say so (they are told to end with the signal they get), or when `signal` aborts. */
  async wait(
    signal: AbortSignal,
    others: (signal: AbortSignal) => readonly Promise<void>[] = () => [],
  ): Promise<void> {
    const tether = new Tether(signal)
    const aborted = new Promise<void>((resolve) => {
      if (signal.aborted) resolve()
      tether.signal.addEventListener('abort', () => resolve(), { once: true })
    })
    try {
      await Promise.race([
        aborted,
        ...this.#waiting.map(({ judgement }) => judgement),
        ...others(tether.signal),
      ])
    } finally {
      tether.close()
    }
  }
}
