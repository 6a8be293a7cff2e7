// Batches that the receiver has taken and not confirmed yet: each keeps its intent and is asked for, until it is settled or goes out again.
import { Tether, untilAborted } from '../model/abort.ts'
import { ConnectorError } from '../model/errors.ts'
import type { Intent } from '../model/journal.ts'
import type { Later, Outcome, Sink } from '../model/sink.ts'
import type { Loaded } from './lines.ts'
import type { LoopOptions } from './stepper.ts'
import { filteredOf, type TakenBatch, takenBefore, takenOf } from './settling.ts'
import type { Telling } from './telling.ts'

interface UnconfirmedOptions extends LoopOptions {
  readonly sink: Pick<Sink, 'name' | 'maxUnconfirmed'>
}

export interface Judged extends TakenBatch {
  /** why it goes out again; undefined: confirmed */
  readonly error: unknown
}

interface Waiting extends TakenBatch {
  readonly judgement: Promise<void>
  judged: Judged | undefined
}

const NO_TIMES = new Float64Array(0)

export class Unconfirmed {
  readonly #options: UnconfirmedOptions
  readonly #telling: Telling
  readonly #waiting: Waiting[] = []

  constructor(options: UnconfirmedOptions, telling: Telling) {
    this.#options = options
    this.#telling = telling
  }

  get size(): number {
    return this.#waiting.length
  }

  /** No more may be sent before one of them is judged. */
  get full(): boolean {
    return this.size > 0 && this.size >= (this.#options.sink.maxUnconfirmed ?? 1)
  }

  get intents(): readonly Intent[] {
    return this.#waiting.map(({ intent }) => intent)
  }

  /** The first that was judged; it stays until it is settled or has lapsed. */
  get judged(): Judged | undefined {
    return this.#waiting.find(({ judged }) => judged)?.judged
  }

  /** What was taken is asked for until it is confirmed; what was refused behind it is parked. */
  async keep(
    intent: Intent,
    loaded: Loaded,
    outcome: Outcome & { readonly later: Later },
    signal: AbortSignal,
  ): Promise<void> {
    const { journal, sink } = this.#options
    const { later } = outcome
    const { refusedBehind, ...taken } = takenOf(sink.name, intent, loaded, outcome, later)
    await journal.intend(sink.name, taken.intent)
    if (refusedBehind) {
      await journal.settle(sink.name, refusedBehind)
      const { parked, tally } = refusedBehind
      this.#telling.settled({ times: NO_TIMES, filtered: filteredOf(tally), parked })
    }
    this.#add(taken, later, signal)
  }

  /** One that was taken before a crash, of which it left the intent. */
  keepFound(intent: Intent, loaded: Loaded, later: Later, signal: AbortSignal): void {
    this.#add(takenBefore(this.#options.sink.name, intent, loaded), later, signal)
  }

  /** Settles a confirmed batch. */
  async settle(judged: Judged): Promise<void> {
    const { journal, sink } = this.#options
    const { intent, times, tally } = judged
    const { first, last } = intent
    await journal.settle(sink.name, { first, through: last, parked: [], tally })
    this.#remove(judged)
    this.#telling.settled({ times, filtered: filteredOf(tally), parked: [] })
  }

  /**
   * A receiver may tell its word only once: what is confirmed at a stop is settled, until `signal` aborts. What lapses, or cannot
   * be noted now, keeps its intent for the next process.
   */
  async hearOut(signal: AbortSignal): Promise<void> {
    try {
      for (;;) {
        this.takeLapsed()
        const { judged } = this
        if (judged) await this.settle(judged)
        else if (this.size === 0 || signal.aborted) return
        else await this.wait(Infinity, signal)
      }
    } catch (error) {
      if (!(error instanceof ConnectorError)) throw error
    }
  }

  /** All that are to go out again, in the order in which they were sent. */
  takeLapsed(): readonly Judged[] {
    const lapsed = this.#waiting.flatMap(({ judged }) => (judged?.error === undefined ? [] : [judged]))
    for (const judged of lapsed) this.#remove(judged)
    return lapsed
  }

  /** Resolves when one is judged, when `withinMs` are over, or when `signal` aborts. */
  async wait(withinMs: number, signal: AbortSignal): Promise<void> {
    await this.#wait(withinMs, signal, () => [])
  }

  /** The same, and when more may have come. */
  async waitOrMore(withinMs: number, signal: AbortSignal): Promise<void> {
    const { journal, sink } = this.#options
    await this.#wait(withinMs, signal, (until) => [journal.arrival(sink.name, until)])
  }

  /** `others` are told to end with the signal they get. */
  async #wait(
    withinMs: number,
    signal: AbortSignal,
    others: (until: AbortSignal) => readonly Promise<void>[],
  ): Promise<void> {
    const { clock } = this.#options
    const tether = new Tether(signal)
    try {
      await Promise.race([
        untilAborted(tether.signal),
        ...this.#waiting.map(({ judgement }) => judgement),
        ...(withinMs === Infinity ? [] : [clock.sleep(withinMs, tether.signal)]),
        ...others(tether.signal),
      ])
    } finally {
      tether.close()
    }
  }

  #add(batch: TakenBatch, later: Later, signal: AbortSignal): void {
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

  #remove({ intent }: Judged): void {
    this.#waiting.splice(
      this.#waiting.findIndex((waiting) => waiting.intent === intent),
      1,
    )
  }
}
