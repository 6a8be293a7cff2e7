// The answers of the last minute, each of which still takes its place in a budget. All times are ms of one clock that only runs.
import { MINUTE_MS } from '../../model/time.ts'

/** A place comes back a little after its minute, so that a server that counts the boundary in is not crossed. */
const MARGIN_MS = 50
/** Answers are remembered in steps of this width, rounded up: bounded memory at any limit. */
const STEP_MS = 50

export class RecentAnswers {
  readonly #answers: [at: number, count: number][] = []
  #count = 0

  get count(): number {
    return this.#count
  }

  add(now: number): void {
    const at = Math.ceil(now / STEP_MS) * STEP_MS
    const last = this.#answers[this.#answers.length - 1]
    if (last && last[0] >= at) last[1]++
    else this.#answers.push([at, 1])
    this.#count++
  }

  /** Those of a process before this one. */
  restore(at: number, count: number): void {
    if (count <= 0) return
    this.#answers.push([at, count])
    this.#count += count
  }

  expire(now: number): void {
    for (let first = this.#answers[0]; first; first = this.#answers[0]) {
      if (first[0] + MINUTE_MS + MARGIN_MS > now) break
      this.#count -= first[1]
      this.#answers.shift()
    }
  }

  /** How long until so many places have come back; a minute where there are not as many. */
  backInMs(places: number, now: number): number {
    let left = places
    for (const [at, count] of this.#answers) {
      left -= count
      if (left <= 0) return at + MINUTE_MS + MARGIN_MS - now
    }
    return MINUTE_MS
  }

  /** [how long ago they came, how many] */
  ages(now: number): (readonly [number, number])[] {
    return this.#answers.map(([at, count]) => [now - at, count])
  }
}
