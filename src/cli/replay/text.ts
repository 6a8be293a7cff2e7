// Messages of `replay` about where its entries come from, before and after.
import type { SinkConfig } from '../../config/schema.ts'
import type { DayCount } from '../../contracts/accounts.ts'
import { isSameStream } from '../../contracts/source.ts'
import type { Stream } from '../../contracts/source.ts'
import { printable } from '../../core/printable.ts'
import { DAY_MS, dayText, epochDay, secondText } from '../../core/time.ts'
import { countText, numberText, sizeText } from '../../observability/words.ts'
import { kindOf } from '../../sinks/index.ts'
import { wholeDays } from '../shared/instants.ts'
import { columns } from '../shared/terminal.ts'
import { isSelected, includesStream, keyOf } from './plan.ts'
import type { Only, PlannedDay, ReplayChoice, ReplayPlan } from './plan.ts'
import type { Done } from './kept.ts'

/** Most entries in a page of the audit log (spec §8). */
const PAGE = 1000

const nameOf = ({ workspace, source }: Stream) => `${workspace} ${source}`

/** One row per stream and day: entries of the journal, and at most so many of the API. */
function daysText(
  fromJournal: readonly DayCount[],
  { days, reads }: ReplayPlan,
  { only }: ReplayChoice,
): string {
  const given = new Set(fromJournal.map(({ stream, day }) => keyOf(stream, day)))
  // All of the day is pending, outside the span, or pruned.
  const none = days
    .filter(({ stream, day, via }) => only !== 'api' && via === 'journal' && !given.has(keyOf(stream, day)))
    .map(({ stream, day }) => ({ stream, day, count: 0 }))
  const rows = [
    ...[...fromJournal, ...none].map(({ stream, day, count }) => ({
      stream,
      day,
      journal: numberText(count),
      api: '',
    })),
    ...days
      .filter(({ via }) => via === 'api')
      .map(({ stream, day, kept }) => ({ stream, day, journal: '', api: `up to ${numberText(kept)}` })),
  ].sort((one, other) => nameOf(one.stream).localeCompare(nameOf(other.stream)) || one.day - other.day)
  const lines = rows.map(({ stream, day, journal, api }) => [
    stream.workspace,
    stream.source,
    dayText(day * DAY_MS),
    journal || '-',
    api || '-',
  ])
  const table =
    rows.length === 0 ? '' : columns([['WORKSPACE', 'SOURCE', 'DAY', 'FROM JOURNAL', 'FROM API'], ...lines])
  return `${table}${reads.map((read) => readText(read, days)).join('')}`
}

/** For a dry run: the total from the API, then where each day comes from. */
export function dryText(fromJournal: readonly DayCount[], plan: ReplayPlan, asked: ReplayChoice): string {
  const days = daysText(fromJournal, plan, asked)
  if (plan.reads.length === 0) return days
  const entries = plan.days.reduce((sum, { via, kept }) => (via === 'api' ? sum + kept : sum), 0)
  return `Up to ${countText(entries, 'entries')} that the journal took in would be read from the API and sent to ${asked.sink.name} again\n${days}`
}

function readText({ stream, spans }: ReplayPlan['reads'][number], days: readonly PlannedDay[]): string {
  const read = days.filter((day) => day.via === 'api' && isSameStream(day.stream, stream))
  const entries = read.reduce((sum, { kept }) => sum + kept, 0)
  // History: at least a request a day. Audit log: one a page, and one to find each span.
  const requests =
    stream.source === 'audit'
      ? Math.ceil(entries / PAGE) + spans.length
      : spans.map(wholeDays).reduce((sum, { fromDay, toDay }) => sum + toDay - fromDay, 0)
  return `${printable(nameOf(stream))} is read from the API: about ${countText(requests, 'requests')} for the ${countText(entries, 'entries')} that the journal took in of these days; what it never took in is sent too, and not counted here\n`
}

/** Every format except raw has a field for it. */
export function isMarked(sink: SinkConfig): boolean {
  return sink.format !== 'raw' || kindOf(sink.type).marksReplay?.(sink) === true
}

export const unmarkedText = ({ name, type }: SinkConfig): string =>
  `auditferry: lines of ${name} are not marked as replayed (format raw, and ${type} has no field for it): its receiver sees these entries twice\n`

/** For `--only api` without anything to read. */
export function unreadableText({ sink, source }: ReplayChoice): string {
  const names = sink.sources.filter((name) => (source ?? name) === name).join(', ')
  return `auditferry: none of the selected sources (${names || 'no source that the sink takes'}) can be read from the API again: they are switched off, or have no history\n`
}

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
  const limits = `${kept}; not counted is what ${sink.name} still has pending, which comes in any case`
  if (entries === 0 && !stopped)
    return `The journal has nothing of this span to send to ${sink.name} again: 0 entries; ${limits}\n`
  if (dryRun) return `${what} would be sent to ${sink.name} again; ${limits}\n`
  const when = isRunning ? 'they are being sent' : 'they are sent when the daemon runs'
  const marked = isMarked(sink) ? ', marked as a replay' : ''
  const early = stopped ? 'Stopped early: ' : ''
  return `${early}${what} queued for ${sink.name}${marked}; ${when}; ${limits}\n`
}

export function continuesText(begun: readonly { readonly stream: Stream }[]): string {
  if (begun.length === 0) return ''
  return `auditferry: the replay from the API (${printable(begun.map(({ stream }) => nameOf(stream)).join(', '))}) continues: replay --status shows its progress, --cancel stops it
`
}

export function joinedText(joined: readonly Stream[]): string {
  if (joined.length === 0) return ''
  return `Joined the running replay of ${joined.map(nameOf).join(', ')}: the command that started it sends what the journal keeps; --only journal sends that again\n`
}

export const unsureText =
  'auditferry: some of the selected days are kept in the journal. The command that started the replay may not have sent them: if so, send them with --only journal\n'

// Days that a replay skips or sends incompletely, since the journal lacks entries of them.

const MOST_RANGES = 8

const NO_JOBS = 'an inventory has no past that the API could show again'

/** Incomplete days, one line per stream. */
export function shortText(short: readonly PlannedDay[], how: (stream: Stream) => string): string {
  const sources = new Map<string, PlannedDay[]>()
  for (const day of short) {
    const name = nameOf(day.stream)
    sources.set(name, [...(sources.get(name) ?? []), day])
  }
  return [...sources.values()].map((days) => lineOf(days, how)).join('')
}

function lineOf(days: readonly PlannedDay[], how: (stream: Stream) => string): string {
  const [first] = days
  if (!first) return ''
  const kept = days.reduce((sum, day) => sum + day.kept, 0)
  const still = days.reduce((sum, day) => sum + Math.min(day.stored, day.kept), 0)
  return `auditferry: of ${printable(nameOf(first.stream))}, ${datesText(days.map(({ day }) => day))}, the journal keeps ${numberText(still)} of the ${countText(kept, 'entries')} that it took in on ${countText(days.length, 'days')}: ${how(first.stream)}\n`
}

/** How an incomplete day is sent. */
export function howText({ dryRun, only }: { dryRun: boolean; only?: Only }, isRunning: boolean) {
  const sent = only === 'api' ? 'is not sent' : dryRun ? 'only that would be sent' : 'only that is sent'
  return ({ source }: Stream): string => {
    if (source === 'vault.projects') return `${sent}; ${NO_JOBS}`
    if (only === 'journal') return `${sent} with --only journal`
    return isRunning
      ? `${sent}; the past of ${source} cannot be read from the API again`
      : `${sent}; with the daemon running the same command would have them read from the API again`
  }
}

/** One line for each stream that adds nothing to the replay. `streams`: all that are read. */
export function emptyText(
  plan: ReplayPlan,
  asked: ReplayChoice,
  streams: readonly Stream[],
  nowMs: number,
): string {
  const withDays = plan.days.map(({ stream }) => stream)
  const all = [...withDays, ...streams.filter((stream) => isSelected(asked, stream))]
  const selected = all.filter((stream, i) => !includesStream(all.slice(0, i), stream))
  if (selected.length === 0) return offText(asked)
  if (asked.only === 'api') return selected.map((stream) => unreadLine(stream, plan)).join('')
  if (plan.days.length > 0) return selected.map((stream) => emptyLine(stream, plan, asked, nowMs)).join('')
  const api = selected.every(({ source }) => source === 'vault.projects') ? '' : API_HAS_MORE
  return `From the sources that ${asked.sink.name} takes (${namesText(selected)}), the journal has nothing of ${leftText(begunDays(asked, nowMs))}${api}\n`
}

/** Days of the span up to today. */
function begunDays({ span }: ReplayChoice, nowMs: number): readonly number[] {
  const { fromDay, toDay } = wholeDays(span)
  const endDay = Math.min(toDay, epochDay(nowMs * 1000) + 1)
  return Array.from({ length: endDay - fromDay }, (_, i) => fromDay + i)
}

const API_HAS_MORE = '; --only api reads what the API has of it'

function emptyLine(stream: Stream, { days }: ReplayPlan, asked: ReplayChoice, nowMs: number): string {
  const own = new Set(days.filter((day) => includesStream([stream], day.stream)).map(({ day }) => day))
  const today = epochDay(nowMs * 1000)
  // Today does not count if the stream has other days.
  const empty = begunDays(asked, nowMs).filter((day) => !own.has(day) && (own.size === 0 || day < today))
  if (empty.length === 0) return ''
  const api = stream.source === 'vault.projects' ? '' : API_HAS_MORE
  return `Of ${printable(nameOf(stream))} the journal took nothing in on ${leftText(empty)}${api}\n`
}

/** For `--only api`; streams with days are reported elsewhere. */
function unreadLine(stream: Stream, { days, reads }: ReplayPlan): string {
  if (
    includesStream(
      [...days, ...reads].map((one) => one.stream),
      stream,
    )
  )
    return ''
  return `Of ${printable(nameOf(stream))} nothing is sent: ${stream.source === 'vault.projects' ? NO_JOBS : 'the daemon does not read it'}\n`
}

const offText = ({ workspace, source, sink }: ReplayChoice): string =>
  `Nothing of ${source ?? `what ${sink.name} takes`} is sent: ${workspace === undefined ? 'no workspace' : `workspace ${workspace}`} ${workspace === undefined ? 'reads' : 'does not read'} it, and the journal has no entries of it\n`

function namesText(streams: readonly Stream[]): string {
  const names = streams.slice(0, MOST_RANGES).map((stream) => printable(nameOf(stream)))
  const more = streams.length - names.length
  return names.join(', ') + (more > 0 ? ` and ${countText(more, 'sources')} more` : '')
}

const leftText = (days: readonly number[]) =>
  `${datesText(days)} (${countText(days.length, 'days')}, left out)`

/** Ranges of days, each with its last day. */
function datesText(days: readonly number[]): string {
  const ranges: { from: number; to: number }[] = []
  for (const day of days.toSorted((a, b) => a - b)) {
    const last = ranges.at(-1)
    if (last?.to === day) last.to = day + 1
    else ranges.push({ from: day, to: day + 1 })
  }
  const text = (day: number) => dayText(day * DAY_MS)
  const texts = ranges
    .slice(0, MOST_RANGES)
    .map(({ from, to }) => (to === from + 1 ? text(from) : `${text(from)} to ${text(to - 1)}`))
  const more = ranges.slice(MOST_RANGES).reduce((sum, { from, to }) => sum + to - from, 0)
  return texts.join(', ') + (more > 0 ? ` and ${countText(more, 'days')} more` : '')
}
