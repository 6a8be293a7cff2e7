// Requests other than a plain GET: what is sent with them, what counts as an answer, and what an error may contain.
import { expect, it } from 'vitest'
import { ConnectorError } from '../../../../src/core/errors.ts'
import type { HttpReply, HttpRequest } from '../../../../src/contracts/platform.ts'
import { MemoryBudget } from '../../../../src/core/memory-budget.ts'
import { Secret } from '../../../../src/core/secret.ts'
import { RateLimiter } from '../../../../src/sources/http/rate-limiter.ts'
import { Client } from '../../../../src/sources/http/client.ts'
import type { Ask } from '../../../../src/sources/http/client.ts'
import { SourceNotes } from '../../../fakes/reporters.ts'
import { VirtualClock } from '../../../simulation/virtual-clock.ts'
import { driven, START } from '../../app/audit-harness.ts'

const never = new AbortController().signal

interface Sent extends HttpRequest {
  readonly received: string
}

function open(answer: { status?: number; type?: string } = {}, pauseMs = 0) {
  const clock = new VirtualClock(START)
  const sent: Sent[] = []
  const { status = 200, type = 'application/json' } = answer
  const transport = async (request: HttpRequest): Promise<HttpReply> => {
    const pieces = request.body ? [request.body] : []
    for await (const piece of request.stream ?? []) {
      if (pauseMs > 0) await clock.sleep(pauseMs)
      pieces.push(piece)
    }
    sent.push({ ...request, received: Buffer.concat(pieces).toString() })
    const body = (async function* () {
      yield Buffer.from('{}')
    })()
    return { status, headers: { 'content-type': type }, body }
  }
  const store = { load: async () => undefined, save: async () => undefined }
  const rateLimiter = new RateLimiter({ limit: () => 100, clock, random: () => 0.5, store })
  const client = new Client({
    baseUrl: 'https://api.test',
    apiKey: new Secret('the-key'),
    transport,
    clock,
    rateLimiter,
    memory: new MemoryBudget(32 * 2 ** 20),
    reporter: new SourceNotes(),
    userAgent: 'tester/1',
  })
  const send = async (ask: Ask) => {
    let text = ''
    const pieces = client.send(ask, 'live', never, async function* ({ body }) {
      for await (const piece of body) yield Buffer.from(piece).toString()
    })
    for await (const piece of pieces) text += piece
    return text
  }
  return { clock, sent, rateLimiter, send, client }
}

it('a body, its headers and its method go out with the key, under the rate limit', async () => {
  const { send, sent, rateLimiter } = open({ status: 201 })
  const headers = { 'content-type': 'application/json' }
  await send({ method: 'POST', path: '/a?b=1', headers, body: Buffer.from('{"c":2}') })
  const [{ method, url, received, headers: given } = {}] = sent
  expect([method, url, received]).toEqual(['POST', 'https://api.test/a?b=1', '{"c":2}'])
  expect(given).toMatchObject({ ...headers, authorization: 'Bearer the-key', accept: 'application/json' })
  expect(rateLimiter.used.permits).toBe(1)
})

it('no header of a request replaces the key; only the User-Agent may be another', async () => {
  const { send, sent } = open()
  await send({ method: 'DELETE', path: '/a', headers: { authorization: 'x', 'user-agent': 'y' } })
  expect(sent[0]?.headers).toMatchObject({ authorization: 'Bearer the-key', 'user-agent': 'y' })
})

it('a streamed body that continues steadily is no silence of the server', async () => {
  const { send, sent, clock } = open({}, 10_000)
  const stream = (async function* () {
    for (let i = 0; i < 10; i++) yield Buffer.alloc(2 ** 20, 'x')
  })()
  const headers = { 'content-length': String(10 * 2 ** 20) }
  await driven(clock, send({ method: 'POST', path: '/a', headers, stream }))
  expect(sent[0]?.received.length).toBe(10 * 2 ** 20)
  expect(clock.now()).toBe(START + 100_000)
})

it.each([
  ['POST', 404],
  ['DELETE', 403],
  ['GET', 500],
] as const)('the error of %s %i names method and path, and nothing of the query', async (method, status) => {
  const error = await open({ status })
    .send({ method, path: '/a/b?name=secret' })
    .catch((reason: unknown) => reason as ConnectorError)
  expect(error).toBeInstanceOf(ConnectorError)
  expect((error as ConnectorError).message).toContain(`${method} /a/b answered ${status}`)
  expect((error as ConnectorError).message).not.toContain('secret')
})

it('an error in a body is reported with method and path, once, and nothing of the query', async () => {
  const { client } = open()
  const ask = { method: 'GET', path: '/a/b?name=secret' } as const
  const failing = (error: Error) =>
    client.send(ask, 'live', never, async function* (): AsyncGenerator<never> {
      throw error
    })
  const reported = async (error: Error) =>
    failing(error)
      .next()
      .catch((reason: unknown) => (reason as Error).message)
  const bad = new ConnectorError('bad_reply', 'the reply is no page')
  expect(await reported(bad)).toBe('GET /a/b: the reply is no page')
  expect(await reported(new ConnectorError('bad_reply', 'GET /a/b answered 200'))).toBe(
    'GET /a/b answered 200',
  )
  expect(await reported(new ConnectorError('disk_full', 'no room'))).toBe('no room')
})

it('an answer that is not JSON is accepted only if it was asked for', async () => {
  const events = 'text/event-stream; charset=utf-8'
  const ask = { method: 'POST', path: '/a' } as const
  await expect(open({ type: events }).send(ask)).rejects.toMatchObject({ code: 'bad_reply' })
  const { send, sent } = open({ type: events })
  expect(await send({ ...ask, accept: ['text/event-stream'] })).toBe('{}')
  expect(sent[0]?.headers['accept']).toBe('application/json, text/event-stream')
})

it('a request may have a longer time limit than a page', async () => {
  const { send, clock } = open({}, 45_000)
  const stream = (async function* () {
    yield Buffer.from('a')
    yield Buffer.from('b')
  })()
  const limits = {
    capBytes: 1000,
    totalMs: 300_000,
    wholeBytes: 1000,
    idleMs: 100_000,
    minBytesPerSecond: 1,
  }
  expect(await driven(clock, send({ method: 'POST', path: '/a', stream, limits }))).toBe('{}')
})
