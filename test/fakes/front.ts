// A front before a server on a real socket: an HTTP front that sends interim answers, or a load balancer one of whose two nodes is bad.
import { createServer, request as ask } from 'node:http'
import type { IncomingMessage, ServerResponse } from 'node:http'
import type { AddressInfo, Socket } from 'node:net'

export interface FrontOptions {
  /** of these kinds, all before each final answer */
  readonly interim?: readonly (100 | 102 | 103)[]
  /** the answer of the bad node, which gets the first connection and then every other; each connection stays with its node */
  readonly badNode?: number
}

export interface Front {
  readonly url: string
  /** how many requests each connection had, in the order of their creation */
  readonly connections: readonly number[]
  close(): Promise<void>
}

/** Of the one connection only. */
const ownHeaders = ['connection', 'keep-alive']
/** Longer than any test. */
const KEEP_ALIVE_MS = 75_000

function sendInterim(response: ServerResponse, kind: 100 | 102 | 103): void {
  if (kind === 100) response.writeContinue()
  else if (kind === 102) response.writeProcessing()
  else response.writeEarlyHints({ link: '</style.css>; rel=preload; as=style' })
}

/** To the server behind it, byte for byte; a broken connection stays one. */
function forward(target: string, incoming: IncomingMessage, outgoing: ServerResponse): void {
  const { method, url = '/', headers } = incoming
  const onward = ask(new URL(url, target), { method, headers: { ...headers, connection: 'close' } })
  onward.on('response', (reply) => {
    const kept = Object.entries(reply.headers).filter(([name]) => !ownHeaders.includes(name))
    outgoing.writeHead(reply.statusCode ?? 502, Object.fromEntries(kept))
    reply.on('error', () => outgoing.destroy()).pipe(outgoing)
  })
  onward.on('error', () => outgoing.destroy())
  outgoing.on('close', () => onward.destroy())
  incoming.pipe(onward)
}

/** Listens on the loopback, before `target`. */
export async function openFront(
  target: string,
  { interim = [], badNode }: FrontOptions,
  port = 0,
): Promise<Front> {
  const connections: number[] = []
  const numbers = new WeakMap<Socket, number>()
  const server = createServer({ keepAliveTimeout: KEEP_ALIVE_MS }, (incoming, outgoing) => {
    const number = numbers.get(incoming.socket) ?? 0
    connections[number] = (connections[number] ?? 0) + 1
    for (const kind of interim) sendInterim(outgoing, kind)
    if (badNode === undefined || number % 2 === 1) {
      forward(target, incoming, outgoing)
      return
    }
    incoming.resume()
    incoming.on('end', () =>
      outgoing
        .writeHead(badNode, { 'content-type': 'text/plain', 'retry-after': '1' })
        .end('no healthy upstream'),
    )
  })
  server.on('connection', (socket: Socket) => {
    numbers.set(socket, connections.length)
    connections.push(0)
  })
  await new Promise<void>((resolve, reject) => {
    server.once('error', reject)
    server.listen(port, '127.0.0.1', resolve)
  })
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    connections,
    close: () =>
      new Promise((resolve) => {
        server.close(() => resolve())
        server.closeAllConnections()
      }),
  }
}
