// The network behind model/http.ts: undici with kept connections; follows no redirect, repeats nothing, unpacks nothing.
import { Readable } from 'node:stream'
import { Agent, buildConnector, type Dispatcher, EnvHttpProxyAgent } from 'undici'
import type { HttpReply, HttpRequest, Transport } from '../model/http.ts'
import { addressOf, hostPort, type TlsOptions } from '../model/socket.ts'
import { Proxies, type ProxySettings } from './proxies.ts'
import { tlsMaterial, type TlsMaterial } from './tls-material.ts'
import { transportError } from './transport-errors.ts'
import type { Peer } from './transport-errors.ts'

export interface TransportSettings {
  /** whose keys an error names: those of a sink unless told */
  readonly to?: Peer
  readonly tls?: TlsOptions | undefined
  readonly proxy?: ProxySettings | undefined
  readonly connectTimeoutMs?: number
}

export interface OpenTransport {
  readonly send: Transport
  /** Cuts what is under way. */
  close(): Promise<void>
}

const CONNECT_TIMEOUT_MS = 10_000

function dispatcherFor(
  settings: TransportSettings,
  proxies: Proxies,
  material: TlsMaterial | undefined,
): Dispatcher {
  const serverName = settings.tls?.server_name
  const timeout = settings.connectTimeoutMs ?? CONNECT_TIMEOUT_MS
  const connect = {
    minVersion: 'TLSv1.2' as const,
    rejectUnauthorized: true,
    allowH2: false,
    timeout,
    ...(material && { secureContext: material.secureContext }),
    ...(serverName === undefined ? {} : { servername: serverName }),
  }
  // Whoever asks has a deadline of its own; undici's would be looked after once a chunk.
  const timeouts = { connectTimeout: timeout, headersTimeout: 0, bodyTimeout: 0 }
  const shared = { connect, allowH2: false, ...timeouts }
  if (proxies.areNone) return new Agent(shared)
  return new EnvHttpProxyAgent({
    ...shared,
    ...proxies.options,
    connect: proxies.noting(buildConnector(connect)),
    requestTls: connect,
    // The proxy's own certificate is no business of the receiver's private CA.
    proxyTls: { minVersion: 'TLSv1.2', rejectUnauthorized: true, timeout },
  })
}

interface Current {
  readonly material: TlsMaterial | undefined
  readonly dispatcher: Dispatcher
}

/** Hands out the dispatcher for the TLS files as they are now. */
function dispatchers(settings: TransportSettings, proxies: Proxies) {
  let current: Current | undefined
  let turn: Promise<unknown> = Promise.resolve()

  async function look(): Promise<Dispatcher> {
    const material = settings.tls && (await tlsMaterial(settings.tls))
    if (current && current.material === material) return current.dispatcher
    const dispatcher = dispatcherFor(settings, proxies, material)
    // What is under way on the old one may end.
    void current?.dispatcher.close()
    current = { material, dispatcher }
    return dispatcher
  }

  return {
    get(): Promise<Dispatcher> {
      const mine = turn.then(look)
      turn = mine.catch(() => undefined)
      return mine
    },
    async close(): Promise<void> {
      await turn
      await current?.dispatcher.destroy()
      current = undefined
    },
  }
}

function lastOfEach(headers: Record<string, string | string[] | undefined>): Record<string, string> {
  const flat: Record<string, string> = {}
  for (const [name, value] of Object.entries(headers)) {
    const known = name.toLowerCase()
    const one = !Array.isArray(value) ? value : known === 'set-cookie' ? value.join('\n') : value.at(-1)
    if (one !== undefined) flat[known] = one
  }
  return flat
}

/** By hand, not a generator: `return` before the first `next` must close the connection too. */
function streamed(
  body: Dispatcher.ResponseData['body'],
  explained: (error: unknown) => Error,
): HttpReply['body'] {
  body.on('error', () => undefined) // told to whoever iterates; nobody may be
  return {
    [Symbol.asyncIterator]() {
      const inner = body[Symbol.asyncIterator]() as AsyncIterator<Uint8Array, undefined>
      return {
        async next() {
          try {
            return await inner.next()
          } catch (error) {
            throw explained(error)
          }
        },
        async return() {
          body.destroy()
          return { done: true, value: undefined }
        },
      }
    },
  }
}

/** What breaks the source breaks the request, which tells of it; a request that was called off before has no ear any more. */
function readable(source: AsyncIterable<Uint8Array>): Readable {
  return Readable.from(source, { objectMode: false }).on('error', () => undefined)
}

export function openTransport(settings: TransportSettings = {}): OpenTransport {
  const proxies = new Proxies(settings.proxy)
  const source = dispatchers(settings, proxies)

  async function send(request: HttpRequest, signal: AbortSignal): Promise<HttpReply> {
    const where = hostPort(addressOf(request.url))
    const explained = (error: unknown) =>
      transportError(where, error, signal, settings.to, proxies.onTheWayTo(request.url))
    if (signal.aborted) throw explained(signal.reason)
    try {
      const dispatcher = await source.get()
      const { origin, pathname, search } = new URL(request.url)
      const reply = await dispatcher.request({
        origin,
        path: pathname + search,
        method: request.method,
        headers: request.headers,
        body: request.body ?? (request.stream ? readable(request.stream) : null),
        signal,
      })
      return {
        status: reply.statusCode,
        headers: lastOfEach(reply.headers),
        body: streamed(reply.body, explained),
      }
    } catch (error) {
      throw explained(error)
    }
  }

  return { send, close: () => source.close() }
}
