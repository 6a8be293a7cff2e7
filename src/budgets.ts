// The request budgets of all workspaces: those that are read with one key on one host share what may be asked (law 5).
import type { WorkspaceConfig } from './config/schema.ts'
import type { Clock, Random } from './model/clock.ts'
import type { Journal } from './model/journal.ts'
import { lastSaved } from './source/budget-stored.ts'
import { Budget } from './source/budget.ts'

/** The areas of the API have limits of their own (spec §8), shared by all that reads in one. */
export type Area = keyof WorkspaceConfig['rate_limits']

export interface BudgetsOptions {
  readonly journal: Pick<Journal, 'note' | 'changeNotes'>
  readonly clock: Clock
  readonly random: Random
}

type Asking = Pick<WorkspaceConfig, 'name' | 'base_url' | 'api_key' | 'rate_limits'>

function mayAskAsOne(a: Asking, b: Asking): boolean {
  return new URL(a.base_url).host === new URL(b.base_url).host && a.api_key.reveal() === b.api_key.reveal()
}

export class Budgets {
  readonly #options: BudgetsOptions
  /** by a workspace's name: all that share its budgets, in the configuration's order */
  readonly #sharing: ReadonlyMap<string, readonly Asking[]>
  readonly #opened = new Map<string, Budget>()

  /** Who shares is decided here, once: keys that are rotated one after the other do not part them. */
  constructor(workspaces: readonly Asking[], options: BudgetsOptions) {
    this.#options = options
    this.#sharing = new Map(
      workspaces.map((one) => [one.name, workspaces.filter((other) => mayAskAsOne(one, other))]),
    )
  }

  /** The names of the others that share the budgets of this one. */
  sharedWith(workspace: string): readonly string[] {
    const sharing = this.#sharing.get(workspace) ?? []
    return sharing.map(({ name }) => name).filter((name) => name !== workspace)
  }

  /** Of those opened so far: from then on each tells what an earlier process, or the one before a reload, has used. */
  async load(): Promise<void> {
    await Promise.all([...this.#opened.values()].map((budget) => budget.load()))
  }

  /** Kept in the journal under the name of each that shares it, whoever of them is left tomorrow; of their limits the least holds. */
  of(workspace: Asking, area: Area): Budget {
    const sharing = this.#sharing.get(workspace.name) ?? [workspace]
    const notes = sharing.map(({ name }) => `budget:${name}:${area}`)
    const [first = ''] = notes
    const known = this.#opened.get(first)
    if (known) return known
    const { journal, clock, random } = this.#options
    const store = {
      load: async () => lastSaved(await Promise.all(notes.map((note) => journal.note(note)))),
      save: (state: string) =>
        journal.changeNotes({ drop: [], put: notes.map((name) => ({ name, value: state })) }),
    }
    const limit = Math.min(...sharing.map(({ rate_limits: limits }) => limits[area]))
    const budget = new Budget({ limit, clock, random, store })
    this.#opened.set(first, budget)
    return budget
  }
}
