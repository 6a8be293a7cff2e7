// The rate limiter: every request of a key to one area of the API passes here, and no rolling minute as the server counts it holds more than the limit (invariant 5).
import type { Lane } from '../../contracts/source.ts'
import type { Clock, Random } from '../../core/clock.ts'
import { MINUTE_MS, SECOND_MS } from '../../core/time.ts'

/** After a 429 without a hint: past a full minute, and not all clients at once. */
const BLIND_WAIT_MS = 61_000
const BLIND_SPREAD_MS = 4_000
/** What a dead process had sent may still be on its way to the server when the next one starts. */
const IN_TRANSIT_MS = 5_000
/** For how long the next permit is kept for a lane: from when an announced request could have it, or behind the answer to its last one. */
const KEPT_MS = 5 * SECOND_MS

/** By priority. */
const lanes: readonly Lane[] = ['live', 'sweep', 'past']
/** What share of the limit a lane leaves to those before it, beyond its guaranteed minimum. */
const leftShare: Readonly<Record<Lane, number>> = { live: 0, sweep: 0.25, past: 0.4 }

/** The requests of a rolling minute that each lane gets whatever the others ask for. */
export const guaranteedOf = (allowed: number): number => Math.max(2, Math.ceil(allowed / 10))

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
  readonly since: number
  admit(): void
}

/**
 * Three rules say who gets the next permit:
 * 1. A lane that wants one and has had less than its guaranteed minimum in this minute comes first; of several, the one that asked first.
 * 2. Else live reading comes before lookback, and lookback before jobs.
 * 3. Beyond its minimum a lane leaves a share of the limit to those before it, so that a poll finds permits at once.
 *
 * A place is taken before a request is sent and given back 60 s after its answer came: whenever between the two the
 * server counted it, it still counts here. Places are written to the store in blocks before they are used, so that a
 * crash forgets none; a restart counts a whole block as used. All times in here are monotonic.
 */
export class Budget {
  readonly #options: BudgetOptions
  readonly #recent = new RecentAnswers()
  readonly #waiting: Waiter[] = []
  /** by lane, the next request: since when it is expected, and until when a permit is kept for it */
  readonly #announced = new Map<Lane, { readonly since: number; readonly until: number }>()
  readonly #inFlightOf: Record<Lane, number> = { live: 0, sweep: 0, past: 0 }
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

  /** Permits used in the current minute, by live reading among them; what we allow ourselves now, and the limit: less is allowed since a 429. */
  get used(): { places: number; live: number; allowed: number; limit: number } {
    this.#expire()
    const limit = this.#options.limit()
    return { places: this.#used, live: this.#usedBy('live'), allowed: this.#allowed, limit }
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

  /** As `freeAt`, for a request that is due and that the caller sends at that time: the next permit is kept for it. */
  announce(lane: Lane): number {
    const now = this.#options.clock.elapsed()
    const waitMs = this.waitMs(lane)
    const since = this.#announcedSince(lane) ?? now
    this.#announced.set(lane, { since, until: now + Math.max(0, waitMs) + KEPT_MS })
    return Math.ceil(this.#options.clock.now() + waitMs)
  }

  /** For how long this lane has no place if nobody else asks; 0 or less: there is one. */
  waitMs(lane: Lane): number {
    this.#expire()
    const now = this.#options.clock.elapsed()
    if (this.#blockedUntil > now) return this.#blockedUntil - now
    const allowed = this.#allowed
    const used = this.#used + this.#keptFrom(lane)
    const own = this.#usedBy(lane)
    const isFree = (back: number, ownBack: number) =>
      used - back < (own - ownBack < guaranteedOf(allowed) ? allowed : this.#mostFor(lane))
    return isFree(0, 0) ? 0 : this.#recent.backInMs(lane, now, isFree)
  }

  /**
   * Waits for a place, and calls `waiting` before it does; resolves with the way to say that the answer came, or that none
   * will. Rejects when `signal` aborts. Once loaded, a place that is free is taken before the call returns.
   */
  async enter(lane: Lane, signal: AbortSignal, waiting?: () => void): Promise<() => void> {
    if (!this.#isLoaded) await this.load()
    signal.throwIfAborted()
    if (this.#waiting.some((other) => other.lane === lane) || this.waitMs(lane) > 0) {
      waiting?.()
      await this.#turn(lane, signal)
    } else this.#take(lane)
    try {
      await this.#record()
      signal.throwIfAborted()
    } catch (error) {
      this.#answer(lane)
      throw error
    }
    let open = true
    return () => {
      if (!open) return
      open = false
      this.#answer(lane)
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

  get #used(): number {
    return this.#inFlight + this.#recent.count
  }

  get #inFlight(): number {
    return lanes.reduce((sum, lane) => sum + this.#inFlightOf[lane], 0)
  }

  #usedBy(lane: Lane): number {
    return this.#inFlightOf[lane] + this.#recent.countOf(lane)
  }

  /** Of what is allowed, what this lane may use beyond its minimum. */
  #mostFor(lane: Lane): number {
    const allowed = this.#allowed
    return allowed - Math.floor(allowed * (this.#options.pastAlone ? 0 : leftShare[lane]))
  }

  /** Permits that are kept for other lanes, which come before this one: what their minimum lacks, else one for each. */
  #keptFrom(lane: Lane): number {
    const least = guaranteedOf(this.#allowed)
    return lanes
      .filter((other) => other !== lane && this.#precedes(other, lane))
      .reduce((sum, other) => sum + Math.max(1, least - this.#usedBy(other)), 0)
  }

  /** `other` wants a permit, and it comes before one that `lane` wants. */
  #precedes(other: Lane, lane: Lane): boolean {
    const since = this.#wantsSince(other)
    if (since === undefined) return false
    const least = guaranteedOf(this.#allowed)
    const [isOtherShort, isShort] = [this.#usedBy(other) < least, this.#usedBy(lane) < least]
    if (isOtherShort !== isShort) return isOtherShort
    const isBefore = lanes.indexOf(other) < lanes.indexOf(lane)
    if (!isShort) return isBefore
    const ownSince = this.#wantsSince(lane) ?? this.#options.clock.elapsed()
    return since === ownSince ? isBefore : since < ownSince
  }

  /** Since when a request of this lane waits, or is due; undefined: none is. */
  #wantsSince(lane: Lane): number | undefined {
    const first = this.#waiting.find((waiter) => waiter.lane === lane)?.since
    const announced = this.#announcedSince(lane)
    return first === undefined || (announced !== undefined && announced < first) ? announced : first
  }

  #announcedSince(lane: Lane): number | undefined {
    const announced = this.#announced.get(lane)
    return announced && announced.until > this.#options.clock.elapsed() ? announced.since : undefined
  }

  #expire(): void {
    this.#recent.expire(this.#options.clock.elapsed())
  }

  #take(lane: Lane): void {
    this.#inFlightOf[lane]++
    // What reads page by page asks again behind the answer. Others that wait in numbers would else take all permits that come back at once.
    this.#announced.set(lane, { since: this.#options.clock.elapsed(), until: Infinity })
  }

  #answer(lane: Lane): void {
    const now = this.#options.clock.elapsed()
    this.#recent.add(now, lane)
    this.#inFlightOf[lane]--
    const since = this.#announcedSince(lane)
    if (since !== undefined && this.#inFlightOf[lane] === 0)
      this.#announced.set(lane, { since, until: now + KEPT_MS })
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
        since: this.#options.clock.elapsed(),
        admit: () => {
          signal.removeEventListener('abort', leave)
          resolve()
        },
      }
      signal.addEventListener('abort', leave, { once: true })
      this.#waiting.push(waiter)
      if (this.#wake) this.#wake.abort()
      else void this.#admitInTurn()
    })
  }

  /** Runs while any request waits; each new one wakes it, since it may come before the others. */
  async #admitInTurn(): Promise<void> {
    const { clock } = this.#options
    while (this.#waiting.length > 0) {
      const firsts = lanes.flatMap((lane) => this.#waiting.find((waiter) => waiter.lane === lane) ?? [])
      const waits = firsts.map(({ lane }) => this.waitMs(lane))
      const waitMs = Math.min(...waits)
      const first = firsts[waits.indexOf(waitMs)]
      if (first && waitMs <= 0) {
        this.#take(first.lane)
        this.#waiting.splice(this.#waiting.indexOf(first), 1)
        first.admit()
        continue
      }
      this.#wake = new AbortController()
      await clock.sleep(Math.min(waitMs, ...this.#keptMs()), this.#wake.signal)
    }
    this.#wake = undefined
  }

  /** For how long permits are kept for what was announced: behind that they are for those who wait. */
  #keptMs(): readonly number[] {
    const now = this.#options.clock.elapsed()
    return [...this.#announced.values()].map(({ until }) => until - now).filter((leftMs) => leftMs > 0)
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

// How much of its limit a budget allows itself: less after a 429, growing back while none comes. All times are ms of the clock that only runs.

/** So long without a 429, and what we allow ourselves grows back by a tenth of the limit. */
const RECOVERY_MS = 5 * MINUTE_MS
/** What a 429 leaves of it. */
const LEFT = 0.75

class Allowance {
  readonly #limit: () => number
  /** undefined: all of the limit, whatever that is by then */
  #lowered: number | undefined
  #changedAt = 0

  /** `limit` may change with who shares the budget. */
  constructor(limit: () => number) {
    this.#limit = limit
  }

  at(now: number): number {
    const limit = this.#limit()
    while (this.#lowered !== undefined && now - this.#changedAt >= RECOVERY_MS) {
      const grown = this.#lowered + Math.ceil(limit / 10)
      this.#lowered = grown < limit ? grown : undefined
      this.#changedAt += RECOVERY_MS
    }
    return Math.min(limit, this.#lowered ?? limit)
  }

  lower(now: number): void {
    this.#lowered = Math.max(1, Math.floor(this.at(now) * LEFT))
    this.#changedAt = now
  }

  stored(now: number): Pick<StoredBudget, 'lowered'> {
    return this.#lowered === undefined ? {} : { lowered: [this.#lowered, now - this.#changedAt] }
  }

  /** `storedAt`: what was stored then goes on growing back from there. */
  restore({ lowered }: Pick<StoredBudget, 'lowered'>, storedAt: number): void {
    if (!lowered) return
    this.#lowered = lowered[0]
    this.#changedAt = storedAt - lowered[1]
  }
}

// The answers of the last minute, each of which still takes its permit. All times are ms of one clock that only runs.

/** A permit comes back a little after its minute, so that a server that counts the boundary in is not crossed. */
const MARGIN_MS = 50
/** Answers are remembered in steps of this width, rounded up: bounded memory at any limit. */
const STEP_MS = 50

interface Answers {
  readonly at: number
  count: number
  /** undefined: of a process before this one */
  readonly lane: Lane | undefined
}

class RecentAnswers {
  /** by their time */
  readonly #answers: Answers[] = []
  #count = 0

  get count(): number {
    return this.#count
  }

  countOf(lane: Lane): number {
    return this.#answers.reduce((sum, one) => (one.lane === lane ? sum + one.count : sum), 0)
  }

  add(now: number, lane: Lane): void {
    const last = this.#answers.at(-1)
    const at = Math.max(Math.ceil(now / STEP_MS) * STEP_MS, last?.at ?? 0)
    const same = this.#answers.findLast((one) => one.at < at || one.lane === lane)
    if (same?.at === at) same.count++
    else this.#answers.push({ at, count: 1, lane })
    this.#count++
  }

  /** Those of a process before this one. */
  restore(at: number, count: number): void {
    if (count <= 0) return
    this.#answers.push({ at, count, lane: undefined })
    this.#count += count
  }

  expire(now: number): void {
    for (let first = this.#answers[0]; first; first = this.#answers[0]) {
      if (first.at + MINUTE_MS + MARGIN_MS > now) break
      this.#count -= first.count
      this.#answers.shift()
    }
  }

  /** In how many ms `isEnough` holds: it is asked with what has come back by then, in all and of `lane`. A minute where it never does. */
  backInMs(lane: Lane, now: number, isEnough: (back: number, ofLane: number) => boolean): number {
    let back = 0
    let ofLane = 0
    for (const one of this.#answers) {
      back += one.count
      if (one.lane === lane) ofLane += one.count
      if (isEnough(back, ofLane)) return one.at + MINUTE_MS + MARGIN_MS - now
    }
    return MINUTE_MS
  }

  /** [how long ago they came, how many] */
  ages(now: number): (readonly [number, number])[] {
    return this.#answers.map(({ at, count }) => [now - at, count])
  }
}

// A budget's window as the journal keeps it over a restart.

/** Ages and spans, not instants: only `savedAt` meets the wall clock, which may have been set meanwhile. */
interface StoredBudget {
  /** epoch ms */
  readonly savedAt: number
  /** [how long ago the answer came, how many] */
  readonly answered: readonly (readonly [number, number])[]
  /** requests without an answer yet, and those that may have been sent since this was written */
  readonly ahead: number
  readonly blockedMs: number
  /** [what a 429 left of the limit, how long ago that was or it last grew]; absent: all of it */
  readonly lowered?: readonly [number, number]
}

/** The one that was saved last: whoever shares a budget may have been without it for a while. */
export function lastSaved(texts: readonly (string | undefined)[]): string | undefined {
  const savedAt = (text: string) => (JSON.parse(text) as StoredBudget).savedAt
  return texts.filter((text) => text !== undefined).toSorted((a, b) => savedAt(b) - savedAt(a))[0]
}

/** After this a lowered limit has grown back too. */
const TELLING_MS = 60 * MINUTE_MS

/** What it says is over: a budget that begins with nothing is the same. */
export function isStale(text: string, now: number): boolean {
  const { savedAt, blockedMs } = JSON.parse(text) as StoredBudget
  return savedAt + Math.max(blockedMs, TELLING_MS) < now
}
