// The request budgets of all workspaces: those that are read with one key on one host share what may be asked (invariant 5).
import { askingAsOne, keyIdOf } from '../config/workspace.ts'
import type { WorkspaceConfig } from '../config/schema.ts'
import type { Clock, Random } from '../core/clock.ts'
import type { Journal } from '../contracts/journal.ts'
import { ConnectorError } from '../core/errors.ts'
import { MINUTE_MS } from '../core/time.ts'
import { Budget, isStale, lastSaved } from '../sources/http/rate-limiter.ts'
import type { Budgeting } from '../sources/http/permits.ts'
import { JointBudget } from '../sources/http/permits.ts'

/** The areas of the API have limits of their own (spec §8), shared by all that reads in one. */
export type Area = keyof WorkspaceConfig['rate_limits']

interface BudgetsOptions {
  readonly journal: Pick<Journal, 'note' | 'notes' | 'changeNotes'>
  readonly clock: Clock
  readonly random: Random
  /** Nobody reads live, only the past is asked for. */
  readonly pastAlone?: boolean
}

type Asking = Pick<WorkspaceConfig, 'name' | 'base_url' | 'api_key' | 'rate_limits'>

/**
 * After a rotation both keys count for two minutes: we cannot know whether the limit is the key's or the workspace's (spec §8).
 * One minute is the limit's own, another is for workspaces that learn of one rotation one after the other.
 */
const LINGER_MS = 2 * MINUTE_MS

/** A budget's window by its key and area. Until 0.1.0 came out it went by the workspace's name, which a reload may change. */
const WINDOW = 'requests:'
const OLD_WINDOW = 'budget:'
/** Which keys count what a workspace asks: one that is changed while nobody runs was rotated too. */
const ASKED_WITH = 'asked-with:'
/** Until when each counts, epoch ms; null: it is the one that is asked with. */
type Counting = readonly (readonly [key: string, until: number | null])[]
/** More than any journal has. */
const ALL = 100_000

function unlessFull(error: unknown): void {
  if (!(error instanceof ConnectorError) || error.code !== 'disk_full') throw error
}

export class Budgets {
  readonly #workspaces: readonly Asking[]
  readonly #options: BudgetsOptions
  /** by a workspace's name: the keys whose limit counts what it asks, and until when; the one that it asks with until ever */
  readonly #counting = new Map<string, Map<string, number>>()
  /** by a key: who has asked with it */
  readonly #holders = new Map<string, Set<Asking>>()
  readonly #asked: (readonly [Asking, Area])[] = []
  /** by their note's name */
  readonly #opened = new Map<string, Budget>()

  constructor(workspaces: readonly Asking[], options: BudgetsOptions) {
    this.#workspaces = workspaces
    this.#options = options
    for (const workspace of workspaces) this.#keysOf(workspace)
  }

  /** The names of the others that share the budgets of this one. */
  sharedWith(workspace: Asking): readonly string[] {
    const names = askingAsOne(workspace, this.#workspaces).map(({ name }) => name)
    return names.filter((name) => name !== workspace.name)
  }

  /** Loads the budgets that were asked for so far: from then on each tells what an earlier process, or the one before a reload, has used. */
  async load(): Promise<void> {
    const { journal, clock } = this.#options
    for (const workspace of this.#workspaces) {
      const before = JSON.parse((await journal.note(ASKED_WITH + workspace.name)) ?? '[]') as Counting
      for (const [key, until] of before)
        this.#linger(workspace, key, until === null ? LINGER_MS : Math.min(until - clock.now(), LINGER_MS))
    }
    const budgets = this.#asked.flatMap(([workspace, area]) => this.#budgetsOf(workspace, area))
    await Promise.all(budgets.map((budget) => budget.load()))
    await this.#tidy()
  }

  /** What counts this workspace's requests to one area, whatever key it has by then; of the limits of all that have a key the least holds. */
  of(workspace: Asking, area: Area): Budgeting {
    this.#asked.push([workspace, area])
    return new JointBudget(() => this.#budgetsOf(workspace, area), this.#options.clock)
  }

  #budgetsOf(workspace: Asking, area: Area): readonly Budget[] {
    return this.#keysOf(workspace).map((key) => this.#budget(key, area))
  }

  /** The keys whose limit counts what this workspace asks now. */
  #keysOf(workspace: Asking): readonly string[] {
    const now = this.#options.clock.elapsed()
    const key = keyIdOf(workspace)
    const counting = this.#counting.get(workspace.name) ?? new Map<string, number>()
    if (counting.get(key) !== Infinity) {
      for (const [other, until] of counting) if (until === Infinity) counting.set(other, now + LINGER_MS)
      const isRotated = counting.size > 0
      counting.set(key, Infinity)
      this.#counting.set(workspace.name, counting)
      this.#hold(workspace, key)
      if (isRotated) this.#remember(workspace)
    }
    for (const [other, until] of counting) if (until <= now) this.#leave(workspace, other)
    return [...counting.keys()]
  }

  /** A key that this workspace asked with before this process, or the last reload. */
  #linger(workspace: Asking, key: string, ms: number): void {
    const counting = this.#counting.get(workspace.name)
    if (!counting || counting.has(key) || ms <= 0) return
    counting.set(key, this.#options.clock.elapsed() + ms)
    this.#hold(workspace, key)
  }

  /** The key's budget stays, as it is: it may be taken again, and somebody may still wait there, under the limit of the last to have it. */
  #leave(workspace: Asking, key: string): void {
    this.#counting.get(workspace.name)?.delete(key)
    const holders = this.#holders.get(key)
    if (holders && holders.size > 1) holders.delete(workspace)
  }

  #hold(workspace: Asking, key: string): void {
    const holders = this.#holders.get(key) ?? new Set()
    this.#holders.set(key, holders.add(workspace))
  }

  #budget(key: string, area: Area): Budget {
    const note = `${WINDOW}${key}:${area}`
    const known = this.#opened.get(note)
    if (known) return known
    const { journal, clock, random, pastAlone = false } = this.#options
    const holders = this.#holders.get(key) ?? new Set()
    const old = [...holders].map(({ name }) => `${OLD_WINDOW}${name}:${area}`)
    const store = {
      load: async () => lastSaved(await Promise.all([note, ...old].map((name) => journal.note(name)))),
      save: (value: string) => journal.changeNotes({ drop: old, put: [{ name: note, value }] }),
    }
    const limit = () => Math.min(...[...holders].map(({ rate_limits: limits }) => limits[area]))
    const budget = new Budget({ limit, clock, random, store, pastAlone })
    this.#opened.set(note, budget)
    return budget
  }

  #countingNote({ name }: Asking): { name: string; value: string } {
    const { clock } = this.#options
    const sinceMs = clock.now() - clock.elapsed()
    const counting: Counting = [...(this.#counting.get(name) ?? [])].map(([key, until]) => [
      key,
      until === Infinity ? null : until + sinceMs,
    ])
    return { name: ASKED_WITH + name, value: JSON.stringify(counting) }
  }

  #remember(workspace: Asking): void {
    const { journal } = this.#options
    // What the disk has against it, the request's own place in a budget meets too.
    journal.changeNotes({ drop: [], put: [this.#countingNote(workspace)] }).catch(() => undefined)
  }

  /** Remembers who asks with which key, and forgets the windows that say nothing any more: of keys and names that are gone. */
  async #tidy(): Promise<void> {
    const { journal, clock } = this.#options
    const names = new Set(this.#workspaces.map(({ name }) => ASKED_WITH + name))
    const known = await journal.notes(ASKED_WITH, ALL)
    const windows = [...(await journal.notes(WINDOW, ALL)), ...(await journal.notes(OLD_WINDOW, ALL))]
    const drop = [
      ...known.filter(({ name }) => !names.has(name)),
      ...windows.filter(({ name, value }) => !this.#opened.has(name) && isStale(value, clock.now())),
    ].map(({ name }) => name)
    const put = this.#workspaces
      .map((one) => this.#countingNote(one))
      .filter(({ name, value }) => !known.some((note) => note.name === name && note.value === value))
    if (drop.length + put.length === 0) return
    // What cannot be written now is written at the next start: nobody is kept from starting by a full disk.
    await journal.changeNotes({ drop, put }).catch(unlessFull)
  }
}
