// How figures and long texts are told to people: spans, sizes, counts, and what something waits for.
import type { ConnectorError } from '../core/errors.ts'
import type { WaitsFor } from '../contracts/jobs.ts'
import { PAST_SHARE_IN_USE } from '../contracts/jobs.ts'

/** `14 s`, `5 min`, `3 h`, `4 days`: the largest unit that still says enough. */
export function spanText(seconds: number): string {
  if (seconds < 90) return `${Math.round(seconds)} s`
  if (seconds < 90 * 60) return `${Math.round(seconds / 60)} min`
  if (seconds < 48 * 3600) return `${Math.round(seconds / 3600)} h`
  return `${Math.round(seconds / 86_400)} days`
}

const waitsForText: Readonly<Record<WaitsFor, string>> = {
  turn: 'its turn: another one that reads the same source comes first',
  rate_limit: 'its share of the rate limit',
  limit: 'the end of a rate limit: the API answered 429',
  source:
    'its source, which is not in the configuration of the daemon any more: it goes on once that is there again',
  sink: 'its sink, which is not in the configuration of the daemon any more: it goes on once that is there again',
  sources: "its source to stand among the sink's `sources` again",
  memory: 'memory for an answer: others that are being read hold what there is for them',
  room: `room in the journal: ${PAST_SHARE_IN_USE}`,
}

/** Of a job; nothing where it does not wait, or for something that only a newer daemon knows. */
export function waitText(waitsFor: WaitsFor | null | undefined, reason: string | null | undefined): string {
  const what = waitsFor ? (waitsForText[waitsFor] as string | undefined) : undefined
  return reason ? `Waiting: ${reason}.` : what === undefined ? '' : `Waiting for ${what}.`
}

/** `2026-11-25 18:12:50`, of an ISO instant in UTC. */
export const stampText = (iso: string): string => iso.slice(0, 19).replace('T', ' ')

export const utcText = (iso: string): string => `${stampText(iso)} UTC`

/** Places of a budget in the last minute, and how many there are: there may have been more while they were taken. */
export const usedText = (used: number, limit: number): string =>
  used <= limit ? `${used} of ${limit}` : `${used}, now ${limit}`

/** Of a budget of which less is asked since a 429. */
export function loweredText(limit: number, from: number, used: number): string {
  const before = used > limit ? `; the ${numberText(used)} of the last minute are from before that` : ''
  return `${numberText(limit)} a minute instead of ${numberText(from)} since the API answered 429, and more again while it does not${before}`
}

/** `, next try in 42 s`, of what failed; nothing where nobody knows, or it is due. */
export function nextTryText(at: string | undefined, nowMs: number): string {
  const leftMs = at === undefined ? 0 : Date.parse(at) - nowMs
  return leftMs > 0 ? `, next try in ${spanText(Math.ceil(leftMs / 1000))}` : ''
}

/** `next upload in 20 s`, of a sink that collects; nothing where it does not. */
export function uploadText(at: string | undefined, nowMs: number): string {
  if (at === undefined) return ''
  const leftMs = Date.parse(at) - nowMs
  return leftMs > 0 ? `next upload in ${spanText(Math.ceil(leftMs / 1000))}` : 'next upload is due'
}

/** In place of the last read and of when all was read, where that never was: a canary that was not asked yet will be, once the sources have read all there is or at its time. */
export function neverTexts(
  {
    name,
    error,
    due_at: at,
  }: { readonly name: string; readonly error: object | null; readonly due_at?: string },
  nowMs: number,
): readonly [read: string, caughtUp: string] {
  if (name !== 'assistant' || error) return ['never', 'never']
  const leftMs = at === undefined ? 0 : Math.max(0, Date.parse(at) - nowMs)
  return [at === undefined ? 'once all is read' : `due in ${spanText(Math.ceil(leftMs / 1000))}`, 'not yet']
}

/** Of a source whose answer waits; nothing where none does. */
export function memoryText(since: string | undefined, nowMs: number): string {
  if (since === undefined) return ''
  const waited = spanText(Math.max(0, (nowMs - Date.parse(since)) / 1000))
  return `an answer has waited for memory for ${waited}: others that are being read hold what there is for them`
}

/** What comes in less is no news. */
const LONG_ANSWER_SECONDS = 60

/** Of a source that is long at one answer; nothing where none is. */
export function answerText(since: string | undefined, nowMs: number): string {
  const seconds = since === undefined ? 0 : (nowMs - Date.parse(since)) / 1000
  return seconds < LONG_ANSWER_SECONDS ? '' : `one answer has been coming for ${spanText(seconds)}`
}

/** Of a 429 that is waited out. */
export function limitedText(until: string, nowMs: number): string {
  const left = spanText(Math.max(0, (Date.parse(until) - nowMs) / 1000))
  return `the API answered 429, and nothing is asked until ${utcText(until)} (${left} more)`
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

/** `1,234,567`, of a whole number. By hand, since the first one that Intl writes loads its tables: 13 ms and some MB at each start. */
export const numberText = (count: number): string => String(count).replace(/\B(?=(?:\d{3})+$)/g, ',')

/** No more than `most` of it, and a sign that there was more. */
export function cutText(text: string, most: number): string {
  if (text.length <= most) return text
  const cut = text.slice(0, most)
  // Half a surrogate pair at the end would come out as a broken character.
  return `${cut.isWellFormed() || !text.isWellFormed() ? cut : cut.slice(0, -1)}…`
}

export function countText(count: number, noun: string): string {
  return `${numberText(count)} ${count === 1 ? noun.replace(/ies$/, 'y').replace(/ches$/, 'ch').replace(/s$/, '') : noun}`
}

/** A message is for a person; a receiver that talks without end is not let through. */
const MAX_MESSAGE = 500

/** Cut at a word, where there is one near, and seen to be cut. */
export function messageOf({ message }: ConnectorError): string {
  if (message.length <= MAX_MESSAGE) return message
  return `${message.slice(0, MAX_MESSAGE - 1).replace(/\s+\S{0,100}$/, '')}…`
}
