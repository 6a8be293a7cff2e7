// The budgeter: every request of a key to one area of the API passes here, and no rolling minute as the server counts it holds more than the limit (law 5).
import type { Clock, Random } from '../../model/clock.ts'
import type { Lane } from '../../model/source.ts'
import { Allowance } from './allowance.ts'
import type { StoredBudget } from './stored.ts'
import { RecentAnswers } from './recent-answers.ts'

/** After a 429 without a hint: past a full minute, and not all clients at once. */
const BLIND_WAIT_MS = 61_000
const BLIND_SPREAD_MS = 4_000
/** What a dead process had sent may still be on its way to the server when the next one starts. */
const IN_TRANSIT_MS = 5_000

/** What share of the limit a lane leaves untouched for those before it. */
export const untouchedShare: Readonly<Record<Lane, number>> = { live: 0, sweep: 0.25, past: 0.4 }
const order: Readonly<Record<Lane, number>> = { live: 0, sweep: 1, past: 2 }

/** Where the window survives a restart: two small facts in the journal. @internal for tests */
export interface BudgetStore {
  load(): Promise<string | undefined>
  save(state: string): Promise<void>
}

interface BudgetOptions {
  /** requests in any rolling minute; changes with who shares them */
  readonly limit: () => number
  readonly clock: Clock
  readonly random: Random
  readonly store: BudgetStore
  /** Nobody reads live: no lane leaves anything untouched. */
  readonly pastAlone?: boolean
}

interface Waiter {
  readonly lane: Lane
  admit(): void
}

/**
 * A place is taken before a request is sent and given back 60 s after its answer came: whenever between the two the
 * server counted it, it still counts here. Places are written to the store in blocks before they are used, so that a
 * crash forgets none; a restart counts a whole block as used. All times in here are monotonic.
 */
export class Budget {
  readonly #options: BudgetOptions
  readonly #recent = new RecentAnswers()
  readonly #waiting: Waiter[] = []
  #inFlight = 0
  /** of these, not sent yet: their place is being written down */
  #unsent = 0
  /** places that the store already counts as used */
  #reserved = 0
  #blockedUntil = 0
  readonly #allowance: Allowance
  #loaded: Promise<void> | undefined
  #isLoaded = false
  #saving: Promise<void> | undefined
  #wake: AbortController | undefined

  constructor(options: BudgetOptions) {
    this.#options = options
    this.#allowance = new Allowance(options.limit)
  }

  /** Takes over what the store knows of the last minute, once; `enter` waits for it too. Throws what the store throws. */
  load(): Promise<void> {
    return (this.#loaded ??= this.#load().then(() => void (this.#isLoaded = true)))
  }

  /** Places used in the current minute, what we allow ourselves now, and the limit: less is allowed since a 429. */
  get used(): { places: number; allowed: number; limit: number } {
    this.#expire()
    const limit = this.#options.limit()
    return { places: this.#inFlight + this.#recent.count, allowed: this.#allowed, limit }
  }

  /** A 429 is waited out until then, epoch ms: nobody has a place, whatever is free. Undefined: none is. */
  get limitedUntil(): number | undefined {
    const leftMs = this.#blockedUntil - this.#options.clock.elapsed()
    return leftMs > 0 ? Math.ceil(this.#options.clock.now() + leftMs) : undefined
  }

  /** Epoch ms at which a place for this lane comes free if nobody else asks; now or earlier: it is free. */
  freeAt(lane: Lane): number {
    return Math.ceil(this.#options.clock.now() + this.waitMs(lane))
  }

  /** For how long this lane has no place if nobody else asks; 0 or less: there is one. */
  waitMs(lane: Lane): number {
    this.#expire()
    const now = this.#options.clock.elapsed()
    if (this.#blockedUntil > now) return this.#blockedUntil - now
    const excess = this.#inFlight + this.#recent.count - this.#placesFor(lane) + 1
    return excess <= 0 ? 0 : this.#recent.backInMs(excess, now)
  }

  /**
   * Waits for a place, and calls `waiting` before it does; resolves with the way to say that the answer came, or that none
   * will. Rejects when `signal` aborts. Once loaded, a place that is free is taken before the call returns.
   */
  async enter(lane: Lane, signal: AbortSignal, waiting?: () => void): Promise<() => void> {
    if (!this.#isLoaded) await this.load()
    signal.throwIfAborted()
    if (this.#waiting.length > 0 || this.waitMs(lane) > 0) {
      waiting?.()
      await this.#turn(lane, signal)
    } else this.#inFlight++
    try {
      await this.#record()
      signal.throwIfAborted()
    } catch (error) {
      this.#answer()
      throw error
    }
    let open = true
    return () => {
      if (!open) return
      open = false
      this.#answer()
    }
  }

  /**
   * The server said 429: obey its hint, or wait past a full minute; and allow ourselves less from now on. Resolves when the
   * store knows: a process that is killed right behind it comes back no earlier.
   */
  async limited(retryAfterMs: number | undefined): Promise<void> {
    const { clock, random } = this.#options
    // What the store still knows of a wait must not take the place of this one.
    if (!this.#isLoaded) await this.load()
    const waitMs = retryAfterMs ?? BLIND_WAIT_MS + random() * BLIND_SPREAD_MS
    this.#blockedUntil = Math.max(this.#blockedUntil, clock.elapsed() + waitMs)
    this.#allowance.lower(clock.elapsed())
    // What is being written may not know of it yet.
    await this.#saving
    // What the store counts from now on is told anew: nobody takes a place of the block before.
    this.#reserved = 0
    await this.#reserve()
  }

  /** Writes the exact window: what was reserved and not used is free again after a clean restart. What was not read is not written over. */
  async close(): Promise<void> {
    await this.#saving
    if (this.#isLoaded) await this.#save(0)
  }

  get #allowed(): number {
    return this.#allowance.at(this.#options.clock.elapsed())
  }

  #placesFor(lane: Lane): number {
    const allowed = this.#allowed
    const share = this.#options.pastAlone ? 0 : untouchedShare[lane]
    return allowed - Math.floor(allowed * share)
  }

  #expire(): void {
    this.#recent.expire(this.#options.clock.elapsed())
  }

  #answer(): void {
    this.#recent.add(this.#options.clock.elapsed())
    this.#inFlight--
  }

  #turn(lane: Lane, signal: AbortSignal): Promise<void> {
    return new Promise((resolve, reject) => {
      const leave = () => {
        this.#waiting.splice(this.#waiting.indexOf(waiter), 1)
        reject(signal.reason as Error)
        this.#wake?.abort()
      }
      const waiter: Waiter = {
        lane,
        admit: () => {
          signal.removeEventListener('abort', leave)
          resolve()
        },
      }
      signal.addEventListener('abort', leave, { once: true })
      const before = this.#waiting.findIndex((other) => order[other.lane] > order[lane])
      this.#waiting.splice(before < 0 ? this.#waiting.length : before, 0, waiter)
      if (this.#wake) this.#wake.abort()
      else void this.#admitInTurn()
    })
  }

  /** Runs while anybody waits; each newcomer wakes it, since it may come before the others. */
  async #admitInTurn(): Promise<void> {
    const { clock } = this.#options
    for (let first = this.#waiting[0]; first; first = this.#waiting[0]) {
      const waitMs = this.waitMs(first.lane)
      if (waitMs <= 0) {
        this.#inFlight++
        this.#waiting.shift()
        first.admit()
        continue
      }
      this.#wake = new AbortController()
      await clock.sleep(waitMs, this.#wake.signal)
    }
    this.#wake = undefined
  }

  /** Takes one of the places that the store already counts, or writes the next block first. */
  async #record(): Promise<void> {
    this.#unsent++
    try {
      while (this.#reserved <= 0) await this.#reserve()
      this.#reserved--
    } finally {
      this.#unsent--
    }
  }

  #reserve(): Promise<void> {
    const block = Math.ceil(this.#options.limit() / 6)
    return (this.#saving ??= this.#save(block).finally(() => (this.#saving = undefined)))
  }

  async #save(block: number): Promise<void> {
    const { clock, store } = this.#options
    this.#expire()
    const now = clock.elapsed()
    const stored: StoredBudget = {
      savedAt: clock.now(),
      answered: this.#recent.ages(now),
      ahead: block + this.#inFlight - this.#unsent,
      blockedMs: Math.max(0, this.#blockedUntil - now),
      ...this.#allowance.stored(now),
    }
    await store.save(JSON.stringify(stored))
    this.#reserved = block
  }

  async #load(): Promise<void> {
    const { clock, store } = this.#options
    const text = await store.load()
    const now = clock.elapsed()
    if (text === undefined) return
    const stored = JSON.parse(text) as StoredBudget
    const downMs = Math.max(0, clock.now() - stored.savedAt)
    // Whatever was not answered may reach the server only now.
    const places = [...stored.answered, [-downMs - IN_TRANSIT_MS, stored.ahead] as const]
    for (const [ageMs, count] of places) this.#recent.restore(now - downMs - ageMs, count)
    this.#blockedUntil = now + stored.blockedMs - downMs
    this.#allowance.restore(stored, now - downMs)
    this.#expire()
  }
}
