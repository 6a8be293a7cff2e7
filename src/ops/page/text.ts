// Values as a person reads them, as HTML. Whatever is not ours, and much that is, is escaped here.
import type { SinkState, SourceState } from '../../model/watch.ts'
import { spanText } from '../status.ts'

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

/** Somebody else's words: escaped, and held apart, so that marks of direction in them turn nothing around them. */
export const verbatim = (text: string): string => `<bdi>${escapeHtml(text)}</bdi>`

export const soft = (html: string): string => `<span class="soft">${html}</span>`
export const warn = (html: string): string => `<span class="warn">${html}</span>`

export const countHtml = (count: number): string => count.toLocaleString('en-US')

/** Nothing to see is said softly, anything else is not. */
export const zeroIsWell = (count: number): string => (count === 0 ? soft('0') : warn(countHtml(count)))

export function agoHtml(instant: string | null, now: number): string {
  if (instant === null) return soft('never')
  const seconds = Math.max(0, (now - Date.parse(instant)) / 1000)
  return `<time datetime="${escapeHtml(instant)}">${unbroken(spanText(seconds))} ago</time>`
}

export const lagHtml = (seconds: number): string => (seconds < 1 ? soft('none') : unbroken(spanText(seconds)))

/** `7 s` stays on one line. */
export function unbroken(text: string): string {
  return text.replace(/(?<=\d) (?=(?:s|min|h|days|%)\b|%)/g, '\u00a0')
}

type Tone = 'good' | 'busy' | 'warn' | 'bad'

const tones: Readonly<Record<SourceState | SinkState, Tone>> = {
  starting: 'busy',
  reading: 'busy',
  sending: 'busy',
  idle: 'good',
  waiting: 'warn',
  paused: 'warn',
  held: 'bad',
  failing: 'bad',
}

export const isTrouble = (state: SourceState | SinkState): boolean =>
  tones[state] === 'bad' || state === 'paused'

/** A word, a shape and a colour: any one of them is enough. */
export const stateHtml = (state: SourceState | SinkState): string =>
  `<span class="state ${tones[state]}">${state}</span>`

/** A bar with its number beside it. `max` above 0; what is over it fills the bar. */
export function meterHtml(label: string, value: number, max: number): string {
  const share = Math.min(1, value / max)
  const tone = share >= 1 ? 'bad' : share >= 0.8 ? 'warn' : 'good'
  return `<meter class="${tone}" aria-label="${escapeHtml(label)}" min="0" max="${max}" value="${Math.min(value, max)}"></meter>`
}

export function progressHtml(label: string, ratio: number): string {
  return `<progress aria-label="${escapeHtml(label)}" max="100" value="${Math.floor(ratio * 100)}"></progress>`
}

export const percent = (ratio: number): string => `${Math.floor(ratio * 100)}\u00a0%`
