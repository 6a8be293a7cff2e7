// Classifies an answer of the API by its head: its status as one of our codes, its media type, its
// length.
import { Readable, pipeline } from 'node:stream'
import { createBrotliDecompress, createGunzip, createInflate } from 'node:zlib'
import { WHOLE_BODY_BYTES } from '../../contracts/entries.ts'
import type { HttpReply } from '../../contracts/platform.ts'
import type { StreamReporter } from '../../contracts/reporter.ts'
import { orAborted } from '../../core/abort.ts'
import { ConnectorError } from '../../core/errors.ts'
import type { ErrorCode } from '../../core/errors.ts'
import type { Secret } from '../../core/secret.ts'
import type { BodyLimits, Deadline } from './deadline.ts'

/** The parts of a request that matter for its answer. */
interface RequestInfo {
  readonly method: string
  readonly path: string
  /** media types accepted in addition to JSON */
  readonly accept?: readonly string[]
}

/** Even a small answer has large buffers. */
const MIN_BODY_BYTES = 256 * 1024

/**
 * Spec §7, and what servers answer instead. Other statuses: 5xx is the server's fault, the rest is
 * no answer of this API.
 */
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
  not_found: 'there is no such path or entry: if this never worked, check base_url',
  redirected: 'it redirects, which is never followed: set base_url to the address of the API',
  server_error: 'an error at the API',
  too_large: 'a proxy or the server rejects the request or its answer as too large',
}

/** For an answer that is no success. */
export function codeOfStatus(status: number): ErrorCode {
  const code = codes[status]
  if (code) return code
  return status >= 500 ? 'server_error' : status >= 300 && status < 400 ? 'redirected' : 'bad_reply'
}

/** By the source of the key. */
const keyAdvices = {
  file: (path = 'the key file') => `put a valid key into ${path}; no restart is needed`,
  environment: () => 'set a valid key in the environment variable that api_key names, and restart',
  configuration: () => 'set a valid api_key in the configuration; no restart is needed',
}

/** `key`: the key that was sent. */
export const adviceOn = (code: ErrorCode, { source, file }: Pick<Secret, 'source' | 'file'>): string =>
  code === 'unauthorized'
    ? `the API key was refused: ${keyAdvices[source](file)}`
    : (advices[code] ?? 'this is not an answer of the API')

/** For a source that has had good answers: its base_url is right. */
export const GONE = 'the API no longer has the entry at which reading continues'

/** Our own requests stay below the limit. Without numbers: repeats have the same message. */
export const adviceOnLimit = (hintMs: number | undefined): string =>
  `the API limits requests: none is sent ${hintMs === undefined ? 'for about a minute' : 'before the time in the answer'}, nothing is lost. If this repeats, another client may use the same key, or rate_limits may be above the API's limit`

/**
 * Upper bound of the memory for a body: its length if the server says that it is small, so that
 * many small answers fit beside a slow one.
 */
export function usedBytes({ headers }: HttpReply): number {
  const length = headers['content-length'] ?? ''
  if (headers['content-encoding'] !== undefined || !/^\d{1,15}$/.test(length)) return WHOLE_BODY_BYTES
  return Math.min(WHOLE_BODY_BYTES, Math.max(MIN_BODY_BYTES, Number(length)))
}

/** For messages: a query may contain confidential values. */
export const named = ({ method, path }: RequestInfo): string => `${method} ${path.split('?')[0] ?? path}`

/** The reader of a body reports its fault without knowing the request; this adds the name. */
export function withName(error: unknown, ask: RequestInfo): unknown {
  if (!(error instanceof ConnectorError) || (error.code !== 'bad_reply' && error.code !== 'too_large'))
    return error
  const { code, message, retryAfterMs } = error
  const name = named(ask)
  if (message.startsWith(name)) return error
  return new ConnectorError(code, `${name}: ${message}`, { cause: error, retryAfterMs })
}

export const mediaTypeOf = ({ headers }: Pick<HttpReply, 'headers'>): string | undefined =>
  headers['content-type']?.split(';')[0]?.trim().toLowerCase()

export function isJson(reply: Pick<HttpReply, 'headers'>): boolean {
  const type = mediaTypeOf(reply)
  return type === undefined || type === 'application/json' || type.endsWith('+json')
}

/** Splunk sends this header on all of its ports, including the event collector's. */
export const isSplunk = ({ headers }: Pick<HttpReply, 'headers'>): boolean =>
  /^splunkd/i.test(headers['server'] ?? '')

export const notTheApi = (where: string): ConnectorError =>
  new ConnectorError(
    'misconfigured',
    `${where}, but a Splunk server answers there, not the API: set base_url to the API; Splunk's address belongs in a sink's url`,
  )

/** Throws `bad_reply` for anything except JSON and the accepted types. */
export function checkType(ask: RequestInfo, reply: HttpReply): void {
  const type = mediaTypeOf(reply)
  if (isJson(reply) || (type !== undefined && ask.accept?.includes(type))) return
  abandon(reply)
  if (isSplunk(reply)) throw notTheApi(`${named(ask)} answered ${reply.status}`)
  throw new ConnectorError(
    'bad_reply',
    `${named(ask)} answered ${reply.status} with something other than JSON: a proxy or a login page may be in between; check base_url`,
  )
}

// What a failed answer proves about the request: gone, unreadable, or perhaps too much at once.

/**
 * True if the answer may have been too large for a proxy, or for the server itself. It may equally
 * be an outage, so it proves nothing about the content. `begun`: its head had arrived.
 */
export function isTooMuch(error: unknown, begun: boolean): error is ConnectorError {
  if (!(error instanceof ConnectorError)) return false
  // Cut off in the middle: may be a proxy's limit.
  if (error.code === 'unreachable') return begun
  return error.code === 'server_error' || error.code === 'timeout' || error.code === 'too_large'
}

/** True for 404 and 400: the resource that the request names does not exist, or no more. */
export function isGone(error: unknown): boolean {
  return error instanceof ConnectorError && (error.code === 'not_found' || error.code === 'bad_request')
}

/** True if the server answered, but not with anything readable. */
export function isUnreadable(error: unknown): error is ConnectorError {
  return error instanceof ConnectorError && (error.code === 'bad_reply' || error.code === 'too_large')
}

/** The same error, with the next action. */
export function withNextStep(error: ConnectorError, next: string): ConnectorError {
  const { code, message, retryAfterMs } = error
  return new ConnectorError(code, `${message}; ${next}`, { cause: error, retryAfterMs })
}

// The body of a reply under its limits: decompressed, capped, and never slower than allowed.

/** A map, because the key comes from the server and could name a member that every object has. */
const decoders: ReadonlyMap<string, () => ReturnType<typeof createGunzip>> = new Map([
  ['gzip', createGunzip],
  ['x-gzip', createGunzip],
  ['deflate', createInflate],
  ['br', createBrotliDecompress],
])

/** We request identity; a server or proxy that compresses anyway is understood. */
function decoded(reply: HttpReply): AsyncIterable<Uint8Array> {
  const encoding = reply.headers['content-encoding']?.trim().toLowerCase() ?? 'identity'
  if (encoding === 'identity' || encoding === '') return reply.body
  const open = decoders.get(encoding)
  if (!open) {
    abandon(reply)
    throw new ConnectorError(
      'bad_reply',
      'The API answered with a content encoding that was not requested: a proxy in between may change its answers',
    )
  }
  // A pipeline, because an abandoned decoder must close its connection; errors reach the reader.
  return pipeline(Readable.from(reply.body), open(), () => undefined)
}

/** Closes the connection of an unwanted body. */
export function abandon({ body }: HttpReply): void {
  void body[Symbol.asyncIterator]().return?.()
}

/** zlib names its errors `Z_…`, brotli `ERR_…`; both have a number. */
function isUndecodable(error: unknown): boolean {
  return error instanceof Error && 'errno' in error && 'code' in error && /^(Z|ERR)_/.test(String(error.code))
}

/**
 * The body's bytes, piece by piece. Throws ConnectorError `too_large` above the cap, `timeout`
 * after a deadline, `bad_reply` if it does not decompress, and the transport's error if the
 * connection breaks.
 */
export async function* readBody(
  reply: HttpReply,
  limits: BodyLimits,
  deadline: Deadline,
): AsyncGenerator<Uint8Array> {
  const pieces = decoded(reply)[Symbol.asyncIterator]()
  let total = 0
  try {
    for (;;) {
      const step = await orAborted(pieces.next(), deadline.signal)
      if (step.done) return
      deadline.progress(step.value.length)
      total += step.value.length
      if (total > limits.capBytes)
        throw new ConnectorError(
          'too_large',
          `The API's answer is larger than ${limits.capBytes} bytes, the fixed limit for one answer`,
        )
      deadline.pause()
      yield step.value
      deadline.resume()
    }
  } catch (error) {
    if (isUndecodable(error))
      throw new ConnectorError('bad_reply', "The API's answer cannot be decompressed", { cause: error })
    throw error
  } finally {
    // Closes the connection of an abandoned body; a stream that hangs must not block us.
    void pieces.return?.().catch(() => undefined)
  }
}

/** The permit's minute begins when the answer ends. An answer may take hours: it is reported. */
export async function* finishing(
  body: AsyncIterable<Uint8Array>,
  reporter: Pick<StreamReporter, 'readsAnswer'>,
  answered: () => void,
): AsyncGenerator<Uint8Array> {
  const answer = reporter.readsAnswer()
  try {
    for await (const piece of body) {
      answer.came()
      yield piece
    }
  } finally {
    answer.over()
    answered()
  }
}
