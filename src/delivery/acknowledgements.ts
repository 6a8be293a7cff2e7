// Batches that the receiver has taken but not confirmed yet. Each keeps its in-flight record and is
// polled until it is acknowledged or sent again.
import type { DayTally } from '../contracts/accounts.ts'
import type { Intent, Parked, Settlement } from '../contracts/journal.ts'
import type { Later, Outcome, Sink } from '../contracts/sink.ts'
import { Tether, untilAborted } from '../core/abort.ts'
import { ConnectorError } from '../core/errors.ts'
import type { Loaded } from './loader.ts'
import type { LoopOptions } from './loop.ts'
import { tallyOf } from './reporting.ts'
import type { Telling } from './reporting.ts'

interface UnconfirmedOptions extends LoopOptions {
  readonly sink: Pick<Sink, 'name' | 'maxUnconfirmed'>
}

export interface Judged extends TakenBatch {
  /** why it is sent again; undefined: confirmed */
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

  /** No more may be sent until one of them has a result. */
  get full(): boolean {
    return this.size > 0 && this.size >= (this.#options.sink.maxUnconfirmed ?? 1)
  }

  get intents(): readonly Intent[] {
    return this.#waiting.map(({ intent }) => intent)
  }

  /** The first with a result; it stays until it is acknowledged or has expired. */
  get judged(): Judged | undefined {
    return this.#waiting.find(({ judged }) => judged)?.judged
  }

  /**
   * Polls for what was taken until it is confirmed; entries refused behind it become dead letters.
   */
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

  /** A batch taken before a crash, known from its in-flight record. */
  keepFound(intent: Intent, loaded: Loaded, later: Later, signal: AbortSignal): void {
    this.#add(takenBefore(this.#options.sink.name, intent, loaded), later, signal)
  }

  /** Acknowledges a confirmed batch. */
  async settle(judged: Judged): Promise<void> {
    const { journal, sink } = this.#options
    const { intent, times, tally } = judged
    const { first, last } = intent
    await journal.settle(sink.name, { first, through: last, parked: [], tally })
    this.#remove(judged)
    this.#telling.settled({ times, filtered: filteredOf(tally), parked: [] })
  }

  /**
   * A receiver may report a confirmation only once, so at a stop every confirmed batch is
   * acknowledged, until `signal` aborts. A batch that expires, or cannot be recorded now, keeps its
   * in-flight record for the next process.
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

  /** All batches to send again, in the order in which they were sent. */
  takeLapsed(): readonly Judged[] {
    const lapsed = this.#waiting.flatMap(({ judged }) => (judged?.error === undefined ? [] : [judged]))
    for (const judged of lapsed) this.#remove(judged)
    return lapsed
  }

  /** Resolves when one has a result, after `withinMs`, or when `signal` aborts. */
  async wait(withinMs: number, signal: AbortSignal): Promise<void> {
    await this.#wait(withinMs, signal, () => [])
  }

  /** The same, and also when new entries may have arrived. */
  async waitOrMore(withinMs: number, signal: AbortSignal): Promise<void> {
    const { journal, sink } = this.#options
    await this.#wait(withinMs, signal, (until) => [journal.arrival(sink.name, until)])
  }

  /** `others` are stopped by the signal that they get. */
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

// What an answer means for a batch: how far it is acknowledged, and which part awaits confirmation.
// Pure.

interface Counted extends Settlement {
  readonly tally: readonly DayTally[]
}

interface Settled {
  readonly settlement: Settlement
  /** own times of the accepted entries, µs */
  readonly times: Float64Array
  readonly filtered: number
}

/** How far the receiver answered: the acknowledged lines, and the filtered entries around them. */
export function settledOf(sink: string, loaded: Loaded, outcome: Outcome): Settled {
  const answered = answeredOf(loaded, outcome)
  const settlement = counted(sink, loaded, { first: loaded.first, ...answered })
  return { settlement, times: acceptedTimes(loaded, outcome), filtered: filteredOf(settlement.tally) }
}

function acceptedTimes({ times }: Loaded, { settled, refused }: Outcome): Float64Array {
  const answered = times.subarray(0, settled)
  if (refused.length === 0) return answered
  const indices = new Set(refused.map(({ index }) => index))
  return answered.filter((_, index) => !indices.has(index))
}

function answeredOf({ first, last, lines }: Loaded, { settled, refused }: Outcome) {
  const through = settled === lines.count ? last : (lines.seqs[settled] ?? first) - 1
  const parked = refused.map(({ index, code, reason }): Parked => ({
    seq: lines.seqs[index] ?? 0,
    code,
    reason,
  }))
  return { through, parked }
}

/** The part with its counts: the result of every entry in it that is not a dead letter. */
function counted(
  sink: string,
  { lines: { seqs }, runs }: Loaded,
  part: Pick<Settlement, 'first' | 'through' | 'parked'>,
): Counted {
  return { ...part, tally: tallyOf(sink, runs, { ...part, seqs }) }
}

/** Entries addressed only to another sink are not counted here. */
export const filteredOf = (tally: readonly DayTally[]): number =>
  tally.reduce((sum, { filtered }) => sum + filtered, 0)

/** The part of a batch that the receiver has taken. */
interface TakenBatch {
  /** as recorded in the journal, with the detail that `resume` needs */
  readonly intent: Intent
  /** own times of its lines, µs */
  readonly times: Float64Array
  /** acknowledged once it is confirmed */
  readonly tally: readonly DayTally[]
}

interface Taken extends TakenBatch {
  /** refused behind it; undefined: nothing */
  readonly refusedBehind: Counted | undefined
}

/** The taken part of the batch; it keeps its in-flight record until it is confirmed. */
function takenOf(sink: string, intent: Intent, loaded: Loaded, outcome: Outcome, later: Later): Taken {
  const { first, lines, times } = loaded
  const refusedAt = outcome.refused[0]?.index
  const end = refusedAt ?? outcome.settled
  const last = end === lines.count ? loaded.last : (lines.seqs[end] ?? 0) - 1
  const behind = { ...answeredOf(loaded, outcome), first: last + 1 }
  return {
    intent: { ...intent, first, last, detail: later.detail },
    times: times.slice(0, end),
    tally: counted(sink, loaded, { first, through: last, parked: [] }).tally,
    refusedBehind: refusedAt === undefined ? undefined : counted(sink, loaded, behind),
  }
}

/** The whole batch of an in-flight record found after a crash: the receiver took it before. */
function takenBefore(sink: string, intent: Intent, loaded: Loaded): TakenBatch {
  const { first, last: through } = intent
  const { tally } = counted(sink, loaded, { first, through, parked: [] })
  return { intent, times: loaded.times.slice(), tally }
}
