// A delivery that cannot begin before something is there, such as the key of a hash: what is missing holds the sink, and nothing goes out without it.
import type { Stepper, StepResult } from './stepper.ts'

export class AfterKeys implements Stepper {
  readonly #open: () => Stepper
  #opened: Stepper | undefined

  /** `open` throws ConnectorError as long as it cannot be; it is asked again at each step until then. */
  constructor(open: () => Stepper) {
    this.#open = open
  }

  async step(signal: AbortSignal): Promise<StepResult> {
    this.#opened ??= this.#open()
    return this.#opened.step(signal)
  }

  async hearOut(signal: AbortSignal): Promise<void> {
    await this.#opened?.hearOut?.(signal)
  }

  /** Nobody knows before it is open. */
  get unfinished(): boolean {
    return this.#opened ? this.#opened.unfinished === true : true
  }
}
