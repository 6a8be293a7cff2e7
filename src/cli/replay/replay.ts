// `replay`: sends to one sink again what it had of a span, by the entries' own time: from the journal where it is kept, else from the API.
import type { SinkConfig } from '../../config/schema.ts'
import { joinedBy } from '../../contracts/jobs.ts'
import type { ApiReplay, BegunReplay, PastSpan } from '../../contracts/jobs.ts'
import type { Origin, SourceName } from '../../contracts/source.ts'
import type { ControlClient } from '../../control/client.ts'
import type { Clock } from '../../core/clock.ts'
import { printable } from '../../core/printable.ts'
import { secondText } from '../../core/time.ts'
import { countText, numberText } from '../../observability/words.ts'
import { systemClock } from '../../platform/clock.ts'
import { configFile } from '../shared/config-file.ts'
import { follow, gapsText, tellAll, tellCancelled, withoutDaemon } from '../shared/follow.ts'
import type { Following } from '../shared/follow.ts'
import { spanOf, wholeDays } from '../shared/instants.ts'
import { withJournal } from '../shared/journal.ts'
import type { OpenJournal } from '../shared/journal.ts'
import { isKnown } from '../shared/names.ts'
import { exitCodes } from '../shared/world.ts'
import type { World } from '../shared/world.ts'
import { isOneOf, isUnsure, overtaken, planOf, withoutJoined } from './plan.ts'
import type { Only, ReplayChoice, ReplayPlan } from './plan.ts'
import {
  doneText,
  dryText,
  emptyText,
  goesOnText,
  halfBegunText,
  howText,
  isMarked,
  joinedText,
  shortText,
  unmarkedText,
  unreadableText,
  unsureText,
} from './text.ts'
import {
  cutDays,
  cutOffText,
  howCut,
  lateDays,
  lateText,
  nothingDone,
  partDays,
  queryOf,
  spansText,
  walk,
  withCut,
  withoutCut,
} from './walk.ts'

interface ReplayOptions {
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

export async function replay(
  world: World,
  options: ReplayOptions,
  clock: Clock = systemClock,
): Promise<number> {
  const { sink, from } = options
  if (options.status === true || options.cancel === true) return look(world, options)
  if (sink !== undefined && from !== undefined)
    return withJournal(world, options.config, (opened) =>
      send(world, { ...options, sink, from }, opened, clock),
    )
  const missing = sink === undefined ? '--sink <name>' : '--from <time>'
  world.stderr(`error: expected ${missing}, or --status or --cancel\n`)
  return exitCodes.usage
}

async function look(world: World, options: ReplayOptions): Promise<number> {
  const { workspace, source, sink, cancel } = options
  if (cancel === true && (workspace ?? source) !== undefined) {
    world.stderr(
      'error: --cancel ends what goes to --sink, or all: it takes no --workspace and no --source\n',
    )
    return exitCodes.usage
  }
  return withJournal(world, options.config, async (opened) => {
    const client = await opened.connect()
    if (!client) return needsDaemon(world, options)
    if (cancel !== true)
      return tellAll(world, replaysFollowed, client, { workspace, source, sink }, opened.there)
    const count = await client.cancelReplays(sink)
    // One that is under way is ended also where its sink has left the configuration.
    if (count === 0 && !isKnown(world, 'sink', sink, (await opened.there()).sinks)) return exitCodes.usage
    return tellCancelled(world, replaysFollowed, count)
  })
}

const needsDaemon = (world: World, options: ReplayOptions): number =>
  withoutDaemon(world, configFile(world, options.config), 'what comes from the API')

type Wanted = ReplayOptions & { readonly sink: string; readonly from: string }

/** What was settled before anything is sent. */
interface Sending {
  readonly options: ReplayOptions
  readonly opened: OpenJournal
  readonly asked: ReplayChoice
  readonly plan: ReplayPlan
  readonly runAt: number
  readonly isRunning: boolean
  /** by the daemon, or joined there */
  readonly begun: readonly ApiReplay[]
}

async function send(world: World, options: Wanted, opened: OpenJournal, clock: Clock): Promise<number> {
  const runAt = clock.now()
  const span = spanOf(world, options.from, options.to, runAt)
  if (!span) return exitCodes.usage
  const { workspace, source, only } = options
  const sink = await sinkOf(world, options, opened, span)
  if (!sink) return exitCodes.usage
  const client = await opened.connect()
  if (only === 'api' && !client) return needsDaemon(world, options)
  if (!options.dryRun && !isMarked(sink)) world.stderr(unmarkedText(sink))
  const asked: ReplayChoice = { sink, span, workspace, source, only }
  const readable = async () => (client && only !== 'journal' ? client.origins() : [])
  const plan = await planOf(opened.journal, asked, readable)
  if (only === 'api' && plan.reads.length === 0) {
    world.stderr(unreadableText(asked))
    return exitCodes.failed
  }
  const begun: readonly BegunReplay[] = options.dryRun
    ? await preview(client, sink.name, plan, runAt)
    : await begin(world, client, sink.name, plan, runAt)
  const joined = begun.filter((one) => one.isJoined === true).map(({ origin }) => origin)
  world.stderr(cutOffText(begun))
  const sending = { options, opened, asked, plan, runAt, isRunning: client !== undefined, begun }
  const isKept = await sendKept(world, sending, joined, clock)
  const isWhole = (await tellLate(world, sending, client)) && isKept
  const followed =
    begun.length === 0 || options.dryRun
      ? exitCodes.done
      : await follow(world, replaysFollowed, begun, opened.connect, clock)
  return isWhole ? followed : exitCodes.failed
}

/** What the journal gives, and what is told of it. False: not all that was meant has been sent, or is on its way. */
async function sendKept(
  world: World,
  { options, opened, asked, plan, runAt, isRunning, begun }: Sending,
  joined: readonly Origin[],
  clock: Clock,
): Promise<boolean> {
  const { dryRun } = options
  const isAsked = asked.only !== 'api'
  const cut = cutDays(plan, begun)
  const rest = withoutJoined(asked, withCut(plan, cut), joined)
  const query = queryOf(asked, rest, { dryRun, runAt })
  const walked = async () => {
    try {
      return await walk(opened.journal, query, world, clock)
    } catch (error) {
      world.stderr(goesOnText(dryRun ? [] : begun))
      throw error
    }
  }
  const done = isAsked ? await walked() : nothingDone()
  const isSilent = joined.length > 0 && done.entries === 0 && !done.stopped
  if (isAsked && !isSilent) world.stdout(doneText(done, asked, dryRun, opened.running))
  if (dryRun) world.stdout(dryText(done.days, withoutCut(plan, cut, begun), asked))
  if (isAsked) world.stdout(joinedText(joined))
  world.stdout(emptyText(plan, asked, opened.origins, runAt))
  const unsure = isAsked && isUnsure(plan, joined)
  if (unsure) world.stderr(unsureText)
  const lost = dryRun ? [] : await overtaken(opened.journal, asked, rest, done.days)
  const short = [...plan.short, ...lost]
  world.stderr(shortText(short, howText(options, isRunning)))
  world.stderr(shortText(cut, (origin) => howCut(asked.only === 'api' || isOneOf(joined, origin))))
  // Who asks for what the journal keeps has it, whatever that is.
  const lacking = asked.only === 'journal' ? 0 : short.length + cut.length
  return !done.stopped && !unsure && lacking === 0
}

/** False: of a day that is read in part the rest may not come by itself. */
async function tellLate(
  { stderr }: World,
  { asked, plan, begun }: Sending,
  client: ControlClient | undefined,
): Promise<boolean> {
  const parts = partDays(plan, begun)
  if (!client || parts.length === 0) return true
  const late = lateDays(parts, await client.status())
  stderr(lateText(late, asked.only))
  return late.length === 0
}

/** Undefined, and said, where what is named can give nothing: a name that is none, a source that its sink does not take. */
async function sinkOf(
  world: World,
  { sink: name, workspace, source }: Wanted,
  { journal, sinks, there }: OpenJournal,
  span: PastSpan,
): Promise<SinkConfig | undefined> {
  const sink = sinks.find((one) => one.name === name)
  const known = await there()
  if (!isKnown(world, 'sink', name, known.sinks) || !sink) return undefined
  if (source !== undefined && !sink.sources.some((one) => one === source)) {
    const taken = sink.sources.join(', ')
    world.stderr(`error: sink ${name} does not take ${source}: its sources are ${taken}\n`)
    return undefined
  }
  if (workspace === undefined || known.workspaces.some(({ name: one }) => one === workspace)) return sink
  // What was kept of one that left the configuration can be sent again.
  const { kept } = await journal.counts(wholeDays(span))
  const left = kept.map(({ origin }) => ({ name: origin.workspace }))
  return isKnown(world, 'workspace', workspace, [...known.workspaces, ...left]) ? sink : undefined
}

/** What of it the daemon would read as live reading stands now. */
async function preview(
  client: ControlClient | undefined,
  sink: string,
  { reads }: ReplayPlan,
  runAt: number,
): Promise<readonly ApiReplay[]> {
  if (!client) return []
  return Promise.all(reads.map((read) => client.preview({ ...read, sink, runAt })))
}

/** Before the journal's part: what cannot be begun is refused while nothing is sent yet, and nothing of it is begun. */
async function begin(
  { stderr }: World,
  client: ControlClient | undefined,
  sink: string,
  { reads }: ReplayPlan,
  runAt: number,
): Promise<readonly BegunReplay[]> {
  if (!client || reads.length === 0) return []
  // One alone is refused by the daemon itself.
  const all = reads.length > 1 ? await client.replays() : []
  for (const read of reads) joinedBy(all, { ...read, sink })
  const begun: BegunReplay[] = []
  try {
    for (const read of reads) begun.push(await client.begin({ ...read, sink, runAt }))
  } catch (error) {
    // Another command was quicker, or the daemon is gone: what was begun goes on, and the journal's part was not sent.
    stderr(halfBegunText(begun))
    throw error
  }
  return begun
}

// What `replay` says of those that the daemon reads from the API: how far they are, what was sent, and how the other sinks get what they lack.

const replaysFollowed: Following<ApiReplay> = {
  what: 'replay',
  title: 'replay from the API',
  stays: (whose) => `what ${whose} put into the journal goes out`,
  heard: (client) => client.replays(),
  begunAt: ({ runAt }) => runAt,
  nameText,
  ratio: ratioOf,
  countsText,
  isWhole: ({ counts }) => counts.gaps === 0,
  endText: (one, ended) =>
    one.spans.length === 0
      ? `${nameText(one)}: nothing to read: this span is later than what live reading has read in order (${spansText(one)})`
      : `${nameText(one)}: ${ended}: ${countsText(one)}`,
  adviceText,
}

function nameText({ origin, sink }: ApiReplay): string {
  return printable(`${origin.workspace} ${origin.source} to ${sink}, from the API`)
}

function ratioOf({ spans, atUs }: ApiReplay): number {
  const whole = spans.reduce((sum, { fromUs, toUs }) => sum + toUs - fromUs, 0)
  const read = (at: number) =>
    spans.reduce((sum, { fromUs, toUs }) => sum + Math.min(Math.max(at - fromUs, 0), toUs - fromUs), 0)
  return atUs === undefined || whole === 0 ? 0 : read(atUs) / whole
}

function countsText(one: ApiReplay): string {
  const { read, sent, filtered, unknown, malformed, gaps } = one.counts
  const sums = `${numberText(read)} read, ${numberText(sent)} put at the journal's end as a replay, ${numberText(filtered)} filtered, ${numberText(malformed)} malformed`
  const never =
    unknown === 0
      ? ''
      : `; ${numberText(unknown)} of them the journal does not know, or not with this content`
  const left = spansText(one)
  const cut = left === '' ? '' : `; not read, later than what live reading had read in order: ${left}`
  return `${sums}${never}${gapsText(gaps)}${cut}`
}

/** What this sink has now and the others may lack. */
function adviceText({ counts, origin, spans }: ApiReplay): string {
  const [first] = spans
  const last = spans.at(-1)
  if (counts.unknown === 0 || !first || !last) return ''
  const span = `--workspace ${origin.workspace} --from ${secondText(first.fromUs / 1000)} --to ${secondText(Math.ceil(last.toUs / 1e6) * 1000)}`
  return `auditferry: ${countText(counts.unknown, 'entries')} of ${printable(`${origin.workspace} ${origin.source}`)} were sent that the journal does not have, or not with this content: never read, excluded by types at the time, changed since, or older than journal.dedup_retention. Other sinks may lack them. To check: auditferry reconcile ${span}. To deliver them to every sink: auditferry backfill ${span}\n`
}
