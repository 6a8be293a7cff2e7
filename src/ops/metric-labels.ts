// The closed sets that the metrics' labels come from. Event data never makes a series.
import { errorCodes } from '../model/errors.ts'
import type { ErrorCode } from '../model/errors.ts'

export const sourceOutcomes = ['new', 'known', 'late', 'quarantined', 'filtered'] as const
export const sinkOutcomes = ['accepted', 'dead_lettered', 'filtered'] as const

/** What the API documents to answer, and what a network does: there from the start, so that their first rise is one. */
export const expectedCodes = [
  ...(['200', '201', '401', '403', '404', '429', '500'] as const),
  ...(['unreachable', 'timeout', 'tls_invalid'] as const satisfies readonly ErrorCode[]),
]

const statuses = [
  200, 201, 202, 204, 301, 302, 304, 307, 308, 400, 401, 403, 404, 405, 408, 409, 412, 413, 415, 422, 429,
  500, 501, 502, 503, 504,
]
const knownCodes: ReadonlySet<string> = new Set([...errorCodes, ...statuses.map(String)])
const knownReasons: ReadonlySet<string> = new Set(errorCodes)

/** A server may answer any number: a rare status counts under its hundred, anything else under `other`. */
export function codeLabel(code: string): string {
  if (knownCodes.has(code)) return code
  return /^[1-5]\d\d$/.test(code) ? `${code.charAt(0)}xx` : 'other'
}

export function reasonLabel(reason: string): string {
  return knownReasons.has(reason) ? reason : 'other'
}
