// Corners a refusal: of a batch that the receiver refuses as a whole half is next, until what it refuses stands alone. Then batches grow again.
import type { ConnectorError } from '../model/errors.ts'
import type { Log } from '../model/log.ts'
import type { Outcome } from '../model/sink.ts'
import { Refusals } from './refusals.ts'

interface CornerOptions {
  readonly sink: { readonly name: string }
  readonly limits: { readonly maxEntries: number }
  readonly log: Log
}

export class Corner {
  readonly #options: CornerOptions
  readonly #refusals: Refusals
  #most = Infinity

  constructor(options: CornerOptions) {
    this.#options = options
    this.#refusals = new Refusals(options.sink.name)
  }

  /** entries that the next batch may hold */
  get most(): number {
    return this.#most
  }

  /** True where the next batch may hold one line only: the receiver has refused too many in a row. */
  get oneLine(): boolean {
    return this.#refusals.tooMany
  }

  /** True while a refusal is cornered, or one line tried at a time. */
  get open(): boolean {
    return this.#most !== Infinity || this.oneLine
  }

  /** Once for each answer. */
  count(outcome: Outcome): void {
    this.#refusals.count(outcome)
  }

  /** Throws what holds the sink where too many were refused in a row. */
  check(): void {
    this.#refusals.check()
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
