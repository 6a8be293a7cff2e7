// Finds which entry of a batch its receiver refuses, where it refuses the batch as a whole: half of it is next, and half of that, until one entry stands alone. Then batches grow again.
import type { ConnectorError } from '../model/errors.ts'
import type { Log } from '../model/log.ts'
import type { Outcome } from '../model/sink.ts'

interface BisectionOptions {
  readonly limits: { readonly maxEntries: number }
  readonly log: Log
}

export class Bisection {
  readonly #options: BisectionOptions
  #maxEntries = Infinity

  constructor(options: BisectionOptions) {
    this.#options = options
  }

  /** What the next batch may hold. */
  get maxEntries(): number {
    return this.#maxEntries
  }

  get isUnderWay(): boolean {
    return this.#maxEntries !== Infinity
  }

  /** What came of a single entry: it is parked with the reason. Undefined for more of them: half is next. */
  narrow(count: number, { code, message }: ConnectorError): Outcome | undefined {
    if (count === 1) return { settled: 1, refused: [{ index: 0, code, reason: message }] }
    this.#maxEntries = Math.floor(count / 2)
    const fields = { code, entries: count, error: message }
    this.#options.log.info('The receiver refused a batch, trying half of it', fields)
    return undefined
  }

  /** A batch was answered for. */
  widen(): void {
    const twice = this.#maxEntries * 2
    this.#maxEntries = twice < this.#options.limits.maxEntries ? twice : Infinity
  }
}
