// The HTTP listener for people, probes and scrapers: five read-only pages without parameters,
// bodies or state.
import { createServer } from 'node:http'
import type { IncomingMessage, Server, ServerResponse } from 'node:http'
import { isIP } from 'node:net'
import type { AddressInfo, Socket } from 'node:net'
import type { Clock } from '../core/clock.ts'
import { ConnectorError, OUT_OF_FILES } from '../core/errors.ts'
import type { Metrics } from './metrics.ts'
import { pageHeaders, renderPage } from './page/layout.ts'
import type { StatusRegistry } from './status-registry.ts'

export interface HttpOptions {
  /** host:port, as in the configuration; an IPv6 host in brackets; port 0 takes a free one */
  readonly listen: string
  /** Names that a Host header may have besides addresses and localhost. */
  readonly hosts: () => readonly string[]
  readonly clock: Pick<Clock, 'elapsed'>
  readonly registry: Pick<StatusRegistry, 'status'>
  readonly metrics: Pick<Metrics, 'contentType' | 'render'>
  /** True if the journal's handle responds. A throw means false. */
  readonly live: () => boolean | Promise<boolean>
  /** The loops have started. */
  readonly ready: () => boolean
  /** The configuration as text for the status page, with secrets masked. */
  readonly config?: (() => string) | undefined
  /** A connection is closed if its response is not sent within this time. */
  readonly answerTimeoutMs?: number
}

export interface OpsHttp {
  readonly address: AddressInfo
  close(): Promise<void>
}

interface Answer {
  readonly status: number
  readonly type: string
  readonly body: string | Buffer
  readonly headers?: Readonly<Record<string, string>>
}

const HEADER_TIMEOUT_MS = 5000
const REQUEST_TIMEOUT_MS = 10_000
const MAX_CONNECTIONS = 64
const ANSWER_TIMEOUT_MS = 30_000
/** A page is at most this old. */
const RENDER_MS = 500
const MAX_HEADER_BYTES = 8192

const plain = (status: number, text: string): Answer => ({
  status,
  type: 'text/plain; charset=utf-8',
  body: `${text}\n`,
})

type Page = () => Answer | Promise<Answer>

/** Requests within `RENDER_MS` share the same bytes: more readers cost no time or memory. */
function cached(clock: HttpOptions['clock'], render: Page): Page {
  let rendered: { readonly at: number; readonly answer: Promise<Answer> } | undefined
  return () => {
    const now = clock.elapsed()
    if (!rendered || now - rendered.at >= RENDER_MS)
      rendered = { at: now, answer: Promise.resolve().then(render).then(asBytes) }
    return rendered.answer
  }
}

const asBytes = (answer: Answer): Answer => ({ ...answer, body: Buffer.from(answer.body) })

function pagesOf(options: HttpOptions): ReadonlyMap<string, Page> {
  // A reload replaces registry and metrics: each request asks for the current ones.
  const { config, clock, live, ready } = options
  const page = (): Answer => ({
    status: 200,
    type: 'text/html; charset=utf-8',
    body: renderPage(options.registry.status(), config?.()),
    headers: pageHeaders,
  })
  const status = (): Answer => ({
    status: 200,
    type: 'application/json; charset=utf-8',
    body: `${JSON.stringify(options.registry.status())}\n`,
  })
  const figures = async (): Promise<Answer> => {
    const { metrics } = options
    return { status: 200, type: metrics.contentType, body: await metrics.render() }
  }
  const livez = async () => {
    // The log has the reason; a probe needs only the result.
    const isLive = await Promise.resolve()
      .then(live)
      .catch(() => false)
    return isLive ? plain(200, 'ok') : plain(503, 'the journal does not answer')
  }
  return new Map<string, Page>([
    ['/', cached(clock, page)],
    ['/status', cached(clock, status)],
    ['/metrics', cached(clock, figures)],
    ['/livez', livez],
    ['/readyz', () => (ready() ? plain(200, 'ok') : plain(503, 'the loops have not started yet'))],
  ])
}

const misdirected: Answer = plain(
  421,
  'This listener does not accept the name in your Host header. Add it to server.allowed_hosts, or use an IP address or localhost.',
)

async function answerTo(
  request: IncomingMessage,
  served: ReadonlyMap<string, Page>,
  hosts: readonly string[],
): Promise<Answer> {
  if (!answersTo(request.headers.host, hosts)) return misdirected
  const path = (request.url ?? '/').split('?', 1)[0] ?? '/'
  const page = served.get(path)
  if (!page) return plain(404, 'not found: there is /, /status, /metrics, /livez and /readyz')
  if (request.method !== 'GET' && request.method !== 'HEAD')
    return { ...plain(405, 'only GET and HEAD'), headers: { allow: 'GET, HEAD' } }
  try {
    return await page()
  } catch {
    return plain(500, 'this page could not be rendered')
  }
}

function send(request: IncomingMessage, response: ServerResponse, answer: Answer): void {
  // A body is not read, so the connection cannot be used again.
  const bodied =
    request.headers['transfer-encoding'] !== undefined || (request.headers['content-length'] ?? '0') !== '0'
  response.writeHead(answer.status, {
    'content-type': answer.type,
    'content-length': Buffer.byteLength(answer.body),
    'cache-control': 'no-store',
    'x-content-type-options': 'nosniff',
    ...answer.headers,
    ...(bodied ? { connection: 'close' } : {}),
  })
  response.end(request.method === 'HEAD' ? undefined : answer.body)
}

function addressOf(listen: string): { host: string; port: number } {
  const [, bracketed, bare, digits] = /^(?:\[([^\]]+)\]|([^:[\]]+)):(\d{1,5})$/.exec(listen) ?? []
  const host = bracketed ?? bare
  const port = Number(digits)
  if (host === undefined || !(port <= 65_535))
    throw new ConnectorError(
      'config_invalid',
      `server.listen: ${listen} is not an address: expected host:port, such as 127.0.0.1:9464`,
    )
  return { host, port }
}

const reasons: Readonly<Record<string, string>> = {
  EADDRINUSE: 'is in use by another process: stop that one or name another port',
  EACCES: 'is not permitted for this user: use a port from 1024 on',
  EADDRNOTAVAIL: 'is not an address of this machine, at least not yet: use one that is, or 0.0.0.0',
  EMFILE: `cannot be listened on: ${OUT_OF_FILES}`,
  ENFILE: `cannot be listened on: ${OUT_OF_FILES}`,
  ENOTFOUND: 'cannot be resolved: name an IP address of this machine',
  EAI_AGAIN: 'cannot be resolved at the moment: name an IP address of this machine',
}

/**
 * Not a fault of the configuration: a port becomes free, an address and a name server come up, and
 * a supervisor retries.
 */
function cannotListen(listen: string, error: NodeJS.ErrnoException): ConnectorError {
  const reason = reasons[error.code ?? ''] ?? `cannot be listened on (${error.code ?? 'unknown error'})`
  return new ConnectorError('misconfigured', `server.listen: ${listen} ${reason}`, { cause: error })
}

/** Throws ConnectorError: `config_invalid` if this is no address, `misconfigured` if not usable. */
export async function openHttp(options: HttpOptions): Promise<OpsHttp> {
  const { host, port } = addressOf(options.listen)
  const served = pagesOf(options)
  const out = new AnswersOut(options.answerTimeoutMs ?? ANSWER_TIMEOUT_MS)
  const server = createServer(
    {
      headersTimeout: HEADER_TIMEOUT_MS,
      requestTimeout: REQUEST_TIMEOUT_MS,
      keepAliveTimeout: HEADER_TIMEOUT_MS,
      connectionsCheckingInterval: HEADER_TIMEOUT_MS,
      maxHeaderSize: MAX_HEADER_BYTES,
    },
    (request, response) => {
      if (!out.begin(request.socket, response)) return
      void answerTo(request, served, options.hosts()).then((answer) => {
        if (request.socket.destroyed) return
        out.closeSlowest(request.socket, Buffer.byteLength(answer.body))
        send(request, response, answer)
      })
    },
  )
  limitConnections(server, MAX_CONNECTIONS)
  await new Promise<void>((resolve, reject) => {
    const refuse = (error: Error) => reject(cannotListen(options.listen, error))
    server.once('error', refuse)
    server.listen(port, host, () => {
      server.off('error', refuse)
      resolve()
    })
  })
  return {
    address: server.address() as AddressInfo,
    close: () =>
      new Promise((resolve) => {
        server.close(() => resolve())
        server.closeAllConnections()
      }),
  }
}

// Responses that the listener is sending: one per connection, each with a time limit, with a bound
// on the unsent bytes of all.

/** Node keeps these bytes for connections that do not read. The largest page is far smaller. */
const MAX_UNSENT_BYTES = 8 * 2 ** 20

/** @internal for tests */
export class AnswersOut {
  readonly #timeoutMs: number
  /** in the order of their requests */
  readonly #readers = new Set<Socket>()

  constructor(timeoutMs: number) {
    this.#timeoutMs = timeoutMs
  }

  /**
   * False: do not respond. A second request before the first response is sent is pipelining, which
   * no browser, probe or scraper uses, and each one would cost a response: the connection is
   * closed.
   */
  begin(socket: Socket, response: ServerResponse): boolean {
    if (this.#readers.has(socket)) socket.destroy()
    if (socket.destroyed) return false
    this.#readers.add(socket)
    const late = setTimeout(() => socket.destroy(), this.#timeoutMs)
    response.once('close', () => {
      clearTimeout(late)
      this.#readers.delete(socket)
    })
    return true
  }

  /** Closes the connections that read least recently, until `bytes` more stay below the bound. */
  closeSlowest(socket: Socket, bytes: number): void {
    let unsent = bytes
    for (const reader of this.#readers) unsent += reader.writableLength
    for (const reader of this.#readers) {
      if (unsent <= MAX_UNSENT_BYTES) return
      if (reader === socket || reader.writableLength === 0) continue
      unsent -= reader.writableLength
      reader.destroy()
    }
  }
}

// Limits the number of connections. Above it the connection that was silent longest is closed,
// so that many idle connections do not lock out a probe.

/** A connection whose request is being answered is never closed. */
function limitConnections(server: Server, max: number): void {
  const silent = new Set<Socket>()
  let count = 0
  server.on('connection', (socket: Socket) => {
    count++
    silent.add(socket)
    socket.once('close', () => {
      count--
      silent.delete(socket)
    })
    const [oldest] = silent
    if (count > max) oldest?.destroy()
  })
  server.on('request', ({ socket }, response) => {
    silent.delete(socket)
    response.once('close', () => {
      if (!socket.destroyed) silent.add(socket)
    })
  })
}

// Host names that the listener accepts: a web page can make its own name resolve to this machine
// (DNS rebinding) and would read the status with the operator's browser.

/** RFC 9110 section 7.2: a host and usually a port; an IPv6 address is in brackets. */
function hostOf(header: string): string {
  const [, bracketed, bare = ''] = /^(?:\[([^\]]*)\]|([^:]*))(?::\d*)?$/.exec(header.trim()) ?? []
  return normal(bracketed ?? bare)
}

const normal = (host: string): string => host.toLowerCase().replace(/\.$/, '')

/** A web page cannot own an IP address as its name, and browsers always send a Host header. */
function answersTo(header: string | undefined, allowed: readonly string[]): boolean {
  if (header === undefined) return true
  const host = hostOf(header)
  return isIP(host) !== 0 || host === 'localhost' || allowed.some((name) => normal(name) === host)
}
