// The figures on top: an hour of reading, delivering and owing, and how full the journal is.
import { numberText, sizeText, spanText } from '../words.ts'
import { sinceText } from '../status.ts'
import type { StatusReport } from '../status.ts'
import { sparkline } from './sparkline.ts'
import { meterHtml, percent, unbroken, warn } from './text.ts'

const HOUR_SECONDS = 3600
const YOUNG_SECONDS = 600

interface Tile {
  readonly title: string
  readonly figure: string
  readonly words: string
  readonly picture: string
}

function tileHtml({ title, figure, words, picture }: Tile): string {
  return `<div class="tile"><h3>${title}</h3><p class="figure">${figure}</p>${picture}<p class="soft">${words}</p></div>`
}

const sum = (values: readonly number[]): number => values.reduce((total, value) => total + value, 0)

/** A young process has the whole width for what there is: some minutes at first, an hour in the end. */
function picture(values: readonly number[], stepSeconds: number): string {
  return sparkline(values, Math.max(values.length, YOUNG_SECONDS / stepSeconds))
}

function spanOf(values: readonly number[], report: StatusReport): string {
  return values.length < HOUR_SECONDS / report.history.step_seconds ? sinceText(report) : 'in the last hour'
}

function flowTile(title: string, values: readonly number[], report: StatusReport): Tile {
  const stepSeconds = report.history.step_seconds
  const most = `at most ${numberText(Math.max(0, ...values))} in ${unbroken(spanText(stepSeconds))}`
  return {
    title,
    figure: numberText(sum(values)),
    words: `${spanOf(values, report)}, ${most}`,
    // The step that is still running would always look like a fall.
    picture: picture(values.length > 1 ? values.slice(0, -1) : values, stepSeconds),
  }
}

export function tilesHtml(report: StatusReport): string {
  const { history, journal } = report
  const { step_seconds, read, delivered, owed } = history
  const capacity = Math.max(1, journal.capacity_bytes)
  const fill = journal.bytes / capacity
  const tiles: Tile[] = [
    flowTile('Entries read', read, report),
    flowTile('Deliveries, all sinks', delivered, report),
    {
      title: 'Entries owed',
      figure: numberText(journal.entries),
      words: `at most ${numberText(Math.max(0, ...owed))} ${spanOf(owed, report)}`,
      picture: picture(owed, step_seconds),
    },
    {
      title: 'Journal',
      figure: percent(fill),
      words: `${sizeText(journal.bytes)} of ${sizeText(journal.capacity_bytes)} owed${journal.paused ? `; ${warn('reading is paused')}` : ''}`,
      picture: meterHtml('How full the journal is', journal.bytes, capacity),
    },
  ]
  return `<section aria-labelledby="flow" class="tiles"><h2 id="flow" class="hidden">The last hour</h2>${tiles.map(tileHtml).join('\n')}</section>`
}
