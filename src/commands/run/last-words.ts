// What ends `run` or `demo`: a line of the log, or, on a terminal, one for people.
import { ConfigFaults } from '../../config/faults.ts'
import type { Log } from '../../model/log.ts'
import { logEnd } from '../../ops/log.ts'
import { exitCodeOf, type World } from '../shared/world.ts'

/**
 * Resolves with the exit code. Rejects with what is left to print: faults of the configuration, which have lines of their own, and on
 * a terminal any error. `work` says which log it has, each time that it is another one: a changed configuration brings its own, which
 * masks its own secrets.
 */
export async function withLastWords(
  { onBug, terminal }: Pick<World, 'onBug' | 'terminal'>,
  work: (useLog: (log: Log) => void) => Promise<number>,
): Promise<number> {
  let log: Log | undefined
  const report = (error: unknown) => logEnd(error, log)
  onBug?.(report)
  try {
    return await work((now) => void (log = now))
  } catch (error) {
    if (terminal || error instanceof ConfigFaults) throw error
    report(error)
    return exitCodeOf(error)
  }
}
