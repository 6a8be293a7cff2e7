// What an HTTP status means, as one of our error codes with words for an operator. A receiver's own
// table comes first.
import type { ErrorCode } from '../../core/errors.ts'

/** The words continue "<receiver> answered <status>: ". */
export type Meaning = readonly [ErrorCode, string]

const statuses: Readonly<Record<number, Meaning>> = {
  401: ['unauthorized', 'the credentials are not valid'],
  403: ['forbidden', 'the credentials lack a permission'],
  404: ['not_found', "there is nothing at this address; check 'url'"],
  407: ['misconfigured', 'the proxy wants credentials'],
  408: ['timeout', 'it waited too long for the request'],
  413: ['too_large', 'the batch is larger than it takes'],
  415: ['misconfigured', "it does not read this compression; set 'compression' to none"],
  429: ['rate_limited', 'it takes no more just now'],
}

/** `status`: 300 or more. */
export function meaningOfStatus(status: number, own: Readonly<Record<number, Meaning>>): Meaning {
  const named = own[status] ?? statuses[status]
  if (named) return named
  if (status >= 500) return ['server_error', 'an error at the receiver or at a proxy']
  if (status < 400) return ['redirected', "redirects are not followed; set 'url' to the receiver itself"]
  return ['misconfigured', "the request was refused; check 'url' and proxies on the way"]
}
