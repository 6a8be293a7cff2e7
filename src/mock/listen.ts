// The thin HTTP skin over the mock: what a fault says of the connection is done to a real socket.
import { createServer } from 'node:http'
import type { IncomingMessage, ServerResponse } from 'node:http'
import { once } from 'node:events'
import type { AddressInfo } from 'node:net'
import { ConnectorError } from '../model/errors.ts'
import { hostPort } from '../model/socket.ts'
import { aborted, isStreamed, pour } from './answer.ts'
import type { Answer } from './answer.ts'
import { controlled } from './control.ts'
import type { Mock } from './mock.ts'

interface ListenOptions {
  /** 0 for any that is free */
  readonly port: number
  readonly host: string
  /** Are the mock's own paths there too? See control.ts; off unless told. */
  readonly control?: boolean
}

export interface Listening {
  readonly url: string
  /** Ends open connections too. */
  close(): Promise<void>
}

function headersOf(request: IncomingMessage): Record<string, string> {
  const headers: Record<string, string> = {}
  for (const [name, value] of Object.entries(request.headers))
    if (value !== undefined) headers[name] = Array.isArray(value) ? (value.at(-1) ?? '') : value
  return headers
}

function hasBody(headers: Readonly<Record<string, string>>): boolean {
  return headers['transfer-encoding'] !== undefined || Number(headers['content-length'] ?? 0) > 0
}

/** A caller that leaves in the middle is none of our faults. */
async function* upload(request: IncomingMessage): AsyncGenerator<Uint8Array, void> {
  try {
    yield* request.iterator({ destroyOnReturn: false }) as AsyncIterable<Uint8Array>
  } catch {
    throw aborted()
  }
}

/** Nothing to wait for: one write for all pieces. */
function sendWhole(response: ServerResponse, answer: Answer, body: readonly Uint8Array[]): void {
  response.once('finish', () => answer.ended(true))
  response.once('close', () => {
    if (!response.writableFinished) answer.ended(false)
  })
  response.cork()
  for (const piece of body) response.write(piece)
  response.end()
  response.uncork()
}

async function sendPiecewise(response: ServerResponse, answer: Answer, mock: Mock, gone: AbortSignal) {
  response.flushHeaders()
  try {
    for await (const piece of pour(answer, mock.clock, gone))
      if (!response.write(piece)) await once(response, 'drain', { signal: gone })
    response.end()
  } catch (error) {
    if (gone.aborted) return
    if (!(error instanceof ConnectorError)) throw error
    // What was written must leave before the connection ends, or the cut would look like a reset.
    response.socket?.destroySoon()
  }
}

async function serve(
  mock: Mock,
  control: boolean,
  request: IncomingMessage,
  response: ServerResponse,
): Promise<void> {
  const gone = new AbortController()
  response.once('close', () => gone.abort())
  const { method = 'GET', url = '/' } = request
  const headers = headersOf(request)
  const own = control ? await controlled(mock, method, url, upload(request)) : undefined
  if (own) {
    response.writeHead(own.status).end()
    return
  }
  const body = hasBody(headers) ? { body: upload(request) } : {}
  const answer = await mock.answer({ method, url, headers, ...body }, gone.signal)
  // What an answer did not wait for is heard and dropped, or the connection's end would overtake the answer.
  request.resume()
  if (answer.manner.kind === 'reset') {
    answer.ended(false)
    request.socket.resetAndDestroy()
    return
  }
  response.sendDate = false
  response.writeHead(answer.status, answer.headers)
  if (answer.manner.kind === 'whole' && !isStreamed(answer.body)) sendWhole(response, answer, answer.body)
  else await sendPiecewise(response, answer, mock, gone.signal)
}

/** Rejects when the address cannot be had. */
export async function listenMock(mock: Mock, options: ListenOptions): Promise<Listening> {
  const { port, host, control = false } = options
  const server = createServer((request, response) => {
    serve(mock, control, request, response).catch((error: unknown) => {
      response.destroy()
      // A caller that left is nothing; anything else is a bug and must be seen.
      if (!(error instanceof ConnectorError)) server.emit('error', error)
    })
  })
  server.listen(port, host)
  await once(server, 'listening')
  const address = server.address() as AddressInfo
  return {
    url: `http://${hostPort({ host, port: address.port })}`,
    close: async () => {
      const closed = once(server, 'close')
      server.close()
      server.closeAllConnections()
      await closed
    },
  }
}
