// What a request has to pass where several budgets count it: it has a place in each of them, or in none.
import type { Lane } from '../model/source.ts'
import type { Budget } from './budget.ts'

/** What is asked of a budget by those who send requests under it, and by those who tell of it. */
export type Budgeting = Pick<Budget, 'freeAt' | 'enter' | 'limited' | 'isLimited' | 'used' | 'close'>

export class JointBudget implements Budgeting {
  readonly #counting: () => readonly Budget[]

  /**
   * `counting` has those that count a request that is sent now, always in one order: two that take places in the same budgets would
   * otherwise wait for each other for ever.
   */
  constructor(counting: () => readonly Budget[]) {
    this.#counting = counting
  }

  freeAt(lane: Lane): number {
    return Math.max(...this.#counting().map((budget) => budget.freeAt(lane)))
  }

  get isLimited(): boolean {
    return this.#counting().some((budget) => budget.isLimited)
  }

  /** Of the one that has the least room. */
  get used(): Budget['used'] {
    const room = ({ places, allowed }: Budget['used']) => allowed - places
    const [least] = this.#counting()
      .map(({ used }) => used)
      .toSorted((a, b) => room(a) - room(b))
    return least ?? { places: 0, allowed: 0 }
  }

  async enter(lane: Lane, signal: AbortSignal, waiting?: () => void): Promise<() => void> {
    const leaves: (() => void)[] = []
    const leave = () => leaves.forEach((each) => each())
    try {
      for (const budget of this.#counting()) leaves.push(await budget.enter(lane, signal, waiting))
      return leave
    } catch (error) {
      leave()
      throw error
    }
  }

  async limited(retryAfterMs: number | undefined): Promise<void> {
    await Promise.all(this.#counting().map((budget) => budget.limited(retryAfterMs)))
  }

  async close(): Promise<void> {
    await Promise.all(this.#counting().map((budget) => budget.close()))
  }
}
