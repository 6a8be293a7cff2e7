// The answers of the last minute, each of which still takes its permit. All times are ms of one clock that only runs.
import type { Lane } from '../../model/source.ts'
import { MINUTE_MS } from '../../model/time.ts'

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

export class RecentAnswers {
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
