// What an answer of the API is by its head alone: its status as one of our codes, its media type, its length.
import { Readable, pipeline } from 'node:stream'
import { createBrotliDecompress, createGunzip, createInflate } from 'node:zlib'
import { WHOLE_BODY_BYTES } from '../../contracts/entries.ts'
import type { HttpReply } from '../../contracts/platform.ts'
import type { SourceWatch } from '../../contracts/reporter.ts'
import { Guard } from '../../core/abort.ts'
import { ConnectorError } from '../../core/errors.ts'
import type { ErrorCode } from '../../core/errors.ts'
import type { SecretPlace } from '../../core/secret.ts'
import type { BodyLimits, Deadline } from './deadline.ts'

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

export const mediaTypeOf = ({ headers }: Pick<HttpReply, 'headers'>): string | undefined =>
  headers['content-type']?.split(';')[0]?.trim().toLowerCase()

export function isJson(reply: Pick<HttpReply, 'headers'>): boolean {
  const type = mediaTypeOf(reply)
  return type === undefined || type === 'application/json' || type.endsWith('+json')
}

/** Splunk names itself so on all of its ports, the event collector's among them. */
export const isSplunk = ({ headers }: Pick<HttpReply, 'headers'>): boolean =>
  /^splunkd/i.test(headers['server'] ?? '')

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

// What a failed answer says about what was asked for: it is gone, it cannot be read, it may be too much at once.

/**
 * True when the answer may have been too much for something in between, or for the server itself. Just as well it is an
 * outage, so it says nothing about what the answer holds. `begun`: its head had come.
 */
export function isTooMuch(error: unknown, begun: boolean): error is ConnectorError {
  if (!(error instanceof ConnectorError)) return false
  // Cut off in the middle may be a proxy's limit.
  if (error.code === 'unreachable') return begun
  return error.code === 'server_error' || error.code === 'timeout' || error.code === 'too_large'
}

/** True for an answer that says: what you name is not there. */
export function isGone(error: unknown): boolean {
  return error instanceof ConnectorError && (error.code === 'not_found' || error.code === 'bad_request')
}

/** True when the other side answered, but not with what can be read. */
export function isUnreadable(error: unknown): error is ConnectorError {
  return error instanceof ConnectorError && (error.code === 'bad_reply' || error.code === 'too_large')
}

/** The same error with what is done about it. */
export function toldAs(error: ConnectorError, next: string): ConnectorError {
  const { code, message, retryAfterMs } = error
  return new ConnectorError(code, `${message}; ${next}`, { cause: error, retryAfterMs })
}

// A reply's body under its limits: decompressed, capped, and never slower than it may be. Knows nothing of what is inside.

/** A map: the word is the other side's, and of an object it could name what every object has. */
const decoders: ReadonlyMap<string, () => ReturnType<typeof createGunzip>> = new Map([
  ['gzip', createGunzip],
  ['x-gzip', createGunzip],
  ['deflate', createInflate],
  ['br', createBrotliDecompress],
])

/** We ask for identity; a server or proxy that compresses all the same is understood. */
function decoded(reply: HttpReply): AsyncIterable<Uint8Array> {
  const encoding = reply.headers['content-encoding']?.trim().toLowerCase() ?? 'identity'
  if (encoding === 'identity' || encoding === '') return reply.body
  const open = decoders.get(encoding)
  if (!open) {
    abandon(reply)
    throw new ConnectorError('bad_reply', 'The API answered in a compression that was not asked for')
  }
  // A pipeline, since a decoder that is left must close the connection behind it; errors reach the one who reads.
  return pipeline(Readable.from(reply.body), open(), () => undefined)
}

/** Closes the connection of a body that nobody wants. */
export function abandon({ body }: HttpReply): void {
  void body[Symbol.asyncIterator]().return?.()
}

/** zlib names its own errors `Z_…`, brotli's `ERR_…`; both carry a number. */
function isUndecodable(error: unknown): boolean {
  return error instanceof Error && 'errno' in error && 'code' in error && /^(Z|ERR)_/.test(String(error.code))
}

/**
 * The body's bytes, piece by piece. Throws ConnectorError `too_large` past the cap, `timeout` past a deadline, `bad_reply`
 * when it does not decompress, and what the transport throws when the connection breaks.
 */
export async function* readBody(
  reply: HttpReply,
  limits: BodyLimits,
  deadline: Deadline,
): AsyncGenerator<Uint8Array> {
  const pieces = decoded(reply)[Symbol.asyncIterator]()
  const guard = new Guard(deadline.signal)
  let total = 0
  try {
    for (;;) {
      const step = await guard.run(pieces.next())
      if (step.done) return
      deadline.progress(step.value.length)
      total += step.value.length
      if (total > limits.capBytes)
        throw new ConnectorError('too_large', `The API's answer is over the cap of ${limits.capBytes} bytes`)
      deadline.pause()
      yield step.value
      deadline.resume()
    }
  } catch (error) {
    if (isUndecodable(error))
      throw new ConnectorError('bad_reply', "The API's answer does not decompress", { cause: error })
    throw error
  } finally {
    guard.close()
    // Closes the connection of a body that is left; a stream that hangs must not hang us.
    void pieces.return?.().catch(() => undefined)
  }
}

/** The place in the budget starts its minute when the answer is whole, or left. It may come for hours: that it does is told. */
export async function* finishing(
  body: AsyncIterable<Uint8Array>,
  watch: Pick<SourceWatch, 'readsAnswer'>,
  answered: () => void,
): AsyncGenerator<Uint8Array> {
  const answer = watch.readsAnswer()
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
