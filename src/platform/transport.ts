// The HTTP client of contracts/platform.ts: Node's own client with reused connections; follows no
// redirects, retries nothing, decompresses nothing. Skips interim (1xx) answers.
import { type ClientRequest, type IncomingMessage, request as httpRequest } from 'node:http'
import type { LookupFunction, Socket } from 'node:net'
import { pipeline, Readable } from 'node:stream'
import { Tether } from '../core/abort.ts'
import type { HttpReply, HttpRequest, Transport } from '../contracts/platform.ts'
import { Pieces } from '../core/bytes.ts'
import { addressOf, hostPort, type TlsOptions } from '../contracts/platform.ts'
import { coded, inTime, openTcp, openTls, openTunnel, refusalOf } from './connecting.ts'
import { type AgentOptions, ConnectionPool, type Route } from './connections.ts'
import { Proxies, type Proxy, type ProxySettings } from './proxies.ts'
import { tlsMaterial, type TlsMaterial } from './tls-material.ts'
import { type Peer, transportError } from './network-errors.ts'

export interface TransportSettings {
  /** whose configuration keys an error names: default those of a sink */
  readonly to?: Peer
  readonly tls?: TlsOptions | undefined
  readonly proxy?: ProxySettings | undefined
  readonly connectTimeoutMs?: number
  readonly lookup?: LookupFunction
}

export interface OpenTransport {
  readonly send: Transport
  /** Aborts running requests. */
  close(): Promise<void>
}

const CONNECT_TIMEOUT_MS = 10_000

const seenOf = ({ to, tls }: TransportSettings, url: string, proxy: Proxy | undefined) => ({
  to,
  proxy,
  encrypted: url.startsWith('https:'),
  showsCertificate: tls?.cert_file !== undefined,
})

/** The connection for requests to `url`, including TLS and proxy. */
async function connected(
  settings: TransportSettings,
  url: string,
  proxy: Proxy | undefined,
  material: TlsMaterial | undefined,
  { lookup, reached }: Route,
  stop: AbortSignal,
): Promise<Socket> {
  const target = addressOf(url)
  const encrypted = url.startsWith('https:')
  let socket: Socket
  try {
    socket = await openTcp(proxy ? proxy.to : target, stop, lookup)
    reached(socket.remoteAddress)
    if (proxy?.encrypted) socket = await openTls(socket, proxy.to.host, {}, stop)
    if (proxy && encrypted) socket = await openTunnel(socket, proxy, target, stop)
  } catch (error) {
    if (!proxy) throw error
    throw transportError(hostPort(target), error, undefined, {
      ...seenOf(settings, url, proxy),
      atProxy: true,
    })
  }
  if (!encrypted) return socket
  const { secureContext } = material ?? {}
  const options = { ALPNProtocols: ['http/1.1'], ...(secureContext && { secureContext }) }
  return openTls(socket, target.host, { ...options, serverName: settings.tls?.server_name }, stop)
}

/** The connections to each origin; new ones if the TLS files have changed. */
class ConnectionPools {
  readonly #settings: TransportSettings
  #material: TlsMaterial | undefined
  readonly #connections = new Map<string, ConnectionPool>()

  constructor(settings: TransportSettings) {
    this.#settings = settings
  }

  async to(url: string, proxy: Proxy | undefined): Promise<ConnectionPool> {
    const { tls, lookup, connectTimeoutMs: ms = CONNECT_TIMEOUT_MS } = this.#settings
    const material = tls && (await tlsMaterial(tls))
    // Running requests on the old ones may finish.
    if (material !== this.#material) for (const each of this.#connections.values()) each.renew()
    this.#material = material
    const { origin } = new URL(url)
    const known = this.#connections.get(origin)
    if (known) return known
    const open = (route: Route) =>
      inTime(ms, route.stop, (stop) => connected(this.#settings, origin, proxy, this.#material, route, stop))
    const connections = new ConnectionPool(open, lookup)
    this.#connections.set(origin, connections)
    return connections
  }

  close(): void {
    for (const each of this.#connections.values()) each.destroy()
    this.#connections.clear()
  }
}

/** The last one of a repeated header. Without a prototype: the peer chooses the names. */
function headersOf({ rawHeaders }: IncomingMessage): Record<string, string> {
  const headers = Object.create(null) as Record<string, string>
  for (let i = 0; i < rawHeaders.length; i += 2) {
    const name = (rawHeaders[i] as string).toLowerCase()
    const value = rawHeaders[i + 1] as string
    const before = name === 'set-cookie' ? headers[name] : undefined
    headers[name] = before === undefined ? value : `${before}\n${value}`
  }
  return headers
}

const TOGETHER_BYTES = 64 * 1024

/** Joins a small piece with what arrived meanwhile: a server may send single bytes. */
function withWaiting(piece: Uint8Array, message: IncomingMessage): Uint8Array {
  if (message.readableLength === 0 || piece.length > TOGETHER_BYTES / 2) return piece
  const pieces = new Pieces()
  for (let next: Uint8Array | null = piece; next; next = message.read() as Uint8Array | null) {
    pieces.add(next)
    if (pieces.length >= TOGETHER_BYTES) break
  }
  return pieces.toBuffer()
}

/** Not a generator: `return` before the first `next` must close the connection too. */
function streamed(message: IncomingMessage, failed: (error: unknown) => Error): HttpReply['body'] {
  message.on('error', () => undefined) // iterating the body throws it; the body may not be iterated
  return {
    [Symbol.asyncIterator]() {
      const inner = message[Symbol.asyncIterator]() as AsyncIterator<Uint8Array, undefined>
      return {
        async next() {
          try {
            const step = await inner.next()
            return step.done ? step : { done: false, value: withWaiting(step.value, message) }
          } catch (error) {
            throw failed(error)
          }
        },
        async return() {
          message.destroy()
          return { done: true, value: undefined }
        },
      }
    },
  }
}

/** A body that is shorter or longer than announced would leave the server waiting. */
async function* ofLength(source: AsyncIterable<Uint8Array>, bytes: number): AsyncGenerator<Uint8Array> {
  let left = bytes
  for await (const piece of source) {
    left -= piece.length
    if (left < 0) break
    yield piece
  }
  if (left !== 0) throw coded('OTHER_LENGTH')
}

function sendBody(
  { body, stream, headers }: HttpRequest,
  outgoing: ClientRequest,
  failed: (error: Error) => void,
): void {
  if (!stream) {
    outgoing.end(body)
    return
  }
  const pieces = ofLength(stream, Number(headers['content-length']))
  pipeline(Readable.from(pieces, { objectMode: false }), outgoing, (error) => {
    // The request itself reports why it was closed.
    if (error && error.code !== 'ERR_STREAM_PREMATURE_CLOSE') failed(error)
  })
}

/** Options for Node's client; over plain http a proxy gets the whole URL. */
function optionsFor(
  { url, method, headers }: HttpRequest,
  proxy: Proxy | undefined,
): Omit<AgentOptions, 'stop'> {
  const { host, hostname, port, pathname, search, origin, protocol } = new URL(url)
  const forwarded = proxy && protocol === 'http:'
  const login = forwarded && proxy.login ? { 'proxy-authorization': proxy.login } : {}
  return {
    method,
    host: hostname,
    port,
    path: (forwarded ? origin : '') + pathname + search,
    headers: { host, ...headers, ...login },
  }
}

/** One request until its answer begins. */
function answerOf(
  request: HttpRequest,
  options: AgentOptions & { readonly agent: ConnectionPool },
): Promise<IncomingMessage> {
  return new Promise((resolve, reject) => {
    const outgoing = httpRequest({ ...options, signal: options.stop })
    let answered = false
    const failed = (error: Error) => {
      if (answered) return
      options.agent.renew(outgoing.socket)
      reject(error)
    }
    outgoing.on('error', failed)
    // If it is destroyed before it had a connection, it has no error.
    outgoing.on('close', () => failed(coded('CLOSED')))
    outgoing.on('upgrade', (_, socket) => {
      socket.destroy()
      failed(coded('UNASKED_UPGRADE'))
    })
    outgoing.on('response', (message) => {
      answered = true
      // A server that has answered completely reads no more of the request.
      message.on('end', () => outgoing.writableFinished || outgoing.destroy())
      resolve(message)
    })
    sendBody(request, outgoing, failed)
  })
}

export function openTransport(settings: TransportSettings = {}): OpenTransport {
  const proxies = new Proxies(settings.proxy)
  const pools = new ConnectionPools(settings)
  const underWay = new Set<Tether>()
  let closed: Error | undefined

  async function send(request: HttpRequest, signal: AbortSignal): Promise<HttpReply> {
    const where = hostPort(addressOf(request.url))
    const tether = new Tether(signal)
    underWay.add(tether)
    const over = () => {
      underWay.delete(tether)
      tether.close()
    }
    let proxy: Proxy | undefined
    const explained = (error: unknown, answered = false) =>
      transportError(where, closed ?? error, signal, { ...seenOf(settings, request.url, proxy), answered })
    try {
      if (signal.aborted || closed) throw new Error('not to be sent')
      proxy = proxies.proxyFor(request.url)
      const agent = await pools.to(request.url, proxy)
      const options = { ...optionsFor(request, proxy), agent, stop: tether.signal }
      const message = await answerOf(request, options)
      const { socket, statusCode: status = 0 } = message
      message.on('close', over)
      agent.answered(socket, message)
      if (status === 407 && proxy) {
        message.destroy()
        throw refusalOf(proxy, status, where)
      }
      const failed = (error: unknown) => {
        agent.renew(socket)
        return explained(error, true)
      }
      return { status, headers: headersOf(message), body: streamed(message, failed), distrust: () => agent.renew(socket) } // prettier-ignore
    } catch (error) {
      over()
      throw explained(error)
    }
  }

  return {
    send,
    close: async () => {
      closed = coded('CLOSED_HERE')
      for (const each of underWay) each.close()
      pools.close()
    },
  }
}
