// Small facts of those who read the past, written where no loop above would try again: a disk too full even for them is waited out, as everywhere else.
import type { Clock } from '../model/clock.ts'
import { ConnectorError } from '../model/errors.ts'
import type { Walking } from './ranges.ts'

const TRY_AGAIN_MS = 5_000

/** False: the signal came first, and nothing of it has landed. Rejects with what must stop the process. */
export async function landed(
  write: () => Promise<void>,
  walking: Walking,
  clock: Pick<Clock, 'sleep'>,
  signal: AbortSignal,
): Promise<boolean> {
  const stopped = () => signal.aborted
  while (!stopped()) {
    try {
      await write()
      walking.error = undefined
      return true
    } catch (error) {
      if (!(error instanceof ConnectorError) || error.action === 'exit') throw error
      walking.error = error
      await clock.sleep(TRY_AGAIN_MS, signal)
    }
  }
  return false
}
