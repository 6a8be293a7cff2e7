// Orders to read the past again, each kept in a note of the journal: what is under way over restarts, what ended lately, and who waits for the next one.
import type { Clock } from '../model/clock.ts'
import { ConnectorError } from '../model/errors.ts'
import type { Journal, Note } from '../model/journal.ts'
import type { Log, LogFields } from '../model/log.ts'
import { lackingText } from '../model/past.ts'
import type { Lacking } from '../model/past.ts'
import { DAY_MS } from '../model/time.ts'
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

interface PastOrdersOptions<Order, Walk extends PastWalk<Order>> {
  readonly what: 'backfill' | 'replay'
  /** of all notes, and of no others */
  readonly prefix: string
  readonly nameOf: (order: Order) => string
  /** What a note holds; undefined: nothing of ours. */
  readonly read: (note: string) => Walk | undefined
  /** What the configuration has not, without which it waits in the journal. */
  readonly lacks: (order: Order) => Lacking | undefined
  readonly journal: Pick<Journal, 'notes' | 'putNote' | 'changeNotes'>
  readonly clock: Pick<Clock, 'now'>
  readonly log: Log
  /** Whose it is, as the log is to tell. */
  readonly whose: (order: Order) => LogFields
}

export class PastOrders<Order extends Ending, Walk extends PastWalk<Order>> {
  readonly #options: PastOrdersOptions<Order, Walk>
  readonly #walks = new Map<string, Walk>()
  /** neither read nor told of, save to who asks */
  readonly #asleep = new Map<string, Walk>()
  /** ended, and others are in their places */
  #replaced: Walk[] = []
  /** by note: what had ended in the place of the one that is there now, and is told again where that is cancelled */
  readonly #before = new Map<string, Walk>()
  #loaded: Promise<void> | undefined
  #wake: (() => void)[] = []

  constructor(options: PastOrdersOptions<Order, Walk>) {
    this.#options = options
  }

  /** Before anything else. */
  load(): Promise<void> {
    this.#loaded ??= this.#read()
    return this.#loaded
  }

  /** Under way, as it is now: what is begun later is not among them. */
  open(): readonly Walk[] {
    return [...this.#walks.values()].filter(({ order }) => order.endedAt === undefined)
  }

  /** Under way, and lately ended. */
  told(): readonly Walk[] {
    return [...this.#walks.values()].filter(
      ({ order: { endedAt } }) => endedAt === undefined || this.#isWithin(TOLD_MS, endedAt),
    )
  }

  /** Those, the ones that lack something, and the ended ones that others took the places of a moment ago: who follows one hears how it ended. */
  toldToFollowers(): readonly Walk[] {
    this.#replaced = this.#replaced.filter(this.#isFresh)
    return [...this.#replaced, ...this.told(), ...this.asleep()]
  }

  /** Under way once the configuration has what they lack. */
  asleep(): readonly Walk[] {
    return [...this.#asleep.values()]
  }

  readonly #isFresh = ({ order: { endedAt = 0 } }: Walk) => this.#isWithin(REPLACED_MS, endedAt)

  /** Or that far ahead: it ended by a clock that has since been set back. */
  #isWithin(spanMs: number, endedAt: number): boolean {
    return Math.abs(this.#options.clock.now() - endedAt) <= spanMs
  }

  /** The first that `choose` finds, as soon as there is one; undefined once `signal` aborts. */
  async next(
    choose: (open: readonly Walk[]) => Walk | undefined,
    signal: AbortSignal,
  ): Promise<Walk | undefined> {
    const stopped = () => signal.aborted
    while (!stopped()) {
      const walk = choose(this.open())
      if (walk) return walk
      await this.#woken(signal)
    }
    return undefined
  }

  /** In the place of one that has ended. Where it cannot be kept it was not begun. `dropped`: notes that go with that. */
  async begin(walk: Walk, dropped: readonly string[] = []): Promise<void> {
    const { journal, nameOf, what } = this.#options
    const name = nameOf(walk.order)
    const before = this.#walks.get(name)
    this.#walks.set(name, walk)
    try {
      await journal.changeNotes({ drop: dropped, put: [{ name, value: JSON.stringify(walk.order) }] })
    } catch (error) {
      walk.cancelled.abort(new ConnectorError('aborted', `The ${what} could not be kept`))
      if (this.isCurrent(walk)) {
        if (before) this.#walks.set(name, before)
        else this.#walks.delete(name)
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
  async cancel(walk: Walk, dropped: readonly string[] = []): Promise<boolean> {
    const { journal, nameOf } = this.#options
    const name = nameOf(walk.order)
    const isAsleep = this.#asleep.get(name) === walk
    if (walk.order.endedAt !== undefined || !(isAsleep || this.isCurrent(walk))) return false
    this.#asleep.delete(name)
    const replaced = this.#replaced
    const before = this.#takeBack(name)
    const put = before ? [{ name, value: JSON.stringify(before.order) }] : []
    try {
      await journal.changeNotes({ drop: before ? dropped : [name, ...dropped], put })
    } catch (error) {
      // The next process would find it in the journal: here too it is under way on.
      if (isAsleep) this.#asleep.set(name, walk)
      else this.#walks.set(name, walk)
      if (before) this.#before.set(name, before)
      this.#replaced = replaced
      throw error
    }
    walk.cancelled.abort(this.#cancelled())
    return true
  }

  /** The place of a cancelled one is that of the one that had ended there, or nobody's. */
  #takeBack(name: string): Walk | undefined {
    const before = this.#before.get(name)
    this.#before.delete(name)
    this.#walks.delete(name)
    if (before) this.#walks.set(name, before)
    this.#replaced = this.#replaced.filter((walk) => walk !== before)
    return before
  }

  /** How far it is. One that was cancelled meanwhile must not come back. */
  async save(walk: Walk, order: Order = walk.order): Promise<void> {
    for (const { name, value } of this.noteOf(walk, order)) await this.#options.journal.putNote(name, value)
  }

  /** To land with what the walk has come to by it: `order` as it is then. None of one that was cancelled meanwhile. */
  noteOf(walk: Walk, order: Order): readonly Note[] {
    return this.isCurrent(walk) ? [{ name: this.#options.nameOf(order), value: JSON.stringify(order) }] : []
  }

  isCurrent(walk: Walk): boolean {
    return this.#walks.get(this.#options.nameOf(walk.order)) === walk
  }

  /** Throws ConnectorError `aborted` for one that was cancelled meanwhile. */
  assertCurrent(walk: Walk): void {
    if (!this.isCurrent(walk)) throw this.#cancelled()
  }

  #cancelled(): ConnectorError {
    return new ConnectorError('aborted', `The ${this.#options.what} was cancelled`)
  }

  async #read(): Promise<void> {
    const { journal, prefix, nameOf, read, lacks, what, log, whose } = this.#options
    for (const { value } of await journal.notes(prefix, MOST_NOTES)) {
      const walk = read(value)
      const lacking = walk && lacks(walk.order)
      if (walk && !lacking) this.#walks.set(nameOf(walk.order), walk)
      else if (walk && walk.order.endedAt === undefined) {
        walk.waitsFor = lacking
        if (lacking)
          log.warn(
            `A ${what} waits in the journal: ${lackingText[lacking]}. It goes on once that is there again; ${what} --cancel ends it`,
            whose(walk.order),
          )
        this.#asleep.set(nameOf(walk.order), walk)
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
