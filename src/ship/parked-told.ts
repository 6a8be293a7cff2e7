// What the log says of dead letters: the first at once, a run of them as sums. Each stands in the journal whatever is told of it.
import type { Clock } from '../model/clock.ts'
import type { Parked } from '../model/journal.ts'
import type { Log } from '../model/log.ts'
import { Seldom } from '../model/seldom.ts'
import { MINUTE_MS } from '../model/time.ts'
import type { SinkWatch } from '../model/watch.ts'

interface Listeners {
  readonly log: Log
  readonly watch: SinkWatch
  readonly clock: Clock
}

/** A receiver may refuse each entry in words of its own: so many of them are told apart. */
const MOST_REASONS = 100

export class ParkedTold {
  readonly #listeners: Listeners
  readonly #seldom: Seldom
  /** of those that were not told yet */
  readonly #codes = new Set<string>()
  readonly #reasons = new Set<string>()

  constructor(listeners: Listeners) {
    this.#listeners = listeners
    this.#seldom = new Seldom(() => listeners.clock.elapsed(), MINUTE_MS)
  }

  /** To be called at each settlement: one that parks nothing may be the one with which the rest of a run is due. */
  settled(parked: readonly Parked[]): void {
    for (const { code, reason } of parked) {
      this.#codes.add(code)
      if (this.#reasons.size < MOST_REASONS) this.#reasons.add(reason)
    }
    this.#tell(this.#seldom.next(parked.length))
    if (parked.length > 0)
      this.#listeners.watch.settled({ accepted: 0, deadLettered: parked.length, filtered: 0 })
  }

  /** Nothing more will come. */
  end(): void {
    this.#tell(this.#seldom.rest())
  }

  #tell(entries: number): void {
    if (entries === 0) return
    const [reason, ...more] = this.#reasons
    const why = {
      ...{ code: [...this.#codes].join(', '), reason },
      ...(more.length > 0 && { moreReasons: more.length }),
    }
    this.#codes.clear()
    this.#reasons.clear()
    this.#listeners.log.warn(
      'Entries that the receiver refuses for good are parked as dead letters: auditferry dead-letters list names each',
      { entries, ...why },
    )
  }
}
