// Long work, cut into turns: probes and signals are heard in between.
import type { Clock } from './clock.ts'
import { ConnectorError } from './errors.ts'

/** To be awaited between two pieces of work: lets others have a turn each `turnMs`. Throws ConnectorError `aborted`. */
export function turns(clock: Clock, turnMs: number, signal: AbortSignal): () => Promise<void> | undefined {
  let since = clock.elapsed()
  const pause = async () => {
    await clock.sleep(0, signal)
    if (signal.aborted) throw new ConnectorError('aborted', 'Stopped')
    since = clock.elapsed()
  }
  return () => (clock.elapsed() - since >= turnMs ? pause() : undefined)
}
