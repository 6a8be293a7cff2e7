// The rate limiters of all workspaces: workspaces with the same key on the same host share one
// limit (invariant 5).
import { sharingKey, keyIdOf } from '../config/workspace.ts'
import type { WorkspaceConfig } from '../config/schema.ts'
import type { Clock, Random } from '../core/clock.ts'
import type { State, StateEntry } from '../contracts/journal.ts'
import { ConnectorError } from '../core/errors.ts'
import { MINUTE_MS } from '../core/time.ts'
import { RateLimiter, isStale, lastSaved } from '../sources/http/rate-limiter.ts'
import type { RateLimiting } from '../sources/http/permits.ts'
import { JointRateLimiter } from '../sources/http/permits.ts'

/** Each area of the API has its own limit (spec §8), shared by all readers of the area. */
export type Area = keyof WorkspaceConfig['rate_limits']

interface RateLimitersOptions {
  readonly state: State
  readonly clock: Clock
  readonly random: Random
  /** No live reading, only jobs. */
  readonly jobsOnly?: boolean
}

type Asking = Pick<WorkspaceConfig, 'name' | 'base_url' | 'api_key' | 'rate_limits'>

/**
 * After a rotation both keys count for two minutes: it is unknown whether the limit belongs to the
 * key or the workspace (spec §8). One minute is the limit's own, the other is for workspaces that
 * notice the same rotation one after the other.
 */
const LINGER_MS = 2 * MINUTE_MS

/**
 * State entry of a limiter's window, by key and area. Before 0.1.0 it was named after the
 * workspace, which a reload may rename.
 */
const WINDOW = 'requests:'
const OLD_WINDOW = 'budget:'
/** Which keys count a workspace's requests: a key changed while no daemon runs was rotated too. */
const KEYS_USED = 'asked-with:'
/** Until when each counts, epoch ms; null: the key in use. */
type Counting = readonly (readonly [key: string, until: number | null])[]
/** More than any journal has. */
const ALL = 100_000

export class RateLimiters {
  readonly #workspaces: readonly Asking[]
  readonly #options: RateLimitersOptions
  /** by workspace: the keys whose limit counts its requests, and until when; no end: the current */
  readonly #counting = new Map<string, Map<string, number>>()
  /** by key: the workspaces that have used it */
  readonly #users = new Map<string, Set<Asking>>()
  readonly #requested: (readonly [Asking, Area])[] = []
  /** by the name of their state entry */
  readonly #opened = new Map<string, RateLimiter>()

  constructor(workspaces: readonly Asking[], options: RateLimitersOptions) {
    this.#workspaces = workspaces
    this.#options = options
    for (const workspace of workspaces) this.#keysOf(workspace)
  }

  /** The names of the other workspaces that share the limiters of this one. */
  sharedWith(workspace: Asking): readonly string[] {
    const names = sharingKey(workspace, this.#workspaces).map(({ name }) => name)
    return names.filter((name) => name !== workspace.name)
  }

  /**
   * Loads the limiters requested so far: each then includes requests of an earlier process, or from
   * before a reload.
   */
  async load(): Promise<void> {
    const { state, clock } = this.#options
    for (const workspace of this.#workspaces) {
      const before = JSON.parse((await state.get(KEYS_USED + workspace.name)) ?? '[]') as Counting
      for (const [key, until] of before)
        this.#linger(workspace, key, until === null ? LINGER_MS : Math.min(until - clock.now(), LINGER_MS))
    }
    const rateLimiters = this.#requested.flatMap(([workspace, area]) => this.#rateLimitersOf(workspace, area))
    await Promise.all(rateLimiters.map((rateLimiter) => rateLimiter.load()))
    await this.#tidy()
  }

  /**
   * Counts this workspace's requests to one area, with its current key; with several keys the
   * lowest limit applies.
   */
  of(workspace: Asking, area: Area): RateLimiting {
    this.#requested.push([workspace, area])
    return new JointRateLimiter(() => this.#rateLimitersOf(workspace, area), this.#options.clock)
  }

  #rateLimitersOf(workspace: Asking, area: Area): readonly RateLimiter[] {
    return this.#keysOf(workspace).map((key) => this.#rateLimiter(key, area))
  }

  /** The keys whose limit counts this workspace's requests now. */
  #keysOf(workspace: Asking): readonly string[] {
    const now = this.#options.clock.elapsed()
    const key = keyIdOf(workspace)
    const counting = this.#counting.get(workspace.name) ?? new Map<string, number>()
    if (counting.get(key) !== Infinity) {
      for (const [other, until] of counting) if (until === Infinity) counting.set(other, now + LINGER_MS)
      const isRotated = counting.size > 0
      counting.set(key, Infinity)
      this.#counting.set(workspace.name, counting)
      this.#addUser(workspace, key)
      if (isRotated) this.#remember(workspace)
    }
    for (const [other, until] of counting) if (until <= now) this.#leave(workspace, other)
    return [...counting.keys()]
  }

  /** A key that this workspace used before this process, or before the last reload. */
  #linger(workspace: Asking, key: string, ms: number): void {
    const counting = this.#counting.get(workspace.name)
    if (!counting || counting.has(key) || ms <= 0) return
    counting.set(key, this.#options.clock.elapsed() + ms)
    this.#addUser(workspace, key)
  }

  /**
   * The key's limiter stays unchanged: the key may be used again, and requests may still wait
   * there, under the limit of its last user.
   */
  #leave(workspace: Asking, key: string): void {
    this.#counting.get(workspace.name)?.delete(key)
    const users = this.#users.get(key)
    if (users && users.size > 1) users.delete(workspace)
  }

  #addUser(workspace: Asking, key: string): void {
    const users = this.#users.get(key) ?? new Set()
    this.#users.set(key, users.add(workspace))
  }

  #rateLimiter(key: string, area: Area): RateLimiter {
    const name = `${WINDOW}${key}:${area}`
    const known = this.#opened.get(name)
    if (known) return known
    const { state, clock, random, jobsOnly = false } = this.#options
    const users = this.#users.get(key) ?? new Set()
    const old = [...users].map((user) => `${OLD_WINDOW}${user.name}:${area}`)
    const store = {
      load: async () => lastSaved(await Promise.all([name, ...old].map((each) => state.get(each)))),
      save: (value: string) => state.change({ drop: old, put: [{ name, value }] }),
    }
    const limit = () => Math.min(...[...users].map(({ rate_limits: limits }) => limits[area]))
    const rateLimiter = new RateLimiter({ limit, clock, random, store, jobsOnly })
    this.#opened.set(name, rateLimiter)
    return rateLimiter
  }

  #countingEntry({ name }: Asking): StateEntry {
    const { clock } = this.#options
    const sinceMs = clock.now() - clock.elapsed()
    const counting: Counting = [...(this.#counting.get(name) ?? [])].map(([key, until]) => [
      key,
      until === Infinity ? null : until + sinceMs,
    ])
    return { name: KEYS_USED + name, value: JSON.stringify(counting) }
  }

  #remember(workspace: Asking): void {
    const { state } = this.#options
    // A disk error shows again when the request takes its permit.
    state.change({ drop: [], put: [this.#countingEntry(workspace)] }).catch(() => undefined)
  }

  /** Stores which workspace uses which key, and deletes windows of keys and names that are gone. */
  async #tidy(): Promise<void> {
    const { state, clock } = this.#options
    const names = new Set(this.#workspaces.map(({ name }) => KEYS_USED + name))
    const known = await state.list(KEYS_USED, ALL)
    const windows = [...(await state.list(WINDOW, ALL)), ...(await state.list(OLD_WINDOW, ALL))]
    const drop = [
      ...known.filter(({ name }) => !names.has(name)),
      ...windows.filter(({ name, value }) => !this.#opened.has(name) && isStale(value, clock.now())),
    ].map(({ name }) => name)
    const put = this.#workspaces
      .map((one) => this.#countingEntry(one))
      .filter(({ name, value }) => !known.some((entry) => entry.name === name && entry.value === value))
    if (drop.length + put.length === 0) return
    // A failed write is repeated at the next start: a full disk must not prevent the start.
    await state.change({ drop, put }).catch((error: unknown) => {
      if (!(error instanceof ConnectorError) || error.code !== 'disk_full') throw error
    })
  }
}
