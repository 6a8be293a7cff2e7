// The listener for people, probes and scrapers: five pages that are only read. No parameter, no body, no state.
import { createServer } from 'node:http'
import type { IncomingMessage, ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import type { Clock } from '../model/clock.ts'
import { ConnectorError, OUT_OF_FILES } from '../model/errors.ts'
import { AnswersOut } from './answers-out.ts'
import type { Board } from './board.ts'
import { boundCrowd } from './crowd.ts'
import { answersTo } from './host-names.ts'
import type { Metrics } from './metrics.ts'
import { pageHeaders } from './page/headers.ts'
import { renderPage } from './page/layout.ts'

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
      `server.listen: ${listen} is no address: want host:port, such as 127.0.0.1:9464`,
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
