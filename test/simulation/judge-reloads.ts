// Invariants of jobs over deaths and reloads: each job ended, its entries are at its sinks, none is there twice, and its counts are true.
import type { App } from '../../src/app/app.ts'
import type { Job } from '../../src/contracts/jobs.ts'
import { DAY_US } from '../../src/core/time.ts'
import { paths } from './reloads-run.ts'
import type { ReloadsStage } from './reloads-run.ts'

interface Enveloped {
  readonly workspace: string
  readonly source: string
  readonly id: string
  readonly version?: number
  readonly replay?: true
  readonly ingested_at: string
}

function linesOf({ disk }: ReloadsStage, path: string): Enveloped[] {
  const lines = (disk.content(path)?.toString() ?? '').split('\n').slice(0, -1)
  return lines.map((line) => JSON.parse(line) as Enveloped)
}

export async function judgeReloads(stage: ReloadsStage, app: App): Promise<string[]> {
  const archive = linesOf(stage, paths.archive)
  const other = linesOf(stage, paths.other)
  const [backfills, replays] = [await app.jobs.all('backfill'), await app.jobs.all('replay')]
  const held = { archive, other }
  return [
    ...Object.entries(held).flatMap(([sink, lines]) => twice(sink, lines)),
    ...stage.orders.backfills.flatMap((begun) => judgeBackfill(stage, held, begun, backfills)),
    ...stage.orders.replays.flatMap((begun) => judgeReplay(stage, archive, begun, replays)),
    ...(other.some(({ replay }) => replay) ? ['other: a line of a replay'] : []),
    ...(app.journal.stats().entries > 0 ? ['something is owed still'] : []),
  ]
}

function twice(sink: string, lines: readonly Enveloped[]): string[] {
  const keys = lines.map(({ workspace, source, id, version, replay, ingested_at }) =>
    [workspace, source, id, version, replay && ingested_at].join(' '),
  )
  const again = keys.filter((key, i) => keys.indexOf(key) !== i)
  return again.length > 0 ? [`${sink}: ${again.length} lines stand twice, such as ${again[0]}`] : []
}

/** While it does not take a source, a sink leaves out what comes of it. */
const isLeftOut = ({ plan }: ReloadsStage, sink: string, source: string) =>
  sink === 'archive' && source === 'audit' && plan.steps.some(({ next }) => next === 'sink without audit')

function judgeBackfill(
  stage: ReloadsStage,
  held: Readonly<Record<string, readonly Enveloped[]>>,
  { stream, startedAt }: Job,
  reported: readonly Job[],
): string[] {
  const { source } = stream
  const one = reported.find((each) => each.stream.source === source && each.startedAt === startedAt)
  if (!one) return [`the backfill of ${source} is forgotten`]
  if (one.endedAt === undefined) return [`a backfill goes on for ever: ${JSON.stringify(one)}`]
  if (one.counts.gaps > 0) return []
  const wanted = due(stage, source, startedAt)
  const faults = Object.entries(held).flatMap(([sink, lines]) => {
    if (isLeftOut(stage, sink, source)) return []
    const own = lines.filter((line) => line.workspace === 'acme' && line.source === source && !line.replay)
    return missing(stage, `${sink}: the backfill of ${source}`, wanted, own)
  })
  // Live reading begins behind the span, so all of it is new to the backfill.
  if (stage.plan.startHours === 0 && stage.plan.version === 'v2' && one.counts.new < wanted.length)
    faults.push(`the backfill of ${source} tells ${one.counts.new} of ${wanted.length} as new`)
  return faults
}

function judgeReplay(
  stage: ReloadsStage,
  archive: readonly Enveloped[],
  { stream, startedAt }: Job,
  reported: readonly Job[],
): string[] {
  const { source } = stream
  const one = reported.find((each) => each.stream.source === source && each.startedAt === startedAt)
  if (!one) return [`the replay of ${source} is forgotten`]
  if (one.endedAt === undefined) return [`a replay goes on for ever: ${JSON.stringify(one)}`]
  if (isLeftOut(stage, 'archive', source)) return []
  const marked = archive.filter((line) => line.source === source && line.replay)
  const isWhole = one.counts.gaps === 0 && (one.spans.at(-1)?.toUs ?? 0) >= stage.span.toUs
  const faults = isWhole
    ? missing(stage, `archive: the replay of ${source}`, due(stage, source, startedAt), marked)
    : []
  if (marked.length !== one.counts.sent)
    faults.push(`archive: ${marked.length} lines of the replay of ${source}, and it tells ${one.counts.sent}`)
  return faults
}

interface Due {
  readonly id: string
  readonly atUs: number
  readonly visibleAt: number
  readonly defect?: unknown
}

/** What a job that read the whole span, from `sinceMs` on, must have met. */
function due({ plan, mock, span }: ReloadsStage, source: string, sinceMs: number): readonly Due[] {
  // A row without a time is one of its day's first instant.
  const inDays = source !== 'audit' && plan.version === 'v1' && plan.switches.history_v1_time === 'off'
  const fromUs = inDays ? Math.ceil(span.fromUs / DAY_US) * DAY_US : span.fromUs
  const all: readonly Due[] =
    source === 'audit' ? mock.entries() : mock.history().filter(({ kind }) => `history.${kind}` === source)
  return all.filter(
    ({ atUs, visibleAt, defect }) =>
      // Times of the history have whole seconds.
      atUs >= fromUs && atUs < span.toUs - 1e6 && visibleAt < sinceMs && defect === undefined,
  )
}

function missing(
  { plan }: ReloadsStage,
  what: string,
  wanted: readonly Due[],
  lines: readonly Enveloped[],
): string[] {
  const there = new Set(lines.map(({ id }) => id))
  // Rows of version 1 have no id to recognize them by.
  const isByCount = what.includes('history') && plan.version === 'v1'
  const lacking = isByCount ? wanted.slice(there.size) : wanted.filter(({ id }) => !there.has(id))
  return lacking.length > 0 ? [`${what} lacks ${lacking.length} of ${wanted.length}`] : []
}
