// What an answer of the API is by its head alone: its status as one of our codes, its media type, its length.
import { WHOLE_BODY_BYTES } from '../../model/entries.ts'
import { ConnectorError } from '../../model/errors.ts'
import type { ErrorCode } from '../../model/errors.ts'
import type { HttpReply } from '../../model/http.ts'
import type { SecretPlace } from '../../model/secret.ts'
import { abandon } from './body.ts'

/** What of a request matters to its answer. */
interface Asked {
  readonly method: string
  readonly path: string
  /** media types beside JSON that are an answer here */
  readonly accept?: readonly string[]
}

/** However small an answer is, its buffers are not. */
const LEAST_BODY_BYTES = 256 * 1024

/** Spec §7, and what servers answer in their place. What is not here: 5xx is the server's fault, anything else is no answer of this API. */
const codes: Readonly<Record<number, ErrorCode>> = {
  400: 'bad_request',
  401: 'unauthorized',
  403: 'forbidden',
  404: 'not_found',
  408: 'timeout',
  410: 'not_found',
  413: 'too_large',
  422: 'bad_request',
  429: 'rate_limited',
}

const advices: Partial<Record<ErrorCode, string>> = {
  bad_request: 'the request was refused as invalid',
  forbidden: 'the key lacks the permission for this endpoint: grant it, no restart is needed',
  not_found: 'there is no such path or entry: check base_url',
  redirected: 'it redirects, which is never followed: set base_url to where the API really is',
  server_error: 'it failed to answer',
  too_large: 'something between holds the request or its answer for too large',
}

/** Of an answer that is no success. */
export function codeOfStatus(status: number): ErrorCode {
  const code = codes[status]
  if (code) return code
  return status >= 500 ? 'server_error' : status >= 300 && status < 400 ? 'redirected' : 'bad_reply'
}

/** By where the key stands. */
const keyAdvices: Readonly<Record<SecretPlace, string>> = {
  file: 'put a valid key into its file, it is read again by itself',
  environment: 'set a valid key in the environment variable that api_key names, and start again',
  configuration:
    'put a valid key in the place of api_key in the configuration, which is read again by itself',
}

/** `key`: where the one stands that was sent. */
export const adviceOn = (code: ErrorCode, key: SecretPlace): string =>
  code === 'unauthorized'
    ? `the API key was refused: ${keyAdvices[key]}`
    : (advices[code] ?? 'no answer of this API')

/** Our own requests stay below the limit. No number here: the same trouble is told in the same words. */
export const adviceOnLimit = (hintMs: number | undefined): string =>
  `the rate limit is exceeded: something else uses this key too, as validate --connect does, or rate_limits is set above the API's own; nothing is asked ${hintMs === undefined ? 'for a good minute' : 'before the time that the answer names'}`

/** What is held of a body at most: all of it where the server says that it is small, so that many small answers stand beside a slow one. */
export function heldBytes({ headers }: HttpReply): number {
  const length = headers['content-length'] ?? ''
  if (headers['content-encoding'] !== undefined || !/^\d{1,15}$/.test(length)) return WHOLE_BODY_BYTES
  return Math.min(WHOLE_BODY_BYTES, Math.max(LEAST_BODY_BYTES, Number(length)))
}

/** For messages: a query may hold what nobody else should read. */
export const named = ({ method, path }: Asked): string => `${method} ${path.split('?')[0] ?? path}`

/** What is wrong with a body is told by who reads it, who does not know what was asked for. */
export function withName(error: unknown, ask: Asked): unknown {
  if (!(error instanceof ConnectorError) || (error.code !== 'bad_reply' && error.code !== 'too_large'))
    return error
  const { code, message, retryAfterMs } = error
  const name = named(ask)
  if (message.startsWith(name)) return error
  return new ConnectorError(code, `${name}: ${message}`, { cause: error, retryAfterMs })
}

const mediaTypeOf = ({ headers }: HttpReply): string | undefined =>
  headers['content-type']?.split(';')[0]?.trim().toLowerCase()

export function isJson(reply: HttpReply): boolean {
  const type = mediaTypeOf(reply)
  return type === undefined || type === 'application/json' || type.endsWith('+json')
}

/** Splunk names itself so on all of its ports, the event collector's among them. */
export const isSplunk = ({ headers }: HttpReply): boolean => /^splunkd/i.test(headers['server'] ?? '')

export const notTheApi = (where: string): ConnectorError =>
  new ConnectorError(
    'misconfigured',
    `${where}, and it is a Splunk server that answers, not the API: set base_url to the API (a Splunk is a sink's url)`,
  )

/** Throws `bad_reply` for what is neither JSON nor what was asked for. */
export function checkType(ask: Asked, reply: HttpReply): void {
  const type = mediaTypeOf(reply)
  if (isJson(reply) || (type !== undefined && ask.accept?.includes(type))) return
  abandon(reply)
  if (isSplunk(reply)) throw notTheApi(`${named(ask)} answered ${reply.status}`)
  throw new ConnectorError(
    'bad_reply',
    `${named(ask)} answered ${reply.status} with something else than JSON: a proxy or a login page may stand between; check base_url`,
  )
}
