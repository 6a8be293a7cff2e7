// Opens a connection to another machine, step by step: TCP, TLS over it, a tunnel through a proxy.
// A failed step leaves nothing open.
import { request } from 'node:http'
import { connect as connectTcp, type LookupFunction, type Socket } from 'node:net'
import { connect as connectTls, type ConnectionOptions, type TLSSocket } from 'node:tls'
import { Tether } from '../core/abort.ts'
import { ConnectorError } from '../core/errors.ts'
import { type Address, hostPort } from '../contracts/platform.ts'
import type { Proxy } from './proxies.ts'
import { identityOptions } from './tls-material.ts'

const KEEPALIVE_MS = 30_000

/** Our codes for failures that the system has no code for. */
export const coded = (code: string, cause?: unknown): Error =>
  Object.assign(new Error(code, { cause }), { code })

/** Runs `work` with a signal that aborts with `signal`, or after `ms`. */
export async function inTime<T>(
  ms: number,
  signal: AbortSignal,
  work: (stop: AbortSignal) => Promise<T>,
): Promise<T> {
  const tether = new Tether(signal)
  const timer = setTimeout(() => tether.abort(new Error('too late')), ms)
  try {
    return await work(tether.signal)
  } finally {
    clearTimeout(timer)
    tether.close()
  }
}

/** `lookup`: the name's addresses in the order in which they are tried. */
export function openTcp(
  { host, port }: Address,
  stop: AbortSignal,
  lookup?: LookupFunction,
): Promise<Socket> {
  if (stop.aborted) return Promise.reject(coded('NO_CONNECTION'))
  const socket = connectTcp({ host, port, autoSelectFamily: true, ...(lookup && { lookup }) })
  return ready(socket, 'connect', stop)
}

/** TLS 1.2 or later. The peer must prove that it is `serverName`, or `host` if there is none. */
export function openTls(
  socket: Socket,
  host: string,
  { serverName, ...options }: ConnectionOptions & { readonly serverName?: string | undefined },
  stop: AbortSignal,
): Promise<TLSSocket> {
  const identity = identityOptions(host, serverName)
  const secured = connectTls({ minVersion: 'TLSv1.2', ...options, ...identity, socket })
  return ready(secured, 'secureConnect', stop)
}

function ready<S extends Socket>(
  socket: S,
  event: 'connect' | 'secureConnect',
  stop: AbortSignal,
): Promise<S> {
  return new Promise((resolve, reject) => {
    const over = () => {
      stop.removeEventListener('abort', late)
      socket.off('error', fail).off('close', closed)
    }
    const fail = (error: Error) => {
      over()
      socket.on('error', () => undefined)
      socket.destroy()
      reject(error)
    }
    const late = () => fail(coded(event === 'connect' ? 'NO_CONNECTION' : 'NO_HANDSHAKE'))
    const closed = () => fail(coded('CLOSED_IN_HANDSHAKE'))
    socket.once('error', fail)
    socket.once('close', closed)
    socket.once(event, () => {
      over()
      socket.setNoDelay(true)
      socket.setKeepAlive(true, KEEPALIVE_MS)
      resolve(socket)
    })
    stop.addEventListener('abort', late, { once: true })
    if (stop.aborted) late()
  })
}

/** The error for a proxy's refusal. `to`: the intended host. */
export function refusalOf(proxy: Proxy, status: number, to: string): ConnectorError {
  const whom = `the proxy ${proxy.at} (${proxy.variable})`
  const answered = `${whom} answered ${status} when asked for ${to}`
  if (status === 407) {
    const next = proxy.login
      ? `it does not accept the login in ${proxy.variable}`
      : `it asks for a login: put one into ${proxy.variable} (http://user:password@host:port)`
    return new ConnectorError('misconfigured', `${answered}: ${next}, and restart`)
  }
  if (status === 401 || status === 403)
    return new ConnectorError(
      'misconfigured',
      `${answered}: its rules forbid this connection; have it allowed there, or name the host in NO_PROXY`,
    )
  if (status >= 500)
    return new ConnectorError('unreachable', `${answered}: the proxy could not connect to it`)
  return new ConnectorError(
    'unreachable',
    `${answered}, so no connection was opened; check the address: is it a proxy?`,
  )
}

/** Over a connection to the proxy. Throws ConnectorError if the proxy refuses. */
export function openTunnel(socket: Socket, proxy: Proxy, to: Address, stop: AbortSignal): Promise<Socket> {
  const where = hostPort(to)
  return new Promise((resolve, reject) => {
    const fail = (error: Error) => {
      stop.removeEventListener('abort', late)
      socket.on('error', () => undefined)
      socket.destroy()
      reject(error)
    }
    const late = () => fail(coded('NO_TUNNEL'))
    const connecting = request({
      method: 'CONNECT',
      path: where,
      headers: { host: where, ...(proxy.login && { 'proxy-authorization': proxy.login }) },
      // Without an agent, so only on this socket.
      createConnection: () => socket,
    })
    connecting.on('error', fail)
    connecting.on('connect', ({ statusCode = 0 }) => {
      if (statusCode < 200 || statusCode >= 300) {
        fail(refusalOf(proxy, statusCode, where))
        return
      }
      stop.removeEventListener('abort', late)
      resolve(socket)
    })
    stop.addEventListener('abort', late, { once: true })
    connecting.end()
    if (stop.aborted) late()
  })
}
