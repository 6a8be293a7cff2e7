// `tap`: live samples of what a sink is sent. They are content: only where the configuration allows it, only through the running daemon.
import type { StatusReport } from '../ops/status.ts'
import { plain } from './columns.ts'
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
  let told: string | undefined
  for (let left = limit; left > 0 && !world.signal.aborted;) {
    const lines = await client.tap(sink, left, WAIT_MS)
    const why = lines.length === 0 ? whyNothing(await client.status(), sink) : undefined
    if (why !== undefined && why !== told) world.stderr(`auditferry: ${why}\n`)
    told = why
    for (const line of lines)
      if (!(await showContent(world, line.at(-1) === LF[0] ? line : Buffer.concat([line, LF]))))
        return exitCodes.done
    left -= lines.length
  }
  return exitCodes.done
}

/** What keeps lines from coming, where that is known. */
function whyNothing({ journal, sinks }: StatusReport, name: string): string | undefined {
  const sink = sinks.find((one) => one.name === name)
  if (sink && (sink.state === 'held' || sink.state === 'failing'))
    return `${name} takes nothing just now: it is ${sink.state}${sink.error ? `: ${plain(sink.error.message)}` : ''}`
  if (!journal.paused) return undefined
  return 'reading is paused, so nothing new comes: auditferry status says why'
}
