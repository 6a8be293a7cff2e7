// The intents that a former process left, judged one after the other: a batch is asked for where its receiver has taken it, else it goes out again.
import type { Intent, Journal } from '../model/journal.ts'
import type { Log } from '../model/log.ts'
import type { Sink } from '../model/sink.ts'
import type { BatchLimits, Loader } from './loader.ts'
import type { Unconfirmed } from './unconfirmed.ts'

interface LeftIntentsOptions {
  readonly sink: Pick<Sink, 'name' | 'resume'>
  readonly journal: Pick<Journal, 'intents' | 'take'>
  readonly limits: Pick<BatchLimits, 'maxEntries' | 'maxBytes'>
  readonly shape: string
  readonly log: Log
}

export class LeftIntents {
  readonly #options: LeftIntentsOptions
  readonly #loader: Loader
  readonly #unconfirmed: Unconfirmed
  /** not judged yet; undefined: the journal was not asked yet */
  #intents: Intent[] | undefined
  readonly #again: Intent[] = []

  constructor(options: LeftIntentsOptions, loader: Loader, unconfirmed: Unconfirmed) {
    this.#options = options
    this.#loader = loader
    this.#unconfirmed = unconfirmed
  }

  /** Gives those that go out again: the same entries under the same bounds (law 2). Where it throws the next call goes on there; what is done gives none. */
  async resume(signal: AbortSignal): Promise<readonly Intent[]> {
    const { journal, sink } = this.#options
    this.#intents ??= [...(await journal.intents(sink.name))]
    for (;;) {
      const [intent] = this.#intents
      if (!intent) return this.#again.splice(0)
      await this.#judge(intent, signal)
      this.#intents.shift()
    }
  }

  async #judge(intent: Intent, signal: AbortSignal): Promise<void> {
    const { sink, shape, log } = this.#options
    const later = sink.resume?.(intent.detail)
    if (later) {
      const loaded = await this.#loader.reload(intent, signal)
      this.#unconfirmed.keepFound(intent, loaded, later, signal)
      this.#loader.free(loaded)
      return
    }
    if (intent.shape !== shape) {
      log.warn(
        'Settings that shape the lines changed while a batch was on its way: what may have arrived before can arrive once more in its new form',
      )
      // Such as a stretch of objects, of whatever size, from when this sink was of another type: it is taken anew, in batches.
      if (!(await this.#fits(intent))) return
    }
    this.#again.push({ ...intent, shape })
  }

  async #fits({ first, last }: Intent): Promise<boolean> {
    const { journal, sink, limits } = this.#options
    const batch = await journal.take(sink.name, limits, { after: first - 1 })
    return batch !== undefined && batch.last >= last
  }
}
