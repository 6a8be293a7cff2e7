// Corners a refusal: of a batch that the receiver refuses as a whole half is next, until what it refuses stands alone. Then batches grow again.
import type { ConnectorError } from '../model/errors.ts'
import type { Log } from '../model/log.ts'
import type { Outcome } from '../model/sink.ts'

export interface CornerOptions {
  readonly limits: { readonly maxEntries: number }
  readonly log: Log
}

export class Corner {
  readonly #options: CornerOptions
  #most = Infinity

  constructor(options: CornerOptions) {
    this.#options = options
  }

  /** entries that the next batch may hold */
  get most(): number {
    return this.#most
  }

  /** True while a refusal is cornered. */
  get open(): boolean {
    return this.#most !== Infinity
  }

  /** What came of a single entry: it is parked with the reason. Undefined for more of them: half is next. */
  narrow(count: number, { code, message }: ConnectorError): Outcome | undefined {
    if (count === 1) return { settled: 1, refused: [{ index: 0, code, reason: message }] }
    this.#most = Math.floor(count / 2)
    const fields = { code, entries: count, error: message }
    this.#options.log.info('The receiver refused a batch, trying half of it', fields)
    return undefined
  }

  /** A batch was answered for. */
  widen(): void {
    const twice = this.#most * 2
    this.#most = twice < this.#options.limits.maxEntries ? twice : Infinity
  }
}
