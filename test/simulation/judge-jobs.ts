// Invariants of jobs: each job ended, what it read whole is there, and a replay is marked, for its own sink, and complete.
import type { App } from '../../src/app/app.ts'
import type { JobSpan } from '../../src/contracts/jobs.ts'
import { isSameStream } from '../../src/contracts/source.ts'
import { onOneLine } from './lines.ts'
import type { Line } from './lines.ts'
import type { Stage } from './simulate.ts'

interface Held {
  readonly sink: string
  readonly lines: readonly Line[]
  readonly sources: readonly string[]
}

/** `held`: not marked. `marked`: lines of the replay, at its sink. `mayRepeat`: of these. */
export async function judgePast(
  stage: Stage,
  app: App | undefined,
  held: readonly Held[],
  marked: readonly Line[],
  mayRepeat: number,
): Promise<string[]> {
  const { orders } = stage
  if (!orders) return marked.length === 0 ? [] : ['splunk: a replay that nobody asked for']
  if (!app) return orders.faults
  return [
    ...orders.faults,
    ...(await judgeBackfills(stage, app, held)),
    ...(await judgeReplays(stage, app, marked, mayRepeat)),
  ]
}

/** A page of the live reader in place of the job's own, further on within the span, looks the same: what it skips is not read. */
const isMisled = ({ scenario }: Stage) => (scenario.faults.repeated_page ?? 0) !== 0

const inSpan = ({ fromUs, toUs }: JobSpan, atUs: number) => atUs >= fromUs && atUs < toUs

/** Entries that a job which read the whole span, from `sinceMs` on, must have met. */
function due(
  stage: Stage,
  span: JobSpan,
  sinceMs: number,
): { readonly id: string; readonly raw: Uint8Array }[] {
  return stage.mock
    .entries()
    .filter(
      ({ atUs, visibleAt, defect }) => inSpan(span, atUs) && visibleAt < sinceMs && defect === undefined,
    )
}

async function judgeBackfills(stage: Stage, app: App, held: readonly Held[]): Promise<string[]> {
  const taken = stage.orders?.backfills ?? []
  const reported = await app.jobs.all('backfill')
  const gone = taken.filter(({ stream }) => !reported.some((one) => isSameStream(one.stream, stream)))
  const faults = gone.map(({ stream }) => `the backfill of ${stream.source} is forgotten`)
  for (const one of reported) {
    const { stream, endedAt, counts, unread, startedAt } = one
    const [span] = one.spans
    if (endedAt === undefined) faults.push(`a backfill goes on for ever: ${JSON.stringify(one)}`)
    if (!span) faults.push(`a backfill without a span: ${JSON.stringify(one)}`)
    if (!span || endedAt === undefined || counts.gaps > 0 || unread.length > 0 || isMisled(stage)) continue
    const wanted =
      stream.source === 'audit'
        ? due(stage, span, startedAt)
        : dueEvents(stage, span, startedAt, stream.source)
    for (const { sink, lines, sources } of held) {
      if (!sources.includes(stream.source)) continue
      const there = new Set(
        lines.flatMap(({ source, id }) => (source === stream.source && id !== undefined ? [id] : [])),
      )
      const missing = wanted.filter(({ id }) => !there.has(id))
      if (missing.length > 0)
        faults.push(
          `${sink}: ${missing.length} of ${wanted.length} entries of ${stream.source} that a whole backfill must have read are missing, such as ${missing[0]?.id}`,
        )
    }
  }
  return faults
}

/** Of version 2 alone: rows of version 1 have no id to recognize them by. */
function dueEvents({ scenario, mock }: Stage, span: JobSpan, sinceMs: number, source: string) {
  const { version, v1UntilMs = 0 } = scenario.areas?.history ?? {}
  const boundaryUs = version === 'v1' ? Infinity : v1UntilMs * 1000
  return mock.history().filter(
    ({ kind, atUs, visibleAt, defect }) =>
      `history.${kind}` === source &&
      atUs >= boundaryUs &&
      // Their times have whole seconds.
      inSpan({ ...span, toUs: span.toUs - 1e6 }, atUs) &&
      visibleAt < sinceMs &&
      defect === undefined,
  )
}

async function judgeReplays(
  stage: Stage,
  app: App,
  marked: readonly Line[],
  mayRepeat: number,
): Promise<string[]> {
  const taken = stage.orders?.replays ?? []
  const [reported, ...others] = await app.jobs.all('replay')
  if (!reported) {
    const faults = marked.length > 0 ? ['splunk: marked lines of a replay that was never begun'] : []
    return taken.length > 0 ? [...faults, 'the replay is forgotten'] : faults
  }
  if (reported.endedAt === undefined || others.length > 0)
    return [`a replay goes on for ever: ${JSON.stringify([reported, ...others])}`]
  const [span] = reported.spans
  if (!span) return []
  const byId = new Map(stage.mock.entries().map((entry) => [entry.id, entry]))
  const seen = new Set(marked.map(({ id }) => id))
  const strange = marked.filter(({ id, text }) => {
    const entry = byId.get(id ?? '')
    return !entry || !inSpan(span, entry.atUs) || onOneLine(entry.raw) !== text
  })
  const wanted = reported.counts.gaps > 0 || isMisled(stage) ? [] : due(stage, span, reported.startedAt)
  const missing = wanted.filter(({ id }) => !seen.has(id))
  const repeats = marked.length - seen.size
  return [
    ...(strange.length > 0 ? [`splunk: ${strange.length} marked lines are none of the span`] : []),
    ...(repeats > mayRepeat ? [`splunk: ${repeats} marked lines stand twice, at most ${mayRepeat} may`] : []),
    ...(missing.length > 0
      ? [`splunk: the replay lacks ${missing.length} of ${wanted.length} entries, such as ${missing[0]?.id}`]
      : []),
  ]
}
