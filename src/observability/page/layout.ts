// The status page: a report as HTML, rendered on the server and complete without a script.
// The script only keeps it up to date.
import { createHash } from 'node:crypto'
import type { StatusReport } from '../status.ts'
import { spanText, utcText } from '../words.ts'
import { escapeHtml, isTrouble, unbroken } from './html.ts'
import { backfillsHtml, deliveringHtml, readingHtml, replaysHtml } from './rows.ts'
import { script } from './script.ts'
import { configHtml, errorsHtml, mattersHtml, shardsHtml } from './sections.ts'
import { style } from './style.ts'
import { tilesHtml } from './tiles.ts'

/** Longer sentences, with several faults, are shown smaller. */
const LONG_SENTENCE = 110
/** Without the script the browser reloads the page, which scrolls to the top: so not too often. */
const RELOAD_SECONDS = 15

/** A ship's hull on water. */
const logo = `<svg class="logo" viewBox="0 0 32 32" aria-hidden="true" focusable="false"><path d="M9 14V7h14v7M16 7V3.5M4.5 14h23l-3.6 8H8.1z"/><path class="water" d="M3 27q3.25-3 6.5 0t6.5 0 6.5 0 6.5 0"/></svg>`

function icon(ok: boolean): string {
  const fill = ok ? '%231b7f4f' : '%23b3261e'
  const shape = ok
    ? `<circle cx='8' cy='8' r='7' fill='${fill}'/>`
    : `<path d='M8 0l8 8-8 8-8-8z' fill='${fill}'/>`
  const svg = `<svg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 16 16'>${shape}</svg>`
  return `data:image/svg+xml,${svg.replaceAll('<', '%3C').replaceAll('>', '%3E')}`
}

/** The text that a screen reader reads after a change: states, without the running seconds. */
function newsHtml({ ok, workspaces, sinks, journal }: StatusReport): string {
  const sources = workspaces.flatMap(({ name, sources: own }) =>
    own.map((source) => ({ name: `${name} ${source.name}`, state: source.state })),
  )
  const troubled = [...sources, ...sinks].filter(({ state }) => isTrouble(state))
  const parts = troubled.map(({ name, state }) => `${name} is ${state}`)
  const lost = journal.lost === null ? [] : ['the journal’s file is gone']
  const paused = journal.paused ? ['reading is paused'] : []
  return ok ? 'All parts are working' : escapeHtml(`Attention: ${[...lost, ...paused, ...parts].join(', ')}`)
}

function headHtml({ ok }: StatusReport): string {
  return `<head><meta charset="utf-8"><title>${ok ? 'ok' : 'attention'} · Auditferry</title>
<meta name="viewport" content="width=device-width, initial-scale=1"><meta name="color-scheme" content="light dark">
<meta name="robots" content="noindex"><meta name="edition" content="${edition}">
<link rel="icon" href="${icon(ok)}"><style>${style}</style>
<noscript><meta http-equiv="refresh" content="${RELOAD_SECONDS}"></noscript></head>`
}

function bannerHtml({ version, started_at, reported_at }: StatusReport, now: number): string {
  const up = unbroken(spanText(Math.max(0, (now - Date.parse(started_at)) / 1000)))
  const at = escapeHtml(utcText(reported_at))
  return `<header>${logo}<b>Auditferry</b><span id="about" data-live>${escapeHtml(version)}, up ${up}</span>
<span class="clock"><time id="as-of" data-live datetime="${escapeHtml(reported_at)}">${at}</time>
<button type="button" id="hold" aria-pressed="false" hidden>Pause</button></span></header>
<p id="lost" role="alert" hidden></p>`
}

const footer = `<footer><p>New and Delivered count since the start or the last reload. For machines: <a href="status">status</a>, <a href="metrics">metrics</a>,
<a href="livez">livez</a>, <a href="readyz">readyz</a>.</p></footer>`

/** `config`: as text, secrets masked. Everything from the report is escaped here. */
export function renderPage(report: StatusReport, config?: string): string {
  const now = Date.parse(report.reported_at)
  const classes = `${report.ok ? 'good' : 'bad'}${report.summary.length > LONG_SENTENCE ? ' long' : ''}`
  return `<!doctype html>
<html lang="en">${headHtml(report)}
<body><a class="skip" href="#main">To the status</a>
${bannerHtml(report, now)}
<main id="main" data-live tabindex="-1"><h1 class="${classes}">${escapeHtml(unbroken(report.summary))}</h1>
${tilesHtml(report)}
${readingHtml(report, now)}
${deliveringHtml(report, now)}
${backfillsHtml(report.backfills)}
${replaysHtml(report.replays)}
${shardsHtml(report.shards, now)}
${mattersHtml(report)}
${errorsHtml(report.errors, now)}
${configHtml(config)}</main>
${footer}
<p id="news" data-live class="hidden" role="status" aria-live="polite">${newsHtml(report)}</p>
<script>${script}</script></body></html>
`
}

// Response headers that allow only the page's own style and script, by their hashes.

const sha256 = (text: string): string => createHash('sha256').update(text).digest('base64')

/** If it changes, the open page is from another version, and reloads itself. */
const edition = sha256(style + script).slice(0, 12)

/** Forbids loading, framing, forms and scripts; the script may send requests to its own origin. */
const policy = [
  "default-src 'none'",
  `style-src 'sha256-${sha256(style)}'`,
  `script-src 'sha256-${sha256(script)}'`,
  "connect-src 'self'",
  'img-src data:',
  "base-uri 'none'",
  "form-action 'none'",
  "frame-ancestors 'none'",
]

export const pageHeaders: Readonly<Record<string, string>> = {
  'content-security-policy': policy.join('; '),
  'referrer-policy': 'no-referrer',
  'x-frame-options': 'DENY',
  'cross-origin-opener-policy': 'same-origin',
  'cross-origin-resource-policy': 'same-origin',
  'permissions-policy': 'camera=(), geolocation=(), microphone=()',
}
