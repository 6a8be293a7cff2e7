// What `reconcile` tells where its walk was cut off: the numbers so far, of which nothing is judged. Pure.
import { DAY_MS, dayText } from '../../model/time.ts'
import { numberText } from '../../ops/words.ts'
import { columns } from '../shared/columns.ts'
import { printable } from '../../model/printable.ts'
import type { Walked } from './walk.ts'

const rowsOf = (walked: readonly Walked[]) =>
  walked.flatMap(({ origin, days }) =>
    days.map(({ day, early = 0, ...counts }) => ({
      ...origin,
      day: dayText(day * DAY_MS),
      ...counts,
      before_start: early,
    })),
  )

const unknownOf = (walked: readonly Walked[]) =>
  walked.flatMap(({ origin, unknown }) =>
    unknown.map(({ id, day }) => ({ ...origin, id, day: dayText(day * DAY_MS) })),
  )

/** Empty where nothing was walked. */
export function partialText(walked: readonly Walked[]): string {
  const rows = rowsOf(walked)
  if (rows.length === 0) return ''
  const counts = ['FETCHED', 'KNOWN', 'CHANGED', 'FILTERED', 'MALFORMED', 'BEFORE START', 'UNKNOWN']
  const lines = rows.map((row) => [
    ...[`${row.workspace} ${row.source}`, row.day],
    ...[row.fetched, row.known, row.changed, row.filtered, row.malformed].map(numberText),
    ...[row.before_start, row.unknown].map(numberText),
  ])
  const unknown = unknownOf(walked).map(
    ({ workspace, source, day, id }) => `${workspace} ${source}  ${day}  ${printable(id)}\n`,
  )
  const first = unknown.length === 0 ? '' : `\nNot known here, the first ones\n\n${unknown.join('')}`
  return `PARTIAL: the walk was cut off, and this is what it had met until then. Days may be incomplete, others were not come to: nothing is judged, and nothing is proved\n\n${columns([['SOURCE', 'DAY', ...counts], ...lines])}${first}`
}

/** `balanced` as in the whole report: who looks at that alone is not misled. */
export const partialJson = (walked: readonly Walked[]): string =>
  `${JSON.stringify({ partial: true, balanced: false, read: rowsOf(walked), unknown: unknownOf(walked) }, null, 2)}\n`
