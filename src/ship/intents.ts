// What a sink is about to be sent, written down before it goes out: after a crash that batch is the one in doubt.
import type { Intent, Journal } from '../model/journal.ts'
import type { Sink } from '../model/sink.ts'
import type { Loaded } from './lines.ts'

interface IntentsOptions {
  readonly journal: Pick<Journal, 'intend'>
  readonly sink: Sink
  /** what the lines' bytes depend on besides the entries */
  readonly shape: string
}

export class Intents {
  readonly #options: IntentsOptions

  constructor(options: IntentsOptions) {
    this.#options = options
  }

  /** Throws what the sink or the journal throws; nothing is written then. */
  async write(loaded: Loaded, signal: AbortSignal): Promise<Intent> {
    const intent = await this.#of(loaded, signal)
    await this.#options.journal.intend(this.#options.sink.name, intent)
    return intent
  }

  /** Of the batch after one that is about to be settled, with which it is written. Undefined where it cannot be prepared: that is told when its own turn comes. */
  async ahead(loaded: Loaded, signal: AbortSignal): Promise<Intent | undefined> {
    try {
      return await this.#of(loaded, signal)
    } catch {
      return undefined
    }
  }

  async #of({ first, last, lines }: Loaded, signal: AbortSignal): Promise<Intent> {
    const { sink, shape } = this.#options
    const detail = (await sink.prepare?.(lines, signal)) ?? ''
    return { first, last, shape, detail }
  }
}
