// The batch that is framed while the one before it is in the air, so that the receiver never waits for us.
import type { Sink } from '../model/sink.ts'
import type { Loaded } from './lines.ts'
import type { Loader, Wish } from './loader.ts'

export class Ahead {
  readonly #loader: Loader
  readonly #sink: Pick<Sink, 'warm'>
  #loaded: Loaded | undefined

  constructor(loader: Loader, sink: Pick<Sink, 'warm'>) {
    this.#loader = loader
    this.#sink = sink
  }

  /** Has one framed, unless there is one already; only where there is room. */
  async look(wish: Wish): Promise<void> {
    if (this.#loaded) return
    const next = await this.#loader.loadIfRoom(wish)
    this.#loaded = next
    if (next && next.lines.count > 0) this.#sink.warm?.(next.lines)
  }

  /** What is to be sent next, if it is there and anything of it is wanted; it stays here. */
  get wanted(): Loaded | undefined {
    return this.#loaded && this.#loaded.lines.count > 0 ? this.#loaded : undefined
  }

  /** Whoever takes it frees it. */
  take(): Loaded | undefined {
    const loaded = this.#loaded
    this.#loaded = undefined
    return loaded
  }

  /** Lets go of the batch: it is framed anew when its turn comes. */
  drop(): void {
    const loaded = this.take()
    if (loaded) this.#loader.free(loaded)
  }
}
