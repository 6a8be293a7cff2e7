// Asks a receiver at the start whether it is there, beside its deliveries: what is wrong with it shows before the first of them is due.
import { orAborted } from '../core/abort.ts'
import { Streak, tellFailure } from '../core/backoff.ts'
import { retryDelayMs } from './loop.ts'
import type { LoopOptions } from './loop.ts'

/** Until it is there, or a delivery is over, or `signal` aborts. Throws only what must stop the process. */
export async function probe(
  { sink, watch, log, clock, random }: LoopOptions,
  signal: AbortSignal,
): Promise<void> {
  if (!sink.probe) return
  const streak = new Streak(() => clock.elapsed())
  const over = () => signal.aborted || watch.tried()
  while (!over()) {
    try {
      // A disk that hangs is deaf to the signal.
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
