// Writes a note for what reads the past, where no loop above would try again: a disk too full even for that is waited out.
import type { Clock } from '../model/clock.ts'
import { ConnectorError } from '../model/errors.ts'
import type { Progress } from './progress.ts'

const TRY_AGAIN_MS = 5_000

/** False: it was stopped first, and nothing of it was kept. Rejects with what must stop the process. */
export async function keepUnlessStopped(
  write: () => Promise<void>,
  progress: Progress,
  clock: Pick<Clock, 'sleep'>,
  signal: AbortSignal,
): Promise<boolean> {
  const stopped = () => signal.aborted
  while (!stopped()) {
    try {
      await write()
      progress.error = undefined
      return true
    } catch (error) {
      if (!(error instanceof ConnectorError) || error.action === 'exit') throw error
      progress.error = error
      await clock.sleep(TRY_AGAIN_MS, signal)
    }
  }
  return false
}
