// The conductor of delivery: steps one sink's shipper, waits where there is nothing to do, and decides what an error means.
import { Tether } from '../model/abort.ts'
import { Streak, tellFailure } from '../model/streak.ts'
import { turns } from '../model/turns.ts'
import { retryDelayMs } from './retries.ts'
import type { LoopOptions, Stepper } from './stepper.ts'

/** Steps over what nobody wants have no wait in them: the rest of the process is served at least so often. */
const TURN_MS = 200

/**
 * Delivers until `signal` aborts, or until nothing more will come and nothing is owed. A step under way then comes to its
 * end, and what was sent is heard out, so that nothing stays in doubt, unless `cut` aborts too. Throws only what must stop the process.
 */
export async function ship(
  shipper: Stepper,
  options: LoopOptions,
  signal: AbortSignal,
  cut: AbortSignal = signal,
): Promise<void> {
  const streak = new Streak(() => options.clock.elapsed())
  const othersTurn = turns(options.clock, TURN_MS, signal)
  const stopped = () => signal.aborted
  while (!stopped()) {
    try {
      const result = await shipper.step(cut)
      if (result !== 'unproven' && streak.succeeded()) options.log.info('Delivery goes on again')
      if (typeof result !== 'number') {
        await othersTurn()
        continue
      }
      const { collectsForMs } = shipper
      if (collectsForMs === undefined) options.watch.state('idle')
      else options.watch.state('collecting', undefined, collectsForMs)
      if (result === Infinity && options.nothingMoreComes()) break
      await waitForMore(options, result, signal)
    } catch (error) {
      if (stopped()) break
      await options.clock.sleep(delayAfter(options, error, streak), signal)
    }
  }
  await shipper.hearOut?.(cut)
}

async function waitForMore(
  { journal, sink, clock }: LoopOptions,
  waitMs: number,
  signal: AbortSignal,
): Promise<void> {
  const wait = new Tether(signal)
  const waits = [journal.arrival(sink.name, wait.signal)]
  if (waitMs !== Infinity) waits.push(clock.sleep(waitMs, wait.signal))
  await Promise.race(waits)
  wait.close()
}

/** Says what is wrong, and how long to wait before the next try. Throws what no waiting cures. */
function delayAfter({ watch, log, random }: LoopOptions, error: unknown, streak: Streak): number {
  const { failure, count } = tellFailure(log, 'Delivery failed and will be tried again', streak, error)
  watch.retry(failure.code)
  const delayMs = retryDelayMs(failure, count, random)
  watch.state(failure.action === 'hold' ? 'held' : 'failing', failure, delayMs)
  return delayMs
}
