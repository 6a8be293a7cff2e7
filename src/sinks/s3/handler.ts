// Sends the library's requests over our own transport, with our rules for TLS and proxies.
// One request at a time, each with a time limit and a limit on the bytes of its reply.
import { Readable } from 'node:stream'
import { Tether, orAborted } from '../../core/abort.ts'
import type { Clock } from '../../core/clock.ts'
import { ConnectorError } from '../../core/errors.ts'
import type { HttpReply, HttpRequest, Transport } from '../../contracts/platform.ts'
import { hostPort } from '../../contracts/platform.ts'
import { readUpTo } from '../kit/http.ts'

/** A list of 1000 names takes about 500 KB; a larger reply is not from an S3 server. */
const REPLY_BYTES = 4 * 1024 * 1024
/** A request fails when nothing moves for this long. */
const STILL_MS = 60_000
/** A moving request has this long; after that it fails once it is slower than the minimum rate. */
const LONGEST_MS = 30 * 60_000
const LEAST_BYTES_PER_SECOND = 32 * 1024

/** The part of the library's request that is used here. */
interface LibraryRequest {
  readonly method: string
  readonly protocol: string
  readonly hostname: string
  readonly port?: number | undefined
  readonly path: string
  readonly query?: Readonly<Record<string, string | readonly string[] | null>> | undefined
  readonly headers: Readonly<Record<string, string>>
  readonly body?: unknown
}

interface LibraryResponse {
  readonly statusCode: number
  readonly headers: Record<string, string>
  readonly body: Readable | Uint8Array
}

export interface LibraryHandler {
  handle(
    request: LibraryRequest,
    options?: { readonly abortSignal?: unknown },
  ): Promise<{ response: LibraryResponse }>
  destroy(): void
  /** The last answer was not from the bucket: the next request uses a new connection. */
  distrust(): void
}

const escaped = (text: string): string =>
  encodeURIComponent(text).replace(/[!'()*]/g, (c) => `%${c.charCodeAt(0).toString(16).toUpperCase()}`)

function queryOf(query: LibraryRequest['query']): string {
  const pairs = Object.entries(query ?? {}).flatMap(([name, value]) => {
    if (value === null) return [escaped(name)]
    return [value].flat().map((each) => `${escaped(name)}=${escaped(each)}`)
  })
  return pairs.length === 0 ? '' : `?${pairs.join('&')}`
}

function urlOf({ protocol, hostname, port, path, query }: LibraryRequest): string {
  return `${protocol}//${hostname}${port === undefined ? '' : `:${port}`}${path}${queryOf(query)}`
}

/** Ends a request that stalls or is too slow. */
class Watchdog {
  readonly #stop: Tether
  readonly #outer: AbortSignal | undefined
  readonly #clock: Clock
  readonly #where: string
  readonly #startedAt: number
  #movedAt: number
  #movedBytes = 0

  constructor(clock: Clock, where: string, outer: AbortSignal | undefined) {
    this.#clock = clock
    this.#where = where
    this.#outer = outer
    this.#stop = new Tether(outer)
    this.#startedAt = this.#movedAt = clock.elapsed()
    void this.#reporter()
  }

  get signal(): AbortSignal {
    return this.#stop.signal
  }

  async #reporter(): Promise<void> {
    const { signal } = this
    while (!signal.aborted) {
      const leftMs = Math.min(this.#stillAt, this.#tooLongAt) - this.#clock.elapsed()
      if (leftMs <= 0) this.#stop.abort(this.error())
      else await this.#clock.sleep(leftMs, signal)
    }
  }

  get #stillAt(): number {
    return this.#movedAt + STILL_MS
  }

  get #tooLongAt(): number {
    return this.#startedAt + LONGEST_MS + (this.#movedBytes / LEAST_BYTES_PER_SECOND) * 1000
  }

  get movedBytes(): number {
    return this.#movedBytes
  }

  moved({ length }: Uint8Array): void {
    this.#movedAt = this.#clock.elapsed()
    this.#movedBytes += length
  }

  error(): ConnectorError {
    if (this.#outer?.aborted)
      return new ConnectorError('aborted', `the request to ${this.#where} was aborted`)
    const why =
      this.#stillAt <= this.#tooLongAt
        ? `nothing moved for ${STILL_MS / 1000} s`
        : `less than ${LEAST_BYTES_PER_SECOND / 1024} KiB a second moved in more than ${LONGEST_MS / 60_000} minutes; a smaller rotate.max_bytes makes smaller objects`
    return new ConnectorError('timeout', `the request to ${this.#where} was given up: ${why}`)
  }

  /** Rejects when the signal aborts, even if `work` ignores the signal. */
  async holds<T>(work: Promise<T>): Promise<T> {
    try {
      return await orAborted(work, this.signal)
    } catch (error) {
      throw this.signal.aborted ? this.error() : error
    }
  }

  over(): void {
    this.#stop.close()
  }
}

async function* passing(body: AsyncIterable<Uint8Array>, watchdog: Watchdog): AsyncGenerator<Uint8Array> {
  for await (const piece of body) {
    watchdog.moved(piece)
    yield piece
  }
}

/** A body that the caller reads: the watchdog runs until it is read. */
async function* streaming(body: HttpReply['body'], watchdog: Watchdog): AsyncGenerator<Uint8Array> {
  const pieces = body[Symbol.asyncIterator]()
  try {
    for (;;) {
      const next = await watchdog.holds(pieces.next())
      if (next.done) return
      watchdog.moved(next.value)
      yield next.value
    }
  } finally {
    watchdog.over()
    await pieces.return?.()
  }
}

async function wholeBody(body: HttpReply['body'], watchdog: Watchdog, where: string): Promise<Uint8Array> {
  const whole = await readUpTo(passing(body, watchdog), REPLY_BYTES + 1)
  if (whole.length > REPLY_BYTES)
    throw new ConnectorError('bad_reply', `${where} answered without end: is this an S3 server?`)
  return whole
}

function requestOf(request: LibraryRequest, watchdog: Watchdog): HttpRequest {
  const { method, headers, body } = request
  const names = Object.entries(headers).map(([name, value]) => [name.toLowerCase(), value] as const)
  const base = {
    method: method as HttpRequest['method'],
    url: urlOf(request),
    headers: Object.fromEntries(names),
  }
  if (typeof body === 'string') return { ...base, body: Buffer.from(body) }
  if (body instanceof Uint8Array) return { ...base, body }
  if (body instanceof Readable) return { ...base, stream: passing(body, watchdog) }
  return base
}

/** A server that reports success before it has the whole upload did not store it. */
function assertTaken(
  { stream, headers }: HttpRequest,
  status: number,
  watchdog: Watchdog,
  where: string,
): void {
  const { movedBytes } = watchdog
  const bytes = Number(headers['content-length'] ?? 0)
  if (!stream || status >= 300 || movedBytes >= bytes) return
  throw new ConnectorError(
    'bad_reply',
    `${where} answered ${status} after ${movedBytes} of ${bytes} bytes were sent: is this an S3 server?`,
  )
}

export function libraryHandler(send: Transport, clock: Clock): LibraryHandler {
  let distrustLast: HttpReply['distrust']
  return {
    async handle(request, options = {}) {
      const { hostname: host, port } = request
      const where = port === undefined ? host : hostPort({ host, port })
      const watchdog = new Watchdog(clock, where, options.abortSignal as AbortSignal | undefined)
      let left = false
      try {
        if (watchdog.signal.aborted) throw watchdog.error()
        const outgoing = requestOf(request, watchdog)
        const { status, headers, body, distrust } = await watchdog.holds(send(outgoing, watchdog.signal))
        distrustLast = distrust
        assertTaken(outgoing, status, watchdog, where)
        left = request.method === 'GET' && status === 200 && request.query?.['list-type'] === undefined
        const read = left
          ? Readable.from(streaming(body, watchdog), { objectMode: false })
          : await watchdog.holds(wholeBody(body, watchdog, where))
        return { response: { statusCode: status, headers: { ...headers }, body: read } }
      } finally {
        if (!left) watchdog.over()
      }
    },
    distrust() {
      distrustLast?.()
    },
    destroy() {
      // The connections belong to the transport, and its owner closes them.
    },
  }
}
