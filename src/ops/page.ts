// The status page: a report as plain HTML, made on the server, read without script on a phone at night.
import type { SinkState, SourceState } from '../model/watch.ts'
import { style } from './page-style.ts'
import { countText, spanText } from './status.ts'
import type { FaultStatus, SinkStatus, SourceStatus, StatusReport, WorkspaceStatus } from './status.ts'

const REFRESH_SECONDS = 10

const entities: Readonly<Record<string, string>> = {
  '&': '&amp;',
  '<': '&lt;',
  '>': '&gt;',
  '"': '&quot;',
  "'": '&#39;',
}

/** All that is not ours goes through here, and much that is. @internal */
export function escapeHtml(text: string): string {
  return text.replace(/[&<>"']/g, (character) => entities[character] ?? '')
}

const tones: Readonly<Record<SourceState | SinkState, string>> = {
  starting: 'busy',
  reading: 'busy',
  sending: 'busy',
  idle: 'good',
  waiting: 'warn',
  paused: 'warn',
  held: 'bad',
  failing: 'bad',
}

const sizes = [
  ['GiB', 2 ** 30],
  ['MiB', 2 ** 20],
  ['KiB', 2 ** 10],
] as const

export function sizeText(bytes: number): string {
  for (const [unit, size] of sizes) if (bytes >= size) return `${(bytes / size).toFixed(1)} ${unit}`
  return `${bytes} B`
}

function ago(instant: string | null, now: number): string {
  if (instant === null) return '<span class="soft">never</span>'
  const seconds = Math.max(0, (now - Date.parse(instant)) / 1000)
  return `<time datetime="${escapeHtml(instant)}">${spanText(seconds)} ago</time>`
}

function lag(seconds: number): string {
  return seconds < 1 ? '<span class="soft">none</span>' : spanText(seconds)
}

const cell = (label: string, html: string) => `<td data-label="${label}">${html}</td>`
const state = (of: SourceState | SinkState) => cell('State', `<span class="state ${tones[of]}">${of}</span>`)
const name = (text: string, soft = '') =>
  `<td class="name">${escapeHtml(text)}${soft === '' ? '' : ` <span class="soft">${escapeHtml(soft)}</span>`}</td>`

function faultRow(error: FaultStatus | null, columns: number, now: number): string {
  if (!error) return ''
  const text = `${escapeHtml(error.message)} <span class="soft">(${error.code}, since ${ago(error.since, now)})</span>`
  return `<tr class="fault"><td colspan="${columns}">${text}</td></tr>`
}

function table(heading: string, columns: readonly string[], rows: readonly string[]): string {
  const head = columns.map((column) => `<th scope="col">${column}</th>`).join('')
  const body =
    rows.length > 0 ? rows.join('') : `<tr><td colspan="${columns.length}">none configured</td></tr>`
  return `<section><h2>${heading}</h2><table><thead><tr>${head}</tr></thead><tbody>${body}</tbody></table></section>`
}

const sourceColumns = ['Source', 'State', 'Last read', 'Caught up', 'Lag', 'New', 'Gaps', 'Findings']

function sourceRow(source: SourceStatus, now: number): string {
  const cells = [
    name(source.name),
    state(source.state),
    cell('Last read', ago(source.last_success_at, now)),
    cell('Caught up', ago(source.caught_up_at, now)),
    cell('Lag', lag(source.lag_seconds)),
    cell('New', total(source.new_entries)),
    cell('Gaps', warnCount(source.gaps)),
    cell('Findings', warnCount(source.findings)),
  ]
  return `<tr>${cells.join('')}</tr>${faultRow(source.error, cells.length, now)}`
}

const total = (count: number) => count.toLocaleString('en-US')
const warnCount = (count: number) =>
  count === 0 ? '<span class="soft">0</span>' : `<span class="warn">${count.toLocaleString('en-US')}</span>`

function workspaceTable(workspace: WorkspaceStatus, now: number): string {
  const rows = workspace.sources.map((source) => sourceRow(source, now))
  const spent = workspace.budget?.map(({ area, used, limit }) => `${escapeHtml(area)} ${used} of ${limit}`)
  const budget = spent ? ` <span class="soft">requests in the last minute: ${spent.join(', ')}</span>` : ''
  return table(`Reading ${escapeHtml(workspace.name)}${budget}`, sourceColumns, rows)
}

const sinkColumns = ['Sink', 'State', 'Last delivery', 'Behind', 'Owed', 'Delivered', 'Dead letters']

function sinkRow(sink: SinkStatus, now: number): string {
  const cells = [
    name(sink.name, `${sink.type}, ${sink.assurance}`),
    state(sink.state),
    cell('Last delivery', ago(sink.last_success_at, now)),
    cell('Behind', lag(sink.lag_seconds)),
    cell('Owed', total(sink.owed_entries)),
    cell('Delivered', total(sink.accepted_entries)),
    cell('Dead letters', warnCount(sink.dead_letters)),
  ]
  return `<tr>${cells.join('')}</tr>${faultRow(sink.error, cells.length, now)}`
}

function journalSection({ journal }: StatusReport): string {
  const { entries, bytes, capacity_bytes, paused, quarantined, gaps, findings, strangers } = journal
  const capacity = Math.max(1, capacity_bytes)
  const percent = Math.round((bytes / capacity) * 100)
  const fill = `${countText(entries, 'entries')} owed, ${sizeText(bytes)} of ${sizeText(capacity_bytes)} (${percent} %)`
  const kept = `${countText(quarantined, 'elements')} quarantined, ${countText(gaps, 'possible gaps')}, ${countText(findings, 'findings')}`
  const left =
    strangers.length === 0
      ? ''
      : `<p class="warn">Left the configuration: ${escapeHtml(strangers.join(', '))}</p>`
  return `<section><h2>Journal</h2><meter min="0" max="${capacity}" high="${capacity * 0.8}" optimum="0" value="${Math.min(bytes, capacity)}">${percent} %</meter>
<p>${fill}${paused ? ' <span class="warn">reading is paused</span>' : ''}</p><p class="soft">${kept}</p>${left}</section>`
}

function icon(ok: boolean): string {
  const fill = ok ? '%231b7f4f' : '%23b3261e'
  const svg = `<svg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 8 8'><circle cx='4' cy='4' r='4' fill='${fill}'/></svg>`
  return `data:image/svg+xml,${svg.replaceAll('<', '%3C').replaceAll('>', '%3E')}`
}

/** `7 s` stays on one line. */
function unbroken(text: string): string {
  return text.replace(/(?<=\d) (?=(?:s|min|h|days)\b)/g, '\u00a0')
}

export function renderPage(report: StatusReport): string {
  const now = Date.parse(report.reported_at)
  const sinks = report.sinks.map((sink) => sinkRow(sink, now))
  const up = spanText(Math.max(0, (now - Date.parse(report.started_at)) / 1000))
  return `<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>${report.ok ? 'ok' : 'attention'} · Auditferry</title>
<meta name="viewport" content="width=device-width, initial-scale=1"><meta http-equiv="refresh" content="${REFRESH_SECONDS}">
<link rel="icon" href="${icon(report.ok)}"><style>${style}</style></head><body>
<header><b>Auditferry</b><span>${escapeHtml(report.version)}</span><span>up ${up}</span></header>
<main><h1${report.ok ? '' : ' class="bad"'}>${escapeHtml(unbroken(report.sentence))}</h1>
${report.workspaces.map((workspace) => workspaceTable(workspace, now)).join('\n')}
${table('Delivering', sinkColumns, sinks)}
${journalSection(report)}</main>
<footer>As of <time datetime="${escapeHtml(report.reported_at)}">${escapeHtml(report.reported_at.slice(0, 19).replace('T', ' '))} UTC</time>,
refreshed every ${REFRESH_SECONDS} s. New and Delivered: since the start. For machines: <a href="/status">/status</a>, <a href="/metrics">/metrics</a>,
<a href="/livez">/livez</a>, <a href="/readyz">/readyz</a></footer></body></html>
`
}
