// Streams of contracts/platform.ts: TCP, and TLS 1.2 or later, kept alive; one connection each,
// without retries.
import type { Socket } from 'node:net'
import type { TLSSocket } from 'node:tls'
import { ConnectorError } from '../core/errors.ts'
import {
  type Address,
  type Connect,
  type Connection,
  hostPort,
  type TlsOptions,
} from '../contracts/platform.ts'
import { coded, inTime, openTcp, openTls } from './connecting.ts'
import { tlsMaterial } from './tls-material.ts'
import { transportError } from './network-errors.ts'

/** Unread data of the peer is buffered up to this size; then reading stops. */
const UNREAD_BYTES = 64 * 1024
/** In TLS 1.3 a server checks our certificate after the handshake: time for a refusal. */
const VERDICT_MS = 500

class StreamConnection implements Connection {
  readonly certificateEndsAt: number | undefined
  readonly ownCertificateEndsAt: number | undefined
  readonly #socket: Socket
  readonly #where: string
  #parts: Uint8Array[] = []
  #unread = 0
  #ended = false
  #failure: ConnectorError | undefined
  #wake: (() => void) | undefined

  constructor(socket: Socket, where: string, ownEndsAt?: number) {
    this.#socket = socket
    this.#where = where
    this.ownCertificateEndsAt = ownEndsAt
    this.certificateEndsAt = peerEndsAt(socket)
    socket.on('data', (part: Uint8Array) => {
      this.#parts.push(part)
      this.#unread += part.length
      if (this.#unread >= UNREAD_BYTES) socket.pause()
      this.#wake?.()
    })
    socket.on('end', () => this.#markEnded())
    const seen = { showsCertificate: ownEndsAt !== undefined }
    socket.on('error', (error) => this.#markEnded(transportError(where, error, undefined, seen)))
    socket.on('close', () => this.#markEnded())
  }

  get failure(): ConnectorError | undefined {
    return this.#failure
  }

  get gone(): boolean {
    return this.#ended
  }

  #markEnded(failure?: ConnectorError): void {
    this.#ended = true
    this.#failure ??= failure
    this.#wake?.()
  }

  #closed(): ConnectorError {
    return this.#failure ?? new ConnectorError('unreachable', `${this.#where} closed the connection`)
  }

  #aborted(): ConnectorError {
    return new ConnectorError('aborted', `the exchange with ${this.#where} was cancelled`)
  }

  write(bytes: Uint8Array, signal: AbortSignal): Promise<void> {
    if (signal.aborted) this.destroy()
    if (signal.aborted) return Promise.reject(this.#aborted())
    if (this.gone) return Promise.reject(this.#closed())
    return new Promise((resolve, reject) => {
      // A part of it may be sent: nothing can follow on this stream, and the caller's bytes must be
      // released.
      const stop = () => this.destroy()
      signal.addEventListener('abort', stop, { once: true })
      this.#socket.write(bytes, (error) => {
        signal.removeEventListener('abort', stop)
        if (!error) resolve()
        else if (signal.aborted) reject(this.#aborted())
        else reject(this.#failure ?? writeError(this.#where, error, signal))
      })
    })
  }

  async read(signal: AbortSignal): Promise<Uint8Array | undefined> {
    for (;;) {
      if (signal.aborted) throw this.#aborted()
      const part = this.#parts.shift()
      if (part) {
        this.#unread -= part.length
        if (this.#unread < UNREAD_BYTES) this.#socket.resume()
        return part
      }
      if (this.#failure) throw this.#failure
      if (this.#ended) return undefined
      await this.#more(signal)
    }
  }

  async #more(signal: AbortSignal): Promise<void> {
    await new Promise<void>((resolve) => {
      const wake = () => {
        signal.removeEventListener('abort', wake)
        this.#wake = undefined
        resolve()
      }
      this.#wake = wake
      signal.addEventListener('abort', wake, { once: true })
    })
  }

  end(ms: number): Promise<void> {
    const socket = this.#socket
    if (socket.closed || socket.destroyed) return Promise.resolve()
    return new Promise((resolve) => {
      const timer = setTimeout(() => socket.destroy(), ms)
      socket.once('close', () => {
        clearTimeout(timer)
        resolve()
      })
      this.#parts = []
      socket.removeAllListeners('data').resume()
      socket.end()
    })
  }

  destroy(): void {
    this.#markEnded()
    this.#socket.destroy()
  }
}

function writeError(where: string, error: Error, signal: AbortSignal): ConnectorError {
  const closed = 'code' in error && error.code === 'ERR_STREAM_DESTROYED'
  if (!closed) return transportError(where, error, signal)
  return new ConnectorError('unreachable', `${where} closed the connection`, { cause: error })
}

function peerEndsAt(socket: Socket): number | undefined {
  if (!('getPeerCertificate' in socket)) return undefined
  const { valid_to: end } = (socket as TLSSocket).getPeerCertificate()
  const at = Date.parse(end)
  return Number.isNaN(at) ? undefined : at
}

export const connectSocket: Connect = async (to, tls, timeoutMs, signal) => {
  const where = hostPort(to)
  try {
    return await inTime(timeoutMs, signal, async (stop) =>
      tls ? secured(to, tls, where, stop) : new StreamConnection(await openTcp(to, stop), where),
    )
  } catch (error) {
    throw transportError(where, error, signal, { showsCertificate: tls?.cert_file !== undefined })
  }
}

async function secured(to: Address, tls: TlsOptions, where: string, stop: AbortSignal): Promise<Connection> {
  const { secureContext, ownEndsAt } = await tlsMaterial(tls)
  const options = { secureContext, serverName: tls.server_name }
  const socket = await openTls(await openTcp(to, stop), to.host, options, stop)
  const connection = new StreamConnection(socket, where, ownEndsAt)
  if (socket.getProtocol() === 'TLSv1.3') await awaitVerdict(socket, connection, where, stop)
  return connection
}

/**
 * A session ticket or data means accepted; an end means refused. For servers that send neither,
 * silence means accepted.
 */
async function awaitVerdict(
  socket: TLSSocket,
  connection: StreamConnection,
  where: string,
  stop: AbortSignal,
): Promise<void> {
  const signs = ['session', 'data', 'end', 'error', 'close']
  await new Promise<void>((resolve) => {
    const known = () => {
      clearTimeout(timer)
      for (const sign of signs) socket.off(sign, known)
      stop.removeEventListener('abort', known)
      resolve()
    }
    const timer = setTimeout(known, VERDICT_MS)
    for (const sign of signs) socket.on(sign, known)
    stop.addEventListener('abort', known, { once: true })
    if (connection.gone || stop.aborted) known()
  })
  if (!connection.gone && !stop.aborted) return
  connection.destroy()
  const seen = { encrypted: true, showsCertificate: connection.ownCertificateEndsAt !== undefined }
  throw connection.failure ?? transportError(where, coded('CLOSED_AFTER_HANDSHAKE'), undefined, seen)
}
