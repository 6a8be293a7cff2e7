// The report of `reconcile` on paper: what was asked, what was found, what it does not prove, and a line to sign. Pure.
import { numberText } from '../../ops/words.ts'
import { DAY_MS } from '../../model/time.ts'
import { columns } from '../shared/columns.ts'
import { printable } from '../../model/printable.ts'
import type { ReadRow, ReconcileReport, SinkRow } from './report.ts'
import { counted, verdictOf } from './verdict.ts'

export function reportText(report: ReconcileReport): string {
  return [
    headText(report),
    `What the API shows now, and what of it is known here\n\n${readTable(report.read)}`,
    unknownText(report),
    unreadText(report),
    `What became of each entry kept, by sink\n\n${sinkTable(report.sinks)}`,
    `Verdict\n\n${verdictOf(report)}\n`,
    `What this does not prove\n\n${limitsOf(report)}`,
    'Name ______________________  Date ______________  Signature ______________________\n',
  ]
    .filter((text) => text !== '')
    .join('\n')
}

function headText({
  version,
  instance,
  journal,
  from,
  to,
  made_at,
  daemon_running,
  sources,
}: ReconcileReport) {
  const days = (Date.parse(to) - Date.parse(from)) / DAY_MS
  const rows = [
    ['Program', `auditferry ${version}, instance ${instance ?? 'unknown'}`],
    ['Journal', `${journal}, ${daemon_running ? 'through the running daemon' : 'no daemon running'}`],
    ['Span', `${from} to ${to}, the end excluded: ${counted(days, 'UTC day', 'UTC days')}`],
    ['Made', made_at],
    ...sources.map(({ workspace, source, host, user }) => [
      'Read',
      `${workspace} ${source} from ${host ?? 'unknown'}${source === 'audit' ? keyText(user) : ''}`,
    ]),
  ]
  return `Reconciliation\n\n${columns(rows)}`
}

/** The history tells nobody who read it. */
const keyText = (user: string | null) =>
  user === null ? '; which user the key is, is unknown: no fetch of ours was met' : `; the key is ${user}`

function readTable(read: readonly ReadRow[]): string {
  const isEarly = read.some(({ before_start }) => before_start > 0)
  const head = [
    ...['SOURCE', 'DAY', 'FETCHED', 'KNOWN', 'CHANGED', 'FILTERED', 'MALFORMED'],
    ...(isEarly ? ['BEFORE START'] : []),
    ...['UNKNOWN', 'KEPT', 'NOT SHOWN', 'PROVEN BY', 'RESULT'],
  ]
  const rows = read.map((row) => [
    ...[`${row.workspace} ${row.source}`, row.day],
    ...[row.fetched, row.known, row.changed, row.filtered, row.malformed].map(numberText),
    ...(isEarly ? [numberText(row.before_start)] : []),
    ...[row.unknown, row.kept, row.no_longer_shown].map(numberText),
    ...[row.proven_by, row.result === 'early' ? 'before start' : row.result],
  ])
  return columns([head, ...rows])
}

function sinkTable(sinks: readonly SinkRow[]): string {
  if (sinks.length === 0) return 'Nothing was kept of these days.\n'
  const head = [
    ...['SINK', 'SOURCE', 'DAY', 'KEPT', 'BEFORE', 'ACCEPTED', 'FILTERED', 'PARKED', 'DROPPED', 'OWED'],
    ...['MISSING', 'RESULT'],
  ]
  const rows = sinks.map((row) => [
    ...[row.sink, `${row.workspace} ${row.source}`, row.day],
    ...[row.kept, row.before, row.accepted, row.filtered, row.parked, row.dropped, row.owed].map(numberText),
    ...[numberText(row.missing), row.result],
  ])
  return columns([head, ...rows])
}

function unknownText({ read, sources }: ReconcileReport): string {
  const moving = new Set(read.filter(({ result }) => result === 'moving').map(({ day }) => day))
  const lines = sources.flatMap(({ workspace, source, unknown }) =>
    unknown.map(({ id, day }) => {
      const why = moving.has(day) ? '  (that day is not over, it may still come)' : ''
      return `${workspace} ${source}  ${day}  ${printable(id)}${why}`
    }),
  )
  return lines.length === 0 ? '' : `Not known here, the first ones\n\n${lines.join('\n')}\n`
}

function unreadText({ sources }: ReconcileReport): string {
  const lines = sources.flatMap(({ workspace, source, unread }) =>
    unread.map(({ from, to, why }) => `${workspace} ${source}  ${from} to ${to}  ${unreadWhy[why]}`),
  )
  return lines.length === 0 ? '' : `Not told whole by the API\n\n${lines.join('\n')}\n`
}

const unreadWhy = {
  refused: 'refused with 400: it may not reach so far back',
  unreadable: 'unreadable, while other times could be read',
} as const

function limitsOf({ read, keys_since, sources }: ReconcileReport): string {
  const moving = read.some(({ result }) => result === 'moving')
  const isHistory = sources.some(({ source }) => source !== 'audit')
  const reread = sources.filter(({ read_again_from }) => read_again_from !== null)
  const lines = [
    `Of entries before ${keys_since} keys may be forgotten (journal.keep_keys): where PROVEN BY says counts, only numbers were compared.`,
    'What the API never showed, or no longer shows, cannot be compared: NOT SHOWN are entries kept here that the walk did not meet, or that were kept more than once.',
    'FILTERED goes by the types of today; MALFORMED has no time of its own, stands on the day where it was met, and is only counted: auditferry quarantine list tells what is kept of such.',
    'ACCEPTED is what each receiver answered: what it then did with an entry, only its own search can tell.',
    ...(isHistory
      ? [
          'Of the history each version of an entry counts as KEPT, so NOT SHOWN holds versions before the last; what is known has the content that was kept of it last.',
        ]
      : []),
    ...reread.map(
      ({ workspace, source, read_again_from }) =>
        `${workspace} ${source}: days from ${read_again_from ?? ''} on are still read again by themselves (history.reread): what is unknown or changed there comes without a backfill.`,
    ),
    ...(read.some(({ before_start }) => before_start > 0)
      ? ['BEFORE START is what lies before live reading began; of it nothing is judged.']
      : []),
    ...sources
      .filter(({ source, user }) => source === 'audit' && user === null)
      .map(
        ({ workspace, source }) =>
          `${workspace} ${source}: which user the key is, the log tells by our own fetches of it (api:audit_log_fetch, this instance in the User-Agent), and of those none was met: nothing was read on these days under this instance, or the API does not record the User-Agent. No permission is lacking. A span with a day on which the daemon read tells it; else ask who made the key.`,
      ),
    ...(moving ? ['The day that is not over yet is shown and not judged.'] : []),
  ]
  return lines.map((line) => `- ${line}\n`).join('')
}
