// `backfill`: has the running daemon read a span of the past again, and follows it. It goes on without the command, and over restarts.
import { sourcesOf } from '../config/schema.ts'
import type { Config } from '../config/schema.ts'
import type { Backfill, PastChoice, PastSpan, Unread } from '../contracts/jobs.ts'
import { sourceNames } from '../contracts/source.ts'
import type { SourceName } from '../contracts/source.ts'
import { connectControl } from '../control/client.ts'
import type { Clock } from '../core/clock.ts'
import { printable } from '../core/printable.ts'
import { secondText } from '../core/time.ts'
import { countText, numberText } from '../observability/words.ts'
import { systemClock } from '../platform/clock.ts'
import { configFile, knownConfig } from './shared/config-file.ts'
import { follow, gapsText, percentText, tellAll, tellCancelled, withoutDaemon } from './shared/follow.ts'
import type { Following } from './shared/follow.ts'
import { spanOf } from './shared/instants.ts'
import { reachDaemon } from './shared/journal.ts'
import { isKnown } from './shared/names.ts'
import { exitCodes } from './shared/world.ts'
import type { World } from './shared/world.ts'

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
    world.stderr('error: expected --from <time>, --status or --cancel\n')
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
  const sinceMs = clock.now() - journal.dedup_retention
  if (fromUs / 1000 >= sinceMs) return
  stderr(
    `auditferry: what is older than ${secondText(sinceMs)} (journal.dedup_retention) may no longer be known: such entries are kept and sent again, with the same ids\n`,
  )
}

// What `backfill` says of those that are followed: how far they are, what they found, and what of their span stayed unread.

const BAR_WIDTH = 30
/** Parts that stayed unread. */
const NAMED = 5

const backfillsFollowed: Following<Backfill> = {
  what: 'backfill',
  title: 'backfill',
  stays: (whose) => `what ${whose} read stays`,
  heard: (client) => client.backfills(),
  begunAt: ({ begunAt }) => begunAt,
  nameText,
  ratio: ratioOf,
  countsText,
  isWhole: ({ counts, unread }) => counts.gaps === 0 && unread.length === 0,
  endText: (one, ended) =>
    `${nameText(one)}, ${spanText(one)}: ${ended}: ${countsText(one)}${unreadText(one.unread)}`,
  barText,
}

function nameText({ origin }: Backfill): string {
  return printable(`${origin.workspace} ${origin.source}`)
}

function ratioOf({ fromUs, toUs, atUs, endedAt }: Backfill): number {
  if (endedAt !== undefined) return 1
  return atUs === undefined ? 0 : Math.min(1, Math.max(0, (atUs - fromUs) / (toUs - fromUs)))
}

function barText(all: readonly Backfill[]): string {
  const ratio = all.reduce((sum, one) => sum + ratioOf(one), 0) / Math.max(1, all.length)
  const done = Math.round(ratio * BAR_WIDTH)
  const [first] = all
  const name = all.length === 1 && first ? nameText(first) : countText(all.length, 'backfills')
  const read = all.reduce((sum, { counts }) => sum + counts.read, 0)
  const fresh = all.reduce((sum, { counts }) => sum + counts.new, 0)
  const counts = `${countText(read, 'entries')} read, ${countText(fresh, 'new')}`
  return `${name} [${'#'.repeat(done)}${'.'.repeat(BAR_WIDTH - done)}] ${percentText(ratio)}  ${counts}`
}

function countsText({ counts }: Backfill): string {
  const { read, new: fresh, known, filtered, quarantined, gaps } = counts
  return `${numberText(read)} read, ${numberText(fresh)} new, ${numberText(known)} known, ${numberText(filtered)} filtered, ${numberText(quarantined)} quarantined${gapsText(gaps)}`
}

const spanText = ({ fromUs, toUs }: PastSpan) => `${secondText(fromUs / 1000)} to ${secondText(toUs / 1000)}`

const unreadWhy = {
  refused: 'refused by the API with 400 (the span may be too far in the past)',
  unreadable: 'unreadable while other times could be read (try again later)',
} as const

function unreadText(unread: readonly Unread[]): string {
  const named = unread
    .slice(0, NAMED)
    .map((part) => `\n  not read: ${spanText(part)}: ${unreadWhy[part.why]}`)
  const more = unread.length - NAMED
  return `${named.join('')}${more > 0 ? `\n  and ${more} more` : ''}`
}
