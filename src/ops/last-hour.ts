// What flowed in the last hour, in steps of half a minute: a fixed ring in memory, gone with the process. It has no timer: whoever counts or looks moves it on.
import type { Clock } from '../model/clock.ts'

const STEP_SECONDS = 30
const STEPS = 120

/** Oldest first, one number a step; the last step is still running. Younger than an hour: so many steps as there were. */
export interface LastHourStatus {
  readonly step_seconds: number
  /** new entries kept in the journal */
  readonly read: readonly number[]
  /** entries accepted, all sinks together */
  readonly delivered: readonly number[]
  /** entries that some sink was owed at the end of the step */
  readonly owed: readonly number[]
}

export interface LastHour {
  arrived(entries: number): void
  accepted(entries: number): void
  status(): LastHourStatus
}

/** `owedNow` is asked once a step, and by `status`. Time is the clock that only runs: a jump of the other leaves no hole. */
export function openLastHour(clock: Pick<Clock, 'elapsed'>, owedNow: () => number): LastHour {
  const read = new Float64Array(STEPS)
  const delivered = new Float64Array(STEPS)
  const owed = new Float64Array(STEPS)
  const startedAt = clock.elapsed()
  let step = 0

  const moveOn = (): number => {
    const now = Math.max(step, Math.floor((clock.elapsed() - startedAt) / 1000 / STEP_SECONDS))
    if (now > step) {
      // Nothing happened since, or this would have been called: what is owed now was owed at the end of each step between.
      const level = owedNow()
      owed[step % STEPS] = level
      for (let next = Math.max(step + 1, now - STEPS + 1); next <= now; next++) {
        read[next % STEPS] = 0
        delivered[next % STEPS] = 0
        owed[next % STEPS] = level
      }
      step = now
    }
    return step % STEPS
  }

  const add = (series: Float64Array) => (entries: number) => {
    const at = moveOn()
    series[at] = (series[at] ?? 0) + entries
  }
  const inOrder = (series: Float64Array): number[] => {
    const first = Math.max(0, step - STEPS + 1)
    return Array.from({ length: step - first + 1 }, (_, i) => series[(first + i) % STEPS] ?? 0)
  }

  return {
    arrived: add(read),
    accepted: add(delivered),
    status() {
      owed[moveOn()] = owedNow()
      return {
        step_seconds: STEP_SECONDS,
        read: inOrder(read),
        delivered: inOrder(delivered),
        owed: inOrder(owed),
      }
    },
  }
}
