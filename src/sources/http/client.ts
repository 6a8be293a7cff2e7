// The API client: one request, one answer, every documented status mapped to one of our codes. It
// has no cursor and no retries.
import { orAborted } from '../../core/abort.ts'
import type { Clock } from '../../core/clock.ts'
import { actionOf, ConnectorError, isAbort } from '../../core/errors.ts'
import type { HttpReply, HttpRequest, Transport } from '../../contracts/platform.ts'
import { retryAfterMs, serverTimeMs } from '../../core/backoff.ts'
import type { MemoryBudget } from '../../core/memory-budget.ts'
import { type Secret, SecretLook } from '../../core/secret.ts'
import type { Priority } from '../../contracts/source.ts'
import type { StreamReporter } from '../../contracts/reporter.ts'
import type { RateLimiting } from './permits.ts'
import { takePermit } from './permits.ts'
import {
  GONE,
  abandon,
  adviceOn,
  adviceOnLimit,
  checkType,
  codeOfStatus,
  finishing,
  usedBytes,
  isJson,
  isSplunk,
  named,
  notTheApi,
  readBody,
  withName,
} from './reply.ts'
import { Deadline, usualLimits } from './deadline.ts'
import type { BodyLimits } from './deadline.ts'

interface ClientOptions {
  /** without a trailing slash */
  readonly baseUrl: string
  readonly apiKey: Secret
  readonly transport: Transport
  readonly clock: Clock
  readonly rateLimiter: Pick<RateLimiting, 'freeAt' | 'announce' | 'acquire' | 'limited'>
  readonly memory: MemoryBudget
  readonly reporter: StreamReporter
  /** Contains the id of the instance, by which own fetches are recognised (invariant 7). */
  readonly userAgent: string
}

export interface Answer {
  /** the server's clock from its `Date` header, epoch ms; whole seconds */
  readonly serverAt: number | undefined
  /** our clock when the request was sent */
  readonly sentAt: number
  /** a 204: no entry, and an empty body */
  readonly none: boolean
  readonly head: Pick<HttpReply, 'status' | 'headers'>
  readonly body: AsyncIterable<Uint8Array>
}

/** One request. `path` begins with a slash; its query appears in no error message. */
export interface Ask {
  readonly method: HttpRequest['method']
  readonly path: string
  /**
   * Added to our own, of which only `user-agent` can be replaced; lower-case names. With `stream`,
   * `content-length` is required.
   */
  readonly headers?: Readonly<Record<string, string>>
  readonly body?: Uint8Array
  /** Instead of `body`, for one too large for memory. Can be sent once; if unread it is closed. */
  readonly stream?: AsyncIterable<Uint8Array>
  /** Media types accepted in addition to JSON, such as text/event-stream. */
  readonly accept?: readonly string[]
  /** A 204 is a valid answer: there is no entry. */
  readonly orNone?: boolean
  /** Every status and media type is an answer here: `use` decides by the answer's head. */
  readonly asIs?: boolean
  /** Called with the server's clock if it rejects the request: its time may be in the future. */
  readonly invalid?: (serverAt: number | undefined) => void
  /** For an answer that may take longer than a page. */
  readonly limits?: BodyLimits
}

export class Client {
  readonly #options: ClientOptions
  readonly #keyReader: SecretLook
  #hasAnswered = false

  constructor(options: ClientOptions) {
    this.#options = options
    this.#keyReader = new SecretLook([options.apiKey], options.clock)
  }

  /** When a request of this priority could be sent, epoch ms. */
  freeAt(priority: Priority): number {
    return this.#options.rateLimiter.freeAt(priority)
  }

  /** As `freeAt`, for a request that is due: the next permit of its priority is reserved. */
  announce(priority: Priority): number {
    return this.#options.rateLimiter.announce(priority)
  }

  /** GETs `path`: `send` without a body; the entry may be absent. */
  get<T>(
    path: string,
    priority: Priority,
    signal: AbortSignal,
    use: (answer: Answer) => AsyncIterable<T>,
  ): AsyncGenerator<T> {
    return this.send({ method: 'GET', path, orNone: true }, priority, signal, use)
  }

  /**
   * GETs `path` for its side effect: the answer is read to its end, so that an interrupted one
   * fails. Throws like `send`.
   */
  async touch(path: string, priority: Priority, signal: AbortSignal): Promise<void> {
    const pieces = this.get(path, priority, signal, ({ body }) => body)
    while (!(await pieces.next()).done);
  }

  /**
   * Sends one rate-limited request and passes the answer to `use`; its connection, memory and
   * deadline are released afterwards. Throws ConnectorError by the status, the transport or the
   * body.
   */
  async *send<T>(
    ask: Ask,
    priority: Priority,
    signal: AbortSignal,
    use: (answer: Answer) => AsyncIterable<T>,
  ): AsyncGenerator<T> {
    const limits = ask.limits ?? usualLimits
    const { clock, reporter } = this.#options
    const waitedFrom = clock.elapsed()
    const { key, answered } = await this.#permit(priority, signal).catch(stoppedOr)
    const waitedMs = clock.elapsed() - waitedFrom
    if (waitedMs > 0) reporter.waited(waitedMs)
    reporter.state('reading')
    let releaseMemory: (() => void) | undefined
    const startedAt = clock.elapsed()
    let code = 'aborted'
    let distrust: HttpReply['distrust']
    try {
      const deadline = new Deadline(clock, limits, signal)
      try {
        const sentAt = clock.now()
        const reply = await orAborted(this.#transmit(ask, key, deadline), deadline.signal)
        code = String(reply.status)
        distrust = reply.distrust
        const none = reply.status === 204 && ask.orNone === true
        if (ask.asIs !== true && !none) await this.#check(ask, key, reply)
        releaseMemory = await this.#memoryFor(reply, deadline, signal)
        const body = readBody(reply, limits, deadline)
        const serverAt = serverTimeMs(reply.headers)
        yield* use({ serverAt, sentAt, none, head: reply, body: finishing(body, reporter, answered) })
      } finally {
        deadline.close()
      }
    } catch (error) {
      if (error instanceof ConnectorError && error.code === 'bad_reply') distrust?.()
      if (code === 'aborted') code = error instanceof ConnectorError ? error.code : 'aborted'
      stoppedOr(withName(error, ask))
    } finally {
      answered()
      releaseMemory?.()
      reporter.request(code, clock.elapsed() - startedAt)
    }
  }

  #permit(priority: Priority, signal: AbortSignal): ReturnType<typeof takePermit> {
    const { rateLimiter, clock, reporter, apiKey } = this.#options
    const currentKey = () => this.#currentKey()
    return takePermit(
      { rateLimiter, clock, reporter, currentKey, mayRotate: apiKey.mayChange },
      priority,
      signal,
    )
  }

  #currentKey(): string {
    this.#keyReader.look()
    return this.#options.apiKey.reveal()
  }

  /**
   * Takes memory only once the head has arrived, so that a server that does not answer blocks no
   * other request. The wait for memory does not count against the server.
   */
  async #memoryFor(reply: HttpReply, deadline: Deadline, signal: AbortSignal): Promise<() => void> {
    const { memory, reporter } = this.#options
    const release = signal.aborted ? undefined : memory.tryReserve(usedBytes(reply))
    if (release) return release
    deadline.pause()
    const over = reporter.waitsForMemory()
    try {
      return await memory.reserve(usedBytes(reply), signal)
    } catch (error) {
      abandon(reply)
      throw error
    } finally {
      over()
      deadline.resume()
    }
  }

  #transmit(
    { method, path, headers, body, stream, accept = [] }: Ask,
    key: string,
    deadline: Deadline,
  ): Promise<HttpReply> {
    const { baseUrl, transport, userAgent } = this.#options
    const request = {
      method,
      url: baseUrl + path,
      headers: {
        'user-agent': userAgent,
        ...headers,
        authorization: `Bearer ${key}`,
        accept: ['application/json', ...accept].join(', '),
        'accept-encoding': 'identity',
      },
      ...(body && { body }),
      ...(stream && { stream: progressing(stream, deadline) }),
    }
    return transport(request, deadline.signal)
  }

  async #check(ask: Ask, key: string, reply: HttpReply): Promise<void> {
    if (reply.status !== 200 && reply.status !== 201) throw await this.#refusal(ask, key, reply)
    checkType(ask, reply)
    this.#hasAnswered = true
  }

  /** Its body is not read: it could be anything. The status is all that matters. */
  async #refusal(ask: Ask, key: string, reply: HttpReply): Promise<ConnectorError> {
    abandon(reply)
    const { status } = reply
    const code = codeOfStatus(status)
    // A 404 without JSON is not from the API: the address is wrong; the workspace is not empty.
    const where = `${named(ask)} answered ${status}`
    if (isSplunk(reply)) return notTheApi(where)
    if (code === 'not_found' && !isJson(reply))
      return new ConnectorError(
        'misconfigured',
        `${where}, but not with JSON as the API does: check base_url`,
      )
    if (code === 'bad_request') ask.invalid?.(serverTimeMs(reply.headers))
    const hintMs = retryAfterMs(reply.headers, this.#options.clock.now())
    if (code === 'rate_limited') await this.#options.rateLimiter.limited(hintMs)
    // A key that changed meanwhile is tried at once.
    if (code === 'unauthorized' && this.#keyReader.refresh([key]))
      return new ConnectorError(code, `${where}; the key file has changed; trying the new key`, {
        retryAfterMs: 0,
      })
    const advice =
      code === 'rate_limited'
        ? adviceOnLimit(hintMs)
        : code === 'not_found' && this.#hasAnswered
          ? GONE
          : adviceOn(code, this.#options.apiKey)
    // 0 is our own code for a blocked source: the key has changed. From a server it means no time.
    const blockedMs = hintMs === 0 ? undefined : hintMs
    return new ConnectorError(code, `${where}: ${advice}`, {
      retryAfterMs: actionOf(code) === 'block' ? blockedMs : hintMs,
    })
  }
}

/** Sent bytes count as progress: a large upload at a fair rate is not cut off. */
async function* progressing(
  stream: AsyncIterable<Uint8Array>,
  deadline: Deadline,
): AsyncGenerator<Uint8Array> {
  for await (const piece of stream) {
    deadline.progress(piece.length)
    yield piece
  }
}

/** An abort always has the same code, no matter which part noticed it first. */
function stoppedOr(error: unknown): never {
  throw isAbort(error) ? new ConnectorError('aborted', 'The request to the API was cancelled') : error
}
