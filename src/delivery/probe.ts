// Probes a receiver at the start, in parallel with deliveries, so that a fault shows before the
// first entries are due.
import { orAborted } from '../core/abort.ts'
import { Streak, tellFailure } from '../core/backoff.ts'
import { retryDelayMs } from './loop.ts'
import type { LoopOptions } from './loop.ts'

/**
 * Runs until the receiver is ready, a delivery is over, or `signal` aborts. Throws only errors that
 * must stop the process.
 */
export async function probe(
  { sink, watch, log, clock, random }: LoopOptions,
  signal: AbortSignal,
): Promise<void> {
  if (!sink.probe) return
  const streak = new Streak(() => clock.elapsed())
  const over = () => signal.aborted || watch.tried()
  while (!over()) {
    try {
      // A hanging disk does not react to the signal.
      await orAborted(sink.probe(signal), signal)
      watch.probed()
      if (streak.succeeded()) log.info('The receiver is ready')
      return
    } catch (error) {
      if (over()) return
      const { failure, count } = tellFailure(
        log,
        'The receiver is not ready and will be asked again',
        streak,
        error,
      )
      const delayMs = retryDelayMs(failure, count, random)
      watch.probed(failure, delayMs)
      await clock.sleep(delayMs, signal)
    }
  }
}
