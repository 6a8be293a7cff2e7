// How long a receiver has owed an answer. What it was asked is not given up for that: once it answers, nobody owes anything.
import type { Clock } from '../model/clock.ts'
import type { Asked } from '../model/watch.ts'

/** Half a minute is what a failing part may take to show; a receiver that is slow and well answers sooner. */
const SILENT_MS = 25_000

interface Wait {
  /** monotonic ms: begun, or the last sign */
  at: number
  /** a delivery: any sign of the receiver is one of it, where a request has its own */
  readonly whole: boolean
}

export class Silence {
  readonly #clock: Pick<Clock, 'elapsed'>
  readonly #waits = new Set<Wait>()
  /** Given up after a silence: the next request, as silent as it, does not begin it anew. */
  #unheardSince: number | undefined
  /** The last delivery was silent to its end, from then on. */
  #overSince: number | undefined

  constructor(clock: Pick<Clock, 'elapsed'>) {
    this.#clock = clock
  }

  /** Something is under way. */
  get busy(): boolean {
    return this.#waits.size > 0
  }

  /** ms of a silence that is too long; undefined: there is none */
  get ms(): number | undefined {
    return this.#tooLong(Infinity)
  }

  /** As `ms`, with the delivery that has just ended: why it failed is told only then. */
  get msBeforeFault(): number | undefined {
    return this.#tooLong(this.#overSince ?? Infinity)
  }

  #tooLong(sinceMs: number): number | undefined {
    const since = Math.min(sinceMs, this.#unheardSince ?? Infinity, ...[...this.#waits].map(({ at }) => at))
    const silentMs = this.#clock.elapsed() - since
    return silentMs >= SILENT_MS ? silentMs : undefined
  }

  delivering(): () => void {
    const wait = this.#begin(true)
    this.#overSince = undefined
    return () => {
      this.#waits.delete(wait)
      if (this.#clock.elapsed() - wait.at >= SILENT_MS) this.#overSince = wait.at
    }
  }

  asked(): Asked {
    const wait = this.#begin(false)
    this.heard()
    return {
      moved: () => {
        wait.at = this.#clock.elapsed()
        this.heard()
      },
      over: (answered) => {
        this.#waits.delete(wait)
        if (answered) this.answered()
        else if (this.#clock.elapsed() - wait.at >= SILENT_MS)
          this.#unheardSince = Math.min(this.#unheardSince ?? Infinity, wait.at)
      },
    }
  }

  /** It took or said something. */
  heard(): void {
    const now = this.#clock.elapsed()
    this.#overSince = undefined
    for (const wait of this.#waits) if (wait.whole) wait.at = now
  }

  answered(): void {
    this.#unheardSince = undefined
    this.heard()
  }

  #begin(whole: boolean): Wait {
    const wait = { at: this.#clock.elapsed(), whole }
    this.#waits.add(wait)
    return wait
  }
}
