// `replay`: sends to one sink again what it had of a span, by the entries' own time: from the journal where it is kept, else from the API.
import type { SinkConfig } from '../../config/schema.ts'
import type { Job, JobSpan } from '../../contracts/jobs.ts'
import type { Stream, SourceName } from '../../contracts/source.ts'
import type { ControlClient } from '../../control/client.ts'
import type { Clock } from '../../core/clock.ts'
import { printable } from '../../core/printable.ts'
import { secondText } from '../../core/time.ts'
import { countText, numberText } from '../../observability/words.ts'
import { systemClock } from '../../platform/clock.ts'
import { configFile } from '../shared/config-file.ts'
import { spanOf, wholeDays } from '../shared/instants.ts'
import { follow, gapsText, look, nameText, withoutDaemon } from '../shared/jobs.ts'
import type { JobTexts } from '../shared/jobs.ts'
import { withJournal } from '../shared/journal.ts'
import type { OpenJournal } from '../shared/journal.ts'
import { isKnown } from '../shared/names.ts'
import { exitCodes } from '../shared/world.ts'
import type { CommandContext } from '../shared/world.ts'
import { isOneOf, isUnsure, overtaken, planOf, withoutJoined } from './plan.ts'
import type { Only, ReplayChoice, ReplayPlan } from './plan.ts'
import {
  doneText,
  dryText,
  emptyText,
  goesOnText,
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
  queueKept,
  withCut,
  withoutCut,
} from './kept.ts'

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
  context: CommandContext,
  options: ReplayOptions,
  clock: Clock = systemClock,
): Promise<number> {
  const { sink, from, workspace, source, status, cancel } = options
  if (status === true || cancel === true) {
    if (cancel !== true || (workspace ?? source) === undefined)
      return look(
        context,
        configFile(context, options.config),
        texts,
        { workspace, source, sink },
        cancel === true,
      )
    context.stderr(
      'error: --cancel ends what goes to --sink, or all: it takes no --workspace and no --source\n',
    )
    return exitCodes.usage
  }
  if (sink !== undefined && from !== undefined)
    return withJournal(context, options.config, (opened) =>
      send(context, { ...options, sink, from }, opened, clock),
    )
  const missing = sink === undefined ? '--sink <name>' : '--from <time>'
  context.stderr(`error: expected ${missing}, or --status or --cancel\n`)
  return exitCodes.usage
}

type Wanted = ReplayOptions & { readonly sink: string; readonly from: string }

/** What is decided before anything is sent. */
interface Sending {
  readonly options: ReplayOptions
  readonly opened: OpenJournal
  readonly asked: ReplayChoice
  readonly plan: ReplayPlan
  readonly runAt: number
  readonly isRunning: boolean
  /** in the daemon, or joined there; with a dry run, what would be */
  readonly begun: readonly Job[]
}

async function send(
  context: CommandContext,
  options: Wanted,
  opened: OpenJournal,
  clock: Clock,
): Promise<number> {
  const runAt = clock.now()
  const span = spanOf(context, options.from, options.to, runAt)
  if (!span) return exitCodes.usage
  const { workspace, source, only } = options
  const sink = await sinkOf(context, options, opened, span)
  if (!sink) return exitCodes.usage
  const client = await opened.connect()
  if (only === 'api' && !client) return withoutDaemon(context, configFile(context, options.config), texts)
  if (!options.dryRun && !isMarked(sink)) context.stderr(unmarkedText(sink))
  const asked: ReplayChoice = { sink, span, workspace, source, only }
  const readable = async () => (client && only !== 'journal' ? client.jobs.origins() : [])
  const plan = await planOf(opened.journal, asked, readable)
  if (only === 'api' && plan.reads.length === 0) {
    context.stderr(unreadableText(asked))
    return exitCodes.failed
  }
  // Before the journal's part: what cannot start is refused while nothing is sent yet.
  const request = { sink: sink.name, startedAt: runAt, reads: plan.reads, dryRun: options.dryRun }
  const begun = client && plan.reads.length > 0 ? await client.jobs.replay(request) : []
  const joined = begun.filter((one) => one.isJoined === true).map(({ stream }) => stream)
  context.stderr(cutOffText(begun))
  const sending = { options, opened, asked, plan, runAt, isRunning: client !== undefined, begun }
  const isKept = await sendKept(context, sending, joined, clock)
  const isWhole = (await tellLate(context, sending, client)) && isKept
  const followed =
    begun.length === 0 || options.dryRun
      ? exitCodes.done
      : await follow(context, texts, begun, opened.connect, clock)
  return isWhole ? followed : exitCodes.failed
}

/** What the journal gives, and what is told of it. False: not all that was meant has been sent, or is on its way. */
async function sendKept(
  context: CommandContext,
  { options, opened, asked, plan, runAt, isRunning, begun }: Sending,
  joined: readonly Stream[],
  clock: Clock,
): Promise<boolean> {
  const { dryRun } = options
  const isAsked = asked.only !== 'api'
  const cut = cutDays(plan, begun)
  const rest = withoutJoined(asked, withCut(plan, cut), joined)
  const query = queryOf(asked, rest, { dryRun, runAt })
  const queued = async () => {
    try {
      return await queueKept(opened.journal, query, context, clock)
    } catch (error) {
      context.stderr(goesOnText(dryRun ? [] : begun))
      throw error
    }
  }
  const done = isAsked ? await queued() : nothingDone()
  const isSilent = joined.length > 0 && done.entries === 0 && !done.stopped
  if (isAsked && !isSilent) context.stdout(doneText(done, asked, dryRun, opened.running))
  if (dryRun) context.stdout(dryText(done.days, withoutCut(plan, cut, begun), asked))
  if (isAsked) context.stdout(joinedText(joined))
  context.stdout(emptyText(plan, asked, opened.origins, runAt))
  const unsure = isAsked && isUnsure(plan, joined)
  if (unsure) context.stderr(unsureText)
  const lost = dryRun ? [] : await overtaken(opened.journal, asked, rest, done.days)
  const short = [...plan.short, ...lost]
  context.stderr(shortText(short, howText(options, isRunning)))
  context.stderr(shortText(cut, (stream) => howCut(asked.only === 'api' || isOneOf(joined, stream))))
  // Who asks for what the journal keeps has it, whatever that is.
  const lacking = asked.only === 'journal' ? 0 : short.length + cut.length
  return !done.stopped && !unsure && lacking === 0
}

/** False: of a day that is read in part the rest may not come by itself. */
async function tellLate(
  { stderr }: CommandContext,
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
  context: CommandContext,
  { sink: name, workspace, source }: Wanted,
  { journal, sinks, there }: OpenJournal,
  span: JobSpan,
): Promise<SinkConfig | undefined> {
  const sink = sinks.find((one) => one.name === name)
  const known = await there()
  if (!isKnown(context, 'sink', name, known.sinks) || !sink) return undefined
  if (source !== undefined && !sink.sources.some((one) => one === source)) {
    const taken = sink.sources.join(', ')
    context.stderr(`error: sink ${name} does not take ${source}: its sources are ${taken}\n`)
    return undefined
  }
  if (workspace === undefined || known.workspaces.some(({ name: one }) => one === workspace)) return sink
  // What was kept of one that left the configuration can be sent again.
  const { kept } = await journal.counts(wholeDays(span))
  const left = kept.map(({ stream }) => ({ name: stream.workspace }))
  return isKnown(context, 'workspace', workspace, [...known.workspaces, ...left]) ? sink : undefined
}

// What `replay` prints of the jobs that the daemon reads from the API: what was sent, and how the other sinks get what they lack.

const texts: JobTexts = {
  kind: 'replay',
  needs: 'what comes from the API',
  title: 'replay from the API',
  stays: (whose) => `what ${whose} put into the journal goes out`,
  countsText,
  endText: (job, ended) =>
    job.spans.length === 0
      ? `${nameText(job)}: nothing to read: this span is later than what live reading has read in order (${spansText(job)})`
      : `${nameText(job)}: ${ended}: ${countsText(job)}`,
  adviceText,
}

function countsText(job: Job): string {
  const { read, sent, filtered, unknown, malformed, gaps } = job.counts
  const sums = `${numberText(read)} read, ${numberText(sent)} queued as a replay, ${numberText(filtered)} filtered, ${numberText(malformed)} malformed`
  const never =
    unknown === 0
      ? ''
      : `; ${numberText(unknown)} of them the journal does not know, or not with this content`
  const left = spansText(job)
  const cut = left === '' ? '' : `; not read, later than what live reading had read in order: ${left}`
  return `${sums}${never}${gapsText(gaps)}${cut}`
}

/** What this sink has now and the others may lack. */
function adviceText({ counts, stream, spans }: Job): string {
  const [first] = spans
  const last = spans.at(-1)
  if (counts.unknown === 0 || !first || !last) return ''
  const span = `--workspace ${stream.workspace} --from ${secondText(first.fromUs / 1000)} --to ${secondText(Math.ceil(last.toUs / 1e6) * 1000)}`
  return `auditferry: ${countText(counts.unknown, 'entries')} of ${printable(`${stream.workspace} ${stream.source}`)} were sent that the journal does not have, or not with this content: never read, excluded by types at the time, changed since, or older than journal.dedup_retention. Other sinks may lack them. To check: auditferry reconcile ${span}. To deliver them to every sink: auditferry backfill ${span}\n`
}
