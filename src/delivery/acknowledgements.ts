// Batches that the receiver has taken but not confirmed yet. Each keeps its in-flight record and is
// polled until it is acknowledged or sent again.
import type { DayAccount } from '../contracts/accounts.ts'
import type { InFlight, Rejected, Acknowledgement } from '../contracts/journal.ts'
import type { Confirmation, Lines, Outcome, Rejection, Sink } from '../contracts/sink.ts'
import { Tether, untilAborted } from '../core/abort.ts'
import { ConnectorError } from '../core/errors.ts'
import type { Seq } from '../core/sequence.ts'
import type { Loaded } from './loader.ts'
import type { LoopOptions } from './loop.ts'
import { accountsOf } from './reporting.ts'
import type { DeliveryReports } from './reporting.ts'

interface UnconfirmedOptions extends LoopOptions {
  readonly sink: Pick<Sink, 'name' | 'maxUnconfirmed'>
}

export interface UnconfirmedBatch extends TakenBatch {
  readonly resolution: Promise<void>
  /** `error`: why it is sent again; undefined: confirmed */
  result?: { readonly error: unknown }
}

const NO_TIMES = new Float64Array(0)

export class Unconfirmed {
  readonly #options: UnconfirmedOptions
  readonly #reports: DeliveryReports
  readonly #waiting: UnconfirmedBatch[] = []

  constructor(options: UnconfirmedOptions, reports: DeliveryReports) {
    this.#options = options
    this.#reports = reports
  }

  get size(): number {
    return this.#waiting.length
  }

  /** No more may be sent until one of them has a result. */
  get full(): boolean {
    return this.size > 0 && this.size >= (this.#options.sink.maxUnconfirmed ?? 1)
  }

  get inFlightBatches(): readonly InFlight[] {
    return this.#waiting.map(({ inFlight }) => inFlight)
  }

  /** The first with a result; it stays until it is acknowledged or has expired. */
  get resolved(): UnconfirmedBatch | undefined {
    return this.#waiting.find(({ result }) => result)
  }

  /** Polls until the batch is confirmed; entries rejected after it become dead letters. */
  async add(
    inFlight: InFlight,
    loaded: Loaded,
    outcome: Outcome & { readonly confirmation: Confirmation },
    signal: AbortSignal,
  ): Promise<void> {
    const { journal, sink } = this.#options
    const { confirmation } = outcome
    const { rejectedBehind, ...taken } = takenOf(sink.name, inFlight, loaded, outcome, confirmation)
    await journal.recordInFlight(sink.name, taken.inFlight)
    if (rejectedBehind) {
      await journal.ack(sink.name, rejectedBehind)
      this.#reports.acknowledged({ ...rejectedBehind, times: NO_TIMES })
    }
    this.#add(taken, confirmation, signal)
  }

  /** A batch taken before a crash, known from its in-flight record. */
  resume(inFlight: InFlight, loaded: Loaded, confirmation: Confirmation, signal: AbortSignal): void {
    const { first, last: through } = inFlight
    const { accounts } = withAccounts(this.#options.sink.name, loaded, { first, through, rejected: [] })
    this.#add({ inFlight, times: loaded.times.slice(), accounts }, confirmation, signal)
  }

  /** Acknowledges a confirmed batch. */
  async ack(batch: UnconfirmedBatch): Promise<void> {
    const { journal, sink } = this.#options
    const { inFlight, times, accounts } = batch
    const { first, last } = inFlight
    await journal.ack(sink.name, { first, through: last, rejected: [], accounts })
    this.#remove(batch)
    this.#reports.acknowledged({ times, accounts, rejected: [] })
  }

  /**
   * A receiver may report a confirmation only once, so at a stop every confirmed batch is
   * acknowledged, until `signal` aborts. A batch that expires, or cannot be recorded now, keeps its
   * in-flight record for the next process.
   */
  async awaitConfirmations(signal: AbortSignal): Promise<void> {
    try {
      for (;;) {
        this.takeExpired()
        const { resolved } = this
        if (resolved) await this.ack(resolved)
        else if (this.size === 0 || signal.aborted) return
        else await this.wait(Infinity, signal)
      }
    } catch (error) {
      if (!(error instanceof ConnectorError)) throw error
    }
  }

  /** All batches to send again, in the order in which they were sent. */
  takeExpired(): readonly UnconfirmedBatch[] {
    const expired = this.#waiting.filter(({ result }) => result && result.error !== undefined)
    for (const batch of expired) this.#remove(batch)
    return expired
  }

  /**
   * Resolves when one has a result, after `withinMs`, or when `signal` aborts; with `orMore` also
   * when new entries may have arrived.
   */
  async wait(withinMs: number, signal: AbortSignal, orMore = false): Promise<void> {
    const { journal, sink, clock } = this.#options
    const tether = new Tether(signal)
    try {
      await Promise.race([
        untilAborted(tether.signal),
        ...this.#waiting.map(({ resolution }) => resolution),
        ...(withinMs === Infinity ? [] : [clock.sleep(withinMs, tether.signal)]),
        ...(orMore ? [journal.arrival(sink.name, tether.signal)] : []),
      ])
    } finally {
      tether.close()
    }
  }

  #add(batch: TakenBatch, confirmation: Confirmation, signal: AbortSignal): void {
    const waiting: UnconfirmedBatch = {
      ...batch,
      resolution: confirmation.confirmed(signal).then(
        () => void (waiting.result = { error: undefined }),
        (error: unknown) => void (waiting.result = { error }),
      ),
    }
    this.#waiting.push(waiting)
  }

  #remove(batch: UnconfirmedBatch): void {
    this.#waiting.splice(this.#waiting.indexOf(batch), 1)
  }
}

/**
 * The results of a batch whose lines get them in several tries. Kept in memory only: after a crash
 * the whole batch is sent again.
 */
export class LineResults {
  readonly #seqs: Float64Array
  readonly #times: Float64Array
  readonly #rejected: Rejection[] = []
  /** lines without a result, ascending */
  readonly left: Set<Seq>

  constructor({ lines: { seqs }, times }: Loaded) {
    this.#seqs = seqs
    this.#times = times
    this.left = new Set(seqs)
  }

  add({ seqs }: Lines, { acknowledged, rejected, retry, confirmation }: Outcome): void {
    if (confirmation) throw new Error('A sink returned `retry` and `confirmation` for one batch')
    const again = new Set(retry?.indices)
    for (let i = 0; i < acknowledged; i++) if (!again.has(i)) this.left.delete(seqs[i] as Seq)
    for (const rejection of rejected)
      this.#rejected.push({ ...rejection, index: this.#seqs.indexOf(seqs[rejection.index] as Seq) })
  }

  /** The batch as if it had been answered in one try. `loaded`: its last try. */
  whole(loaded: Loaded): { readonly loaded: Loaded; readonly outcome: Outcome } {
    const lines = { ...loaded.lines, count: this.#seqs.length, seqs: this.#seqs }
    const rejected = this.#rejected.sort((one, other) => one.index - other.index)
    return {
      loaded: { ...loaded, lines, times: this.#times },
      outcome: { acknowledged: lines.count, rejected },
    }
  }
}

// What an answer means for a batch: how far it is acknowledged, and which part awaits confirmation.
// Pure.

interface AckWithAccounts extends Acknowledgement {
  readonly accounts: readonly DayAccount[]
}

/** How far the receiver answered: the acknowledged lines, and the filtered entries around them. */
export function acknowledgementOf(sink: string, loaded: Loaded, outcome: Outcome): AckWithAccounts {
  return withAccounts(sink, loaded, { first: loaded.first, ...answeredOf(loaded, outcome) })
}

/** Own times of the accepted entries, µs. */
export function acceptedTimes({ times }: Loaded, { acknowledged, rejected }: Outcome): Float64Array {
  const answered = times.subarray(0, acknowledged)
  if (rejected.length === 0) return answered
  const indices = new Set(rejected.map(({ index }) => index))
  return answered.filter((_, index) => !indices.has(index))
}

function answeredOf({ first, last, lines }: Loaded, { acknowledged, rejected }: Outcome) {
  const through = acknowledged === lines.count ? last : (lines.seqs[acknowledged] ?? first) - 1
  const deadLetters = rejected.map(({ index, code, reason }): Rejected => ({
    seq: lines.seqs[index] ?? 0,
    code,
    reason,
  }))
  return { through, rejected: deadLetters }
}

/** The part with its counts: the result of every entry in it that is not a dead letter. */
function withAccounts(
  sink: string,
  { lines: { seqs }, slices }: Loaded,
  part: Pick<Acknowledgement, 'first' | 'through' | 'rejected'>,
): AckWithAccounts {
  return { ...part, accounts: accountsOf(sink, slices, { ...part, seqs }) }
}

/** The part of a batch that the receiver has taken. */
interface TakenBatch {
  /** as recorded in the journal, with the detail that `resume` needs */
  readonly inFlight: InFlight
  /** own times of its lines, µs */
  readonly times: Float64Array
  /** acknowledged once it is confirmed */
  readonly accounts: readonly DayAccount[]
}

/**
 * The taken part of the batch, which keeps its in-flight record until it is confirmed, and the part
 * rejected after it, if there is one.
 */
function takenOf(
  sink: string,
  inFlight: InFlight,
  loaded: Loaded,
  outcome: Outcome,
  confirmation: Confirmation,
): TakenBatch & { readonly rejectedBehind: AckWithAccounts | undefined } {
  const { first, lines, times } = loaded
  const refusedAt = outcome.rejected[0]?.index
  const end = refusedAt ?? outcome.acknowledged
  const last = end === lines.count ? loaded.last : (lines.seqs[end] ?? 0) - 1
  const behind = { ...answeredOf(loaded, outcome), first: last + 1 }
  return {
    inFlight: { ...inFlight, first, last, detail: confirmation.detail },
    times: times.slice(0, end),
    accounts: withAccounts(sink, loaded, { first, through: last, rejected: [] }).accounts,
    rejectedBehind: refusedAt === undefined ? undefined : withAccounts(sink, loaded, behind),
  }
}
