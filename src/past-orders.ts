// Orders to read the past again, each kept in a note of the journal: what is under way over restarts, what ended lately, and who waits for the next one.
import type { Clock } from './model/clock.ts'
import { ConnectorError } from './model/errors.ts'
import type { Journal } from './model/journal.ts'
import type { Lacking } from './model/past.ts'
import { DAY_MS } from './model/time.ts'
import type { Walking } from './ranges.ts'

/** One that ended is told so long. */
const TOLD_MS = DAY_MS
/** And so long beside the next one in its place: who follows one looks every second, and for half a minute without an answer. */
const REPLACED_MS = 60_000
const MOST_NOTES = 10_000

/** An order and how its walk is. */
export interface PastWalk<Order> extends Walking {
  order: Order
  readonly cancelled: AbortController
}

export const walkOf = <Order>(order: Order): PastWalk<Order> => ({
  order,
  cancelled: new AbortController(),
  error: undefined,
  waitsFor: 'turn',
})

interface Ending {
  /** epoch ms; absent: it is under way */
  readonly endedAt?: number
}

interface PastOrdersOptions<Order, One extends PastWalk<Order>> {
  readonly what: 'backfill' | 'replay'
  /** of all notes, and of no others */
  readonly prefix: string
  readonly nameOf: (order: Order) => string
  /** What a note holds; undefined: nothing of ours. */
  readonly read: (note: string) => One | undefined
  /** What the configuration has not, without which it waits in the journal. */
  readonly lacks: (order: Order) => Lacking | undefined
  readonly journal: Pick<Journal, 'notes' | 'putNote' | 'changeNotes'>
  readonly clock: Pick<Clock, 'now'>
}

export class PastOrders<Order extends Ending, One extends PastWalk<Order>> {
  readonly #options: PastOrdersOptions<Order, One>
  readonly #running = new Map<string, One>()
  /** neither read nor told of, save to who asks */
  readonly #asleep = new Map<string, One>()
  /** ended, and others are in their places */
  #replaced: One[] = []
  /** by note: what had ended in the place of the one that is there now, and is told again where that is cancelled */
  readonly #before = new Map<string, One>()
  #loaded: Promise<void> | undefined
  #wake: (() => void)[] = []

  constructor(options: PastOrdersOptions<Order, One>) {
    this.#options = options
  }

  /** Before anything else. */
  load(): Promise<void> {
    this.#loaded ??= this.#read()
    return this.#loaded
  }

  /** Under way, as it is now: what is begun later is not among them. */
  open(): readonly One[] {
    return [...this.#running.values()].filter(({ order }) => order.endedAt === undefined)
  }

  /** Under way, and lately ended. */
  told(): readonly One[] {
    return [...this.#running.values()].filter(
      ({ order: { endedAt } }) => endedAt === undefined || this.#isWithin(TOLD_MS, endedAt),
    )
  }

  /** Those, the ones that lack something, and the ended ones that others took the places of a moment ago: who follows one hears how it ended. */
  toldToFollowers(): readonly One[] {
    this.#replaced = this.#replaced.filter(this.#isFresh)
    return [...this.#replaced, ...this.told(), ...this.asleep()]
  }

  /** Under way once the configuration has what they lack. */
  asleep(): readonly One[] {
    return [...this.#asleep.values()]
  }

  readonly #isFresh = ({ order: { endedAt = 0 } }: One) => this.#isWithin(REPLACED_MS, endedAt)

  /** Or that far ahead: it ended by a clock that has since been set back. */
  #isWithin(spanMs: number, endedAt: number): boolean {
    return Math.abs(this.#options.clock.now() - endedAt) <= spanMs
  }

  /** The first that `choose` finds, as soon as there is one; undefined once `signal` aborts. */
  async next(
    choose: (open: readonly One[]) => One | undefined,
    signal: AbortSignal,
  ): Promise<One | undefined> {
    const stopped = () => signal.aborted
    while (!stopped()) {
      const one = choose(this.open())
      if (one) return one
      await this.#woken(signal)
    }
    return undefined
  }

  /** In the place of one that has ended. Where it cannot be kept it was not begun. `dropped`: notes that go with that. */
  async begin(one: One, dropped: readonly string[] = []): Promise<void> {
    const { journal, nameOf, what } = this.#options
    const name = nameOf(one.order)
    const before = this.#running.get(name)
    this.#running.set(name, one)
    try {
      await journal.changeNotes({ drop: dropped, put: [{ name, value: JSON.stringify(one.order) }] })
    } catch (error) {
      one.cancelled.abort(new ConnectorError('aborted', `The ${what} could not be kept`))
      if (this.isCurrent(one)) {
        if (before) this.#running.set(name, before)
        else this.#running.delete(name)
      }
      throw error
    }
    this.#before.delete(name)
    if (before?.order.endedAt !== undefined) {
      this.#before.set(name, before)
      this.#replaced = [...this.#replaced, before].filter(this.#isFresh)
    }
    for (const wake of this.#wake.splice(0)) wake()
  }

  /** False: it was under way no longer. `dropped`: notes that go with its own. */
  async cancel(one: One, dropped: readonly string[] = []): Promise<boolean> {
    const { journal, nameOf } = this.#options
    const name = nameOf(one.order)
    const isAsleep = this.#asleep.get(name) === one
    if (one.order.endedAt !== undefined || !(isAsleep || this.isCurrent(one))) return false
    this.#asleep.delete(name)
    one.cancelled.abort(this.#cancelled())
    const before = this.#takeBack(name)
    const put = before ? [{ name, value: JSON.stringify(before.order) }] : []
    await journal.changeNotes({ drop: before ? dropped : [name, ...dropped], put })
    return true
  }

  /** The place of a cancelled one is that of the one that had ended there, or nobody's. */
  #takeBack(name: string): One | undefined {
    const before = this.#before.get(name)
    this.#before.delete(name)
    this.#running.delete(name)
    if (before) this.#running.set(name, before)
    this.#replaced = this.#replaced.filter((one) => one !== before)
    return before
  }

  /** How far it is. One that was cancelled meanwhile must not come back. */
  async save(one: One): Promise<void> {
    if (!this.isCurrent(one)) return
    const { journal, nameOf } = this.#options
    await journal.putNote(nameOf(one.order), JSON.stringify(one.order))
  }

  isCurrent(one: One): boolean {
    return this.#running.get(this.#options.nameOf(one.order)) === one
  }

  /** Throws ConnectorError `aborted` for one that was cancelled meanwhile. */
  assertCurrent(one: One): void {
    if (!this.isCurrent(one)) throw this.#cancelled()
  }

  #cancelled(): ConnectorError {
    return new ConnectorError('aborted', `The ${this.#options.what} was cancelled`)
  }

  async #read(): Promise<void> {
    const { journal, prefix, nameOf, read, lacks } = this.#options
    for (const { value } of await journal.notes(prefix, MOST_NOTES)) {
      const one = read(value)
      const lacking = one && lacks(one.order)
      if (one && !lacking) this.#running.set(nameOf(one.order), one)
      else if (one && one.order.endedAt === undefined) {
        one.waitsFor = lacking
        this.#asleep.set(nameOf(one.order), one)
      }
    }
  }

  #woken(signal: AbortSignal): Promise<void> {
    return new Promise((resolve) => {
      const over = () => {
        signal.removeEventListener('abort', over)
        resolve()
      }
      signal.addEventListener('abort', over, { once: true })
      this.#wake.push(over)
    })
  }
}
