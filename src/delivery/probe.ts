// Probes a receiver at the start, in parallel with deliveries, so that a fault shows before the
// first entries are due.
import { orAborted } from '../core/abort.ts'
import { FailureBackoff, logFailure } from '../core/backoff.ts'
import { BLOCKED_TEXT, retryDelayMs } from './loop.ts'
import type { LoopOptions } from './loop.ts'

const texts = { failed: 'The receiver is not ready and will be asked again', blocked: BLOCKED_TEXT }

/**
 * Runs until the receiver is ready, a delivery is over, or `signal` aborts. Throws only errors that
 * end all loops.
 */
export async function probe(
  { sink, reporter, log, clock, random }: LoopOptions,
  signal: AbortSignal,
): Promise<void> {
  if (!sink.probe) return
  const failures = new FailureBackoff(() => clock.elapsed())
  const over = () => signal.aborted || reporter.tried()
  while (!over()) {
    try {
      // A hanging disk does not react to the signal.
      await orAborted(sink.probe(signal), signal)
      reporter.probed()
      if (failures.succeeded()) log.info('The receiver is ready')
      return
    } catch (error) {
      if (over()) return
      const { failure, delayMs } = logFailure(log, texts, failures, error, (failure, count) =>
        retryDelayMs(failure, count, random),
      )
      reporter.probed(failure, delayMs)
      await clock.sleep(delayMs, signal)
    }
  }
}
