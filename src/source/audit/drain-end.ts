// The end of a drain: the head reader has nothing to ask for until its next poll.
import type { Drain } from './cursor.ts'
import type { Step } from './step.ts'
import { currentPace } from './step.ts'
import { smoothRate } from './tiers.ts'

/** The drain is over: everything that was there when it began has been read. */
export function endDrain(step: Step, drain: Drain): void {
  giveUpDrain(step, drain)
  step.cursor.caughtUp = true
  step.options.watch.caughtUp()
}

/** The drain ends without having read all: the next poll tries again. */
export function giveUpDrain(step: Step, drain: Drain): void {
  const { cursor, options } = step
  const now = options.clock.now()
  cursor.perHour = smoothRate(
    cursor.perHour,
    drain.entries,
    cursor.polledAt === 0 ? 0 : now - cursor.polledAt,
  )
  cursor.polledAt = now
  cursor.dueAt = now + currentPace(step).intervalMs
  cursor.probe = drain.probe
  cursor.drain = null
}
