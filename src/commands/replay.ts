// `replay`: sends to one sink again what it had of a span, by the entries' own time: from the journal where it is kept, else from the API.
import { kindOf } from '../sinks/index.ts'
import type { SinkConfig } from '../config/schema.ts'
import type { DayCount } from '../model/balance.ts'
import type { Clock } from '../model/clock.ts'
import { ConnectorError } from '../model/errors.ts'
import type { Replayed, ReplayQuery } from '../model/journal.ts'
import type { ApiReplay } from '../model/replays.ts'
import { isSameOrigin } from '../model/source.ts'
import type { Origin, SourceName } from '../model/source.ts'
import { epochDay, secondText } from '../model/time.ts'
import { systemClock } from '../ops/clock.ts'
import type { ControlClient } from '../ops/control-client.ts'
import { countText, sizeText } from '../ops/status.ts'
import type { OpenAside } from './aside.ts'
import { withAside } from './aside.ts'
import { configFile } from './config-file.ts'
import { spanOf } from './instants.ts'
import { otherSpan } from '../replay-order.ts'
import { follow, tellAll, tellCancelled, withoutDaemon } from './follow.ts'
import { replaysFollowed } from './replay-follow.ts'
import { nothingPlanned, overtaken, planOf } from './replay-plan.ts'
import type { Asked, Only, Plan, PlannedDay } from './replay-plan.ts'
import { daysText, shortText } from './replay-text.ts'
import { exitCodes, type World } from './world.ts'

export interface ReplayOptions {
  readonly config?: string
  readonly sink?: string
  readonly from?: string
  readonly to?: string
  readonly workspace?: string
  readonly source?: SourceName
  readonly only?: Only
  readonly dryRun: boolean
  readonly status?: boolean
  readonly cancel?: boolean
}

/** Half of the journal's bound is owed: its sinks make room, and the replay goes on. */
const WAIT_MS = 2_000
/** So long without room, and the replay ends with what it has done. */
const PATIENCE_MS = 60_000

export async function replay(
  world: World,
  options: ReplayOptions,
  clock: Clock = systemClock,
): Promise<number> {
  const { sink, from } = options
  if (options.status === true || options.cancel === true) return look(world, options)
  if (sink !== undefined && from !== undefined)
    return withAside(world, options.config, (opened) =>
      send(world, { ...options, sink, from }, opened, clock),
    )
  const missing = sink === undefined ? '--sink <name>' : '--from <time>'
  world.stderr(`error: want ${missing}, or --status or --cancel\n`)
  return exitCodes.usage
}

function look(world: World, options: ReplayOptions): Promise<number> {
  return withAside(world, options.config, async (opened) => {
    const client = await opened.connect()
    if (!client) return needsDaemon(world, options)
    if (options.cancel !== true) return tellAll(world, replaysFollowed, client)
    return tellCancelled(world, replaysFollowed, await client.cancelReplays(options.sink))
  })
}

const needsDaemon = (world: World, options: ReplayOptions): number =>
  withoutDaemon(world, configFile(world, options.config), 'what comes from the API')

type Wanted = ReplayOptions & { readonly sink: string; readonly from: string }

async function send(world: World, options: Wanted, opened: OpenAside, clock: Clock): Promise<number> {
  const nowMs = clock.now()
  const span = spanOf(world, options.from, options.to, nowMs)
  if (!span) return exitCodes.usage
  const sink = opened.sinks.find(({ name }) => name === options.sink)
  if (!sink) {
    const names = opened.sinks.map(({ name }) => name).join(', ')
    world.stderr(`auditferry: there is no sink ${options.sink} in the configuration; there are ${names}\n`)
    return exitCodes.failed
  }
  const { workspace, source, only } = options
  const client = await opened.connect()
  if (only === 'api' && !client) return needsDaemon(world, options)
  if (!options.dryRun && !isMarked(sink))
    world.stderr(
      `auditferry: lines of ${sink.name} cannot tell that they are sent again (format raw, and ${sink.type} has no field of its own for it): its receiver sees these entries twice\n`,
    )
  const asked: Asked = { sink, span, workspace, source, only }
  const readable = async () => (client ? client.origins() : [])
  const plan = only === 'journal' ? nothingPlanned : await planOf(opened.aside, asked, readable)
  if (only === 'api' && plan.reads.length === 0) {
    const names = sink.sources.filter((name) => (source ?? name) === name).join(', ')
    world.stderr(
      `auditferry: none of the sources meant (${names || 'none that the sink takes'}) can be read from the API again: they are switched off, or an inventory without a past\n`,
    )
    return exitCodes.failed
  }
  const begun = options.dryRun ? [] : await begin(client, sink.name, plan, nowMs)
  const joined = begun.filter(({ runAt }) => runAt !== nowMs).map(({ origin }) => origin)
  const rest = withoutJoined(asked, plan, joined)
  const done =
    only === 'api' ? nothingDone() : await walk(opened, queryOf(asked, rest, options, nowMs), world)
  const isSilent = joined.length > 0 && done.entries === 0 && !done.stopped
  if (!isSilent) world.stdout(told(done, options, opened))
  if (options.dryRun) world.stdout(daysText(done.days, plan))
  const isUnsure = only !== 'api' && plan.days.some((day) => isJournals(day, joined))
  if (only !== 'api') world.stdout(joinedText(joined))
  if (isUnsure) world.stderr(unsureText)
  const lost = options.dryRun ? [] : await overtaken(opened.aside, asked, rest, done.days)
  const short = [...plan.short, ...lost]
  world.stderr(shortText(short, howText(options, client !== undefined)))
  const followed =
    begun.length === 0 ? exitCodes.done : await follow(world, replaysFollowed, begun, opened.connect, clock)
  const whole = !done.stopped && !isUnsure && short.length === 0
  return whole ? followed : exitCodes.failed
}

const isOneOf = (origins: readonly Origin[], origin: Origin) =>
  origins.some((one) => isSameOrigin(one, origin))

/** A day of a joined source that the journal is to give: whether the command before this one sent it, nobody knows. */
const isJournals = ({ origin, via }: PlannedDay, joined: readonly Origin[]) =>
  via === 'journal' && isOneOf(joined, origin)

/** What the journal gives of a joined source was the command's that began it: all of it is left out. */
function withoutJoined({ span }: Asked, plan: Plan, joined: readonly Origin[]): Plan {
  const range = { fromDay: epochDay(span.fromUs), toDay: epochDay(span.toUs - 1) + 1 }
  return {
    ...plan,
    days: plan.days.filter(({ origin }) => !isOneOf(joined, origin)),
    leave: [...plan.leave, ...joined.map((origin) => ({ origin, ...range }))],
  }
}

function joinedText(joined: readonly Origin[]): string {
  if (joined.length === 0) return ''
  const names = joined.map(({ workspace, source }) => `${workspace} ${source}`).join(', ')
  return `Joined the same replay, which is under way, of ${names}: what the journal keeps of that was left to the command that began it; --only journal sends it again\n`
}

const unsureText =
  'auditferry: some of the days meant are kept in the journal, and this command cannot tell whether the one that began the replay meant them too, and sent them: where it did not, send them with --only journal\n'

/** Before the journal's part: what cannot be begun is refused while nothing is sent yet, and nothing of it is begun. */
async function begin(
  client: ControlClient | undefined,
  sink: string,
  { reads }: Plan,
  runAt: number,
): Promise<readonly ApiReplay[]> {
  if (!client || reads.length === 0) return []
  // One alone is refused by the daemon itself.
  const all = reads.length > 1 ? await client.replays() : []
  const active = all.filter(({ endedAt }) => endedAt === undefined)
  for (const { origin, spans } of reads) {
    const isOther = (one: ApiReplay) =>
      one.sink === sink && isSameOrigin(one.origin, origin) && one.asked !== JSON.stringify(spans)
    if (active.some(isOther)) throw otherSpan({ sink, origin })
  }
  const begun: ApiReplay[] = []
  for (const read of reads) begun.push(await client.begin({ ...read, sink, runAt }))
  return begun
}

function queryOf(
  { sink, span, workspace, source }: Asked,
  { leave }: Plan,
  { dryRun }: ReplayOptions,
  runAt: number,
): Omit<ReplayQuery, 'after' | 'until'> {
  const sources = sink.sources.filter((name) => (source ?? name) === name)
  return {
    ...{ ...span, sink: sink.name, sources, dryRun, runAt },
    ...(workspace === undefined ? {} : { workspace }),
    ...(leave.length === 0 ? {} : { leave }),
  }
}

function howText({ dryRun, only }: ReplayOptions, isRunning: boolean) {
  const sent = only === 'api' ? 'is not sent' : dryRun ? 'only that would be sent' : 'only that is sent'
  return ({ source }: Origin): string => {
    if (source === 'vault.projects') return `${sent}; an inventory has no past that the API could show again`
    return isRunning
      ? `${sent}; the past of ${source} cannot be read from the API again`
      : `${sent}; with the daemon running the same command would have them read from the API again`
  }
}

/** Every format but raw has a field for it. */
function isMarked(sink: SinkConfig): boolean {
  return sink.format !== 'raw' || kindOf(sink.type).marksReplay?.(sink) === true
}

interface Done {
  entries: number
  bytes: number
  days: DayCount[]
  keptSince: number | undefined
  /** by a signal, or by a journal that stayed full */
  stopped: boolean
}

const nothingDone = (): Done => ({ entries: 0, bytes: 0, days: [], keptSince: undefined, stopped: false })

/** Step after step, so that the daemon does its own work in between. */
async function walk(
  { aside }: OpenAside,
  query: Omit<ReplayQuery, 'after' | 'until'>,
  { signal, stderr }: World,
): Promise<Done> {
  const done = nothingDone()
  let at: Pick<ReplayQuery, 'after' | 'until'> = { after: 0, until: undefined }
  let waitedMs = 0
  for (;;) {
    const step: Replayed | undefined = await aside.replay({ ...query, ...at }).catch((error: unknown) => {
      if (error instanceof ConnectorError && error.code === 'journal_full') return undefined
      throw error
    })
    if (step) {
      done.entries += step.entries
      done.bytes += step.bytes
      done.days = summed(done.days, step.days)
      done.keptSince = step.keptSince
      waitedMs = 0
      if (!step.more) return done
      at = { after: step.through, until: step.until }
    } else {
      if (waitedMs === 0)
        stderr(
          "auditferry: half of journal.max_bytes is in use, and the other half is live reading's: waiting for the sinks to take some\n",
        )
      waitedMs += WAIT_MS
      await systemClock.sleep(WAIT_MS, signal)
    }
    if (signal.aborted || waitedMs >= PATIENCE_MS) return { ...done, stopped: true }
  }
}

function summed(one: readonly DayCount[], other: readonly DayCount[]): DayCount[] {
  const sums = new Map<string, DayCount>()
  for (const each of [...one, ...other]) {
    const key = `${each.origin.workspace} ${each.origin.source} ${each.day}`
    sums.set(key, { ...each, count: each.count + (sums.get(key)?.count ?? 0) })
  }
  return [...sums.values()]
}

function told(
  { entries, bytes, keptSince, stopped }: Done,
  options: ReplayOptions,
  opened: OpenAside,
): string {
  if (options.only === 'api') return ''
  const what = `${countText(entries, 'entries')} (${sizeText(bytes)})`
  const kept =
    keptSince === undefined
      ? 'the journal keeps nothing'
      : `the journal keeps what it took in since ${secondText(keptSince)}`
  const limits = `${kept}; what is owed to ${options.sink} still is not counted, it comes anyway`
  if (options.dryRun) return `${what} would be sent to ${options.sink} again; ${limits}\n`
  const when = opened.running ? 'they go out now' : 'they go out when the daemon runs'
  const sink = opened.sinks.find(({ name }) => name === options.sink)
  const marked = sink && isMarked(sink) ? ', marked as a replay' : ''
  const early = stopped ? 'Stopped early: ' : ''
  return `${early}${what} put at the journal's end for ${options.sink}${marked}; ${when}; ${limits}\n`
}
