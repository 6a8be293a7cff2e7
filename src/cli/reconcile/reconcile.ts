// `reconcile`: walks the API again over whole UTC days, keeps nothing, and holds what it shows against the journal's books and keys.
import { randomUUID } from 'node:crypto'
import { existsSync } from 'node:fs'
import { openApp } from '../../app/app.ts'
import { loadToRun } from '../../config/environment-checks.ts'
import { realFiles } from '../../config/files.ts'
import type { Config } from '../../config/schema.ts'
import { balanceOf } from '../../contracts/accounts.ts'
import type { Balance, DayRange } from '../../contracts/accounts.ts'
import type { Backfills, PastSpan, Surveys } from '../../contracts/jobs.ts'
import type { Journal } from '../../contracts/journal.ts'
import { isSameOrigin } from '../../contracts/source.ts'
import type { Origin } from '../../contracts/source.ts'
import { connectControl } from '../../control/client.ts'
import type { Clock } from '../../core/clock.ts'
import { printable } from '../../core/printable.ts'
import { DAY_MS, DAY_US, dayText, epochDay } from '../../core/time.ts'
import { numberText } from '../../observability/words.ts'
import { systemClock } from '../../platform/clock.ts'
import { configFile, knownConfig, references } from '../shared/config-file.ts'
import { realOutside } from '../shared/environment.ts'
import { spanOf } from '../shared/instants.ts'
import { noJournal } from '../shared/journal.ts'
import { isKnown } from '../shared/names.ts'
import { columns } from '../shared/terminal.ts'
import { exitCodes } from '../shared/world.ts'
import type { World } from '../shared/world.ts'
import { reportOf, rereadOf } from './report.ts'
import { reportText } from './text.ts'
import { surveyAll } from './walk.ts'
import type { Walked } from './walk.ts'

interface ReconcileOptions {
  readonly config?: string
  readonly from: string
  readonly to?: string
  readonly workspace?: string
  readonly json: boolean
}

interface Opened {
  readonly backfills: Pick<Backfills, 'origins'>
  readonly surveys: Surveys
  readonly books: Pick<Journal, 'counts' | 'owed'>
  readonly instance: string | undefined
  readonly running: boolean
  close(): Promise<void>
}

/** While the daemon works an entry may be between two columns for a moment: what stays uneven so often is uneven. */
const BALANCE_TRIES = 5
const BALANCE_MS = 1_000

export async function reconcile(
  world: World,
  options: ReconcileOptions,
  clock: Clock = systemClock,
): Promise<number> {
  const file = configFile(world, options.config)
  const known = knownConfig(file, world)
  if (!isKnown(world, 'workspace', options.workspace, known.workspaces)) return exitCodes.usage
  const days = daysMeant(world, options, clock.now())
  if (!days) return exitCodes.usage
  const opened = await open(world, file, known)
  try {
    const origins = (await opened.backfills.origins()).filter(
      ({ workspace }) => (options.workspace ?? workspace) === workspace,
    )
    if (origins.length === 0) {
      world.stderr('auditferry: none of the selected sources is switched on and can be read again\n')
      return exitCodes.failed
    }
    const cutOff = (walked: readonly Walked[]) => tellPartial(world, options, walked)
    const walked = await walkAll({ world, opened, origins, days, clock, cutOff })
    if (!walked) return exitCodes.failed
    const sinks = known.sinks.map(({ name }) => name)
    const balance = await evenBalance(opened.books, days, sinks, origins, clock)
    const report = reportOf({
      version: world.version,
      instance: opened.instance,
      journal: known.journal.path,
      balance,
      walked,
      running: opened.running,
      hosts: hostsOf(known),
      reread: rereadOf(known, clock.now()),
      days,
      nowMs: clock.now(),
      keysSinceMs: clock.now() - known.journal.dedup_retention,
    })
    world.stdout(options.json ? `${JSON.stringify(report, null, 2)}\n` : reportText(report))
    return report.ok ? exitCodes.done : exitCodes.failed
  } finally {
    await opened.close()
  }
}

/** Whole UTC days, rounded outwards; up to the last midnight unless told. */
function daysMeant(world: World, { from, to }: ReconcileOptions, nowMs: number): DayRange | undefined {
  const today = epochDay(nowMs * 1000)
  const span = spanOf(world, from, to, nowMs)
  if (!span) return undefined
  const text = (day: number) => dayText(day * DAY_MS)
  if (to === undefined && span.fromUs >= today * DAY_US) {
    world.stderr(
      `error: --to defaults to the last midnight (${text(today)}); to show today without a verdict, add --to ${text(today + 1)}, or --to now\n`,
    )
    return undefined
  }
  const fromDay = epochDay(span.fromUs)
  const toDay = to === undefined ? today : Math.min(Math.ceil(span.toUs / DAY_US), today + 1)
  const isToWhole = to === undefined || to === 'now' || toDay * DAY_US === span.toUs
  if (fromDay >= toDay) {
    world.stderr('error: --from must be earlier than now\n')
    return undefined
  }
  if (fromDay * DAY_US !== span.fromUs || !isToWhole) {
    world.stderr(`auditferry: comparing full UTC days: ${text(fromDay)} to ${text(toDay)}, end excluded\n`)
  }
  return { fromDay, toDay }
}

async function open(world: World, file: string, known: Config): Promise<Opened> {
  const { path } = known.journal
  const client = await connectControl(path)
  if (client)
    return {
      backfills: client,
      surveys: client,
      books: client,
      running: true,
      instance: await client.instance(),
      close: () => Promise.resolve(),
    }
  if (!existsSync(path)) throw noJournal(path)
  const { config } = loadToRun(file, references(world), realFiles)
  const quiet = { ...config, log: { ...config.log, level: 'warn' as const } }
  const app = await openApp(quiet, realOutside(quiet, world), { once: true, pastAlone: true })
  return {
    backfills: app.backfills,
    surveys: app.surveys,
    books: app.journal,
    running: false,
    instance: await app.journal.note('instance'),
    close: () => app.stop(),
  }
}

interface WalkingAll {
  readonly world: World
  readonly opened: Pick<Opened, 'surveys'>
  readonly origins: readonly Origin[]
  readonly days: DayRange
  readonly clock: Clock
  /** is told what was walked of all where it does not come to the end */
  readonly cutOff: (walked: readonly Walked[]) => void
}

function tellPartial({ stdout }: World, { json }: ReconcileOptions, walked: readonly Walked[]): void {
  const text = partialText(walked)
  if (text !== '') stdout(json ? partialJson(walked) : text)
}

/** One after the other: they share the budget anyway. Undefined, and said, where one could not be walked to its end. */
async function walkAll({
  world,
  opened: { surveys },
  origins,
  days: { fromDay, toDay },
  clock,
  cutOff,
}: WalkingAll): Promise<readonly Walked[] | undefined> {
  const span: PastSpan = { fromUs: fromDay * DAY_US, toUs: toDay * DAY_US }
  const all: Walked[] = []
  const walk = randomUUID()
  const surveyed = async (origin: Origin) =>
    surveyAll({
      ...{ surveys, origin, span, walk, clock, world },
      cutOff: (part) => cutOff([...all, part]),
    })
  try {
    for (const origin of origins) {
      const walked = await surveyed(origin)
      if (!walked) {
        world.stderr('auditferry: interrupted: no result, and nothing was changed\n')
        return undefined
      }
      all.push(walked)
    }
    return all
  } finally {
    // A daemon that is gone has nothing to free.
    await surveys.endSurvey(walk).catch(() => undefined)
  }
}

async function evenBalance(
  books: Opened['books'],
  days: DayRange,
  sinks: readonly string[],
  origins: readonly Origin[],
  clock: Clock,
): Promise<Balance> {
  const isMeant = (one: Origin) => origins.some((origin) => isSameOrigin(origin, one))
  for (let tries = 1; ; tries++) {
    const { kept, rows } = await balanceOf(books, days, sinks)
    const own = {
      kept: kept.filter(({ origin }) => isMeant(origin)),
      rows: rows.filter(({ origin }) => isMeant(origin)),
    }
    const isEven = own.rows.every(({ missing }) => missing === 0)
    if (isEven || tries === BALANCE_TRIES) return own
    await clock.sleep(BALANCE_MS)
  }
}

function hostsOf({ workspaces }: Config): ReadonlyMap<string, string> {
  return new Map(workspaces.map(({ name, base_url }) => [name, new URL(base_url).host]))
}

// What `reconcile` tells where its walk was cut off: the numbers so far, of which nothing is judged. Pure.

const rowsOf = (walked: readonly Walked[]) =>
  walked.flatMap(({ origin, days }) =>
    days.map(({ day, early = 0, ...counts }) => ({
      ...origin,
      day: dayText(day * DAY_MS),
      ...counts,
      before_start: early,
    })),
  )

const unknownOf = (walked: readonly Walked[]) =>
  walked.flatMap(({ origin, unknown }) =>
    unknown.map(({ id, day }) => ({ ...origin, id, day: dayText(day * DAY_MS) })),
  )

/** Empty where nothing was walked. @internal for tests */
export function partialText(walked: readonly Walked[]): string {
  const rows = rowsOf(walked)
  if (rows.length === 0) return ''
  const counts = ['FETCHED', 'KNOWN', 'CHANGED', 'FILTERED', 'MALFORMED', 'BEFORE START', 'UNKNOWN']
  const lines = rows.map((row) => [
    ...[`${row.workspace} ${row.source}`, row.day],
    ...[row.fetched, row.known, row.changed, row.filtered, row.malformed].map(numberText),
    ...[row.before_start, row.unknown].map(numberText),
  ])
  const unknown = unknownOf(walked).map(
    ({ workspace, source, day, id }) => `${workspace} ${source}  ${day}  ${printable(id)}\n`,
  )
  const first = unknown.length === 0 ? '' : `\nNot known here, the first ones\n\n${unknown.join('')}`
  return `PARTIAL: the run was interrupted, and these are its counts so far. Days may be incomplete or missing: there is no verdict, and nothing is proved\n\n${columns([['SOURCE', 'DAY', ...counts], ...lines])}${first}`
}

/** `ok` as in the whole report: who looks at that alone is not misled. */
const partialJson = (walked: readonly Walked[]): string =>
  `${JSON.stringify({ partial: true, ok: false, read: rowsOf(walked), unknown: unknownOf(walked) }, null, 2)}\n`
