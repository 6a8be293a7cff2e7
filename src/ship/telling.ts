// Who is told of what was settled: its figures at once; in the log the dead letters, the first at once and a run of them as sums.
import type { Clock } from '../model/clock.ts'
import type { Parked } from '../model/journal.ts'
import type { Log } from '../model/log.ts'
import { Seldom } from '../model/seldom.ts'
import { MINUTE_MS } from '../model/time.ts'
import type { SinkWatch } from '../model/watch.ts'
import { tellAccepted } from './delays.ts'

interface Listeners {
  readonly log: Log
  readonly watch: SinkWatch
  readonly clock: Clock
}

interface Settled {
  /** own times of the entries that the receiver accepted, µs */
  readonly times: Float64Array
  readonly filtered: number
  readonly parked: readonly Parked[]
}

/** A receiver may refuse each entry in words of its own: so many of them are told apart. */
const MOST_REASONS = 100

export class Telling {
  readonly #listeners: Listeners
  readonly #seldom: Seldom
  /** of dead letters that were not told yet */
  readonly #codes = new Set<string>()
  readonly #reasons = new Set<string>()

  constructor(listeners: Listeners) {
    this.#listeners = listeners
    this.#seldom = new Seldom(() => listeners.clock.elapsed(), MINUTE_MS)
  }

  settled({ times, filtered, parked }: Settled): void {
    const { watch, clock } = this.#listeners
    watch.settled({ accepted: times.length, deadLettered: parked.length, filtered })
    if (times.length > 0) tellAccepted(watch, clock.now(), times)
    for (const { code, reason } of parked) {
      this.#codes.add(code)
      if (this.#reasons.size < MOST_REASONS) this.#reasons.add(reason)
    }
    this.#tellLetters(this.#seldom.next(parked.length))
  }

  /** Tells the rest of a run once it is due, though nothing more is settled. Answers how long until then, ms; Infinity: all is told. */
  tellDue(): number {
    this.#tellLetters(this.#seldom.next(0))
    return this.#seldom.dueInMs
  }

  /** Nothing more will come. */
  end(): void {
    this.#tellLetters(this.#seldom.rest())
  }

  #tellLetters(entries: number): void {
    if (entries === 0) return
    const [reason, ...more] = this.#reasons
    const why = {
      code: [...this.#codes].join(', '),
      reason,
      ...(more.length > 0 && { moreReasons: more.length }),
    }
    this.#codes.clear()
    this.#reasons.clear()
    this.#listeners.log.warn(
      'Entries that the receiver refused for good were parked as dead letters: auditferry dead-letters list names each that is still there',
      { entries, ...why },
    )
  }
}
