// The S3 fake behind a real socket on the loopback, for senders in another process and for bodies that must stream.
import { createServer } from 'node:http'
import type { IncomingMessage, ServerResponse } from 'node:http'
import { createServer as createTls } from 'node:https'
import type { AddressInfo } from 'node:net'
import type { HttpRequest } from '../../src/contracts/platform.ts'
import type { FakeS3 } from './s3.ts'
import { send } from './raw-reply.ts'

export interface S3Listener {
  readonly url: string
  close(): Promise<void>
}

async function answer(fake: FakeS3, incoming: IncomingMessage, outgoing: ServerResponse): Promise<void> {
  const parts: Buffer[] = []
  for await (const part of incoming) parts.push(part as Buffer)
  const headers: Record<string, string> = {}
  for (const [name, value] of Object.entries(incoming.headers)) headers[name] = String(value)
  const url = new URL(incoming.url ?? '/', 'http://127.0.0.1').href
  const method = (incoming.method ?? 'GET') as HttpRequest['method']
  const reply = fake.handle({ method, url, headers, body: Buffer.concat(parts) }, Date)
  const timer = setTimeout(() => send(reply, outgoing), reply.delayMs)
  outgoing.on('close', () => clearTimeout(timer))
}

export interface S3Tls {
  readonly key: string
  readonly cert: string
  /** When given, the sender must show a certificate that this authority signed. */
  readonly clientCa?: string
}

/** Listens on the loopback; port 0 takes a free one. */
export async function openS3Server(fake: FakeS3, tls?: S3Tls, port = 0): Promise<S3Listener> {
  const handler = (incoming: IncomingMessage, outgoing: ServerResponse) => {
    // The sender went away in mid-body: no request, so no answer.
    answer(fake, incoming, outgoing).catch(() => outgoing.destroy())
  }
  const clients =
    tls?.clientCa === undefined ? {} : { ca: tls.clientCa, requestCert: true, rejectUnauthorized: true }
  const server = tls
    ? createTls({ key: tls.key, cert: tls.cert, ...clients }, handler)
    : createServer(handler)
  await new Promise<void>((resolve, reject) => {
    server.once('error', reject)
    server.listen(port, '127.0.0.1', resolve)
  })
  const { port: taken } = server.address() as AddressInfo
  return {
    url: `${tls ? 'https' : 'http'}://127.0.0.1:${taken}`,
    close: () =>
      new Promise((resolve) => {
        server.close(() => resolve())
        server.closeAllConnections()
      }),
  }
}
