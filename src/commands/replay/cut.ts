// The part of a replay that the daemon does not read, since live reading has not come to it: what the journal keeps of that is sent from there, and the rest is told.
import { leftOut } from '../../model/api-replay.ts'
import type { ApiReplay } from '../../model/api-replay.ts'
import { isSameOrigin } from '../../model/source.ts'
import { DAY_MS, DAY_US, dayText, isoFromUs } from '../../model/time.ts'
import { isCaughtUp } from '../../ops/status.ts'
import type { StatusReport } from '../../ops/status.ts'
import { printable } from '../../model/printable.ts'
import type { Only, ReplayPlan, PlannedDay } from './plan.ts'

/** From where on live reading has not come, µs; undefined: all that was asked is read. */
function cutAt(begun: readonly ApiReplay[], { origin }: Pick<PlannedDay, 'origin'>): number | undefined {
  const one = begun.find((each) => isSameOrigin(each.origin, origin))
  return one && leftOut(one)[0]?.fromUs
}

/** Days that lie behind it whole: the journal took them in all the same, a backfill perhaps, so they do not come by themselves. */
export function cutDays({ days }: ReplayPlan, begun: readonly ApiReplay[]): readonly PlannedDay[] {
  return days.filter((day) => day.via === 'api' && day.day * DAY_US >= (cutAt(begun, day) ?? Infinity))
}

/** Days that it has come to, and not to their end. */
export function partDays({ days }: ReplayPlan, begun: readonly ApiReplay[]): readonly PlannedDay[] {
  return days.filter((day) => {
    const at = cutAt(begun, day) ?? -Infinity
    return day.via === 'api' && day.day * DAY_US < at && at < (day.day + 1) * DAY_US
  })
}

/** Of these, those whose rest may hold what a backfill brought before: where live reading has read everything nothing lies there. */
export function lateDays(parts: readonly PlannedDay[], report: LiveReading): readonly PlannedDay[] {
  return parts.filter(({ origin }) => {
    const sources = report.workspaces.find(({ name }) => name === origin.workspace)?.sources
    const live = sources?.find(({ name }) => name === origin.source)
    return !live || live.lag_seconds > 0 || !isCaughtUp(live, report)
  })
}

type LiveReading = Pick<StatusReport, 'workspaces' | 'configured_at'>

/** A line each. */
export function lateText(late: readonly PlannedDay[], only: Only | undefined): string {
  const lines = late.map(({ origin, day }) => {
    const name = printable(`${origin.workspace} ${origin.source}`)
    return `auditferry: of ${name}, the rest of ${dayText(day * DAY_MS)} is not sent, and live reading is still behind: what it takes in there as new comes by itself, what the journal has of it already (a backfill ahead of live reading) does not: the same command sends all of that day once live reading is past it${only === 'api' ? '' : ', and --only journal what the journal keeps of it'}\n`
  })
  return lines.join('')
}

/** The journal's part with these days: what it keeps of them is sent from there. */
export function withCut(plan: ReplayPlan, cut: readonly PlannedDay[]): ReplayPlan {
  const firstOf = (origin: PlannedDay['origin']) =>
    Math.min(...cut.filter((day) => isSameOrigin(day.origin, origin)).map(({ day }) => day))
  const leave = plan.leave
    .map((one) => ({ ...one, toDay: Math.min(one.toDay, firstOf(one.origin)) }))
    .filter(({ fromDay, toDay }) => fromDay < toDay)
  return { ...plan, leave }
}

/** What of the plan the API would be asked for. */
export function withoutCut(
  plan: ReplayPlan,
  cut: readonly PlannedDay[],
  begun: readonly ApiReplay[],
): ReplayPlan {
  const isNothing = ({ origin }: ReplayPlan['reads'][number]) =>
    begun.some((one) => isSameOrigin(one.origin, origin) && one.spans.length === 0)
  return {
    ...plan,
    days: plan.days.filter((day) => !cut.includes(day)),
    reads: plan.reads.filter((read) => !isNothing(read)),
  }
}

export const howCut = (isLeft: boolean): string =>
  `${isLeft ? 'not sent' : 'only that is sent'}; live reading has not come to them yet, and a replay from the API ends where it is: the same command sends all of them once it is past them`

/** As it begins: a line each that is cut. */
export function cutOffText(begun: readonly ApiReplay[]): string {
  const lines = begun.flatMap((one) => {
    const left = spansText(one)
    const name = printable(`${one.origin.workspace} ${one.origin.source}`)
    return left === ''
      ? []
      : [
          `auditferry: of ${name}, ${left} is not read from the API: it is later than what live reading has read in order. What live reading takes in there as new goes to every sink by itself; what the journal has of it already does not\n`,
        ]
  })
  return lines.join('')
}

export const spansText = (one: ApiReplay): string =>
  leftOut(one)
    .map(({ fromUs, toUs }) => `${isoFromUs(fromUs)} to ${isoFromUs(toUs)}`)
    .join(', ')
