// Reports acknowledged batches: metrics at once; in the log the first dead letter, then sums.
import type { DayAccount } from '../contracts/accounts.ts'
import type { Rejected, ChunkSlice } from '../contracts/journal.ts'
import { deliveryBucketsSeconds } from '../contracts/reporter.ts'
import type { SinkReporter } from '../contracts/reporter.ts'
import { LogThrottle } from '../core/backoff.ts'
import type { Seq } from '../core/sequence.ts'
import { MINUTE_MS, epochDay } from '../core/time.ts'
import type { LoopOptions } from './loop.ts'

type Listeners = Pick<LoopOptions, 'log' | 'reporter' | 'clock'>

interface AckedBatch {
  /** own times of the accepted entries, µs */
  readonly times: Float64Array
  readonly accounts: readonly DayAccount[]
  readonly rejected: readonly Rejected[]
}

/** Reasons listed separately: a receiver may give a different one for each entry. */
const MAX_REASONS = 100

export class DeliveryReports {
  readonly #listeners: Listeners
  readonly #throttle: LogThrottle
  /** of dead letters that are not logged yet */
  readonly #codes = new Set<string>()
  readonly #reasons = new Set<string>()

  constructor(listeners: Listeners) {
    this.#listeners = listeners
    this.#throttle = new LogThrottle(() => listeners.clock.elapsed(), MINUTE_MS)
  }

  acknowledged({ times, accounts, rejected }: AckedBatch): void {
    const { reporter, clock } = this.#listeners
    const filtered = filteredOf(accounts)
    reporter.acknowledged({ accepted: times.length, deadLettered: rejected.length, filtered })
    if (times.length > 0) reportAccepted(reporter, clock.now(), times)
    for (const { code, reason } of rejected) {
      this.#codes.add(code)
      if (this.#reasons.size < MAX_REASONS) this.#reasons.add(reason)
    }
    this.#logDeadLetters(this.#throttle.next(rejected.length))
  }

  /** Logs a sum once it is due. Returns the ms until then; Infinity: everything is logged. */
  logDue(): number {
    this.#logDeadLetters(this.#throttle.next(0))
    return this.#throttle.dueInMs
  }

  /** Nothing more will come. */
  end(): void {
    this.#logDeadLetters(this.#throttle.rest())
  }

  #logDeadLetters(entries: number): void {
    if (entries === 0) return
    const [reason, ...more] = this.#reasons
    const why = {
      code: [...this.#codes].join(', '),
      reason,
      ...(more.length > 0 && { moreReasons: more.length }),
    }
    this.#codes.clear()
    this.#reasons.clear()
    this.#listeners.log.warn(
      'Entries became dead letters: they are kept, and delivery continues with the next ones. See auditferry dead-letters list; send them again with auditferry dead-letters retry',
      { entries, ...why },
    )
  }
}

// Delays from an entry's own time to its acceptance: one mean and count per histogram bucket, so
// one call per bucket instead of one per entry.

/** The histogram bucket of a delay; the last one has no bound. */
function bucketOf(delayMs: number): number {
  let bucket: number = deliveryBucketsSeconds.length
  while (bucket > 0 && delayMs <= (deliveryBucketsSeconds[bucket - 1] as number) * 1000) bucket--
  return bucket
}

/** Keeps the own times of entries that are counted before they are accepted, as means. */
export class Delays {
  readonly #counts = new Uint32Array(deliveryBucketsSeconds.length + 1)
  readonly #sumsMs = new Float64Array(deliveryBucketsSeconds.length + 1)

  add(atUs: number, nowMs: number): void {
    const atMs = Math.min(atUs / 1000, nowMs)
    const bucket = bucketOf(nowMs - atMs)
    this.#counts[bucket] = (this.#counts[bucket] as number) + 1
    this.#sumsMs[bucket] = (this.#sumsMs[bucket] as number) + atMs
  }

  /** Reports the delays of all that were added: they are accepted now. */
  report(reporter: SinkReporter, nowMs: number): void {
    this.#counts.forEach((count, bucket) => {
      if (count > 0) reporter.delivered(nowMs - (this.#sumsMs[bucket] as number) / count, count)
    })
  }
}

/** The receiver has just accepted entries of these own times (µs). @internal for tests */
export function reportAccepted(reporter: SinkReporter, nowMs: number, times: Float64Array): void {
  const delays = new Delays()
  // By index: an iterator allocates an object for each time.
  for (let i = 0; i < times.length; i++) delays.add(times[i] as number, nowMs)
  delays.report(reporter, nowMs)
  reporter.success()
}

// Results of a batch's entries by source and the entries' own UTC day: the input of the delivery
// accounts. Pure.

type AccountColumn = 'accepted' | 'filtered' | 'replayed'
type Sum = { -readonly [Key in keyof DayAccount]: DayAccount[Key] }

/** Adds up. Caches the last source and day: entries nearly always come in the order of days. */
export class DayAccountSums {
  readonly #sums = new Map<string, Sum>()
  #last: Sum | undefined

  add({ stream }: Pick<ChunkSlice, 'stream'>, day: number, column: AccountColumn): void {
    if (this.#last?.day !== day || this.#last.stream !== stream) {
      const key = `${stream.workspace} ${stream.source} ${day}`
      const fresh = { stream, day, accepted: 0, filtered: 0, replayed: 0 }
      this.#last = this.#sums.get(key) ?? fresh
      this.#sums.set(key, this.#last)
    }
    this.#last[column]++
  }

  /** Counts an unwanted entry, unless it is another sink's, or was counted before its replay. */
  addFiltered(slice: SliceTimes, index: number, sink: string): void {
    if (isOwn(slice, sink) && !slice.replay) this.add(slice, dayOf(slice, index), 'filtered')
  }

  get sums(): readonly DayAccount[] {
    return [...this.#sums.values()]
  }
}

/** Entries addressed only to another sink are not counted here. */
export const filteredOf = (accounts: readonly DayAccount[]): number =>
  accounts.reduce((sum, { filtered }) => sum + filtered, 0)

/** A chunk slice without the bytes of its entries: enough for counting. */
export interface SliceTimes extends Omit<ChunkSlice, 'entries'> {
  readonly entries: Pick<ChunkSlice['entries'], 'count' | 'times'>
}

export const sliceTimes = ({ entries: { count, times }, ...slice }: ChunkSlice): SliceTimes => ({
  ...slice,
  entries: { count, times },
})

/** Days since 1970, of the entry's own time. */
export const dayOf = (slice: SliceTimes, index: number): number =>
  epochDay(slice.entries.times[index] as number)

/** True if the entry counts at this sink: entries addressed only to another sink never do. */
const isOwn = ({ onlySink }: SliceTimes, sink: string): boolean => onlySink === undefined || onlySink === sink

interface AnsweredRange {
  /** ascending, of the lines made from the batch */
  readonly seqs: Float64Array
  readonly first: Seq
  readonly through: Seq
  /** counted by the journal, which has the dead letters */
  readonly rejected: readonly Rejected[]
}

/**
 * Results of the entries of these slices from `first` through `through`: those with a line were
 * accepted, the others filtered.
 */
export function accountsOf(
  sink: string,
  slices: readonly SliceTimes[],
  { seqs, first, through, rejected }: AnsweredRange,
): readonly DayAccount[] {
  const accounts = new DayAccountSums()
  const deadLetters = new Set(rejected.map(({ seq }) => seq))
  let line = 0
  for (const slice of slices) {
    if (!isOwn(slice, sink)) continue
    const end = Math.min(slice.entries.count, through - slice.firstSeq + 1)
    for (let i = Math.max(0, first - slice.firstSeq); i < end; i++) {
      const seq = slice.firstSeq + i
      while (line < seqs.length && (seqs[line] as number) < seq) line++
      const sent = seqs[line] === seq
      if (deadLetters.size > 0 && deadLetters.has(seq)) continue
      if (!slice.replay) accounts.add(slice, dayOf(slice, i), sent ? 'accepted' : 'filtered')
      else if (sent) accounts.add(slice, dayOf(slice, i), 'replayed')
    }
  }
  return accounts.sums
}
