// `backfill`: has the running daemon read a span of the past again, and follows it. It goes on without the command, and over restarts.
import { sourcesOf } from '../config/schema.ts'
import type { Config } from '../config/schema.ts'
import type { Clock } from '../model/clock.ts'
import { ConnectorError } from '../model/errors.ts'
import type { Backfill, PastChoice, PastSpan, Unread } from '../model/past.ts'
import { isSameOrigin, sourceNames } from '../model/source.ts'
import type { SourceName } from '../model/source.ts'
import { secondText } from '../model/time.ts'
import { systemClock } from '../ops/clock.ts'
import { connectControl } from '../ops/control-client.ts'
import type { ControlClient } from '../ops/control-client.ts'
import { countText } from '../ops/status.ts'
import { plain } from './columns.ts'
import { configFile } from './config-file.ts'
import { spanOf } from './instants.ts'
import { configOrPlace, isFaulty, tellFaulty } from './known-config.ts'
import { exitCodes, type World } from './world.ts'

export interface BackfillCommandOptions {
  readonly config?: string
  readonly from?: string
  readonly to?: string
  readonly workspace?: string
  readonly source?: string
  readonly status: boolean
  readonly cancel: boolean
}

type Client = Pick<ControlClient, 'backfill' | 'backfills' | 'cancelBackfill'>

/** The vault's inventory has no past, and the assistant's prompts are in the history. */
const again: readonly SourceName[] = ['audit', 'history.usage', 'history.query']

const LOOK_MS = 1_000
const LINE_MS = 10_000
/** A daemon that restarts is back within this, or the command leaves it. */
const PATIENCE_MS = 30_000
const BAR_WIDTH = 30
/** To the line's beginning, and everything off it. */
const AGAIN = '\r\u001b[K'

export async function backfill(
  world: World,
  options: BackfillCommandOptions,
  clock: Clock = systemClock,
): Promise<number> {
  const file = configFile(world, options.config)
  const config = configOrPlace(file, world)
  if (isFaulty(config)) {
    const client = options.status ? await connectControl(config.place.journal.path) : undefined
    if (!client) throw config.faults
    tellFaulty(file, world)
    return tellAll(world, await client.backfills())
  }
  const choice = choiceOf(world, config, options)
  if (!choice) return exitCodes.usage
  const connect = () => connectControl(config.journal.path)
  const client = await connect()
  if (!client) {
    world.stderr(
      `auditferry: no daemon runs on ${file}, and a backfill needs one, since the daemon keeps the rate limit: start it with: auditferry run --config ${file}\n`,
    )
    return exitCodes.failed
  }
  if (options.status) return tellAll(world, await client.backfills())
  if (options.cancel) {
    const count = await client.cancelBackfill(choice)
    world.stdout(`${countText(count, 'backfills')} ended; what they read stays\n`)
    return exitCodes.done
  }
  if (options.from === undefined) {
    world.stderr('error: want --from <time>, --status or --cancel\n')
    return exitCodes.usage
  }
  const span = spanOf(world, options.from, options.to, clock.now())
  if (!span) return exitCodes.usage
  warnOfRepeats(world, span.fromUs, config, clock)
  const begun = await client.backfill(choice, span)
  return follow(world, begun, connect, clock)
}

function choiceOf(
  { stderr }: World,
  { workspaces }: Config,
  { workspace, source }: BackfillCommandOptions,
): PastChoice | undefined {
  if (workspace !== undefined && !workspaces.some(({ name }) => name === workspace)) {
    const names = workspaces.map(({ name }) => name).join(', ')
    stderr(`error: there is no workspace ${workspace} in the configuration; there are ${names}\n`)
    return undefined
  }
  const wanted = sourceNames.find((name) => name === source)
  const isOn = workspaces.some((one) => sourcesOf(one).some((name) => name === wanted))
  if (source !== undefined && (wanted === undefined || !isOn || !again.includes(wanted))) {
    const why = isOn ? 'has no past that could be read again; there are' : 'is not switched on; there may be'
    stderr(`error: --source ${source} ${why} ${again.join(', ')}\n`)
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

/** Until all that were begun have ended, or are no longer there, or the signal. */
async function follow(
  world: World,
  begun: readonly Backfill[],
  connect: () => Promise<Client | undefined>,
  clock: Clock,
): Promise<number> {
  const screen = world.colours === true
  let now = begun
  let toldAt = clock.elapsed()
  let heardAt = clock.elapsed()
  for (;;) {
    const open = now.filter(({ endedAt }) => endedAt === undefined)
    if (screen) world.stdout(`${AGAIN}${barText(now)}`)
    else if (clock.elapsed() - toldAt >= LINE_MS) {
      toldAt = clock.elapsed()
      for (const one of open) world.stdout(`${lineText(one)}\n`)
    }
    if (open.length === 0) break
    await clock.sleep(LOOK_MS, world.signal)
    if (world.signal.aborted) return left(world)
    const heard = await connect()
      .then((client) => client?.backfills())
      .catch(orUndefined)
    if (heard) {
      heardAt = clock.elapsed()
      now = now.map((one) => (one.endedAt === undefined ? find(heard, one) : one))
    } else if (clock.elapsed() - heardAt >= PATIENCE_MS) return lost(world)
  }
  if (screen) world.stdout(AGAIN)
  for (const one of now) world.stdout(`${endText(one)}\n`)
  const isWhole = now.every((one) => one.error === undefined && !hasGaps(one))
  return isWhole ? exitCodes.done : exitCodes.failed
}

function orUndefined(error: unknown): undefined {
  if (error instanceof ConnectorError && (error.code === 'unreachable' || error.code === 'timeout'))
    return undefined
  throw error
}

/** The same one as it stands now; one that is no longer there was cancelled. */
function find(heard: readonly Backfill[], one: Backfill): Backfill {
  const same = heard.find(
    ({ origin, begunAt }) => begunAt === one.begunAt && isSameOrigin(origin, one.origin),
  )
  const gone = { code: 'aborted', message: 'it was cancelled; what it read stays' } as const
  return same ?? { ...one, endedAt: one.begunAt, error: gone }
}

const HOW = 'auditferry backfill --status tells how far it is, --cancel ends it'

function left({ stdout }: World): number {
  stdout(`\nThe daemon goes on with it: ${HOW}\n`)
  return exitCodes.done
}

function lost({ stderr }: World): number {
  stderr(`auditferry: the daemon does not answer any more; the backfill goes on when it runs again: ${HOW}\n`)
  return exitCodes.failed
}

function tellAll({ stdout }: World, all: readonly Backfill[]): number {
  if (all.length === 0) stdout('No backfill is under way, and none ended within the last day\n')
  for (const one of all) stdout(`${one.endedAt === undefined ? lineText(one) : endText(one)}\n`)
  return exitCodes.done
}

const nameText = ({ origin }: Backfill) => plain(`${origin.workspace} ${origin.source}`)

function partOf({ fromUs, toUs, atUs, endedAt }: Backfill): number {
  if (endedAt !== undefined) return 1
  return atUs === undefined ? 0 : Math.min(1, Math.max(0, (atUs - fromUs) / (toUs - fromUs)))
}

const percent = (part: number) => `${Math.floor(part * 100)} %`

function barText(all: readonly Backfill[]): string {
  const part = all.reduce((sum, one) => sum + partOf(one), 0) / Math.max(1, all.length)
  const done = Math.round(part * BAR_WIDTH)
  const [first] = all
  const name = all.length === 1 && first ? nameText(first) : countText(all.length, 'backfills')
  const read = all.reduce((sum, { counts }) => sum + counts.read, 0)
  const fresh = all.reduce((sum, { counts }) => sum + counts.new, 0)
  const counts = `${countText(read, 'entries')} read, ${countText(fresh, 'new')}`
  return `${name} [${'#'.repeat(done)}${'.'.repeat(BAR_WIDTH - done)}] ${percent(part)}  ${counts}`
}

function countsText({ read, new: fresh, known, filtered, quarantined, gaps }: Backfill['counts']): string {
  const number = (count: number) => count.toLocaleString('en-US')
  const told = `${number(read)} read, ${number(fresh)} new, ${number(known)} known, ${number(filtered)} filtered, ${number(quarantined)} quarantined`
  return gaps === 0 ? told : `${told}; ${countText(gaps, 'possible gaps')}: entries there may be missing`
}

function lineText(one: Backfill): string {
  const why = one.error ? `; trying again: ${plain(one.error.message)}` : one.waiting ? '; waiting' : ''
  return `${nameText(one)}: ${percent(partOf(one))}, ${countsText(one.counts)}${why}`
}

const hasGaps = ({ counts, unread }: Backfill) => counts.gaps > 0 || unread.length > 0

function endText(one: Backfill): string {
  const span = spanText(one)
  const ended = one.error ? plain(one.error.message) : hasGaps(one) ? 'ended, not whole' : 'done'
  return `${nameText(one)}, ${span}: ${ended}: ${countsText(one.counts)}${unreadText(one.unread)}`
}

const spanText = ({ fromUs, toUs }: PastSpan) => `${secondText(fromUs / 1000)} to ${secondText(toUs / 1000)}`

const NAMED = 5
const unreadWhy = {
  refused: 'refused by the API with 400 (it may not reach so far back)',
  unreadable: 'unreadable while other times could be read (try again later)',
} as const

function unreadText(unread: readonly Unread[]): string {
  const named = unread
    .slice(0, NAMED)
    .map((part) => `\n  not read: ${spanText(part)}: ${unreadWhy[part.why]}`)
  const more = unread.length - NAMED
  return `${named.join('')}${more > 0 ? `\n  and ${more} more` : ''}`
}
