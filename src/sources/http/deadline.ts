// How long a request may take: what is waited for of its answer, however large that is. Knows nothing of what is inside.
import { Tether } from '../../core/abort.ts'
import type { Clock } from '../../core/clock.ts'
import { WHOLE_BODY_BYTES } from '../../contracts/entries.ts'
import { ConnectorError } from '../../core/errors.ts'

/** An API that says nothing for so long is given up: half a minute is what a failing part may take to show. */
const SILENT_MS = 25_000

export interface BodyLimits {
  /** after decompression */
  readonly capBytes: number
  /** from the request's start to the end of a body that stays below `wholeBytes` */
  readonly totalMs: number
  /** up to here a body must be complete within `totalMs`; a larger one is streamed under the two limits below */
  readonly wholeBytes: number
  /** the longest gap between two pieces */
  readonly idleMs: number
  /** of a streamed body, measured from its start */
  readonly minBytesPerSecond: number
  /** however large and quick it is, a body must be over by then; absent: it may go on */
  readonly longestMs?: number
}

/** Of a body that nothing else is known of. */
export const usualLimits: BodyLimits = {
  capBytes: 2 * 1024 ** 3,
  totalMs: 60_000,
  wholeBytes: WHOLE_BODY_BYTES,
  idleMs: SILENT_MS,
  minBytesPerSecond: 32 * 1024,
}

/** While nobody reads, whether they begin again is looked for this often. */
const PAUSED_LOOK_MS = 1_000

/**
 * Watches a request from its start: `signal` aborts when it takes too long, and says so as its reason
 * (ConnectorError `timeout`). `close` must be called when the request is over, and aborts it too.
 * Only the time in which we wait for the server counts: between `pause` and `resume` it is we who do not read.
 */
export class Deadline {
  readonly #clock: Clock
  readonly #limits: BodyLimits
  readonly #tether: Tether
  #expired = false
  readonly #startedAt: number
  #progressAt: number
  #bytes = 0
  #pausedMs = 0
  #pausedSince: number | undefined

  constructor(clock: Clock, limits: BodyLimits, outer: AbortSignal) {
    this.#clock = clock
    this.#limits = limits
    this.#startedAt = clock.elapsed()
    this.#progressAt = this.#startedAt
    this.#tether = new Tether(outer)
    void this.#watch()
  }

  get signal(): AbortSignal {
    return this.#tether.signal
  }

  get expired(): boolean {
    return this.#expired
  }

  progress(bytes: number): void {
    this.#bytes += bytes
    this.#progressAt = this.#waited()
  }

  pause(): void {
    this.#pausedSince ??= this.#clock.elapsed()
  }

  resume(): void {
    if (this.#pausedSince !== undefined) this.#pausedMs += this.#clock.elapsed() - this.#pausedSince
    this.#pausedSince = undefined
  }

  close(): void {
    this.#tether.close()
  }

  /** The clock that stands still while we pause. */
  #waited(): number {
    return (this.#pausedSince ?? this.#clock.elapsed()) - this.#pausedMs
  }

  /** Milliseconds until the first limit that is breached if nothing more comes. */
  #leftMs(): number {
    const now = this.#waited()
    const { idleMs, totalMs, wholeBytes, minBytesPerSecond, longestMs = Infinity } = this.#limits
    const sinceStartMs = now - this.#startedAt
    const left = Math.min(idleMs - (now - this.#progressAt), longestMs - sinceStartMs)
    if (this.#bytes < wholeBytes) return Math.min(left, totalMs - sinceStartMs)
    return Math.min(left, totalMs + (this.#bytes / minBytesPerSecond) * 1000 - sinceStartMs)
  }

  async #watch(): Promise<void> {
    for (let left = this.#leftMs(); !this.signal.aborted; left = this.#leftMs()) {
      if (left <= 0 && this.#pausedSince === undefined) {
        this.#expired = true
        this.#tether.abort(
          new ConnectorError('timeout', 'The API took too long to answer or to send its answer'),
        )
        return
      }
      const paused = this.#pausedSince !== undefined
      await this.#clock.sleep(paused ? Math.max(left, PAUSED_LOOK_MS) : left, this.signal)
    }
  }
}
