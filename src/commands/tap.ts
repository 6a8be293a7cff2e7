// `tap`: live samples of what a sink is sent. They are content: only where the configuration allows it, only through the running daemon.
import { configFile } from './config-file.ts'
import { showContent } from './export-file.ts'
import { reachDaemon } from './known-config.ts'
import { isKnown } from './named.ts'
import { exitCodes, type World } from './world.ts'

interface TapOptions {
  readonly config?: string
  readonly sink: string
  readonly limit: number
}

const WAIT_MS = 2_000
const LF = Buffer.from('\n')

/** Until so many lines were shown, until nobody reads them, or until the signal. */
export async function tap(world: World, { config: given, sink, limit }: TapOptions): Promise<number> {
  const file = configFile(world, given)
  const { config, client } = await reachDaemon(file, world)
  // What the daemon runs with may not be what the file says by now.
  const { sinks } = client ? await client.status() : config
  if (!isKnown(world, 'sink', sink, sinks)) return exitCodes.usage
  if (!client) {
    world.stderr(`auditferry: no daemon runs on ${file}: there is nothing to look into\n`)
    return exitCodes.failed
  }
  // Whether it may be looked into the daemon says: nobody is told to wait for a refusal.
  await client.tap(sink, 1, 0)
  world.stderr(`auditferry: waiting for what ${sink} is sent next; Ctrl-C ends it\n`)
  for (let left = limit; left > 0 && !world.signal.aborted;) {
    const lines = await client.tap(sink, left, WAIT_MS)
    for (const line of lines)
      if (!(await showContent(world, line.at(-1) === LF[0] ? line : Buffer.concat([line, LF]))))
        return exitCodes.done
    left -= lines.length
  }
  return exitCodes.done
}
