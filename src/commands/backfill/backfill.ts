// `backfill`: has the running daemon read a span of the past again, and follows it. It goes on without the command, and over restarts.
import { sourcesOf } from '../../config/schema.ts'
import type { Config } from '../../config/schema.ts'
import type { Clock } from '../../model/clock.ts'
import type { PastChoice } from '../../model/backfill.ts'
import { sourceNames, type SourceName } from '../../model/source.ts'
import { secondText } from '../../model/time.ts'
import { systemClock } from '../../ops/clock.ts'
import { connectControl } from '../../ops/control-client.ts'
import { backfillsFollowed } from './followed.ts'
import { configFile } from '../shared/config-file.ts'
import { follow, tellAll, tellCancelled, withoutDaemon } from '../shared/follow.ts'
import { spanOf } from '../shared/instants.ts'
import { knownConfig } from '../shared/known-config.ts'
import { reachDaemon } from '../shared/reach.ts'
import { isKnown } from '../shared/named.ts'
import { exitCodes, type World } from '../shared/world.ts'

export interface BackfillCommandOptions {
  readonly config?: string
  readonly from?: string
  readonly to?: string
  readonly workspace?: string
  readonly source?: string
  readonly status: boolean
  readonly cancel: boolean
}

/** The vault's inventory has no past, and the assistant's prompts are in the history. */
const again: readonly SourceName[] = ['audit', 'history.usage', 'history.query']

export async function backfill(
  world: World,
  options: BackfillCommandOptions,
  clock: Clock = systemClock,
): Promise<number> {
  const file = configFile(world, options.config)
  if (options.status || options.cancel) return look(world, file, options)
  if (options.from === undefined) {
    world.stderr('error: want --from <time>, --status or --cancel\n')
    return exitCodes.usage
  }
  const span = spanOf(world, options.from, options.to, clock.now())
  if (!span) return exitCodes.usage
  const config = knownConfig(file, world)
  const choice = choiceOf(world, config, options)
  if (!choice) return exitCodes.usage
  const connect = () => connectControl(config.journal.path)
  const client = await connect()
  if (!client) return withoutDaemon(world, file, 'a backfill')
  warnOfRepeats(world, span.fromUs, config, clock)
  const begun = await client.backfill(choice, span)
  return follow(world, backfillsFollowed, begun, connect, clock)
}

/** What only asks the daemon: it knows of what this file, faulty or not, may no longer name. */
async function look(
  world: World,
  file: string,
  { status, workspace, source }: BackfillCommandOptions,
): Promise<number> {
  const wanted = again.find((name) => name === source)
  if (source !== undefined && wanted === undefined) {
    world.stderr(withoutPast(source))
    return exitCodes.usage
  }
  const { client, there } = await reachDaemon(file, world)
  if (!client) return withoutDaemon(world, file, 'a backfill')
  if (status) return tellAll(world, backfillsFollowed, client, { workspace, source }, there)
  const choice = { ...(workspace !== undefined && { workspace }), ...(wanted && { source: wanted }) }
  const count = await client.cancelBackfill(choice)
  // One that is under way is ended also where its workspace has left the configuration.
  if (count === 0 && !isKnown(world, 'workspace', workspace, (await there()).workspaces))
    return exitCodes.usage
  return tellCancelled(world, backfillsFollowed, count)
}

const withoutPast = (source: string): string => {
  const fault = sourceNames.some((name) => name === source)
    ? `--source ${source} has no past that could be read again`
    : `there is no source ${source}`
  return `error: ${fault}; there are ${again.join(', ')}\n`
}

function choiceOf(
  world: World,
  { workspaces }: Config,
  { workspace, source }: BackfillCommandOptions,
): PastChoice | undefined {
  if (!isKnown(world, 'workspace', workspace, workspaces)) return undefined
  const wanted = again.find((name) => name === source)
  if (source !== undefined && wanted === undefined) {
    world.stderr(withoutPast(source))
    return undefined
  }
  if (wanted && !workspaces.some((one) => sourcesOf(one).includes(wanted))) {
    world.stderr(`error: --source ${source} is not switched on at any workspace: nothing reads it\n`)
    return undefined
  }
  return {
    ...(workspace === undefined ? {} : { workspace }),
    ...(wanted === undefined ? {} : { source: wanted }),
  }
}

/** What is no longer known is taken for new. */
function warnOfRepeats({ stderr }: World, fromUs: number, { journal }: Config, clock: Clock): void {
  const sinceMs = clock.now() - journal.keep_keys
  if (fromUs / 1000 >= sinceMs) return
  stderr(
    `auditferry: what is older than ${secondText(sinceMs)} (journal.keep_keys) may no longer be known: such entries are kept and sent again, with the same ids\n`,
  )
}
