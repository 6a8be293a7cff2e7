// The listener for people, probes and scrapers: five pages that are only read. No parameter, no body, no state.
import { createServer } from 'node:http'
import type { IncomingMessage, Server, ServerResponse } from 'node:http'
import { isIP } from 'node:net'
import type { AddressInfo, Socket } from 'node:net'
import type { Clock } from '../core/clock.ts'
import { ConnectorError, OUT_OF_FILES } from '../core/errors.ts'
import type { Metrics } from './metrics.ts'
import { pageHeaders, renderPage } from './page/layout.ts'
import type { Board } from './status-registry.ts'

export interface HttpOptions {
  /** host:port, as the configuration has it; an IPv6 host in brackets; port 0 takes a free one */
  readonly listen: string
  /** Names that a Host header may have beside addresses and localhost. */
  readonly hosts: () => readonly string[]
  readonly clock: Pick<Clock, 'elapsed'>
  readonly board: Pick<Board, 'status'>
  readonly metrics: Pick<Metrics, 'contentType' | 'render'>
  /** The journal's handle answers. A throw means no. */
  readonly live: () => boolean | Promise<boolean>
  /** The loops have started. */
  readonly ready: () => boolean
  /** The configuration as text, for the status page: its secrets masked. */
  readonly config?: (() => string) | undefined
  /** A connection is closed when its answer is not out after so long. */
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
/** What is served was true at most this long ago. */
const RENDER_MS = 500
const MAX_HEADER_BYTES = 8192

const plain = (status: number, text: string): Answer => ({
  status,
  type: 'text/plain; charset=utf-8',
  body: `${text}\n`,
})

async function livez({ live }: HttpOptions): Promise<Answer> {
  try {
    if (await live()) return plain(200, 'ok')
  } catch {
    // What it is stands in the log; the probe only asks whether.
  }
  return plain(503, 'the journal does not answer')
}

type Page = (options: HttpOptions) => Answer | Promise<Answer>

/** The same bytes for everybody who asks within `RENDER_MS`: readers cost neither time nor memory of their own. */
function shared(render: Page): () => Page {
  return () => {
    let rendered: { readonly at: number; readonly answer: Promise<Answer> } | undefined
    return (options) => {
      const now = options.clock.elapsed()
      if (!rendered || now - rendered.at >= RENDER_MS)
        rendered = { at: now, answer: Promise.resolve(options).then(render).then(asBytes) }
      return rendered.answer
    }
  }
}

const asBytes = (answer: Answer): Answer => ({ ...answer, body: Buffer.from(answer.body) })

const pages: ReadonlyMap<string, () => Page> = new Map([
  [
    '/',
    shared(({ board, config }) => ({
      status: 200,
      type: 'text/html; charset=utf-8',
      body: renderPage(board.status(), config?.()),
      headers: pageHeaders,
    })),
  ],
  [
    '/status',
    shared(({ board }) => ({
      status: 200,
      type: 'application/json; charset=utf-8',
      body: `${JSON.stringify(board.status())}\n`,
    })),
  ],
  [
    '/metrics',
    shared(async ({ metrics }) => ({
      status: 200,
      type: metrics.contentType,
      body: await metrics.render(),
    })),
  ],
  ['/livez', () => livez],
  [
    '/readyz',
    () =>
      ({ ready }) =>
        ready() ? plain(200, 'ok') : plain(503, 'the loops have not started yet'),
  ],
])

const misdirected: Answer = plain(
  421,
  'This listener does not answer to the name in your Host header. Add that name to server.allowed_hosts, or ask by IP address or as localhost.',
)

async function answerTo(
  request: IncomingMessage,
  served: ReadonlyMap<string, Page>,
  options: HttpOptions,
): Promise<Answer> {
  if (!answersTo(request.headers.host, options.hosts())) return misdirected
  const path = (request.url ?? '/').split('?', 1)[0] ?? '/'
  const page = served.get(path)
  if (!page) return plain(404, 'not found: there is /, /status, /metrics, /livez and /readyz')
  if (request.method !== 'GET' && request.method !== 'HEAD')
    return { ...plain(405, 'only GET and HEAD'), headers: { allow: 'GET, HEAD' } }
  try {
    return await page(options)
  } catch {
    return plain(500, 'this page could not be made')
  }
}

function send(request: IncomingMessage, response: ServerResponse, answer: Answer): void {
  // A body was not asked for and is not read: the connection cannot be used again.
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
  EACCES: 'is not allowed to this user: name a port from 1024 on',
  EADDRNOTAVAIL: 'is no address of this machine, at least not yet: name one that is, or 0.0.0.0',
  EMFILE: `cannot be listened on: ${OUT_OF_FILES}`,
  ENFILE: `cannot be listened on: ${OUT_OF_FILES}`,
  ENOTFOUND: 'cannot be resolved: name an IP address of this machine',
  EAI_AGAIN: 'cannot be resolved at the moment: name an IP address of this machine',
}

/** No fault of the text: a port comes free, an address and a name server come up, and a supervisor is to try again. */
function cannotListen(listen: string, error: NodeJS.ErrnoException): ConnectorError {
  const reason = reasons[error.code ?? ''] ?? `cannot be listened on (${error.code ?? 'unknown error'})`
  return new ConnectorError('misconfigured', `server.listen: ${listen} ${reason}`, { cause: error })
}

/** Throws ConnectorError: `config_invalid` when this can be no address, `misconfigured` when it cannot be had now. */
export async function openHttp(options: HttpOptions): Promise<OpsHttp> {
  const { host, port } = addressOf(options.listen)
  const served = new Map([...pages].map(([path, page]) => [path, page()]))
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
      void answerTo(request, served, options).then((answer) => {
        if (request.socket.destroyed) return
        out.makeRoomFor(request.socket, Buffer.byteLength(answer.body))
        send(request, response, answer)
      })
    },
  )
  boundCrowd(server, MAX_CONNECTIONS)
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

// The answers that a listener is sending: one a connection, each within a time, and a bound on what all readers together have not taken.

/** Held by Node for connections that do not read. The largest page is far smaller. */
const MOST_UNSENT_BYTES = 8 * 2 ** 20

/** @internal for tests */
export class AnswersOut {
  readonly #timeoutMs: number
  /** the one that was asked for first is first */
  readonly #readers = new Set<Socket>()

  constructor(timeoutMs: number) {
    this.#timeoutMs = timeoutMs
  }

  /**
   * False: not to be answered. A second request before the first answer is out is pipelining, which no browser, probe or scraper
   * uses, and each of them would cost an answer: the connection is closed.
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

  /** Closes those that have not read for longest, until what is unsent stays below the bound with `bytes` more. */
  makeRoomFor(socket: Socket, bytes: number): void {
    let unsent = bytes
    for (const reader of this.#readers) unsent += reader.writableLength
    for (const reader of this.#readers) {
      if (unsent <= MOST_UNSENT_BYTES) return
      if (reader === socket || reader.writableLength === 0) continue
      unsent -= reader.writableLength
      reader.destroy()
    }
  }
}

// How many connections a listener holds. Where there are too many the one that has been silent longest gives way, so that a crowd that asks for nothing keeps no probe out.

/** A request that is being answered is never cut for it. */
function boundCrowd(server: Server, most: number): void {
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
    if (count > most) oldest?.destroy()
  })
  server.on('request', ({ socket }, response) => {
    silent.delete(socket)
    response.once('close', () => {
      if (!socket.destroyed) silent.add(socket)
    })
  })
}

// Which Host names the listener answers to: a web page can have its own name resolve to this machine (DNS rebinding), and would read the status from the operator's browser.

/** RFC 9110 section 7.2: a host and, mostly, a port; an IPv6 address stands in brackets. */
function hostOf(header: string): string {
  const [, bracketed, bare = ''] = /^(?:\[([^\]]*)\]|([^:]*))(?::\d*)?$/.exec(header.trim()) ?? []
  return normal(bracketed ?? bare)
}

const normal = (host: string): string => host.toLowerCase().replace(/\.$/, '')

/** An IP address is not a name that a web page can own, and a request without a Host comes from no browser. */
function answersTo(header: string | undefined, allowed: readonly string[]): boolean {
  if (header === undefined) return true
  const host = hostOf(header)
  return isIP(host) !== 0 || host === 'localhost' || allowed.some((name) => normal(name) === host)
}
