// `reconcile`: reads whole UTC days from the API again, keeps nothing, and compares them with the journal's accounts and keys.
import { randomUUID } from 'node:crypto'
import { existsSync } from 'node:fs'
import { openApp } from '../../app/app.ts'
import { loadToRun } from '../../config/environment-checks.ts'
import { realFiles } from '../../config/files.ts'
import type { Config } from '../../config/schema.ts'
import { accountReport } from '../../contracts/accounts.ts'
import type { AccountReport, DayRange } from '../../contracts/accounts.ts'
import type { Comparing, Jobs, JobSpan } from '../../contracts/jobs.ts'
import type { Journal } from '../../contracts/journal.ts'
import { isSameStream } from '../../contracts/source.ts'
import type { Stream } from '../../contracts/source.ts'
import { connectControl } from '../../control/client.ts'
import type { Clock } from '../../core/clock.ts'
import { printable } from '../../core/printable.ts'
import { DAY_MS, DAY_US, dayText, epochDay } from '../../core/time.ts'
import { numberText } from '../../observability/words.ts'
import { systemClock } from '../../platform/clock.ts'
import { configFile, knownConfig, references } from '../shared/config-file.ts'
import { realEnvironment } from '../shared/environment.ts'
import { spanOf } from '../shared/instants.ts'
import { noJournal } from '../shared/journal.ts'
import { isKnown } from '../shared/names.ts'
import { columns } from '../shared/terminal.ts'
import { exitCodes } from '../shared/world.ts'
import type { CommandContext } from '../shared/world.ts'
import { compareStream } from './compare.ts'
import type { StreamCounts } from './compare.ts'
import { reportOf, rereadOf } from './report.ts'
import { reportText } from './text.ts'

interface ReconcileOptions {
  readonly config?: string
  readonly from: string
  readonly to?: string
  readonly workspace?: string
  readonly json: boolean
}

interface Opened {
  readonly jobs: Pick<Jobs, 'origins'>
  readonly comparing: Comparing
  readonly accounts: Pick<Journal, 'counts' | 'pending'>
  readonly instance: string | undefined
  readonly running: boolean
  close(): Promise<void>
}

/** While the daemon works an entry may be between two columns for a moment: what stays uneven so often is uneven. */
const BALANCE_TRIES = 5
const BALANCE_MS = 1_000

export async function reconcile(
  context: CommandContext,
  options: ReconcileOptions,
  clock: Clock = systemClock,
): Promise<number> {
  const file = configFile(context, options.config)
  const known = knownConfig(file, context)
  if (!isKnown(context, 'workspace', options.workspace, known.workspaces)) return exitCodes.usage
  const days = daysMeant(context, options, clock.now())
  if (!days) return exitCodes.usage
  const opened = await open(context, file, known)
  try {
    const origins = (await opened.jobs.origins()).filter(
      ({ workspace }) => (options.workspace ?? workspace) === workspace,
    )
    if (origins.length === 0) {
      context.stderr('auditferry: none of the selected sources is switched on and can be read again\n')
      return exitCodes.failed
    }
    const interrupted = (streams: readonly StreamCounts[]) => printPartial(context, options, streams)
    const streams = await compareAll({ context, opened, origins, days, clock, interrupted })
    if (!streams) return exitCodes.failed
    const sinks = known.sinks.map(({ name }) => name)
    const accountReport = await settledAccounts(opened.accounts, days, sinks, origins, clock)
    const report = reportOf({
      version: context.version,
      instance: opened.instance,
      journal: known.journal.path,
      accountReport,
      streams,
      running: opened.running,
      hosts: hostsOf(known),
      reread: rereadOf(known, clock.now()),
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

/** Whole UTC days, rounded outwards; up to the last midnight unless told. */
function daysMeant(
  context: CommandContext,
  { from, to }: ReconcileOptions,
  nowMs: number,
): DayRange | undefined {
  const today = epochDay(nowMs * 1000)
  const span = spanOf(context, from, to, nowMs)
  if (!span) return undefined
  const text = (day: number) => dayText(day * DAY_MS)
  if (to === undefined && span.fromUs >= today * DAY_US) {
    context.stderr(
      `error: --to defaults to the last midnight (${text(today)}); to show today without a verdict, add --to ${text(today + 1)}, or --to now\n`,
    )
    return undefined
  }
  const fromDay = epochDay(span.fromUs)
  const toDay = to === undefined ? today : Math.min(Math.ceil(span.toUs / DAY_US), today + 1)
  const isToWhole = to === undefined || to === 'now' || toDay * DAY_US === span.toUs
  if (fromDay >= toDay) {
    context.stderr('error: --from must be earlier than now\n')
    return undefined
  }
  if (fromDay * DAY_US !== span.fromUs || !isToWhole) {
    context.stderr(`auditferry: comparing full UTC days: ${text(fromDay)} to ${text(toDay)}, end excluded\n`)
  }
  return { fromDay, toDay }
}

async function open(context: CommandContext, file: string, known: Config): Promise<Opened> {
  const { path } = known.journal
  const client = await connectControl(path)
  if (client)
    return {
      jobs: client.jobs,
      comparing: client,
      accounts: client,
      running: true,
      instance: await client.instance(),
      close: () => Promise.resolve(),
    }
  if (!existsSync(path)) throw noJournal(path)
  const { config } = loadToRun(file, references(context), realFiles)
  const quiet = { ...config, log: { ...config.log, level: 'warn' as const } }
  const app = await openApp(quiet, realEnvironment(quiet, context), { once: true, jobsOnly: true })
  return {
    jobs: app.jobs,
    comparing: app.comparing,
    accounts: app.journal,
    running: false,
    instance: await app.journal.note('instance'),
    close: () => app.stop(),
  }
}

interface AllStreams {
  readonly context: CommandContext
  readonly opened: Pick<Opened, 'comparing'>
  readonly origins: readonly Stream[]
  readonly days: DayRange
  readonly clock: Clock
  /** gets what was read of all where it does not come to the end */
  readonly interrupted: (streams: readonly StreamCounts[]) => void
}

function printPartial(
  { stdout }: CommandContext,
  { json }: ReconcileOptions,
  streams: readonly StreamCounts[],
): void {
  const text = partialText(streams)
  if (text !== '') stdout(json ? partialJson(streams) : text)
}

/** One after the other: they share the rate limit anyway. Undefined, and said, where one could not be read to its end. */
async function compareAll({
  context,
  opened: { comparing },
  origins,
  days: { fromDay, toDay },
  clock,
  interrupted,
}: AllStreams): Promise<readonly StreamCounts[] | undefined> {
  const span: JobSpan = { fromUs: fromDay * DAY_US, toUs: toDay * DAY_US }
  const all: StreamCounts[] = []
  const job = randomUUID()
  try {
    for (const stream of origins) {
      const counts = await compareStream({
        ...{ comparing, stream, span, job, clock, context },
        interrupted: (part) => interrupted([...all, part]),
      })
      if (!counts) {
        context.stderr('auditferry: interrupted: no result, and nothing was changed\n')
        return undefined
      }
      all.push(counts)
    }
    return all
  } finally {
    // A daemon that is gone has nothing to free.
    await comparing.endCompare(job).catch(() => undefined)
  }
}

async function settledAccounts(
  accounts: Opened['accounts'],
  days: DayRange,
  sinks: readonly string[],
  origins: readonly Stream[],
  clock: Clock,
): Promise<AccountReport> {
  const isMeant = (one: Stream) => origins.some((stream) => isSameStream(stream, one))
  for (let tries = 1; ; tries++) {
    const { kept, rows } = await accountReport(accounts, days, sinks)
    const own = {
      kept: kept.filter(({ stream }) => isMeant(stream)),
      rows: rows.filter(({ stream }) => isMeant(stream)),
    }
    const isEven = own.rows.every(({ missing }) => missing === 0)
    if (isEven || tries === BALANCE_TRIES) return own
    await clock.sleep(BALANCE_MS)
  }
}

function hostsOf({ workspaces }: Config): ReadonlyMap<string, string> {
  return new Map(workspaces.map(({ name, base_url }) => [name, new URL(base_url).host]))
}

// What `reconcile` prints if it was interrupted: the numbers so far, without a result. Pure.

const rowsOf = (streams: readonly StreamCounts[]) =>
  streams.flatMap(({ stream, days }) =>
    days.map(({ day, early = 0, ...counts }) => ({
      ...stream,
      day: dayText(day * DAY_MS),
      ...counts,
      before_start: early,
    })),
  )

const unknownOf = (streams: readonly StreamCounts[]) =>
  streams.flatMap(({ stream, unknown }) =>
    unknown.map(({ id, day }) => ({ ...stream, id, day: dayText(day * DAY_MS) })),
  )

/** Empty where nothing was read. @internal for tests */
export function partialText(streams: readonly StreamCounts[]): string {
  const rows = rowsOf(streams)
  if (rows.length === 0) return ''
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

/** `ok` as in the whole report: who looks at that alone is not misled. */
const partialJson = (streams: readonly StreamCounts[]): string =>
  `${JSON.stringify({ partial: true, ok: false, read: rowsOf(streams), unknown: unknownOf(streams) }, null, 2)}\n`
