// Long work on one answer, cut into turns: probes and signals are heard in between.
import type { Clock } from '../model/clock.ts'
import { ConnectorError } from '../model/errors.ts'

const TURN_MS = 20

/** To be awaited between two pieces of work: lets others have a turn where this one was long. Throws ConnectorError `aborted`. */
export function turns(clock: Clock, signal: AbortSignal): () => Promise<void> | undefined {
  let since = clock.elapsed()
  const pause = async () => {
    await clock.sleep(0, signal)
    if (signal.aborted) throw new ConnectorError('aborted', 'Stopped')
    since = clock.elapsed()
  }
  return () => (clock.elapsed() - since >= TURN_MS ? pause() : undefined)
}
