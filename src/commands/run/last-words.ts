// What ends the daemon, or the demo, as a line of its log: for who reads that alone. The plain line that follows is for who stands before it.
import type { Log } from '../../model/log.ts'
import { errorFields } from '../../ops/log.ts'
import type { World } from '../shared/world.ts'

/** `work` says which log it has, each time that it is another one: a changed configuration brings its own, which masks its own secrets. */
export async function withLastWords<T>(
  { onBug }: Pick<World, 'onBug'>,
  work: (useLog: (log: Log) => void) => Promise<T>,
): Promise<T> {
  let log: Log | undefined
  const tell = (error: unknown) => log?.error('The daemon cannot go on, and ends', errorFields(error))
  onBug?.(tell)
  try {
    return await work((now) => void (log = now))
  } catch (error) {
    tell(error)
    throw error
  }
}
