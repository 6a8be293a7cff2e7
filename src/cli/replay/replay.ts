// `replay`: sends a span of entries to one sink again, from the journal or from the API.
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
import { follow, gapsText, showOrCancel, nameText, withoutDaemon } from '../shared/jobs.ts'
import type { JobTexts } from '../shared/jobs.ts'
import { withJournal } from '../shared/journal.ts'
import type { OpenJournal } from '../shared/journal.ts'
import { unknownName } from '../shared/names.ts'
import { assertUsage, exitCodes, WrongUsage } from '../shared/context.ts'
import type { CommandContext } from '../shared/context.ts'
import { includesStream, isUnsure, prunedDays, planOf, withoutJoined } from './plan.ts'
import type { Only, ReplayChoice, ReplayPlan } from './plan.ts'
import {
  doneText,
  dryText,
  emptyText,
  continuesText,
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
  cutText,
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
    if (cancel === true && (workspace ?? source) !== undefined)
      throw new WrongUsage(
        '--cancel ends what goes to --sink, or all: it takes no --workspace and no --source',
      )
    const file = configFile(context, options.config)
    return showOrCancel(context, file, texts, { workspace, source, sink }, cancel === true)
  }
  if (sink === undefined) throw new WrongUsage('expected --sink <name>, or --status or --cancel')
  if (from === undefined) throw new WrongUsage('expected --from <time>, or --status or --cancel')
  return withJournal(context, options.config, (opened) =>
    send(context, { ...options, sink, from }, opened, clock),
  )
}

type SendOptions = ReplayOptions & { readonly sink: string; readonly from: string }

/** Decided before anything is sent. */
interface Sending {
  readonly options: ReplayOptions
  readonly opened: OpenJournal
  readonly asked: ReplayChoice
  readonly plan: ReplayPlan
  readonly runAt: number
  readonly isRunning: boolean
  /** started or joined in the daemon; with a dry run, what would start */
  readonly jobs: readonly Job[]
}

async function send(
  context: CommandContext,
  options: SendOptions,
  opened: OpenJournal,
  clock: Clock,
): Promise<number> {
  const runAt = clock.now()
  const span = spanOf(options.from, options.to, runAt)
  const { workspace, source, only } = options
  const sink = await sinkOf(options, opened, span)
  const client = await opened.connect()
  if (only === 'api' && !client) return withoutDaemon(context, configFile(context, options.config), texts)
  const asked: ReplayChoice = { sink, span, workspace, source, only }
  const readable = async () => (client && only !== 'journal' ? client.jobs.origins() : [])
  const plan = await planOf(opened.journal, asked, readable)
  if (only === 'api' && plan.reads.length === 0) {
    context.stderr(unreadableText(asked))
    return exitCodes.failed
  }
  // First, so that a refused job stops the command before anything is sent.
  const request = { sink: sink.name, startedAt: runAt, reads: plan.reads, dryRun: options.dryRun }
  const jobs = client && plan.reads.length > 0 ? await client.jobs.replay(request) : []
  const joined = jobs.filter((one) => one.isJoined === true).map(({ stream }) => stream)
  context.stderr(cutOffText(jobs))
  const sending = { options, opened, asked, plan, runAt, isRunning: client !== undefined, jobs }
  const isKept = await sendKept(context, sending, joined, clock)
  const isWhole = (await warnOfLateDays(context, sending, client)) && isKept
  const followed =
    jobs.length === 0 || options.dryRun
      ? exitCodes.done
      : await follow(context, texts, jobs, opened.connect, clock)
  return isWhole ? followed : exitCodes.failed
}

/** Sends the journal's part and prints the result. False: something selected was not sent. */
async function sendKept(
  context: CommandContext,
  { options, opened, asked, plan, runAt, isRunning, jobs }: Sending,
  joined: readonly Stream[],
  clock: Clock,
): Promise<boolean> {
  const { dryRun } = options
  const isAsked = asked.only !== 'api'
  const cut = cutDays(plan, jobs)
  const rest = withoutJoined(asked, withCut(plan, cut), joined)
  const query = queryOf(asked, rest, { dryRun, runAt })
  const queued = async () => {
    try {
      return await queueKept(opened.journal, query, context, clock)
    } catch (error) {
      context.stderr(continuesText(dryRun ? [] : jobs))
      throw error
    }
  }
  const done = isAsked ? await queued() : nothingDone()
  if (!dryRun && !isMarked(asked.sink) && (jobs.length > 0 || done.entries > 0))
    context.stderr(unmarkedText(asked.sink))
  const isSilent = joined.length > 0 && done.entries === 0 && !done.stopped
  if (isAsked && !isSilent) context.stdout(doneText(done, asked, dryRun, opened.running))
  if (dryRun) context.stdout(dryText(done.days, withoutCut(plan, cut, jobs), asked))
  if (isAsked) context.stdout(joinedText(joined))
  context.stdout(emptyText(plan, asked, opened.streams, runAt))
  const unsure = isAsked && isUnsure(plan, joined)
  if (unsure) context.stderr(unsureText)
  const lost = dryRun ? [] : await prunedDays(opened.journal, asked, rest, done.days)
  const short = [...plan.short, ...lost]
  context.stderr(shortText(short, howText(options, isRunning)))
  context.stderr(shortText(cut, (stream) => cutText(asked.only === 'api' || includesStream(joined, stream))))
  // With --only journal, incomplete days are not an error.
  const lacking = asked.only === 'journal' ? 0 : short.length + cut.length
  return !done.stopped && !unsure && lacking === 0
}

/** False: the rest of a partly read day may not arrive automatically. */
async function warnOfLateDays(
  { stderr }: CommandContext,
  { asked, plan, jobs }: Sending,
  client: ControlClient | undefined,
): Promise<boolean> {
  const parts = partDays(plan, jobs)
  if (!client || parts.length === 0) return true
  const late = lateDays(parts, await client.status())
  stderr(lateText(late, asked.only))
  return late.length === 0
}

/** Throws WrongUsage for an unknown name or a source not taken. */
async function sinkOf(
  { sink: name, workspace, source }: SendOptions,
  { journal, sinks, names }: OpenJournal,
  span: JobSpan,
): Promise<SinkConfig> {
  const sink = sinks.find((one) => one.name === name)
  const known = await names()
  if (!sink) throw new WrongUsage(unknownName('sink', name, known.sinks))
  if (source !== undefined && !sink.sources.some((one) => one === source))
    throw new WrongUsage(`sink ${name} does not take ${source}: its sources are ${sink.sources.join(', ')}`)
  if (workspace === undefined || known.workspaces.some(({ name: one }) => one === workspace)) return sink
  // Stored entries of a workspace that left the configuration can be sent again.
  const { kept } = await journal.counts(wholeDays(span))
  const left = kept.map(({ stream }) => ({ name: stream.workspace }))
  assertUsage(unknownName('workspace', workspace, [...known.workspaces, ...left]))
  return sink
}

// Texts for replay jobs from the API: what was sent, and how other sinks get what they lack.

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

/** Advice if this sink received entries that the others may lack. */
function adviceText({ counts, stream, spans }: Job): string {
  const [first] = spans
  const last = spans.at(-1)
  if (counts.unknown === 0 || !first || !last) return ''
  const span = `--workspace ${stream.workspace} --from ${secondText(first.fromUs / 1000)} --to ${secondText(Math.ceil(last.toUs / 1e6) * 1000)}`
  return `auditferry: ${countText(counts.unknown, 'entries')} of ${printable(`${stream.workspace} ${stream.source}`)} were sent that the journal does not have, or not with this content: never read, excluded by types at the time, changed since, or older than journal.dedup_retention. Other sinks may lack them. To check: auditferry reconcile ${span}. To deliver them to every sink: auditferry backfill ${span}\n`
}
