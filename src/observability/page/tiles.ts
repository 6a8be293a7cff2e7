// The figures at the top: reading, delivery and pending entries of the last hour, and how full the
// journal is.
import { sinceText } from '../status.ts'
import type { StatusReport } from '../status.ts'
import { numberText, sizeText, spanText } from '../words.ts'
import { meterHtml, percent, unbroken, warn } from './html.ts'

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

/** A young process uses the whole width for its few minutes, later for one hour. */
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
    // The running step is incomplete and would always look like a fall.
    picture: picture(values.length > 1 ? values.slice(0, -1) : values, stepSeconds),
  }
}

export function tilesHtml(report: StatusReport): string {
  const { history, journal } = report
  const { step_seconds, read, delivered, pending } = history
  const capacity = Math.max(1, journal.capacity_bytes)
  const fill = journal.bytes / capacity
  const tiles: Tile[] = [
    flowTile('Entries read', read, report),
    flowTile('Deliveries, all sinks', delivered, report),
    {
      title: 'Pending entries',
      figure: numberText(journal.entries),
      words: `at most ${numberText(Math.max(0, ...pending))} ${spanOf(pending, report)}`,
      picture: picture(pending, step_seconds),
    },
    {
      title: 'Journal',
      figure: percent(fill),
      words: `${sizeText(journal.bytes)} of ${sizeText(journal.capacity_bytes)} pending${journal.paused ? `; ${warn('reading is paused')}` : ''}`,
      picture: meterHtml('How full the journal is', journal.bytes, capacity),
    },
  ]
  return `<section aria-labelledby="flow" class="tiles"><h2 id="flow" class="hidden">The last hour</h2>${tiles.map(tileHtml).join('\n')}</section>`
}

// A line chart of one hour: inline SVG rendered on the server, with its figures as text next to it.

const WIDTH = 240
const HEIGHT = 44
/** Half the line's width at the top and the bottom. */
const PAD = 2

const round = (value: number): number => Math.round(value * 100) / 100

/**
 * Values oldest first, the newest at the right edge; `steps`: number of values for the whole width,
 * so that few values make a short line. No value is below 0. The chart is decorative: the page has
 * its figures as text.
 * @internal for tests
 */
export function sparkline(values: readonly number[], steps: number): string {
  const top = Math.max(1, ...values)
  const pace = WIDTH / Math.max(1, steps - 1)
  const first = WIDTH - (values.length - 1) * pace
  const points = values.map((value, i) => {
    const y = HEIGHT - PAD - (value / top) * (HEIGHT - 2 * PAD)
    return `${round(first + i * pace)},${round(y)}`
  })
  const base = HEIGHT - PAD
  // A single value is a point, and a point is drawn only where the pen moves.
  const line = `M${points.join('L')}${points.length === 1 ? 'h0' : ''}`
  const area = `${line}L${WIDTH},${base}L${round(first)},${base}Z`
  return `<svg class="spark" viewBox="0 0 ${WIDTH} ${HEIGHT}" preserveAspectRatio="none" aria-hidden="true" focusable="false">
<path class="base" d="M0,${base}H${WIDTH}"/><path class="area" d="${area}"/><path class="line" d="${line}"/></svg>`
}
