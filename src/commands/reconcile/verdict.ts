// The verdict of `reconcile`: whether all comes out even, what does not, and which command brings what. Pure.
import { numberText } from '../../ops/words.ts'
import { DAY_MS, dayText } from '../../model/time.ts'
import { printable } from '../../model/printable.ts'
import { isJudged, type ReadRow, type ReconcileReport, type SinkRow } from './report.ts'

export const counted = (count: number, one: string, many: string) =>
  `${numberText(count)} ${count === 1 ? one : many}`

const sum = <Row>(rows: readonly Row[], of: (row: Row) => number) =>
  rows.reduce((all, row) => all + of(row), 0)

export function verdictOf(report: ReconcileReport): string {
  const { read, sinks, sources, balanced } = report
  const judged = read.filter(isJudged)
  const early = earlyText(report)
  if (balanced) return `BALANCED. ${balancedText(judged, read, sinks)}${early}`
  const gaps = sum(sources, (source) => source.gaps)
  const lacking = sum(judged, lackingIn)
  const clauses = [
    ...(judged.length === 0 ? [whyNone(read)] : []),
    ...(gaps > 0 ? [`the API could not be read whole at ${counted(gaps, 'place', 'places')}`] : []),
    ...(lacking > 0
      ? [
          `${counted(lacking, 'entry', 'entries')} that the API shows ${lacking === 1 ? 'is' : 'are'} not here`,
        ]
      : []),
    ...changedClause(sum(judged, ({ changed }) => changed)),
    ...(judged.some(({ result }) => result === 'surplus')
      ? ['more is known than was ever counted as kept']
      : []),
    ...sinkClauses(sinks),
  ]
  // Nothing is proved, and nothing speaks against it.
  const isUnjudged = judged.length === 0 && clauses.length === 1
  return `${isUnjudged ? 'NOTHING TO JUDGE' : 'NOT BALANCED'}: ${clauses.join('; ')}.${remedyText(report)}${early}`
}

function whyNone(read: readonly ReadRow[]): string {
  const early = read.filter(({ result }) => result === 'early').length
  if (early === 0) return 'no day of the span is over yet'
  const more = early < read.length ? ', or is not over yet' : ''
  return `each day of the span was over before live reading began${more}`
}

/** A line for each source that shows some: they are no loss, and whoever wants them has to ask. */
function earlyText({ read, sources }: ReconcileReport): string {
  const lines = sources.flatMap(({ workspace, source, start }) => {
    const own = read.filter((row) => row.workspace === workspace && row.source === source)
    const rows = own.filter(({ before_start }) => before_start > 0)
    const [first] = rows
    if (!first || start === null) return []
    const count = counted(
      sum(rows, ({ before_start }) => before_start),
      'entry',
      'entries',
    )
    const span = `--workspace ${printable(workspace)} --source ${source} --from ${first.day} --to ${start}`
    return `\n${count} of ${printable(`${workspace} ${source}`)} from before ${start}, where live reading began (start), were not to be read and are not here. To have them too: auditferry backfill ${span}`
  })
  return lines.join('')
}

function changedClause(changed: number): string[] {
  if (changed === 0) return []
  const kept = changed === 1 ? 'it was kept' : 'they were kept'
  return [`${counted(changed, 'entry has', 'entries have')} changed since ${kept}`]
}

/** Where keys may be gone a number is all that can be told. */
function lackingIn({ result, proven_by, unknown, known, kept }: ReadRow): number {
  if (result !== 'missing') return 0
  return proven_by === 'keys' ? unknown : Math.max(0, known + unknown - kept)
}

/** What brings it, a line a source: a backfill, or nothing that anybody has to do where the days are read again anyway. */
function remedyText({ read, sources }: ReconcileReport): string {
  const lines = sources.flatMap(({ workspace, source, read_again_from }) => {
    const days = read
      .filter((row) => row.workspace === workspace && row.source === source && isJudged(row))
      .filter((row) => lackingIn(row) + row.changed > 0)
      .map(({ day }) => day)
    const isAgain = (day: string) => read_again_from !== null && day >= read_again_from
    const past = days.filter((day) => !isAgain(day))
    return [...backfillText(workspace, source, past), ...againText(workspace, source, days.find(isAgain))]
  })
  return lines.map((line) => `\n${line}`).join('')
}

function backfillText(workspace: string, source: string, days: readonly string[]): string[] {
  const [first] = days
  const last = days.at(-1)
  if (first === undefined || last === undefined) return []
  const span = `--from ${first} --to ${dayText(Date.parse(last) + DAY_MS)}`
  return [
    `This fetches it: auditferry backfill --workspace ${printable(workspace)} --source ${source} ${span}`,
  ]
}

function againText(workspace: string, source: string, first: string | undefined): string[] {
  if (first === undefined) return []
  const what = `What is not here or has changed of ${printable(`${workspace} ${source}`)} from ${first} on`
  return [`${what} comes without a backfill: live reading reads these days again (history.reread)`]
}

function sinkClauses(sinks: readonly SinkRow[]): string[] {
  const uneven = sinks.filter(({ result }) => result === 'missing' || result === 'surplus')
  return [...new Set(uneven.map(({ sink }) => sink))].map((sink) => {
    const own = uneven.filter((row) => row.sink === sink)
    const lost = sum(own, ({ missing }) => Math.max(0, missing))
    const over = sum(own, ({ missing }) => Math.max(0, -missing))
    const both = [
      ...(lost > 0 ? [`of ${counted(lost, 'entry', 'entries')} kept nothing is known`] : []),
      ...(over > 0 ? [`${counted(over, 'entry', 'entries')} more came out than in`] : []),
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
    ...open(({ owed }) => owed, 'still owed'),
    ...open(({ parked }) => parked, 'refused by a receiver and kept as dead letters'),
    ...open(({ dropped }) => dropped, 'dropped on somebody’s word'),
    ...open(({ before }) => before, 'from before the counting of a sink began'),
  ]
  const days = moving === 0 ? '' : ' of days that are over'
  const rest = moving === 0 ? '' : ` (the ${numberText(moving)} of the day that is not are shown, not judged)`
  const all = `Each of the ${counted(shown, 'element', 'elements')} that the API shows${days} is known here, filtered by types, or malformed${rest}, and each sink accounts for every entry kept`
  return left.length === 0 ? `${all}.` : `${all}; of these deliveries ${left.join(', ')}.`
}
