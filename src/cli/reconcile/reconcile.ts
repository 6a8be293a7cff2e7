// `reconcile`: reads full UTC days from the API again and compares them with the journal's accounts
// and keys. Stores nothing.
import { randomUUID } from 'node:crypto'
import { existsSync } from 'node:fs'
import { openApp } from '../../app/app.ts'
import { loadToRun } from '../../config/environment-checks.ts'
import { realFiles } from '../../config/files.ts'
import type { Config } from '../../config/schema.ts'
import { accountReport } from '../../contracts/accounts.ts'
import type { AccountReport, Accounts, DayRange } from '../../contracts/accounts.ts'
import { progressOf } from '../../contracts/jobs.ts'
import type { Compared, ComparedStream, Comparing, JobSpan } from '../../contracts/jobs.ts'
import { isSameStream } from '../../contracts/source.ts'
import type { Stream } from '../../contracts/source.ts'
import { connectControl } from '../../control/client.ts'
import type { Clock } from '../../core/clock.ts'
import { ConnectorError } from '../../core/errors.ts'
import { printable } from '../../core/printable.ts'
import { DAY_MS, DAY_US, dayText, epochDay } from '../../core/time.ts'
import { countText, numberText } from '../../observability/words.ts'
import { systemClock } from '../../platform/clock.ts'
import { configFile, knownConfig, references } from '../shared/config-file.ts'
import { realEnvironment } from '../shared/environment.ts'
import { spanOf } from '../shared/instants.ts'
import { progressText, troubleText } from '../shared/jobs.ts'
import { basePath, journalText } from '../../config/journal.ts'
import { assertInFile, noJournal } from '../shared/journal.ts'
import { unknownName } from '../shared/names.ts'
import { columns } from '../shared/terminal.ts'
import { assertUsage, exitCodes, WrongUsage } from '../shared/context.ts'
import type { CommandContext } from '../shared/context.ts'
import { reportOf, lookbackDays } from './report.ts'
import { reportText } from './text.ts'

interface ReconcileOptions {
  readonly config?: string
  readonly from: string
  readonly to?: string
  readonly workspace?: string
  readonly json: boolean
}

interface Opened {
  readonly comparing: Comparing
  readonly accounts: Accounts
  readonly instance: string | undefined
  readonly running: boolean
  close(): Promise<void>
}

/** A difference counts if it lasts: an entry in flight is briefly in neither column. */
const ACCOUNT_TRIES = 5
const ACCOUNT_RETRY_MS = 1_000

export async function reconcile(
  context: CommandContext,
  options: ReconcileOptions,
  clock: Clock = systemClock,
): Promise<number> {
  const file = configFile(context, options.config)
  const known = knownConfig(file, context)
  assertUsage(unknownName('workspace', options.workspace, known.workspaces))
  const days = selectedDays(context, options, clock.now())
  const opened = await open(context, file, known)
  try {
    const streams = await compareAll(context, opened.comparing, { options, days, clock })
    if (!streams) return exitCodes.failed
    const sinks = known.sinks.map(({ name }) => name)
    const accountReport = await settledAccounts(opened.accounts, days, sinks, streams, clock)
    const report = reportOf({
      version: context.version,
      instance: opened.instance,
      journal: journalText(known),
      accountReport,
      streams,
      running: opened.running,
      hosts: hostsOf(known),
      lookback: lookbackDays(known, clock.now()),
      days,
      nowMs: clock.now(),
      keysSinceMs: clock.now() - known.journal.dedup_retention,
    })
    context.stdout(options.json ? `${JSON.stringify(report, null, 2)}\n` : reportText(report))
    return report.ok ? exitCodes.done : exitCodes.failed
  } finally {
    await opened.close()
  }
}

/** Full UTC days, rounded outwards; by default up to the last midnight. */
function selectedDays(context: CommandContext, { from, to }: ReconcileOptions, nowMs: number): DayRange {
  const today = epochDay(nowMs * 1000)
  const span = spanOf(from, to, nowMs)
  const text = (day: number) => dayText(day * DAY_MS)
  if (to === undefined && span.fromUs >= today * DAY_US)
    throw new WrongUsage(
      `--from is not before --to, which defaults to the last midnight (${text(today)}): to include today, without a result, add --to ${text(today + 1)}, or --to now`,
    )
  const fromDay = epochDay(span.fromUs)
  const toDay = to === undefined ? today : Math.min(Math.ceil(span.toUs / DAY_US), today + 1)
  const isToWhole = to === undefined || to === 'now' || toDay * DAY_US === span.toUs
  if (fromDay >= toDay) throw new WrongUsage('--from must be earlier than now')
  if (fromDay * DAY_US !== span.fromUs || !isToWhole) {
    context.stderr(`auditferry: comparing full UTC days: ${text(fromDay)} to ${text(toDay)}, end excluded\n`)
  }
  return { fromDay, toDay }
}

async function open(context: CommandContext, file: string, known: Config): Promise<Opened> {
  const { path } = known.journal
  const client = await connectControl(basePath(known))
  if (client)
    return {
      comparing: client,
      accounts: client,
      running: true,
      instance: await client.instance(),
      close: () => Promise.resolve(),
    }
  assertInFile(known)
  if (!existsSync(path)) throw noJournal(path)
  const { config } = loadToRun(file, references(context), realFiles)
  const quiet = { ...config, log: { ...config.log, level: 'warn' as const } }
  const app = await openApp(quiet, realEnvironment(quiet, context), { once: true, jobsOnly: true })
  return {
    comparing: app.comparing,
    accounts: app.journal,
    running: false,
    instance: await app.journal.state.get('instance'),
    close: () => app.stop(),
  }
}

const LINE_MS = 10_000

interface CompareOptions {
  readonly options: ReconcileOptions
  readonly days: DayRange
  readonly clock: Clock
}

/** Undefined: interrupted. Then, and if it throws, prints the counts so far. @internal for tests */
export async function compareAll(
  context: Pick<CommandContext, 'stdout' | 'stderr' | 'signal'>,
  comparing: Comparing,
  { options: { workspace, json }, days: { fromDay, toDay }, clock }: CompareOptions,
): Promise<readonly ComparedStream[] | undefined> {
  const job = randomUUID()
  const span = { fromUs: fromDay * DAY_US, toUs: toDay * DAY_US }
  const request = { job, ...span, ...(workspace !== undefined && { workspace }) }
  let compared: Compared | undefined
  let printedAt = clock.elapsed()
  try {
    while (!context.signal.aborted) {
      compared = await comparing.compare(request).catch(explained)
      const { isDone, error, streams } = compared
      if (isDone && error) throw new ConnectorError(error.code, error.message)
      if (isDone) return streams
      if (clock.elapsed() - printedAt < LINE_MS) continue
      printedAt = clock.elapsed()
      context.stderr(lineText(compared, span, clock))
    }
    context.stderr('auditferry: interrupted: no result, and nothing was changed\n')
    return undefined
  } finally {
    const { isDone = false, error, streams = [] } = compared ?? {}
    if ((!isDone || error) && streams.some(({ days }) => days.length > 0))
      context.stdout(json ? partialJson(streams) : partialText(streams))
    // Fails only if the daemon is gone, and the comparison with it.
    await comparing.endCompare(job).catch(() => undefined)
  }
}

function explained(error: unknown): never {
  if (!(error instanceof ConnectorError) || error.code !== 'aborted') throw error
  throw new ConnectorError(
    'aborted',
    'The daemon stopped or took a new configuration meanwhile; nothing was changed, start again',
    { cause: error },
  )
}

/** The ratio excludes future days, which are not read. */
function lineText({ streams, ...progress }: Compared, { fromUs, toUs }: JobSpan, clock: Clock): string {
  const { stream, days = [] } = streams.at(-1) ?? {}
  const spans = [{ fromUs, toUs: Math.max(fromUs + 1, Math.min(toUs, clock.now() * 1000)) }]
  const ratio = progressOf({ spans, atUs: progress.atUs, endedAt: undefined })
  const fetched = days.reduce((sum, day) => sum + day.fetched, 0)
  const name = printable(`${stream?.workspace} ${stream?.source}`)
  return `${progressText(name, ratio, `${countText(fetched, 'entries')} fetched`, troubleText(progress))}\n`
}

async function settledAccounts(
  accounts: Opened['accounts'],
  days: DayRange,
  sinks: readonly string[],
  streams: readonly ComparedStream[],
  clock: Clock,
): Promise<AccountReport> {
  const isCompared = (one: Stream) => streams.some(({ stream }) => isSameStream(stream, one))
  for (let tries = 1; ; tries++) {
    const { kept, rows } = await accountReport(accounts, days, sinks)
    const own = {
      kept: kept.filter(({ stream }) => isCompared(stream)),
      rows: rows.filter(({ stream }) => isCompared(stream)),
    }
    const isBalanced = own.rows.every(({ missing }) => missing === 0)
    if (isBalanced || tries === ACCOUNT_TRIES) return own
    await clock.sleep(ACCOUNT_RETRY_MS)
  }
}

function hostsOf({ workspaces }: Config): ReadonlyMap<string, string> {
  return new Map(workspaces.map(({ name, base_url }) => [name, new URL(base_url).host]))
}

// Output of an interrupted `reconcile`: the counts so far, without a result. Pure.

const rowsOf = (streams: readonly ComparedStream[]) =>
  streams.flatMap(({ stream, days }) =>
    days.map(({ day, early, ...counts }) => ({
      ...stream,
      day: dayText(day * DAY_MS),
      ...counts,
      before_start: early,
    })),
  )

const unknownOf = (streams: readonly ComparedStream[]) =>
  streams.flatMap(({ stream, unknown }) =>
    unknown.map(({ id, day }) => ({ ...stream, id, day: dayText(day * DAY_MS) })),
  )

function partialText(streams: readonly ComparedStream[]): string {
  const rows = rowsOf(streams)
  const counts = ['FETCHED', 'KNOWN', 'CHANGED', 'FILTERED', 'MALFORMED', 'BEFORE START', 'UNKNOWN']
  const lines = rows.map((row) => [
    ...[`${row.workspace} ${row.source}`, row.day],
    ...[row.fetched, row.known, row.changed, row.filtered, row.malformed].map(numberText),
    ...[row.before_start, row.unknown].map(numberText),
  ])
  const unknown = unknownOf(streams).map(
    ({ workspace, source, day, id }) => `${workspace} ${source}  ${day}  ${printable(id)}\n`,
  )
  const first = unknown.length === 0 ? '' : `\nNot known here, the first ones\n\n${unknown.join('')}`
  return `PARTIAL: the run was interrupted, and these are its counts so far. Days may be incomplete or missing: there is no verdict, and nothing is proved\n\n${columns([['SOURCE', 'DAY', ...counts], ...lines])}${first}`
}

/** With `ok: false`, for scripts that check only `ok`. */
const partialJson = (streams: readonly ComparedStream[]): string =>
  `${JSON.stringify({ partial: true, ok: false, read: rowsOf(streams), unknown: unknownOf(streams) }, null, 2)}\n`
