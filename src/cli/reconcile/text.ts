// The report of `reconcile` as text: question, findings, limits of the proof, signature line. Pure.
import { printable } from '../../core/printable.ts'
import { DAY_MS, dayText } from '../../core/time.ts'
import { countText, numberText } from '../../observability/words.ts'
import { unreadWhy } from '../shared/jobs.ts'
import { columns } from '../shared/terminal.ts'
import { isJudged } from './report.ts'
import type { ReadRow, ReconcileReport, SinkRow } from './report.ts'

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
    ['Span', `${from} to ${to}, the end excluded: ${countText(days, 'UTC days')}`],
    ['Made', made_at],
    ...sources.map(({ workspace, source, host, user }) => [
      'Read',
      `${workspace} ${source} from ${host ?? 'unknown'}${source === 'audit' ? keyText(user) : ''}`,
    ]),
  ]
  return `Reconciliation\n\n${columns(rows)}`
}

/** The history does not record who read it. */
const keyText = (user: string | null) =>
  user === null
    ? '; the user of the key is unknown: the span has no fetch by this instance'
    : `; the key is ${user}`

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
    ...['SINK', 'SOURCE', 'DAY', 'KEPT', 'BEFORE', 'ACCEPTED', 'FILTERED', 'DEAD', 'DROPPED', 'PENDING'],
    ...['MISSING', 'RESULT'],
  ]
  const rows = sinks.map((row) => [
    ...[row.sink, `${row.workspace} ${row.source}`, row.day],
    ...[row.kept, row.before, row.accepted, row.filtered, row.dead_lettered, row.dropped, row.pending].map(
      numberText,
    ),
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
  return lines.length === 0 ? '' : `Not complete in the API's answers\n\n${lines.join('\n')}\n`
}

function limitsOf({ read, keys_since, sources }: ReconcileReport): string {
  const moving = read.some(({ result }) => result === 'moving')
  const isHistory = sources.some(({ source }) => source !== 'audit')
  const reread = sources.filter(({ read_again_from }) => read_again_from !== null)
  const lines = [
    `Before ${keys_since} entry ids may be forgotten (journal.dedup_retention): where PROVEN BY says counts, only numbers were compared.`,
    'Entries that the API never showed, or no longer shows, cannot be compared. NOT SHOWN counts entries kept here that the API did not show this time, or that were kept more than once.',
    'FILTERED uses the current types. MALFORMED elements have no time; they count on the day where they were found. auditferry quarantine list shows what is kept of them.',
    'ACCEPTED is what each receiver confirmed. Only a search in the receiver shows what it then did with an entry.',
    'That the journal can still deliver what is PENDING: its contents were not read.',
    ...(isHistory
      ? [
          'In the history each version of an entry counts as KEPT, so NOT SHOWN includes earlier versions. An entry is KNOWN if the API shows its latest kept content.',
        ]
      : []),
    ...reread.map(
      ({ workspace, source, read_again_from }) =>
        `${workspace} ${source}: days from ${read_again_from ?? ''} on are still read again automatically (history.lookback): unknown or changed entries there arrive without a backfill.`,
    ),
    ...(read.some(({ before_start }) => before_start > 0)
      ? ['BEFORE START counts entries from before live reading began. They are not part of the verdict.']
      : []),
    ...sources
      .filter(({ source, user }) => source === 'audit' && user === null)
      .map(
        ({ workspace, source }) =>
          `${workspace} ${source}: the user of the key is unknown. It is taken from this instance's own fetches in the log (api:audit_log_fetch), and the span has none: this instance read nothing on these days, or the API does not record the User-Agent. No permission is missing. Choose a span with a day on which the daemon read, or ask who created the key.`,
      ),
    ...(moving ? ['The current day is shown but not part of the verdict.'] : []),
  ]
  return lines.map((line) => `- ${line}\n`).join('')
}

// The verdict: balanced or not, what differs, and which command repairs it. Pure.

const counted = (count: number, one: string, many: string) =>
  `${numberText(count)} ${count === 1 ? one : many}`

const sum = <Row>(rows: readonly Row[], of: (row: Row) => number) =>
  rows.reduce((all, row) => all + of(row), 0)

function verdictOf(report: ReconcileReport): string {
  const { read, sinks, sources, ok } = report
  const judged = read.filter(isJudged)
  const early = earlyText(report)
  if (ok) return `BALANCED. ${balancedText(judged, read, sinks)}${early}`
  const gaps = sum(sources, (source) => source.gaps)
  const lacking = sum(judged, missingIn)
  const clauses = [
    ...(judged.length === 0 ? [whyNone(read)] : []),
    ...(gaps > 0 ? [`the API could not be read whole at ${countText(gaps, 'places')}`] : []),
    ...(lacking > 0
      ? [`${countText(lacking, 'entries')} that the API shows ${lacking === 1 ? 'is' : 'are'} not here`]
      : []),
    ...changedClause(sum(judged, ({ changed }) => changed)),
    ...(judged.some(({ result }) => result === 'surplus')
      ? ['more is known than was ever counted as kept']
      : []),
    ...sinkClauses(sinks),
  ]
  const found = clauses.join('; ')
  if (judged.length === 0 && clauses.length === 1)
    return `NO RESULT: ${found}. Nothing was compared, so the exit code is 1, as for a failure. Choose a span with a full UTC day after live reading began${early}`
  return `NOT BALANCED: ${found}.${remedyText(report)}${early}`
}

function whyNone(read: readonly ReadRow[]): string {
  const early = read.filter(({ result }) => result === 'early').length
  if (early === 0) return 'no day of the span is over yet'
  const more = early < read.length ? ', or is not over yet' : ''
  return `each day of the span was over before live reading began${more}`
}

/** Entries from before the start are no loss; a backfill can add them. */
function earlyText({ read, sources }: ReconcileReport): string {
  const lines = sources.flatMap(({ workspace, source, start }) => {
    const own = read.filter((row) => row.workspace === workspace && row.source === source)
    const rows = own.filter(({ before_start }) => before_start > 0)
    const [first] = rows
    if (!first || start === null) return []
    const entries = sum(rows, ({ before_start }) => before_start)
    const span = `--workspace ${printable(workspace)} --source ${source} --from ${first.day} --to ${start}`
    return `\n${countText(entries, 'entries')} of ${printable(`${workspace} ${source}`)} from before ${start}, where live reading began (start), were not read. To add them: auditferry backfill ${span}`
  })
  return lines.join('')
}

function changedClause(changed: number): string[] {
  if (changed === 0) return []
  const kept = changed === 1 ? 'it was kept' : 'they were kept'
  return [`${counted(changed, 'entry has', 'entries have')} changed since ${kept}`]
}

/** If keys may be forgotten, only a number is known. */
function missingIn({ result, proven_by, unknown, known, kept }: ReadRow): number {
  if (result !== 'missing') return 0
  return proven_by === 'keys' ? unknown : Math.max(0, known + unknown - kept)
}

/** The remedy for each stream: a backfill, or nothing if lookback reads the days again. */
function remedyText({ read, sources }: ReconcileReport): string {
  const lines = sources.flatMap(({ workspace, source, read_again_from }) => {
    const days = read
      .filter((row) => row.workspace === workspace && row.source === source && isJudged(row))
      .filter((row) => missingIn(row) + row.changed > 0)
      .map(({ day }) => day)
    const isAgain = (day: string) => read_again_from !== null && day >= read_again_from
    const past = days.filter((day) => !isAgain(day))
    return [...backfillText(workspace, source, past), ...lookbackText(workspace, source, days.find(isAgain))]
  })
  return lines.map((line) => `\n${line}`).join('')
}

function backfillText(workspace: string, source: string, days: readonly string[]): string[] {
  const [first] = days
  const last = days.at(-1)
  if (first === undefined || last === undefined) return []
  const span = `--from ${first} --to ${dayText(Date.parse(last) + DAY_MS)}`
  return [`To fetch it: auditferry backfill --workspace ${printable(workspace)} --source ${source} ${span}`]
}

function lookbackText(workspace: string, source: string, first: string | undefined): string[] {
  if (first === undefined) return []
  const what = `Every missing or changed entry of ${printable(`${workspace} ${source}`)} from ${first} on`
  return [`${what} arrives without a backfill: live reading reads these days again (history.lookback)`]
}

function sinkClauses(sinks: readonly SinkRow[]): string[] {
  const uneven = sinks.filter(({ result }) => result === 'missing' || result === 'surplus')
  return [...new Set(uneven.map(({ sink }) => sink))].map((sink) => {
    const own = uneven.filter((row) => row.sink === sink)
    const lost = sum(own, ({ missing }) => Math.max(0, missing))
    const over = sum(own, ({ missing }) => Math.max(0, -missing))
    const both = [
      ...(lost > 0 ? [`${counted(lost, 'kept entry has', 'kept entries have')} no recorded outcome`] : []),
      ...(over > 0 ? [`${countText(over, 'entries')} more were delivered than kept`] : []),
    ]
    return `at ${sink} ${both.join(', and ')}`
  })
}

function balancedText(
  judged: readonly ReadRow[],
  read: readonly ReadRow[],
  sinks: readonly SinkRow[],
): string {
  const shown = sum(judged, (row) => row.fetched - row.before_start)
  const moving = sum(read, (row) => (row.result === 'moving' ? row.fetched : 0))
  const open = (of: (row: SinkRow) => number, what: string) => {
    const count = sum(sinks, of)
    return count === 0 ? [] : [`${numberText(count)} ${what}`]
  }
  const left = [
    ...open(({ pending }) => pending, 'still pending'),
    ...open(({ dead_lettered }) => dead_lettered, 'refused by a receiver and kept as dead letters'),
    ...open(({ dropped }) => dropped, 'dropped by an operator'),
    ...open(({ before }) => before, 'from before the counting of a sink began'),
  ]
  const days = moving === 0 ? '' : ' of days that are over'
  const rest = moving === 0 ? '' : ` (the ${numberText(moving)} of the day that is not are shown, not judged)`
  const all = `Each of the ${countText(shown, 'elements')} that the API shows${days} is known here, filtered by types, or malformed${rest}, and each sink accounts for every entry kept`
  return left.length === 0 ? `${all}.` : `${all}; of these deliveries ${left.join(', ')}.`
}
