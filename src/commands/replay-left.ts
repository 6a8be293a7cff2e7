// Which days a replay leaves out or cannot send whole: the journal took nothing in of them, or does not keep all of it any more.
import type { Origin } from '../model/source.ts'
import { DAY_MS, dayText, epochDay } from '../model/time.ts'
import { countText, numberText } from '../ops/words.ts'
import { plain } from './columns.ts'
import { wholeDays } from './instants.ts'
import { isOneOf, type Only, type PlannedDay, type ReplayChoice, type ReplayPlan } from './replay-plan.ts'
import { nameOf } from './replay-text.ts'

/** Of many stretches of days the first few are told. */
const TOLD = 8

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
  return `auditferry: of ${plain(nameOf(first.origin))}, ${datesText(days.map(({ day }) => day))}, the journal keeps ${numberText(still)} of the ${countText(kept, 'entries')} that it took in on ${countText(days.length, 'days')}: ${how(first.origin)}\n`
}

/** How a day that the journal does not keep whole is sent. */
export function howText({ dryRun, only }: { dryRun: boolean; only?: Only }, isRunning: boolean) {
  const sent = only === 'api' ? 'is not sent' : dryRun ? 'only that would be sent' : 'only that is sent'
  return ({ source }: Origin): string => {
    if (source === 'vault.projects') return `${sent}; an inventory has no past that the API could show again`
    if (only === 'journal') return `${sent} with --only journal`
    return isRunning
      ? `${sent}; the past of ${source} cannot be read from the API again`
      : `${sent}; with the daemon running the same command would have them read from the API again`
  }
}

/** Days that are over and of which the journal never took anything in, a line a source: nothing of them is sent. */
export function emptyText({ days }: ReplayPlan, { sink, span, only }: ReplayChoice, nowMs: number): string {
  if (only === 'api') return ''
  const { fromDay, toDay } = wholeDays(span)
  const all = Array.from({ length: Math.min(toDay, epochDay(nowMs * 1000)) - fromDay }, (_, i) => fromDay + i)
  if (all.length === 0) return ''
  if (days.length === 0)
    return `Of all that ${sink.name} takes the journal took nothing in on ${leftText(all)}; --only api reads what the API has of it\n`
  const origins = days.map(({ origin }) => origin)
  const each = origins.filter((origin, i) => !isOneOf(origins.slice(0, i), origin))
  return each.map((origin) => emptyLine(origin, days, all)).join('')
}

function emptyLine(origin: Origin, days: readonly PlannedDay[], all: readonly number[]): string {
  const own = new Set(days.filter((day) => isOneOf([origin], day.origin)).map(({ day }) => day))
  const empty = all.filter((day) => !own.has(day))
  if (empty.length === 0) return ''
  const api = origin.source === 'vault.projects' ? '' : '; --only api reads what the API has of it'
  return `Of ${plain(nameOf(origin))} the journal took nothing in on ${leftText(empty)}${api}\n`
}

const leftText = (days: readonly number[]) =>
  `${datesText(days)} (${countText(days.length, 'days')}, left out)`

/** Stretches of days, each with its end excluded. */
function datesText(days: readonly number[]): string {
  const stretches: { from: number; to: number }[] = []
  for (const day of days.toSorted((a, b) => a - b)) {
    const last = stretches.at(-1)
    if (last?.to === day) last.to = day + 1
    else stretches.push({ from: day, to: day + 1 })
  }
  const text = (day: number) => dayText(day * DAY_MS)
  const told = stretches.slice(0, TOLD).map(({ from, to }) => `${text(from)} to ${text(to)}`)
  const more = stretches.slice(TOLD).reduce((sum, { from, to }) => sum + to - from, 0)
  return told.join(', ') + (more > 0 ? ` and ${countText(more, 'days')} more` : '')
}
