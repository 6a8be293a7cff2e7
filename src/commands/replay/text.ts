// What `replay` says of where its entries come from, before and after.
import type { SinkConfig } from '../../config/schema.ts'
import type { DayCount } from '../../model/balance.ts'
import { isSameOrigin } from '../../model/source.ts'
import type { Origin } from '../../model/source.ts'
import { dayText, DAY_MS, secondText } from '../../model/time.ts'
import { countText, numberText, sizeText } from '../../ops/words.ts'
import { kindOf } from '../../sinks/index.ts'
import { columns } from '../shared/columns.ts'
import { printable } from '../../model/printable.ts'
import { wholeDays } from '../shared/instants.ts'
import { keyOf } from './plan.ts'
import type { ReplayChoice, ReplayPlan, PlannedDay } from './plan.ts'
import type { Done } from './walk.ts'

/** What a page of the audit log holds at most (spec §8). */
const PAGE = 1000

export const nameOf = ({ workspace, source }: Origin) => `${workspace} ${source}`

/** A row a source and day: what the journal would give, and what the API is known to have shown of it. */
function daysText(
  fromJournal: readonly DayCount[],
  { days, reads }: ReplayPlan,
  { only }: ReplayChoice,
): string {
  const given = new Set(fromJournal.map(({ origin, day }) => keyOf(origin, day)))
  // All of it is owed still, lies outside the span, or is gone.
  const none = days
    .filter(({ origin, day, via }) => only !== 'api' && via === 'journal' && !given.has(keyOf(origin, day)))
    .map(({ origin, day }) => ({ origin, day, count: 0 }))
  const rows = [
    ...[...fromJournal, ...none].map(({ origin, day, count }) => ({
      origin,
      day,
      journal: numberText(count),
      api: '',
    })),
    ...days
      .filter(({ via }) => via === 'api')
      .map(({ origin, day, kept }) => ({ origin, day, journal: '', api: `up to ${numberText(kept)}` })),
  ].sort((one, other) => nameOf(one.origin).localeCompare(nameOf(other.origin)) || one.day - other.day)
  const lines = rows.map(({ origin, day, journal, api }) => [
    origin.workspace,
    origin.source,
    dayText(day * DAY_MS),
    journal || '-',
    api || '-',
  ])
  const table =
    rows.length === 0 ? '' : columns([['WORKSPACE', 'SOURCE', 'DAY', 'FROM JOURNAL', 'FROM API'], ...lines])
  return `${table}${reads.map((read) => readText(read, days)).join('')}`
}

/** Of a dry run: what would come from the API in all, then where each day comes from. */
export function dryText(fromJournal: readonly DayCount[], plan: ReplayPlan, asked: ReplayChoice): string {
  const days = daysText(fromJournal, plan, asked)
  if (plan.reads.length === 0) return days
  const entries = plan.days.reduce((sum, { via, kept }) => (via === 'api' ? sum + kept : sum), 0)
  return `Up to ${countText(entries, 'entries')} that the journal took in would be read from the API and sent to ${asked.sink.name} again\n${days}`
}

function readText({ origin, spans }: ReplayPlan['reads'][number], days: readonly PlannedDay[]): string {
  const read = days.filter((day) => day.via === 'api' && isSameOrigin(day.origin, origin))
  const entries = read.reduce((sum, { kept }) => sum + kept, 0)
  // Of the history a day is a request at least; of the audit log a page, and one to find each span.
  const requests =
    origin.source === 'audit'
      ? Math.ceil(entries / PAGE) + spans.length
      : spans.map(wholeDays).reduce((sum, { fromDay, toDay }) => sum + toDay - fromDay, 0)
  return `${printable(nameOf(origin))} is read from the API: about ${countText(requests, 'requests')} for the ${countText(entries, 'entries')} that the journal took in of these days; what it never took in is sent too, and not counted here\n`
}

/** Every format but raw has a field for it. */
export function isMarked(sink: SinkConfig): boolean {
  return sink.format !== 'raw' || kindOf(sink.type).marksReplay?.(sink) === true
}

export const unmarkedText = ({ name, type }: SinkConfig): string =>
  `auditferry: lines of ${name} cannot tell that they are sent again (format raw, and ${type} has no field of its own for it): its receiver sees these entries twice\n`

/** `--only api`, and there is nothing of it. */
export function unreadableText({ sink, source }: ReplayChoice): string {
  const names = sink.sources.filter((name) => (source ?? name) === name).join(', ')
  return `auditferry: none of the sources meant (${names || 'none that the sink takes'}) can be read from the API again: they are switched off, or an inventory without a past\n`
}

/** What the journal gave. */
export function doneText(
  { entries, bytes, keptSince, stopped }: Done,
  { sink }: ReplayChoice,
  dryRun: boolean,
  isRunning: boolean,
): string {
  const what = `${countText(entries, 'entries')} (${sizeText(bytes)})`
  const kept =
    keptSince === undefined
      ? 'the journal keeps nothing'
      : `the journal keeps what it took in since ${secondText(keptSince)}`
  const limits = `${kept}; not counted is what ${sink.name} is still owed, which comes in any case`
  if (entries === 0 && !stopped)
    return `The journal has nothing of this span to send to ${sink.name} again: 0 entries; ${limits}\n`
  if (dryRun) return `${what} would be sent to ${sink.name} again; ${limits}\n`
  const when = isRunning ? 'they go out now' : 'they go out when the daemon runs'
  const marked = isMarked(sink) ? ', marked as a replay' : ''
  const early = stopped ? 'Stopped early: ' : ''
  return `${early}${what} put at the journal's end for ${sink.name}${marked}; ${when}; ${limits}\n`
}

/** Some are under way, and the next one was refused. */
export function halfBegunText(begun: readonly { readonly origin: Origin }[]): string {
  if (begun.length === 0) return ''
  return `auditferry: the replay from the API of ${printable(begun.map(({ origin }) => nameOf(origin)).join(', '))} is under way all the same (replay --status), and of the journal nothing was sent: once the reason below is gone, the same command joins it, and --only journal sends what the journal keeps\n`
}

/** The journal's part broke off. */
export function goesOnText(begun: readonly { readonly origin: Origin }[]): string {
  if (begun.length === 0) return ''
  return `auditferry: what is read from the API (${printable(begun.map(({ origin }) => nameOf(origin)).join(', '))}) goes on: replay --status tells how far it is, --cancel ends it
`
}

export function joinedText(joined: readonly Origin[]): string {
  if (joined.length === 0) return ''
  return `Joined the same replay, which is under way, of ${joined.map(nameOf).join(', ')}: what the journal keeps of that was left to the command that began it; --only journal sends it again\n`
}

export const unsureText =
  'auditferry: some of the days meant are kept in the journal, and this command cannot tell whether the one that began the replay meant them too, and sent them: where it did not, send them with --only journal\n'
