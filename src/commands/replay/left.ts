// Which days a replay leaves out or cannot send whole: the journal took nothing in of them, or does not keep all of it any more.
import type { Origin } from '../../model/source.ts'
import { DAY_MS, dayText, epochDay } from '../../model/time.ts'
import { countText, numberText } from '../../ops/words.ts'
import { printable } from '../../model/printable.ts'
import { wholeDays } from '../shared/instants.ts'
import { isMeant, isOneOf } from './plan.ts'
import type { Only, PlannedDay, ReplayChoice, ReplayPlan } from './plan.ts'
import { nameOf } from './text.ts'

/** Of many stretches of days the first few are told. */
const TOLD = 8

const NO_PAST = 'an inventory has no past that the API could show again'

/** Days that cannot come whole, a line a source. */
export function shortText(short: readonly PlannedDay[], how: (origin: Origin) => string): string {
  const sources = new Map<string, PlannedDay[]>()
  for (const day of short) {
    const name = nameOf(day.origin)
    sources.set(name, [...(sources.get(name) ?? []), day])
  }
  return [...sources.values()].map((days) => lineOf(days, how)).join('')
}

function lineOf(days: readonly PlannedDay[], how: (origin: Origin) => string): string {
  const [first] = days
  if (!first) return ''
  const kept = days.reduce((sum, day) => sum + day.kept, 0)
  const still = days.reduce((sum, day) => sum + Math.min(day.still, day.kept), 0)
  return `auditferry: of ${printable(nameOf(first.origin))}, ${datesText(days.map(({ day }) => day))}, the journal keeps ${numberText(still)} of the ${countText(kept, 'entries')} that it took in on ${countText(days.length, 'days')}: ${how(first.origin)}\n`
}

/** How a day that the journal does not keep whole is sent. */
export function howText({ dryRun, only }: { dryRun: boolean; only?: Only }, isRunning: boolean) {
  const sent = only === 'api' ? 'is not sent' : dryRun ? 'only that would be sent' : 'only that is sent'
  return ({ source }: Origin): string => {
    if (source === 'vault.projects') return `${sent}; ${NO_PAST}`
    if (only === 'journal') return `${sent} with --only journal`
    return isRunning
      ? `${sent}; the past of ${source} cannot be read from the API again`
      : `${sent}; with the daemon running the same command would have them read from the API again`
  }
}

/** Of what no source or day of the plan speaks, a line a source: nothing of that is sent. `origins` is what is read, with a past or not yet. */
export function emptyText(
  plan: ReplayPlan,
  asked: ReplayChoice,
  origins: readonly Origin[],
  nowMs: number,
): string {
  const withDays = plan.days.map(({ origin }) => origin)
  const all = [...withDays, ...origins.filter((origin) => isMeant(asked, origin))]
  const meant = all.filter((origin, i) => !isOneOf(all.slice(0, i), origin))
  if (meant.length === 0) return offText(asked)
  if (asked.only === 'api') return meant.map((origin) => unreadLine(origin, plan)).join('')
  if (plan.days.length > 0) return meant.map((origin) => emptyLine(origin, plan, asked, nowMs)).join('')
  const api = meant.every(({ source }) => source === 'vault.projects') ? '' : API_HAS_MORE
  return `Of all that ${asked.sink.name} takes (${namesText(meant)}) the journal took nothing in on ${leftText(begunDays(asked, nowMs))}${api}\n`
}

/** Days of the span: what is later nobody can have. */
function begunDays({ span }: ReplayChoice, nowMs: number): readonly number[] {
  const { fromDay, toDay } = wholeDays(span)
  const endDay = Math.min(toDay, epochDay(nowMs * 1000) + 1)
  return Array.from({ length: endDay - fromDay }, (_, i) => fromDay + i)
}

const API_HAS_MORE = '; --only api reads what the API has of it'

function emptyLine(origin: Origin, { days }: ReplayPlan, asked: ReplayChoice, nowMs: number): string {
  const own = new Set(days.filter((day) => isOneOf([origin], day.origin)).map(({ day }) => day))
  const today = epochDay(nowMs * 1000)
  // The day that is not over is no news of a source that has others.
  const empty = begunDays(asked, nowMs).filter((day) => !own.has(day) && (own.size === 0 || day < today))
  if (empty.length === 0) return ''
  const api = origin.source === 'vault.projects' ? '' : API_HAS_MORE
  return `Of ${printable(nameOf(origin))} the journal took nothing in on ${leftText(empty)}${api}\n`
}

/** With `--only api`. One with days is told by these. */
function unreadLine(origin: Origin, { days, reads }: ReplayPlan): string {
  if (
    isOneOf(
      [...days, ...reads].map((one) => one.origin),
      origin,
    )
  )
    return ''
  return `Of ${printable(nameOf(origin))} nothing is sent: ${origin.source === 'vault.projects' ? NO_PAST : 'the daemon does not read it'}\n`
}

/** What is named on the command line, and read nowhere. */
const offText = ({ workspace, source, sink }: ReplayChoice): string =>
  `Nothing of ${source ?? `what ${sink.name} takes`} is sent: ${workspace === undefined ? 'no workspace' : `workspace ${workspace}`} ${workspace === undefined ? 'reads' : 'does not read'} it, and the journal has none of it\n`

function namesText(origins: readonly Origin[]): string {
  const names = origins.slice(0, TOLD).map((origin) => printable(nameOf(origin)))
  const more = origins.length - names.length
  return names.join(', ') + (more > 0 ? ` and ${countText(more, 'sources')} more` : '')
}

const leftText = (days: readonly number[]) =>
  `${datesText(days)} (${countText(days.length, 'days')}, left out)`

/** Stretches of days, each with its last day. */
function datesText(days: readonly number[]): string {
  const stretches: { from: number; to: number }[] = []
  for (const day of days.toSorted((a, b) => a - b)) {
    const last = stretches.at(-1)
    if (last?.to === day) last.to = day + 1
    else stretches.push({ from: day, to: day + 1 })
  }
  const text = (day: number) => dayText(day * DAY_MS)
  const texts = stretches
    .slice(0, TOLD)
    .map(({ from, to }) => (to === from + 1 ? text(from) : `${text(from)} to ${text(to - 1)}`))
  const more = stretches.slice(TOLD).reduce((sum, { from, to }) => sum + to - from, 0)
  return texts.join(', ') + (more > 0 ? ` and ${countText(more, 'days')} more` : '')
}
