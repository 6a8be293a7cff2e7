// The part of a replay that the daemon does not read, since live reading has not come to it: what the journal keeps of that is sent from there, and the rest is told.
import { leftOut } from '../model/replays.ts'
import type { ApiReplay } from '../model/replays.ts'
import { isSameOrigin } from '../model/source.ts'
import { DAY_US, isoFromUs } from '../model/time.ts'
import { plain } from './columns.ts'
import type { Plan, PlannedDay } from './replay-plan.ts'

/** From where on live reading has not come, µs; undefined: all that was asked is read. */
function cutAt(begun: readonly ApiReplay[], { origin }: Pick<PlannedDay, 'origin'>): number | undefined {
  const one = begun.find((each) => isSameOrigin(each.origin, origin))
  return one && leftOut(one)[0]?.fromUs
}

/** Days that lie behind it whole: the journal took them in all the same, a backfill perhaps, so they do not come by themselves. */
export function cutDays({ days }: Plan, begun: readonly ApiReplay[]): readonly PlannedDay[] {
  return days.filter((day) => day.via === 'api' && day.day * DAY_US >= (cutAt(begun, day) ?? Infinity))
}

/** The journal's part with these days: what it keeps of them is sent from there. */
export function withCut(plan: Plan, cut: readonly PlannedDay[]): Plan {
  const firstOf = (origin: PlannedDay['origin']) =>
    Math.min(...cut.filter((day) => isSameOrigin(day.origin, origin)).map(({ day }) => day))
  const leave = plan.leave
    .map((one) => ({ ...one, toDay: Math.min(one.toDay, firstOf(one.origin)) }))
    .filter(({ fromDay, toDay }) => fromDay < toDay)
  return { ...plan, leave }
}

export const howCut = (isLeft: boolean): string =>
  `${isLeft ? 'not sent' : 'only that is sent'}; live reading has not come to them yet, and a replay from the API ends where it is: the same command sends all of them once it is past them`

/** As it begins: a line each that is cut. */
export function cutText(begun: readonly ApiReplay[]): string {
  const lines = begun.flatMap((one) => {
    const left = spansText(one)
    const name = plain(`${one.origin.workspace} ${one.origin.source}`)
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
