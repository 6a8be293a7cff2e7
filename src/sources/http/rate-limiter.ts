// The rate limiter: every request of one key to one area of the API passes it.
// No rolling minute, as the server counts it, has more requests than the limit (invariant 5).
import type { Priority } from '../../contracts/source.ts'
import type { Clock, Random } from '../../core/clock.ts'
import { MINUTE_MS, SECOND_MS } from '../../core/time.ts'

/** After a 429 without a hint: longer than a full minute, and with jitter between clients. */
const BLIND_WAIT_MS = 61_000
const BLIND_SPREAD_MS = 4_000
/** Requests of a dead process may still reach the server when the next process starts. */
const IN_TRANSIT_MS = 5_000
/**
 * How long a permit is reserved for a priority: from when an announced request could have it, or
 * after its last answer.
 */
const RESERVED_MS = 5 * SECOND_MS

/** By priority. */
const priorities: readonly Priority[] = ['live', 'lookback', 'job']
/** The share of the limit that a priority leaves to those before it, beyond its minimum. */
const shareLeft: Readonly<Record<Priority, number>> = { live: 0, lookback: 0.25, job: 0.4 }

/** Requests per rolling minute that each priority gets, regardless of the others. */
export const guaranteedOf = (allowed: number): number => Math.max(2, Math.ceil(allowed / 10))

/** Persists the window across restarts: two state entries in the journal. @internal for tests */
export interface RateLimitStore {
  load(): Promise<string | undefined>
  save(state: string): Promise<void>
}

interface RateLimiterOptions {
  /** requests in any rolling minute; changes with the number of sharers */
  readonly limit: () => number
  readonly clock: Clock
  readonly random: Random
  readonly store: RateLimitStore
  /** There is no live reading: no priority leaves a share. */
  readonly jobsOnly?: boolean
}

interface Waiter {
  readonly priority: Priority
  readonly since: number
  admit(): void
}

/**
 * Three rules decide which request gets the next permit:
 * 1. A waiting priority with less than its guaranteed minimum in this minute comes first; of several, the earliest request.
 * 2. Otherwise live reading comes before lookback, and lookback before jobs.
 * 3. Beyond its minimum a priority leaves a share of the limit to those before it, so that a poll finds permits at once.
 *
 * A permit is taken before a request is sent and returned 60 s after its answer came: whenever the server counted the request
 * in between, it still counts here. Permits are saved in blocks before they are used, so that a crash forgets none; a restart
 * counts a whole block as used. All times here are monotonic.
 */
export class RateLimiter {
  readonly #options: RateLimiterOptions
  readonly #recent = new RecentAnswers()
  readonly #waiting: Waiter[] = []
  /** by priority, the next request: since when it is expected, until when its permit is reserved */
  readonly #announced = new Map<Priority, { readonly since: number; readonly until: number }>()
  readonly #inFlightOf: Record<Priority, number> = { live: 0, lookback: 0, job: 0 }
  /** of these, not sent yet: their permit is being saved */
  #unsent = 0
  /** permits left of the block that the store counts as used */
  #stored = 0
  #blockedUntil = 0
  readonly #allowance: Allowance
  #loaded: Promise<void> | undefined
  #isLoaded = false
  #saving: Promise<void> | undefined
  #wake: AbortController | undefined

  constructor(options: RateLimiterOptions) {
    this.#options = options
    this.#allowance = new Allowance(options.limit)
  }

  /** Loads the last minute's record, once; `acquire` waits for it. Throws as the store does. */
  load(): Promise<void> {
    return (this.#loaded ??= this.#load().then(
      () => void (this.#isLoaded = true),
      (error: unknown) => {
        // The database was not available: the next request tries again.
        this.#loaded = undefined
        throw error
      },
    ))
  }

  /**
   * Permits used in the current minute, and by live reading; the number allowed now, and the limit:
   * fewer are allowed since a 429.
   */
  get used(): { permits: number; live: number; allowed: number; limit: number } {
    this.#expire()
    const limit = this.#options.limit()
    return { permits: this.#used, live: this.#usedBy('live'), allowed: this.#allowed, limit }
  }

  /** End of the wait after a 429, epoch ms: no request gets a permit before. Undefined: no wait. */
  get limitedUntil(): number | undefined {
    const leftMs = this.#blockedUntil - this.#options.clock.elapsed()
    return leftMs > 0 ? Math.ceil(this.#options.clock.now() + leftMs) : undefined
  }

  /** Epoch ms at which a permit of this priority is free without other requests. */
  freeAt(priority: Priority): number {
    return Math.ceil(this.#options.clock.now() + this.waitMs(priority))
  }

  /** As `freeAt`, for a request that is due: reserves the next permit for it. */
  announce(priority: Priority): number {
    const now = this.#options.clock.elapsed()
    const waitMs = this.waitMs(priority)
    const since = this.#announcedSince(priority) ?? now
    this.#announced.set(priority, { since, until: now + Math.max(0, waitMs) + RESERVED_MS })
    return Math.ceil(this.#options.clock.now() + waitMs)
  }

  /** How long this priority has no permit without other requests; 0 or less: there is one. */
  waitMs(priority: Priority): number {
    this.#expire()
    const now = this.#options.clock.elapsed()
    if (this.#blockedUntil > now) return this.#blockedUntil - now
    const allowed = this.#allowed
    const used = this.#used + this.#reservedBefore(priority)
    const own = this.#usedBy(priority)
    const isFree = (back: number, ownBack: number) =>
      used - back < (own - ownBack < guaranteedOf(allowed) ? allowed : this.#maxFor(priority))
    return isFree(0, 0) ? 0 : this.#recent.backInMs(priority, now, isFree)
  }

  /**
   * Waits for a permit, and calls `waiting` before it waits. Resolves with a function to call when
   * the answer came, or when none will. Rejects when `signal` aborts. Once loaded, a free permit is
   * taken before the call returns.
   */
  async acquire(priority: Priority, signal: AbortSignal, waiting?: () => void): Promise<() => void> {
    if (!this.#isLoaded) await this.load()
    signal.throwIfAborted()
    if (this.#waiting.some((other) => other.priority === priority) || this.waitMs(priority) > 0) {
      waiting?.()
      await this.#turn(priority, signal)
    } else this.#take(priority)
    try {
      await this.#record()
      signal.throwIfAborted()
    } catch (error) {
      this.#answer(priority)
      throw error
    }
    let open = true
    return () => {
      if (!open) return
      open = false
      this.#answer(priority)
    }
  }

  /**
   * The server answered 429: obey its hint, or wait for a full minute; and allow fewer requests
   * from now on. Resolves when the store has it: a process killed right after that does not start
   * earlier.
   */
  async limited(retryAfterMs: number | undefined): Promise<void> {
    const { clock, random } = this.#options
    // A stored wait must not replace this one.
    if (!this.#isLoaded) await this.load()
    const waitMs = retryAfterMs ?? BLIND_WAIT_MS + random() * BLIND_SPREAD_MS
    this.#blockedUntil = Math.max(this.#blockedUntil, clock.elapsed() + waitMs)
    this.#allowance.lower(clock.elapsed())
    // A write under way may not include it yet.
    await this.#saving
    // The store counts from here on again: no permit of the previous block may be used.
    this.#stored = 0
    await this.#saveBlock()
  }

  /**
   * Saves the exact window: after a clean restart the unused permits of the block are free. A window
   * that was not loaded is not overwritten.
   */
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
    return priorities.reduce((sum, priority) => sum + this.#inFlightOf[priority], 0)
  }

  #usedBy(priority: Priority): number {
    return this.#inFlightOf[priority] + this.#recent.countOf(priority)
  }

  /** The permits that this priority may use beyond its minimum. */
  #maxFor(priority: Priority): number {
    const allowed = this.#allowed
    return allowed - Math.floor(allowed * (this.#options.jobsOnly ? 0 : shareLeft[priority]))
  }

  /** Permits reserved for priorities before this one: their missing minimum, else one each. */
  #reservedBefore(priority: Priority): number {
    const least = guaranteedOf(this.#allowed)
    return priorities
      .filter((other) => other !== priority && this.#precedes(other, priority))
      .reduce((sum, other) => sum + Math.max(1, least - this.#usedBy(other)), 0)
  }

  /** `other` waits for a permit, and comes before a request of `priority`. */
  #precedes(other: Priority, priority: Priority): boolean {
    const since = this.#waitingSince(other)
    if (since === undefined) return false
    const least = guaranteedOf(this.#allowed)
    const [isOtherShort, isShort] = [this.#usedBy(other) < least, this.#usedBy(priority) < least]
    if (isOtherShort !== isShort) return isOtherShort
    const isBefore = priorities.indexOf(other) < priorities.indexOf(priority)
    if (!isShort) return isBefore
    const ownSince = this.#waitingSince(priority) ?? this.#options.clock.elapsed()
    return since === ownSince ? isBefore : since < ownSince
  }

  /** Since when a request of this priority waits, or is due; undefined: none. */
  #waitingSince(priority: Priority): number | undefined {
    const first = this.#waiting.find((waiter) => waiter.priority === priority)?.since
    const announced = this.#announcedSince(priority)
    return first === undefined || (announced !== undefined && announced < first) ? announced : first
  }

  #announcedSince(priority: Priority): number | undefined {
    const announced = this.#announced.get(priority)
    return announced && announced.until > this.#options.clock.elapsed() ? announced.since : undefined
  }

  #expire(): void {
    this.#recent.expire(this.#options.clock.elapsed())
  }

  #take(priority: Priority): void {
    this.#inFlightOf[priority]++
    // A reader of pages sends its next request after the answer. Otherwise other waiting requests
    // would take all returned permits.
    this.#announced.set(priority, { since: this.#options.clock.elapsed(), until: Infinity })
  }

  #answer(priority: Priority): void {
    const now = this.#options.clock.elapsed()
    this.#recent.add(now, priority)
    this.#inFlightOf[priority]--
    const since = this.#announcedSince(priority)
    if (since !== undefined && this.#inFlightOf[priority] === 0)
      this.#announced.set(priority, { since, until: now + RESERVED_MS })
  }

  #turn(priority: Priority, signal: AbortSignal): Promise<void> {
    return new Promise((resolve, reject) => {
      const cancel = () => {
        this.#waiting.splice(this.#waiting.indexOf(waiter), 1)
        reject(signal.reason as Error)
        this.#wake?.abort()
      }
      const waiter: Waiter = {
        priority,
        since: this.#options.clock.elapsed(),
        admit: () => {
          signal.removeEventListener('abort', cancel)
          resolve()
        },
      }
      signal.addEventListener('abort', cancel, { once: true })
      this.#waiting.push(waiter)
      if (this.#wake) this.#wake.abort()
      else void this.#admitInTurn()
    })
  }

  /** Runs while any request waits; each new one wakes it, because it may come first. */
  async #admitInTurn(): Promise<void> {
    const { clock } = this.#options
    while (this.#waiting.length > 0) {
      const firsts = priorities.flatMap(
        (priority) => this.#waiting.find((waiter) => waiter.priority === priority) ?? [],
      )
      const waits = firsts.map(({ priority }) => this.waitMs(priority))
      const waitMs = Math.min(...waits)
      const first = firsts[waits.indexOf(waitMs)]
      if (first && waitMs <= 0) {
        this.#take(first.priority)
        this.#waiting.splice(this.#waiting.indexOf(first), 1)
        first.admit()
        continue
      }
      this.#wake = new AbortController()
      await clock.sleep(Math.min(waitMs, ...this.#reservedMs()), this.#wake.signal)
    }
    this.#wake = undefined
  }

  /** How long permits stay reserved for announced requests. */
  #reservedMs(): readonly number[] {
    const now = this.#options.clock.elapsed()
    return [...this.#announced.values()].map(({ until }) => until - now).filter((leftMs) => leftMs > 0)
  }

  /** Takes a permit that the store already counts, or saves the next block first. */
  async #record(): Promise<void> {
    this.#unsent++
    try {
      while (this.#stored <= 0) await this.#saveBlock()
      this.#stored--
    } finally {
      this.#unsent--
    }
  }

  #saveBlock(): Promise<void> {
    const block = Math.ceil(this.#options.limit() / 6)
    return (this.#saving ??= this.#save(block).finally(() => (this.#saving = undefined)))
  }

  async #save(block: number): Promise<void> {
    const { clock, store } = this.#options
    this.#expire()
    const now = clock.elapsed()
    const stored: StoredWindow = {
      savedAt: clock.now(),
      answered: this.#recent.ages(now),
      ahead: block + this.#inFlight - this.#unsent,
      blockedMs: Math.max(0, this.#blockedUntil - now),
      ...this.#allowance.stored(now),
    }
    await store.save(JSON.stringify(stored))
    this.#stored = block
  }

  async #load(): Promise<void> {
    const { clock, store } = this.#options
    const text = await store.load()
    const now = clock.elapsed()
    if (text === undefined) return
    const stored = JSON.parse(text) as StoredWindow
    const downMs = Math.max(0, clock.now() - stored.savedAt)
    // Unanswered requests may reach the server only now.
    const permits = [...stored.answered, [-downMs - IN_TRANSIT_MS, stored.ahead] as const]
    for (const [ageMs, count] of permits) this.#recent.restore(now - downMs - ageMs, count)
    this.#blockedUntil = now + stored.blockedMs - downMs
    this.#allowance.restore(stored, now - downMs)
    this.#expire()
  }
}

// How much of its limit a rate limiter uses: less after a 429, then growing. Monotonic ms.

/** After this long without a 429 the allowed number grows by a tenth of the limit. */
const RECOVERY_MS = 5 * MINUTE_MS
/** The factor that a 429 applies. */
const LOWERED_SHARE = 0.75

class Allowance {
  readonly #limit: () => number
  /** undefined: the whole limit, even if that changes */
  #lowered: number | undefined
  #changedAt = 0

  /** `limit` may change with the number of sharers. */
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
    this.#lowered = Math.max(1, Math.floor(this.at(now) * LOWERED_SHARE))
    this.#changedAt = now
  }

  stored(now: number): Pick<StoredWindow, 'lowered'> {
    return this.#lowered === undefined ? {} : { lowered: [this.#lowered, now - this.#changedAt] }
  }

  /** `storedAt`: the stored value grows from that time on. */
  restore({ lowered }: Pick<StoredWindow, 'lowered'>, storedAt: number): void {
    if (!lowered) return
    this.#lowered = lowered[0]
    this.#changedAt = storedAt - lowered[1]
  }
}

// The answers of the last minute, whose permits are not returned yet. Monotonic ms.

/** A permit is returned a little after its minute, for a server that includes the boundary. */
const MARGIN_MS = 50
/** Answers are counted in steps of this width, rounded up: bounded memory at any limit. */
const STEP_MS = 50

interface Answers {
  readonly at: number
  count: number
  /** undefined: from an earlier process */
  readonly priority: Priority | undefined
}

class RecentAnswers {
  /** by their time */
  readonly #answers: Answers[] = []
  #count = 0

  get count(): number {
    return this.#count
  }

  countOf(priority: Priority): number {
    return this.#answers.reduce((sum, one) => (one.priority === priority ? sum + one.count : sum), 0)
  }

  add(now: number, priority: Priority): void {
    const last = this.#answers.at(-1)
    const at = Math.max(Math.ceil(now / STEP_MS) * STEP_MS, last?.at ?? 0)
    const same = this.#answers.findLast((one) => one.at < at || one.priority === priority)
    if (same?.at === at) same.count++
    else this.#answers.push({ at, count: 1, priority })
    this.#count++
  }

  /** Answers of an earlier process. */
  restore(at: number, count: number): void {
    if (count <= 0) return
    this.#answers.push({ at, count, priority: undefined })
    this.#count += count
  }

  expire(now: number): void {
    for (let first = this.#answers[0]; first; first = this.#answers[0]) {
      if (first.at + MINUTE_MS + MARGIN_MS > now) break
      this.#count -= first.count
      this.#answers.shift()
    }
  }

  /**
   * Ms until `isEnough` holds: it is called with the permits returned by then, in total and of
   * `priority`. A minute if it never does.
   */
  backInMs(priority: Priority, now: number, isEnough: (back: number, ofPriority: number) => boolean): number {
    let back = 0
    let ofPriority = 0
    for (const one of this.#answers) {
      back += one.count
      if (one.priority === priority) ofPriority += one.count
      if (isEnough(back, ofPriority)) return one.at + MINUTE_MS + MARGIN_MS - now
    }
    return MINUTE_MS
  }

  /** [age, count] */
  ages(now: number): (readonly [number, number])[] {
    return this.#answers.map(({ at, count }) => [now - at, count])
  }
}

// The window of a rate limiter as the journal stores it across a restart.

/** Ages and spans: only `savedAt` uses the wall clock, which may have been set since. */
interface StoredWindow {
  /** epoch ms */
  readonly savedAt: number
  /** [age of the answer, count] */
  readonly answered: readonly (readonly [number, number])[]
  /** requests without an answer yet, and those that may have been sent since this was saved */
  readonly ahead: number
  readonly blockedMs: number
  /** [limit after a 429, time since then or since it last grew]; absent: the whole limit */
  readonly lowered?: readonly [number, number]
}

/** The one saved last: a sharer of the limiter may have been without it for a while. */
export function lastSaved(texts: readonly (string | undefined)[]): string | undefined {
  const savedAt = (text: string) => (JSON.parse(text) as StoredWindow).savedAt
  return texts.filter((text) => text !== undefined).toSorted((a, b) => savedAt(b) - savedAt(a))[0]
}

/** After this a lowered limit has grown back too. */
const STALE_AFTER_MS = 60 * MINUTE_MS

/** The saved window is over: an empty one is equivalent. */
export function isStale(text: string, now: number): boolean {
  const { savedAt, blockedMs } = JSON.parse(text) as StoredWindow
  return savedAt + Math.max(blockedMs, STALE_AFTER_MS) < now
}
