// Time as text: the API writes timestamps without a zone, in microseconds; here they become exact
// integer microseconds since 1970.
import { ZERO } from './bytes.ts'

export const SECOND_MS = 1_000
export const MINUTE_MS = 60_000
export const HOUR_MS = 3_600_000
export const DAY_MS = 86_400_000
export const SECOND_US = 1_000_000
export const DAY_US = 86_400_000_000

/** Days since 1970 of the UTC day of an instant (µs). */
export const epochDay = (us: number): number => Math.floor(us / DAY_US)

/** The start of that day: epoch ms of both. */
export const dayStart = (at: number): number => Math.floor(at / DAY_MS) * DAY_MS

function digits(bytes: Uint8Array, from: number, count: number): number {
  let value = 0
  for (let i = from; i < from + count; i++) {
    const digit = (bytes[i] ?? 0) - ZERO
    if (digit < 0 || digit > 9) return -1
    value = value * 10 + digit
  }
  return value
}

/** Days since 1970-01-01 of a proleptic Gregorian date; NaN if there is no such day. */
function dayOfDate(year: number, month: number, day: number): number {
  if (year < 0 || month < 1 || month > 12 || day < 1) return NaN
  const ms = Date.UTC(year, month - 1, day)
  const date = new Date(ms)
  if (year < 100) date.setUTCFullYear(year)
  return date.getUTCMonth() === month - 1 && date.getUTCDate() === day ? date.getTime() / DAY_MS : NaN
}

// Entries come in order, so nearly all of a page are from one day: the digits of the last day are
// cached.
let lastYear = -1
let lastMonth = -1
let lastDate = -1
let lastDay = NaN

/**
 * Reads `YYYY-MM-DD[T ]HH:MM:SS[.fraction][Z|±HH:MM]` from `bytes[start, end)`. Without a zone it
 * is UTC (spec §2.1, §2.3: zone-less; `Date` would read it as local). Digits after the sixth are
 * cut off. Returns integer microseconds since 1970 (exact below 2^53), NaN if it is no such
 * timestamp.
 */
export function parseInstant(bytes: Uint8Array, start: number, end: number): number {
  if (end - start < 19) return NaN
  const year = digits(bytes, start, 4)
  const month = digits(bytes, start + 5, 2)
  const date = digits(bytes, start + 8, 2)
  const hour = digits(bytes, start + 11, 2)
  const minute = digits(bytes, start + 14, 2)
  const second = digits(bytes, start + 17, 2)
  const gap = bytes[start + 10]
  if (bytes[start + 4] !== 45 || bytes[start + 7] !== 45 || (gap !== 84 && gap !== 32 && gap !== 116))
    return NaN
  if (bytes[start + 13] !== 58 || bytes[start + 16] !== 58) return NaN
  if (hour < 0 || hour > 23 || minute < 0 || minute > 59 || second < 0 || second > 60) return NaN
  if (year !== lastYear || month !== lastMonth || date !== lastDate) {
    lastDay = dayOfDate(year, month, date)
    lastYear = year
    lastMonth = month
    lastDate = date
  }
  let at = start + 19
  let fraction = 0
  if (bytes[at] === 46 && at < end) {
    let scale = 100_000
    const from = ++at
    for (; at < end; at++) {
      const digit = (bytes[at] ?? 0) - ZERO
      if (digit < 0 || digit > 9) break
      fraction += digit * scale
      scale = scale === 1 ? 0 : scale / 10
    }
    if (at === from) return NaN
  }
  const zone = zoneUs(bytes, at, end)
  return lastDay * DAY_US + (hour * 3600 + minute * 60 + second) * SECOND_US + fraction - zone
}

/** Offset of the zone in `bytes[at, end)`: absent and Z are 0. */
function zoneUs(bytes: Uint8Array, at: number, end: number): number {
  if (at === end) return 0
  const sign = bytes[at]
  if ((sign === 90 || sign === 122) && at + 1 === end) return 0
  if (sign !== 43 && sign !== 45) return NaN
  const colon = bytes[at + 3] === 58 ? 1 : 0
  if (end - at !== 5 + colon) return NaN
  const hours = digits(bytes, at + 1, 2)
  const minutes = digits(bytes, at + 3 + colon, 2)
  if (hours < 0 || hours > 23 || minutes < 0 || minutes > 59) return NaN
  return (sign === 45 ? -1 : 1) * (hours * 60 + minutes) * 60_000_000
}

/** Like `parseInstant`, from a string. */
export function parseInstantText(text: string): number {
  const bytes = Buffer.from(text, 'latin1')
  return parseInstant(bytes, 0, bytes.length)
}

/** Epoch seconds from integer microseconds: six decimals, not rounded, as HEC's `time`. */
export function epochSeconds(us: number): string {
  const size = Math.abs(us)
  // The remainder is exact even if product and difference would be rounded, after the year 2255.
  const rest = size % SECOND_US
  return `${us < 0 ? '-' : ''}${(size - rest) / SECOND_US}.${String(rest).padStart(6, '0')}`
}

/** ISO 8601 with milliseconds and Z, from microseconds. */
export function isoFromUs(us: number): string {
  return new Date(Math.floor(us / 1000)).toISOString()
}

/** ISO 8601 in UTC with six decimals, from microseconds; fractions of one are dropped. */
export function isoMicros(us: number): string {
  const ms = Math.floor(us / 1000)
  return `${new Date(ms).toISOString().slice(0, -1)}${String(Math.floor(us) - ms * 1000).padStart(3, '0')}Z`
}

/** `2026-11-21`, from epoch ms. */
export const dayText = (at: number): string => new Date(at).toISOString().slice(0, 10)

/** `2026-11-21T10:00:00Z`, from epoch ms. */
export const secondText = (at: number): string => `${new Date(at).toISOString().slice(0, 19)}Z`

/** For the start of reading: a time outside is a typo, and some servers refuse it for good. */
export const isPlausibleInstant = (us: number): boolean =>
  us >= Date.UTC(2000, 0) * 1000 && us < Date.UTC(2100, 0) * 1000
export const plausibleInstants = 'from 2000 to 2099'
