// `status`: the daemon's state on one screen, from its control socket or else its listener.
import { realFiles } from '../config/files.ts'
import { basePath } from '../config/journal.ts'
import { sourcesOf } from '../config/schema.ts'
import type { Config } from '../config/schema.ts'
import { hostPort } from '../contracts/platform.ts'
import { connectControl } from '../control/client.ts'
import { printable } from '../core/printable.ts'
import { controlPath } from '../journal/sqlite/files.ts'
import { rateLimitOf, isLagUnknown, noDelivery } from '../observability/status.ts'
import type {
  BackfillStatus,
  RateLimitStatus,
  FaultStatus,
  ReplayStatus,
  SourceStatus,
  StatusReport,
} from '../observability/status.ts'
import { faultText } from '../observability/summary.ts'
import {
  answerText,
  countText,
  limitedText,
  loweredText,
  memoryText,
  neverTexts,
  nextTryText,
  numberText,
  sizeText,
  spanText,
  stampText,
  uploadText,
  usedText,
  utcText,
} from '../observability/words.ts'
import { systemClock } from '../platform/clock.ts'
import { configFile } from './shared/config-file.ts'
import { gapsText, progressText, troubleText } from './shared/jobs.ts'
import { configOrAddress, warnInvalid } from './shared/journal.ts'
import type { DaemonAddress } from './shared/journal.ts'
import { columns } from './shared/terminal.ts'
import type { Paint } from './shared/terminal.ts'
import { exitCodes } from './shared/context.ts'
import type { CommandContext } from './shared/context.ts'
import { watchStatus } from './status-watch.ts'
import type { Look } from './status-watch.ts'

interface StatusOptions {
  readonly config?: string
  readonly json: boolean
  readonly watch?: boolean
}

export async function status(
  context: CommandContext,
  options: StatusOptions,
  clock = systemClock,
): Promise<number> {
  const file = configFile(context, options.config)
  const { place, config, faults } = configOrAddress(file, context)
  let isWarned = false
  const look = async (): Promise<Look> => {
    const { report, other } = await ask(place, config, context)
    if (faults && !report) throw faults
    if (faults && !isWarned) warnInvalid(file, context)
    isWarned = true
    return report ? { report } : { message: noDaemonText(file, place, other) }
  }
  const textOf = (report: StatusReport) =>
    `${(options.json ? JSON.stringify(report, null, 2) : statusText(report, context.colours)).trimEnd()}\n`
  if (options.watch === true) return watchStatus(context, look, textOf, clock)
  const { report, message } = await look()
  if (report) context.stdout(textOf(report))
  else context.stderr(message)
  return report?.ok === true ? exitCodes.done : exitCodes.failed
}

async function ask(
  place: DaemonAddress,
  config: Config | undefined,
  context: CommandContext,
): Promise<Answer> {
  const client = await connectControl(basePath(place))
  if (client) return { report: await client.status() }
  const asked = await askListener(place, config)
  if (asked.report)
    context.stderr(`auditferry: there is no control socket; this is the answer of ${listenerUrl(place)}\n`)
  return asked
}

function noDaemonText(file: string, config: DaemonAddress, other: string | undefined): string {
  const base = basePath(config)
  const socket = controlPath(base) ?? base
  const url = listenerUrl(config)
  const whose = other === undefined ? '' : `; the daemon at ${url} has another journal, ${printable(other)}`
  const listener = config.server.listen.port === 0 || whose ? whose : ` or ${url}`
  const first = whose
    ? `if journal${config.journal.postgres ? '' : '.path'} was changed while the daemon runs, change it back; otherwise give this daemon another server.listen, then `
    : ''
  return `auditferry: no daemon runs on ${file}: no answer at ${socket}${listener}; ${first}start it with: auditferry run --config ${file}\n`
}

/** @internal */
export function statusText(report: StatusReport, colours = false): string {
  const paint = colours ? painted : undefined
  const now = Date.parse(report.reported_at)
  const ago: Ago = (instant, absent = 'never') =>
    instant === null ? absent : `${spanText(Math.max(0, (now - Date.parse(instant)) / 1000))} ago`
  const up = spanText(Math.max(0, (now - Date.parse(report.started_at)) / 1000))
  return [
    `${printable(report.summary)}\n`,
    sourceLines(report, ago, paint),
    sinkLines(report, ago, paint),
    journalLine(report) + gapLines(report) + findingLines(report) + warningLines(report, ago),
    ...jobLines(report),
    ...shardLines(report, ago),
    `Auditferry ${printable(report.version)}, up ${up}, as of ${utcText(report.reported_at)}\n`,
  ].join('\n')
}

const [RED, YELLOW, GREEN] = [31, 33, 32]
const colourOf: Readonly<Record<string, number>> = {
  failing: RED,
  blocked: RED,
  paused: YELLOW,
  waiting: YELLOW,
  starting: YELLOW,
  reading: GREEN,
  idle: GREEN,
  sending: GREEN,
}

/** The text shows the state; colour is only an addition. */
const painted: Paint = (padded, text) => {
  const colour = colourOf[text]
  return colour === undefined ? padded : `\u001b[${colour}m${padded}\u001b[0m`
}

type Ago = (instant: string | null, absent?: string) => string

const lag = (seconds: number) => (seconds < 1 ? 'none' : spanText(seconds))

const sourceLag = (source: SourceStatus) => (isLagUnknown(source) ? 'unknown' : lag(source.lag_seconds))

type Part = Readonly<{ name: string; error: FaultStatus | null }>

function faultLines(parts: readonly Part[], report: StatusReport, ago: Ago): string {
  return parts
    .map(({ name, error }) => {
      if (!error) return ''
      const next = nextTryText(error.next_try_at, Date.parse(report.reported_at))
      return `  ${name}: ${printable(faultText(error, report))} (${error.code}, began ${ago(error.since)}${next})\n`
    })
    .join('')
}

const budgetText = (rateLimiter: RateLimitStatus | undefined) =>
  rateLimiter === undefined ? '-' : usedText(rateLimiter.used, rateLimiter.limit)

function sourceLines(report: StatusReport, ago: Ago, paint?: Paint): string {
  const sources = report.workspaces.flatMap(({ name, sources: own, rate_limits = [] }) =>
    own.map((source) => ({
      ...source,
      never: neverTexts(source, Date.parse(report.reported_at)),
      name: `${name} ${source.name}`,
      used: budgetText(rateLimitOf(source, { rate_limits })),
    })),
  )
  const rows = sources.map((source) => [
    ...[source.name, source.state],
    ...[ago(source.last_success_at, source.never[0]), ago(source.caught_up_at, source.never[1])],
    ...[sourceLag(source), source.used, String(source.gaps)],
  ])
  const head = ['SOURCE', 'STATE', 'LAST READ', 'CAUGHT UP', 'LAG', 'REQUESTS/MIN', 'GAPS']
  return (
    columns([head, ...rows], paint) +
    faultLines(sources, report, ago) +
    limitLines(report) +
    answerLines(sources, Date.parse(report.reported_at))
  )
}

function answerLines(sources: readonly SourceStatus[], now: number): string {
  return sources
    .map(({ name, waits_for_memory_since, answer_comes_since }) => {
      const text = memoryText(waits_for_memory_since, now) || answerText(answer_comes_since, now)
      return text === '' ? '' : `  ${name}: ${text}\n`
    })
    .join('')
}

/** Includes areas whose 429 came before the start, or through another source. */
function limitLines({ workspaces, reported_at }: StatusReport): string {
  return workspaces
    .flatMap(({ name, rate_limits = [] }) => rate_limits.map((one) => ({ ...one, name })))
    .flatMap(({ name, area, used, limit, limited_until: until, lowered_from: from }) => {
      const texts = [
        ...(until === undefined ? [] : [limitedText(until, Date.parse(reported_at))]),
        ...(from === undefined ? [] : [loweredText(limit, from, used)]),
      ]
      return texts.map((text) => `  ${printable(name)}, requests of ${area}: ${text}\n`)
    })
    .join('')
}

function sinkLines(report: StatusReport, ago: Ago, paint?: Paint): string {
  const { sinks } = report
  const rows = sinks.map((sink) => [
    ...[sink.name, sink.type, sink.assurance, sink.state, ago(sink.last_success_at, noDelivery(report))],
    ...[lag(sink.lag_seconds), String(sink.pending_entries), String(sink.dead_letters)],
  ])
  const head = ['SINK', 'TYPE', 'ASSURANCE', 'STATE', 'LAST DELIVERY', 'BEHIND', 'PENDING', 'DEAD LETTERS']
  return columns([head, ...rows], paint) + faultLines(sinks, report, ago) + uploadLines(report)
}

function uploadLines({ sinks, reported_at }: StatusReport): string {
  return sinks
    .flatMap(({ name, state, next_upload_at: at }) => {
      const text = uploadText(at, Date.parse(reported_at))
      return text === '' ? [] : [`  ${printable(name)}: ${state}, ${text}\n`]
    })
    .join('')
}

function journalLine({ journal }: StatusReport): string {
  const { entries, bytes, capacity_bytes, quarantined, gaps, findings, paused, unconfigured } = journal
  const left =
    unconfigured.length > 0 ? `\n  left the configuration: ${printable(unconfigured.join(', '))}` : ''
  return `JOURNAL  ${countText(entries, 'entries')} pending, ${sizeText(bytes)} of ${sizeText(capacity_bytes)}${paused ? ', reading is paused' : ''}; ${quarantined} quarantined, ${countText(gaps, 'possible gaps')}, ${countText(findings, 'findings')}${left}\n`
}

/** Only of a journal in PostgreSQL. */
function shardLines({ shards = [], workspaces }: StatusReport, ago: Ago): string[] {
  if (shards.length === 0) return []
  const rows = shards.map(({ shard, holder, since, takeovers, here }) => [
    ...[String(shard), holder === null ? 'none' : `${holder}${here ? ' (this one)' : ''}`],
    ...[ago(since), String(takeovers)],
  ])
  const elsewhere = workspaces
    .filter(({ replica }) => replica !== undefined)
    .map(({ name, replica }) => `  ${printable(name)}: read by replica ${printable(replica ?? '')}\n`)
  return [columns([['SHARD', 'REPLICA', 'SINCE', 'TAKEOVERS'], ...rows]) + elsewhere.join('')]
}

function gapLines({ workspaces }: StatusReport): string {
  return workspaces
    .flatMap(({ name, sources }) => sources.map((source) => ({ ...source, workspace: name })))
    .flatMap(({ workspace, name, last_gap_at: at }) =>
      at ? [`  possible gap: last in ${printable(workspace)} ${name}, found ${utcText(at)}\n`] : [],
    )
    .join('')
}

/** Only the last few: details are in the SIEM. */
const SHOWN_FINDINGS = 3

/** An older daemon does not report them. */
function findingLines({ findings = [] }: Partial<StatusReport>): string {
  const lines = findings.slice(0, SHOWN_FINDINGS).map(({ workspace, source, kind, entry_id, entry_at }) => {
    const of = entry_at === null ? '' : ` of ${utcText(entry_at)}`
    return `  ${kind.replace('_', ' ')}: entry ${printable(entry_id)}${of} in ${printable(workspace)} ${printable(source)}\n`
  })
  const rest = findings.length - lines.length
  return lines.join('') + (rest > 0 ? '  more of them: --json\n' : '')
}

function warningLines({ warnings = [] }: Partial<StatusReport>, ago: Ago): string {
  return warnings
    .map(({ message, since }) => `  to fix: ${printable(message)} (since ${ago(since)})\n`)
    .join('')
}

// Without a control socket: the report from the listener, if it belongs to this configuration.

const HTTP_MS = 3_000

/** A wildcard address is requested at the loopback address. */
function listenerUrl({ server }: DaemonAddress): string {
  const { host, port } = server.listen
  const name = host === '0.0.0.0' ? '127.0.0.1' : host === '::' ? '::1' : host
  return `http://${hostPort({ host: name, port })}`
}

/** `report`: of our daemon; `other`: journal of another daemon at that address. */
interface Answer {
  readonly report?: StatusReport
  readonly other?: string
}

async function askListener(place: DaemonAddress, config: Config | undefined): Promise<Answer> {
  // A random port: the configuration does not say which.
  if (place.server.listen.port === 0) return {}
  const report = await reportAt(`${listenerUrl(place)}/status`)
  if (!report) return {}
  const { path } = report.journal
  // An older daemon without a journal path: compare the names.
  if (path === undefined) return !config || isNamedAs(config, report) ? { report } : {}
  return !place.journal.postgres && isSameFile(path, place.journal.path) ? { report } : { other: path }
}

async function reportAt(url: string): Promise<StatusReport | undefined> {
  try {
    const reply = await fetch(url, { signal: AbortSignal.timeout(HTTP_MS), redirect: 'error' })
    const report = (await reply.json()) as StatusReport
    return isReport(report) ? report : undefined
  } catch {
    return undefined
  }
}

function isReport({ sinks, workspaces, summary, journal }: Partial<StatusReport>): boolean {
  const isOne = Array.isArray(sinks) && Array.isArray(workspaces) && typeof summary === 'string'
  return isOne && journal !== undefined && ['string', 'undefined'].includes(typeof journal.path)
}

/** Follows links. For a daemon in a container only the name may be known here. */
const isSameFile = (one: string, other: string) => realFiles.identity(one) === realFiles.identity(other)

function isNamedAs({ sinks, workspaces }: Config, report: StatusReport): boolean {
  const names = (parts: readonly { name: string }[]) => parts.map(({ name }) => name).join(' ')
  return (
    names(report.sinks) === names(sinks) &&
    names(report.workspaces) === names(workspaces.filter((each) => sourcesOf(each).length > 0))
  )
}

// Running backfills, and replays from the API.

/** Per kind; `--status` of each command lists all. */
const SHOWN = 10

type JobStatus = Omit<BackfillStatus, 'new_entries'>

function jobText(job: JobStatus, to: string, came: string): string {
  const { workspace, source, progress, read_entries, gaps, error, waits_for, wait_reason } = job
  const span = `${stampText(job.from)} to ${stampText(job.to)} UTC`
  const name = printable(`${workspace} ${source}${to}, ${span}`)
  const counts = `${countText(read_entries, 'entries')} read, ${came}${gapsText(gaps)}`
  const trouble = troubleText({ error, waitsFor: waits_for, waitReason: wait_reason })
  return `  ${progressText(name, progress ?? undefined, counts, trouble)}\n`
}

const backfillText = (job: BackfillStatus) => jobText(job, '', `${numberText(job.new_entries)} new`)
const replayText = (job: ReplayStatus) =>
  jobText(job, ` to ${job.sink}`, `${numberText(job.sent_entries)} queued`)

function sectionText<One extends JobStatus>(
  title: string,
  command: string,
  all: readonly One[],
  text: (one: One) => string,
): string[] {
  const open = all.filter(({ state }) => state !== 'done')
  if (open.length === 0) return []
  const rest = open.length - SHOWN
  const more = rest > 0 ? `  and ${rest} more: auditferry ${command} --status\n` : ''
  return [`${title}\n${open.slice(0, SHOWN).map(text).join('')}${more}`]
}

function jobLines({ backfills = [], replays = [] }: Partial<StatusReport>): string[] {
  return [
    ...sectionText('BACKFILLS UNDER WAY', 'backfill', backfills, backfillText),
    ...sectionText('REPLAYS FROM THE API UNDER WAY', 'replay', replays, replayText),
  ]
}
