// The control socket beside the journal: how commands reach the daemon that uses it, independent of
// its HTTP listener. For its owner only.
import { chmod, lstat, unlink } from 'node:fs/promises'
import { createServer } from 'node:http'
import type { IncomingMessage, Server, ServerResponse } from 'node:http'
import { z } from 'zod'
import { ConnectorError, errnoOf } from '../core/errors.ts'
import { controlPath } from '../journal/sqlite/files.ts'
import type { RawReply } from './client.ts'
import { questions } from './questions.ts'
import type { ControlOptions } from './questions.ts'

export interface Control {
  close(): Promise<void>
}

const MAX_BODY_BYTES = 64 * 1024
const MAX_CONNECTIONS = 16
const TIMEOUT_MS = 10_000

async function bodyOf(request: IncomingMessage): Promise<unknown> {
  const pieces: Buffer[] = []
  let length = 0
  for await (const piece of request as AsyncIterable<Buffer>) {
    length += piece.length
    // Ending the read early would cut the socket before the answer is sent, so the rest is read and
    // discarded.
    if (length <= MAX_BODY_BYTES) pieces.push(piece)
  }
  if (length > MAX_BODY_BYTES) throw new SyntaxError('too long')
  return length === 0 ? {} : JSON.parse(Buffer.concat(pieces).toString())
}

interface Answer {
  readonly status: number
  readonly body: Uint8Array | object
}

/** `name`: method and path. */
async function answerTo(
  name: string,
  asked: () => Promise<unknown>,
  options: ControlOptions,
): Promise<Answer> {
  const question = questions.get(name)
  if (!question) return { status: 404, body: { message: 'unknown request' } }
  try {
    const request = await asked()
    await options.afterChange?.()
    const body = await question(options, request)
    return body === undefined ? { status: 404, body: { message: 'none' } } : { status: 200, body }
  } catch (error) {
    if (error instanceof ConnectorError)
      return { status: 500, body: { code: error.code, message: error.message } }
    if (error instanceof z.ZodError || error instanceof SyntaxError)
      return { status: 400, body: { message: 'the request is malformed' } }
    const cause = error instanceof Error ? error.cause : undefined
    // Our own error messages may be sent; those of other errors may quote content.
    options.log.error(
      'A command that was sent to this daemon (control socket) failed; the daemon continues',
      {
        question: name,
        error: error instanceof Error ? error.name : 'unknown',
        ...(cause instanceof ConnectorError && { code: cause.code, cause: cause.message }),
      },
    )
    return { status: 500, body: { message: 'the daemon could not answer; see its log for the error' } }
  }
}

/** The answer to a question that came another way than through the socket. `body`: JSON. */
export async function answerOf(
  { question, body }: { readonly question: string; readonly body: string },
  options: ControlOptions,
): Promise<RawReply> {
  const answer = await answerTo(question, async () => JSON.parse(body) as unknown, options)
  return { status: answer.status, bytes: bytesOf(answer) }
}

const bytesOf = ({ body }: Answer): Buffer =>
  body instanceof Uint8Array ? Buffer.from(body) : Buffer.from(`${JSON.stringify(body)}\n`)

function send(response: ServerResponse, answer: Answer): void {
  const bytes = bytesOf(answer)
  response.writeHead(answer.status, {
    'content-type': answer.body instanceof Uint8Array ? 'application/octet-stream' : 'application/json',
    'content-length': bytes.length,
    connection: 'close',
  })
  response.end(bytes)
}

/** This process has the journal's lock, so an existing socket was left by a killed daemon. */
async function removeStale(path: string): Promise<void> {
  const found = await lstat(path).catch(() => undefined)
  if (found?.isSocket() === true) await unlink(path)
}

function listen(server: Server, path: string): Promise<void> {
  return new Promise((resolve, reject) => {
    server.once('error', reject)
    server.listen(path, () => {
      server.off('error', reject)
      resolve()
    })
  })
}

function closing(server: Server): Promise<void> {
  return new Promise((resolve) => {
    server.close(() => resolve())
    server.closeAllConnections()
  })
}

/**
 * The journal must be open. If the socket cannot be created, that is logged and the daemon runs
 * without it: delivery matters more than commands.
 */
export async function openControl(options: ControlOptions): Promise<Control> {
  const { journalPath, log } = options
  const without: Control = { close: () => Promise.resolve() }
  const path = controlPath(journalPath)
  const lost =
    'no command can reach this daemon: status, dead-letters, quarantine, replay, backfill, reconcile, tap'
  if (path === undefined) {
    log.warn(
      'There is no control socket, because the path of the journal is too long for one: set journal.path to a shorter path',
      { journalPath, lost },
    )
    return without
  }
  if (path !== `${journalPath}.sock`)
    log.warn('The path of the journal is long: the control socket has a short name beside it', { path })
  const server = createServer(
    { headersTimeout: TIMEOUT_MS, requestTimeout: TIMEOUT_MS, maxHeaderSize: 8192 },
    (request, response) => {
      const name = `${request.method ?? ''} ${request.url ?? ''}`
      void answerTo(name, () => bodyOf(request), options).then((answer) => send(response, answer))
    },
  )
  server.maxConnections = MAX_CONNECTIONS
  try {
    await removeStale(path)
    await listen(server, path)
    await chmod(path, 0o600)
  } catch (error) {
    if (server.listening) await closing(server)
    const code = errnoOf(error, 'unknown')
    log.warn('There is no control socket: it cannot be created beside the journal', { path, code, lost })
    return without
  }
  return { close: () => closing(server) }
}
