// An HTTP server over the mock: applies connection faults to a real socket.
import { once } from 'node:events'
import { createServer } from 'node:http'
import type { IncomingMessage, ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { hostPort } from '../contracts/platform.ts'
import { ConnectorError } from '../core/errors.ts'
import { aborted, pour } from './answer.ts'
import type { Answer } from './answer.ts'
import type { Mock } from './mock.ts'
import { readBody } from './multipart.ts'

interface ListenOptions {
  /** 0 for any free port */
  readonly port: number
  readonly host: string
  /** Whether the mock's own path is served too, which rotates keys; default off. */
  readonly control?: boolean
}

export interface Listening {
  readonly url: string
  /** Ends open connections too. */
  close(): Promise<void>
}

function headersOf({ headersDistinct }: IncomingMessage): Record<string, string> {
  return Object.fromEntries(
    Object.entries(headersDistinct).map(([name, values]) => [name, values?.join(', ') ?? '']),
  )
}

function hasBody(headers: Readonly<Record<string, string>>): boolean {
  return headers['transfer-encoding'] !== undefined || Number(headers['content-length'] ?? 0) > 0
}

/** A caller that leaves during an upload is no fault of ours. */
async function* upload(request: IncomingMessage): AsyncGenerator<Uint8Array, void> {
  try {
    yield* request.iterator({ destroyOnReturn: false }) as AsyncIterable<Uint8Array>
  } catch {
    throw aborted()
  }
}

/** A body in memory, without pauses: one write for all pieces. */
function sendWhole(response: ServerResponse, answer: Answer): void {
  response.once('finish', () => answer.ended(true))
  response.once('close', () => {
    if (!response.writableFinished) answer.ended(false)
  })
  response.cork()
  for (const piece of answer.body.pieces()) response.write(piece)
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
  const status = control ? await controlStatus(mock, method, url, upload(request)) : undefined
  if (status !== undefined) {
    response.writeHead(status).end()
    return
  }
  const body = hasBody(headers) ? { body: upload(request) } : {}
  const answer = await mock.answer({ method, url, headers, ...body }, gone.signal)
  // Unread bytes of the request would reset the connection before the answer arrives.
  request.resume()
  if (answer.manner.kind === 'reset') {
    answer.ended(false)
    request.socket.resetAndDestroy()
    return
  }
  response.sendDate = false
  response.writeHead(answer.status, answer.headers)
  if (answer.manner.kind === 'whole' && answer.body.length !== undefined) sendWhole(response, answer)
  else await sendPiecewise(response, answer, mock, gone.signal)
}

/** Rejects if the address is not available. */
export async function listenMock(mock: Mock, options: ListenOptions): Promise<Listening> {
  const { port, host, control = false } = options
  const server = createServer((request, response) => {
    serve(mock, control, request, response).catch((error: unknown) => {
      response.destroy()
      // A caller that left is ignored; anything else is a bug and must be visible.
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

const MOST_BYTES = 4096

/**
 * The mock's own path beside the API, for administration; undefined for any other path.
 * `POST /mock/rotate-key` takes `{"old": …, "new": …}`: 404 if there is no such key.
 */
async function controlStatus(
  mock: Mock,
  method: string,
  path: string,
  body: AsyncIterable<Uint8Array>,
): Promise<204 | 400 | 404 | undefined> {
  if (method !== 'POST' || path !== '/mock/rotate-key') return undefined
  const bytes = await readBody(body, MOST_BYTES)
  const keys = bytes && keysOf(bytes)
  if (!keys) return 400
  return mock.rotateKey(keys.old, keys.fresh) ? 204 : 404
}

function keysOf(body: Uint8Array): { old: string; fresh: string } | undefined {
  try {
    const { old, new: fresh } = JSON.parse(Buffer.from(body).toString()) as Record<string, unknown>
    return typeof old === 'string' && typeof fresh === 'string' && /^[!-~]+$/.test(fresh)
      ? { old, fresh }
      : undefined
  } catch {
    return undefined
  }
}
