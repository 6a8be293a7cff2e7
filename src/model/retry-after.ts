// How long the other side asks us to wait: the one reading of `Retry-After`, for the API and for every receiver.
import { HOUR_MS } from './time.ts'

/** A clock that is before 2000 or from 2200 on tells nothing; microseconds of what lies between are whole numbers. */
const BELIEVED_MS = [Date.UTC(2000, 0), Date.UTC(2200, 0)] as const

/** The clock of whoever answered, as its `Date` header tells it: epoch ms, whole seconds. */
export function serverTimeMs(headers: Readonly<Record<string, string>>): number | undefined {
  const at = Date.parse(headers['date'] ?? '')
  const [from, to] = BELIEVED_MS
  return at >= from && at < to ? at : undefined
}

/**
 * Seconds, or an HTTP date (RFC 9110 §10.2.3) by the clock of the server that wrote it; capped at an hour, so that a wrong
 * hint cannot stop us for a day. What is neither is no hint: `Date.parse` alone would read `1.5` as a day of 2001.
 */
export function retryAfterMs(headers: Readonly<Record<string, string>>, nowMs: number): number | undefined {
  const text = headers['retry-after']?.trim() ?? ''
  const isDate = /^[a-z]{3,9},? .*\d/i.test(text)
  const ms = /^\d+(\.\d+)?$/.test(text)
    ? Number(text) * 1000
    : isDate
      ? Date.parse(text) - (serverTimeMs(headers) ?? nowMs)
      : NaN
  return Number.isNaN(ms) ? undefined : Math.min(Math.max(ms, 0), HOUR_MS)
}
