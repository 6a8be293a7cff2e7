// What `replay` says of where its entries come from, before and after.
import type { DayCount } from '../model/balance.ts'
import { isSameOrigin } from '../model/source.ts'
import type { Origin } from '../model/source.ts'
import { dayText, DAY_MS } from '../model/time.ts'
import { countText } from '../ops/status.ts'
import { columns, plain } from './columns.ts'
import type { Plan, PlannedDay } from './replay-plan.ts'

/** What a page of the audit log holds at most (spec §8). */
const PAGE = 1000

const number = (count: number) => count.toLocaleString('en-US')
const nameOf = ({ workspace, source }: Origin) => `${workspace} ${source}`

/** A row a source and day: what the journal would give, and what the API is known to have shown of it. */
export function daysText(fromJournal: readonly DayCount[], { days, reads }: Plan): string {
  const rows = [
    ...fromJournal.map(({ origin, day, count }) => ({ origin, day, journal: number(count), api: '' })),
    ...days
      .filter(({ via }) => via === 'api')
      .map(({ origin, day, kept }) => ({ origin, day, journal: '', api: `up to ${number(kept)}` })),
  ].sort((one, other) => nameOf(one.origin).localeCompare(nameOf(other.origin)) || one.day - other.day)
  const told = rows.map(({ origin, day, journal, api }) => [
    ...[origin.workspace, origin.source, dayText(day * DAY_MS), journal || '-', api || '-'],
  ])
  const table =
    rows.length === 0 ? '' : columns([['WORKSPACE', 'SOURCE', 'DAY', 'FROM JOURNAL', 'FROM API'], ...told])
  return `${table}${reads.map((read) => readText(read, days)).join('')}`
}

function readText({ origin, spans }: Plan['reads'][number], days: readonly PlannedDay[]): string {
  const read = days.filter((day) => day.via === 'api' && isSameOrigin(day.origin, origin))
  const entries = read.reduce((sum, { kept }) => sum + kept, 0)
  // Of the history a day is a request at least; of the audit log a page, and one to find each span.
  const requests = origin.source === 'audit' ? Math.ceil(entries / PAGE) + spans.length : read.length
  return `${plain(nameOf(origin))} is read from the API: about ${countText(requests, 'requests')} for the ${countText(entries, 'entries')} that the journal took in of these days; what it never took in is sent too, and not counted here\n`
}

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
  const last = days.at(-1)
  if (!first || !last) return ''
  const kept = days.reduce((sum, day) => sum + day.kept, 0)
  const still = days.reduce((sum, day) => sum + Math.min(day.still, day.kept), 0)
  const span = `${dayText(first.day * DAY_MS)} to ${dayText((last.day + 1) * DAY_MS)}`
  return `auditferry: of ${plain(nameOf(first.origin))}, ${span}, the journal keeps ${number(still)} of the ${countText(kept, 'entries')} that it took in on ${countText(days.length, 'days')}: ${how(first.origin)}\n`
}
