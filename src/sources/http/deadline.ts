// Time limits of a request: they apply to the wait for the server, however large the answer is.
import { Tether } from '../../core/abort.ts'
import type { Clock } from '../../core/clock.ts'
import { WHOLE_BODY_BYTES } from '../../contracts/entries.ts'
import { ConnectorError } from '../../core/errors.ts'

/** A silent request is aborted after this: a failing part should show within half a minute. */
const SILENT_MS = 25_000

export interface BodyLimits {
  /** after decompression */
  readonly capBytes: number
  /** from the start of the request to the end of a body smaller than `wholeBytes` */
  readonly totalMs: number
  /** a body up to this size must be complete within `totalMs`; a larger one has the limits below */
  readonly wholeBytes: number
  /** the longest gap between two pieces */
  readonly idleMs: number
  /** of a streamed body, measured from its start */
  readonly minBytesPerSecond: number
  /** every body must end within this time; absent: no limit */
  readonly longestMs?: number
}

/** For a body about which nothing is known. */
export const usualLimits: BodyLimits = {
  capBytes: 2 * 1024 ** 3,
  totalMs: 60_000,
  wholeBytes: WHOLE_BODY_BYTES,
  idleMs: SILENT_MS,
  minBytesPerSecond: 32 * 1024,
}

/** While the reader pauses, this is how often its return is checked. */
const PAUSED_CHECK_MS = 1_000

/**
 * Watches a request from its start: `signal` aborts when it takes too long, with ConnectorError
 * `timeout` as its reason. `close` must be called at the end of the request, and aborts it too.
 * Only the wait for the server counts: between `pause` and `resume` the delay is ours.
 */
export class Deadline {
  readonly #clock: Clock
  readonly #limits: BodyLimits
  readonly #tether: Tether
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
    void this.#enforce()
  }

  get signal(): AbortSignal {
    return this.#tether.signal
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

  /** The elapsed time without pauses. */
  #waited(): number {
    return (this.#pausedSince ?? this.#clock.elapsed()) - this.#pausedMs
  }

  /** Milliseconds until the first limit is exceeded if nothing more arrives. */
  #remainingMs(): number {
    const now = this.#waited()
    const { idleMs, totalMs, wholeBytes, minBytesPerSecond, longestMs = Infinity } = this.#limits
    const sinceStartMs = now - this.#startedAt
    const remaining = Math.min(idleMs - (now - this.#progressAt), longestMs - sinceStartMs)
    if (this.#bytes < wholeBytes) return Math.min(remaining, totalMs - sinceStartMs)
    return Math.min(remaining, totalMs + (this.#bytes / minBytesPerSecond) * 1000 - sinceStartMs)
  }

  async #enforce(): Promise<void> {
    for (let remaining = this.#remainingMs(); !this.signal.aborted; remaining = this.#remainingMs()) {
      if (remaining <= 0 && this.#pausedSince === undefined) {
        this.#tether.abort(
          new ConnectorError('timeout', 'The API took too long to answer or to send its answer'),
        )
        return
      }
      const paused = this.#pausedSince !== undefined
      await this.#clock.sleep(paused ? Math.max(remaining, PAUSED_CHECK_MS) : remaining, this.signal)
    }
  }
}
