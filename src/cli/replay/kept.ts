// The journal's part of a replay: in steps, so that the daemon works in between.
import type { DayCount } from '../../contracts/accounts.ts'
import { JOB_SHARE_IN_USE, leftOut } from '../../contracts/jobs.ts'
import type { Job } from '../../contracts/jobs.ts'
import type { ReplayQuery, Replayed } from '../../contracts/journal.ts'
import { isSameStream } from '../../contracts/source.ts'
import type { OperatorJournal } from '../../control/questions.ts'
import type { Clock } from '../../core/clock.ts'
import { ConnectorError } from '../../core/errors.ts'
import { printable } from '../../core/printable.ts'
import { DAY_MS, DAY_US, dayText, isoFromUs } from '../../core/time.ts'
import { isCaughtUp } from '../../observability/status.ts'
import type { StatusReport } from '../../observability/status.ts'
import { countText } from '../../observability/words.ts'
import type { CommandContext } from '../shared/context.ts'
import { keyOf } from './plan.ts'
import type { Only, PlannedDay, ReplayChoice, ReplayPlan } from './plan.ts'

/** Jobs have used their share of the journal: wait until the sinks make room. */
const WAIT_MS = 2_000
/** After this long without room the replay ends early. */
const PATIENCE_MS = 60_000

export interface Done {
  entries: number
  bytes: number
  days: DayCount[]
  keptSince: number | undefined
  /** by a signal, or because the journal stayed full */
  stopped: boolean
}

export const nothingDone = (): Done => ({
  entries: 0,
  bytes: 0,
  days: [],
  keptSince: undefined,
  stopped: false,
})

type Query = Omit<ReplayQuery, 'after' | 'until'>

/** The selection without what the plan reads from the API. */
export function queryOf(
  { sink, span, workspace, source }: ReplayChoice,
  { leave }: ReplayPlan,
  how: Pick<Query, 'dryRun' | 'runAt'>,
): Query {
  const sources = sink.sources.filter((name) => (source ?? name) === name)
  return {
    ...span,
    ...how,
    sink: sink.name,
    sources,
    ...(workspace === undefined ? {} : { workspace }),
    ...(leave.length === 0 ? {} : { leave }),
  }
}

/** If a step fails for good, prints what was queued so far and throws. */
export async function queueKept(
  journal: Pick<OperatorJournal, 'replay'>,
  query: Query,
  { signal, stderr }: CommandContext,
  clock: Pick<Clock, 'sleep'>,
): Promise<Done> {
  const done = nothingDone()
  let at: Pick<ReplayQuery, 'after' | 'until'> = { after: 0, until: undefined }
  let waitedMs = 0
  for (;;) {
    const step = await journal.replay({ ...query, ...at }).catch((error: unknown) => {
      if (isJournalFull(error)) return undefined
      if (!query.dryRun) stderr(signal.aborted ? interruptedText(done) : failedText(done, error))
      throw error
    })
    if (step) {
      add(done, step)
      waitedMs = 0
      if (!step.more) return done
      at = { after: step.through, until: step.until }
    } else {
      if (waitedMs === 0) stderr(`auditferry: ${JOB_SHARE_IN_USE}: waiting for the sinks to take some\n`)
      waitedMs += WAIT_MS
      await clock.sleep(WAIT_MS, signal)
    }
    if (signal.aborted || waitedMs >= PATIENCE_MS) return { ...done, stopped: true }
  }
}

const isJournalFull = (error: unknown) => error instanceof ConnectorError && error.code === 'journal_full'

const interruptedText = ({ entries }: Done): string =>
  `auditferry: interrupted. ${countText(entries, 'entries')} were queued, and perhaps some more; they will be delivered. If you run the command again, it starts over and delivers them a second time
`

function failedText({ entries }: Done, error: unknown): string {
  // The step may have succeeded although the daemon's answer was lost.
  const isLost = error instanceof ConnectorError && error.action === 'retry'
  if (entries === 0 && !isLost) return ''
  return `auditferry: the replay stopped early. ${countText(entries, 'entries')} are queued${isLost ? ', and perhaps some more' : ''}; they are delivered while the daemon runs. The rest is not queued: run the command again, which also delivers the queued ones a second time. What stopped it:\n`
}

function add(done: Done, step: Replayed): void {
  done.entries += step.entries
  done.bytes += step.bytes
  done.days = summed(done.days, step.days)
  done.keptSince = step.keptSince
}

function summed(one: readonly DayCount[], other: readonly DayCount[]): DayCount[] {
  const sums = new Map<string, DayCount>()
  for (const each of [...one, ...other]) {
    const key = keyOf(each.stream, each.day)
    sums.set(key, { ...each, count: each.count + (sums.get(key)?.count ?? 0) })
  }
  return [...sums.values()]
}

// Days that the daemon does not read from the API, because live reading has not reached them yet.
// What the journal keeps of them is sent from there; the rest is reported.

/** The time that live reading has not reached, µs; undefined: it has read everything selected. */
function cutAt(begun: readonly Job[], { stream }: Pick<PlannedDay, 'stream'>): number | undefined {
  const one = begun.find((each) => isSameStream(each.stream, stream))
  return one && leftOut(one)[0]?.fromUs
}

/** Days completely after that time. The journal has entries of them, perhaps from a backfill. */
export function cutDays({ days }: ReplayPlan, begun: readonly Job[]): readonly PlannedDay[] {
  return days.filter((day) => day.via === 'api' && day.day * DAY_US >= (cutAt(begun, day) ?? Infinity))
}

/** Days that live reading has reached but not finished. */
export function partDays({ days }: ReplayPlan, begun: readonly Job[]): readonly PlannedDay[] {
  return days.filter((day) => {
    const at = cutAt(begun, day) ?? -Infinity
    return day.via === 'api' && day.day * DAY_US < at && at < (day.day + 1) * DAY_US
  })
}

/** Those that may contain more entries of a backfill: live reading has not caught up there. */
export function lateDays(parts: readonly PlannedDay[], report: LiveReading): readonly PlannedDay[] {
  return parts.filter(({ stream }) => {
    const sources = report.workspaces.find(({ name }) => name === stream.workspace)?.sources
    const live = sources?.find(({ name }) => name === stream.source)
    return !live || live.lag_seconds > 0 || !isCaughtUp(live, report)
  })
}

type LiveReading = Pick<StatusReport, 'workspaces' | 'configured_at'>

export function lateText(late: readonly PlannedDay[], only: Only | undefined): string {
  const lines = late.map(({ stream, day }) => {
    const name = printable(`${stream.workspace} ${stream.source}`)
    return `auditferry: of ${name}, the rest of ${dayText(day * DAY_MS)} is not sent, and live reading is still behind: new entries that it reads there are delivered automatically, entries that the journal already has (from a backfill ahead of live reading) do not: run the same command again once live reading is past that day${only === 'api' ? '' : ', and --only journal what the journal keeps of it'}\n`
  })
  return lines.join('')
}

/** Adds these days to the journal's part, which sends what it keeps of them. */
export function withCut(plan: ReplayPlan, cut: readonly PlannedDay[]): ReplayPlan {
  const firstOf = (stream: PlannedDay['stream']) =>
    Math.min(...cut.filter((day) => isSameStream(day.stream, stream)).map(({ day }) => day))
  const leave = plan.leave
    .map((one) => ({ ...one, toDay: Math.min(one.toDay, firstOf(one.stream)) }))
    .filter(({ fromDay, toDay }) => fromDay < toDay)
  return { ...plan, leave }
}

/** The part of the plan that would be read from the API. */
export function withoutCut(plan: ReplayPlan, cut: readonly PlannedDay[], begun: readonly Job[]): ReplayPlan {
  const isNothing = ({ stream }: ReplayPlan['reads'][number]) =>
    begun.some((one) => isSameStream(one.stream, stream) && one.spans.length === 0)
  return {
    ...plan,
    days: plan.days.filter((day) => !cut.includes(day)),
    reads: plan.reads.filter((read) => !isNothing(read)),
  }
}

export const cutText = (isLeft: boolean): string =>
  `${isLeft ? 'not sent' : 'only that is sent'}; live reading has not come to them yet, and a replay from the API ends where it is: the same command sends all of them once it is past them`

/** Printed at the start: one line per shortened job. */
export function cutOffText(begun: readonly Job[]): string {
  const lines = begun.flatMap((one) => {
    const left = spansText(one)
    const name = printable(`${one.stream.workspace} ${one.stream.source}`)
    return left === ''
      ? []
      : [
          `auditferry: of ${name}, ${left} is not read from the API: live reading has not reached it yet. New entries that live reading finds there go to every sink automatically; entries that the journal already has do not\n`,
        ]
  })
  return lines.join('')
}

export const spansText = (job: Job): string =>
  leftOut(job)
    .map(({ fromUs, toUs }) => `${isoFromUs(fromUs)} to ${isoFromUs(toUs)}`)
    .join(', ')
