// Formats values as HTML for people. Everything is escaped here, external text always.
import type { SinkState, SourceState } from '../../contracts/reporter.ts'
import { numberText, spanText } from '../words.ts'

const entities: Readonly<Record<string, string>> = {
  '&': '&amp;',
  '<': '&lt;',
  '>': '&gt;',
  '"': '&quot;',
  "'": '&#39;',
}

export function escapeHtml(text: string): string {
  return text.replace(/[&<>"']/g, (character) => entities[character] ?? '')
}

/** Text of other programs: escaped, and isolated because of possible bidirectional marks. */
export const verbatim = (text: string): string => `<bdi>${escapeHtml(text)}</bdi>`

export const soft = (html: string): string => `<span class="soft">${html}</span>`
export const warn = (html: string): string => `<span class="warn">${html}</span>`

/** Zero is shown softly, any other number as a warning. */
export const zeroIsWell = (count: number): string => (count === 0 ? soft('0') : warn(numberText(count)))

export function agoHtml(instant: string | null, now: number, absent = 'never'): string {
  if (instant === null) return soft(absent)
  const seconds = Math.max(0, (now - Date.parse(instant)) / 1000)
  return `<time datetime="${escapeHtml(instant)}">${unbroken(spanText(seconds))} ago</time>`
}

export const lagHtml = (seconds: number): string => (seconds < 1 ? soft('none') : unbroken(spanText(seconds)))

/** Keeps `7 s` on one line. */
export function unbroken(text: string): string {
  return text.replace(/(?<=\d) (?=(?:s|min|h|days|%)\b|%)/g, '\u00a0')
}

type Tone = 'good' | 'busy' | 'warn' | 'bad'

const tones: Readonly<Record<SourceState | SinkState, Tone>> = {
  starting: 'busy',
  reading: 'busy',
  collecting: 'busy',
  sending: 'busy',
  idle: 'good',
  waiting: 'warn',
  paused: 'warn',
  blocked: 'bad',
  failing: 'bad',
}

export const isTrouble = (state: SourceState | SinkState): boolean =>
  tones[state] === 'bad' || state === 'paused'

/** A word, a shape and a colour: each one is enough to recognise the state. */
export const stateHtml = (state: SourceState | SinkState): string =>
  `<span class="state ${tones[state]}">${state}</span>`

/** SVG, because browsers render `meter` differently. The number is also in the text beside it. */
function barHtml(role: 'meter' | 'progressbar', tone: string, label: string, share: number): string {
  const width = Math.floor(Math.min(1, Math.max(0, share)) * 1000) / 10
  const aria = `role="${role}" aria-label="${escapeHtml(label)}" aria-valuemin="0" aria-valuemax="100" aria-valuenow="${width}"`
  return `<svg class="bar ${role} ${tone}" ${aria} viewBox="0 0 100 1" preserveAspectRatio="none"><rect width="${width}" height="1"/></svg>`
}

/** `max` is above 0; larger values fill the bar. */
export function meterHtml(label: string, value: number, max: number): string {
  const share = value / max
  return barHtml('meter', share >= 1 ? 'bad' : share >= 0.8 ? 'warn' : 'good', label, share)
}

export const progressHtml = (label: string, ratio: number): string =>
  barHtml('progressbar', 'busy', label, ratio)

export const percent = (ratio: number): string => `${Math.floor(ratio * 100)}\u00a0%`

// The roles keep it a table for screen readers when a narrow screen shows each row as a card.

export interface Row {
  /** Identifies the row across refreshes. */
  readonly key: string
  /** HTML, like every input here */
  readonly name: string
  readonly cells: readonly string[]
  /** Extra lines below the row: a fault, the progress. */
  readonly notes?: readonly (Note | undefined)[]
}

interface Note {
  readonly kind: 'fault' | 'progress' | 'limit'
  readonly html: string
}

interface Table {
  readonly caption: string
  /** The first column has the name. */
  readonly columns: readonly string[]
  /** Columns behind them, right-aligned. */
  readonly numbers?: readonly string[]
  readonly rows: readonly Row[]
}

/** A cell's class and label. */
interface Column {
  readonly kind: string
  readonly label: string
}

function noteHtml(note: Note | undefined, key: string, columns: number): string {
  if (!note) return ''
  return `<tr role="row" class="note ${note.kind}" data-key="${key} ${note.kind}"><td role="cell" colspan="${columns}">${note.html}</td></tr>`
}

function rowHtml({ key, name, cells, notes = [] }: Row, columns: readonly Column[]): string {
  const [, ...others] = columns
  const inner = others.map(
    ({ kind, label }, i) =>
      `<td role="cell"${kind} data-label="${label}"><span>${cells[i] ?? ''}</span></td>`,
  )
  const below = notes.map((note) => noteHtml(note, key, columns.length)).join('')
  return `<tr role="row" data-key="${key}"><th role="rowheader" scope="row">${name}</th>${inner.join('')}</tr>${below}`
}

export function tableHtml({ caption, columns: texts, numbers = [], rows }: Table): string {
  const columns = [
    ...texts.map((label) => ({ kind: '', label })),
    ...numbers.map((label) => ({ kind: ' class="number"', label })),
  ]
  const head = columns.map(({ kind, label }) => `<th role="columnheader" scope="col"${kind}>${label}</th>`)
  return `<table role="table"><caption class="hidden">${caption}</caption>
<thead role="rowgroup"><tr role="row">${head.join('')}</tr></thead>
<tbody role="rowgroup">${rows.map((row) => rowHtml(row, columns)).join('\n')}</tbody></table>`
}
