// Formats figures and long texts for people: spans, sizes, counts, and wait reasons.
import type { ConnectorError } from '../core/errors.ts'
import type { WaitsFor } from '../contracts/jobs.ts'
import { JOB_SHARE_IN_USE } from '../contracts/jobs.ts'

/** `14 s`, `5 min`, `3 h`, `4 days`: the largest unit that is precise enough. */
export function spanText(seconds: number): string {
  if (seconds < 90) return `${Math.round(seconds)} s`
  if (seconds < 90 * 60) return `${Math.round(seconds / 60)} min`
  if (seconds < 48 * 3600) return `${Math.round(seconds / 3600)} h`
  return `${Math.round(seconds / 86_400)} days`
}

const waitsForText: Readonly<Record<WaitsFor, string>> = {
  turn: 'its turn: another job that reads the same source comes first',
  rate_limit: 'a permit of the rate limiter',
  limit: 'the end of a rate limit: the API answered 429',
  source:
    'its source, which is no longer in the configuration of the daemon: it continues once it is there again',
  sink: 'its sink, which is no longer in the configuration of the daemon: it continues once it is there again',
  sources: "its source to be among the sink's `sources` again",
  memory: 'memory for an answer: other answers use all of it',
  room: `room in the journal: ${JOB_SHARE_IN_USE}`,
}

/** For a job; '' if it does not wait, or waits for something that only a newer daemon knows. */
export function waitText(waitsFor: WaitsFor | null | undefined, reason: string | null | undefined): string {
  const what = waitsFor ? (waitsForText[waitsFor] as string | undefined) : undefined
  return reason ? `Waiting: ${reason}.` : what === undefined ? '' : `Waiting for ${what}.`
}

/** `2026-11-25 18:12:50`, from an ISO instant in UTC. */
export const stampText = (iso: string): string => iso.slice(0, 19).replace('T', ' ')

export const utcText = (iso: string): string => `${stampText(iso)} UTC`

/** Requests of the last minute and the limit, which may have been higher when they were sent. */
export const usedText = (used: number, limit: number): string =>
  used <= limit ? `${used} of ${limit}` : `${used}, now ${limit}`

/** For a limit that is lowered since a 429. */
export function loweredText(limit: number, from: number, used: number): string {
  const before = used > limit ? `; the ${numberText(used)} of the last minute were sent before that` : ''
  return `${numberText(limit)} a minute instead of ${numberText(from)} since the API answered 429, rising again until ${numberText(from)}${before}`
}

/** `, next try in 42 s`, for a failed part; '' if unknown or due. */
export function nextTryText(at: string | undefined, nowMs: number): string {
  const leftMs = at === undefined ? 0 : Date.parse(at) - nowMs
  return leftMs > 0 ? `, next try in ${spanText(Math.ceil(leftMs / 1000))}` : ''
}

/** `next upload in 20 s`, for a sink that collects; '' if it does not. */
export function uploadText(at: string | undefined, nowMs: number): string {
  if (at === undefined) return ''
  const leftMs = Date.parse(at) - nowMs
  return leftMs > 0 ? `next upload in ${spanText(Math.ceil(leftMs / 1000))}` : 'next upload is due'
}

/**
 * Replaces the times of the last read and of the last catch-up if there is none yet. The first
 * canary waits until the sources have read everything, or for its time.
 */
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

/** For a source whose answer waits for memory; '' if none does. */
export function memoryText(since: string | undefined, nowMs: number): string {
  if (since === undefined) return ''
  const waited = spanText(Math.max(0, (nowMs - Date.parse(since)) / 1000))
  return `an answer has waited for memory for ${waited}: other answers use all of it`
}

/** Shorter answers are not mentioned. */
const LONG_ANSWER_SECONDS = 60

/** For a source that receives one answer for long; '' if there is none. */
export function answerText(since: string | undefined, nowMs: number): string {
  const seconds = since === undefined ? 0 : (nowMs - Date.parse(since)) / 1000
  return seconds < LONG_ANSWER_SECONDS ? '' : `one answer has been arriving for ${spanText(seconds)}`
}

/** For a 429 that is waited out. */
export function limitedText(until: string, nowMs: number): string {
  const left = spanText(Math.max(0, (Date.parse(until) - nowMs) / 1000))
  return `the API answered 429, and no request is sent until ${utcText(until)} (${left} more)`
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

/** `1,234,567`, for an integer. Intl would load tables: 13 ms and some MB at each start. */
export const numberText = (count: number): string => String(count).replace(/\B(?=(?:\d{3})+$)/g, ',')

/** At most `most` characters, with a sign that text was cut. */
export function cutText(text: string, maxLength: number): string {
  if (text.length <= maxLength) return text
  const cut = text.slice(0, maxLength)
  // Half a surrogate pair at the end would come out as a broken character.
  return `${cut.isWellFormed() || !text.isWellFormed() ? cut : cut.slice(0, -1)}…`
}

export function countText(count: number, noun: string): string {
  return `${numberText(count)} ${count === 1 ? noun.replace(/ies$/, 'y').replace(/ches$/, 'ch').replace(/s$/, '') : noun}`
}

/** Messages are for people; endless text of a receiver is cut. */
const MAX_MESSAGE = 500

/** Cut at a word boundary if one is near, with a sign that text was cut. */
export function messageOf({ message }: Pick<ConnectorError, 'message'>): string {
  if (message.length <= MAX_MESSAGE) return message
  return `${message.slice(0, MAX_MESSAGE - 1).replace(/\s+\S{0,100}$/, '')}…`
}
