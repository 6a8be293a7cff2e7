// The HEC fake behind a real socket, plain or TLS, for senders in another process.
import { createServer as createPlain } from 'node:http'
import type { IncomingMessage, RequestListener, Server } from 'node:http'
import { createServer as createTls } from 'node:https'
import type { AddressInfo } from 'node:net'
import type { HttpRequest } from '../../src/contracts/platform.ts'
import type { RawReply } from './hec-replies.ts'
import { send } from './raw-reply.ts'

export interface HecTls {
  readonly key: string
  readonly cert: string
  /** When given, the sender must show a certificate that this authority signed. */
  readonly clientCa?: string
}

export interface HecListener {
  readonly url: string
  readonly port: number
  close(): Promise<void>
}

type Answer = (request: HttpRequest) => RawReply

async function readBody(incoming: IncomingMessage): Promise<Buffer> {
  const chunks: Buffer[] = []
  for await (const chunk of incoming) chunks.push(chunk as Buffer)
  return Buffer.concat(chunks)
}

function listener(answer: Answer, base: string): RequestListener {
  return (incoming, outgoing) => {
    readBody(incoming)
      .then((body) => {
        const headers: Record<string, string> = {}
        for (const [name, value] of Object.entries(incoming.headers)) headers[name] = String(value)
        const method = (incoming.method ?? 'GET') as HttpRequest['method']
        const request: HttpRequest = { method, url: new URL(incoming.url ?? '/', base).href, headers, body }
        const reply = answer(request)
        if (reply.delayMs === 0) send(reply, outgoing)
        else {
          const timer = setTimeout(() => send(reply, outgoing), reply.delayMs)
          outgoing.on('close', () => clearTimeout(timer))
        }
      })
      // The sender went away in mid-body: no request, so no answer.
      .catch(() => outgoing.destroy())
  }
}

/** Listens on the loopback; `port` 0 takes a free one. */
export async function openHecServer(
  answer: Answer,
  options: { readonly port: number; readonly tls?: HecTls },
): Promise<HecListener> {
  const { tls } = options
  const scheme = tls ? 'https' : 'http'
  const base = `${scheme}://127.0.0.1`
  const handler = listener(answer, base)
  const server: Server = tls
    ? createTls(
        {
          key: tls.key,
          cert: tls.cert,
          ...(tls.clientCa === undefined
            ? {}
            : { ca: tls.clientCa, requestCert: true, rejectUnauthorized: true }),
        },
        handler,
      )
    : createPlain(handler)
  // It ends no connection itself: Node's five seconds would break a silence that a test needs.
  server.keepAliveTimeout = 600_000
  await new Promise<void>((resolve, reject) => {
    server.once('error', reject)
    server.listen(options.port, '127.0.0.1', resolve)
  })
  const { port } = server.address() as AddressInfo
  return {
    port,
    url: `${base}:${port}`,
    close: () =>
      new Promise((resolve) => {
        server.close(() => resolve())
        server.closeAllConnections()
      }),
  }
}
