// The canary's request to the assistant: a form with the prompt, an answer of any shape that is read to its end, and no more of it than a page.
import { describe, expect, it } from 'vitest'
import { openMock } from '../../../../src/mock/mock.ts'
import { readForm } from '../../../../src/mock/multipart.ts'
import type { HttpRequest, Transport } from '../../../../src/contracts/platform.ts'
import { MemoryBudget } from '../../../../src/core/memory-budget.ts'
import { Secret } from '../../../../src/core/secret.ts'
import { prompted } from '../../../../src/sources/assistant/assistant.ts'
import { RateLimiter } from '../../../../src/sources/http/rate-limiter.ts'
import { Client } from '../../../../src/sources/http/client.ts'
import { SourceNotes } from '../../../fakes/reporters.ts'
import { VirtualClock } from '../../../simulation/virtual-clock.ts'
import { START } from '../../app/audit-harness.ts'

const never = new AbortController().signal

function open(transport: Transport, clock = new VirtualClock(START)) {
  const store = { load: async () => undefined, save: async () => undefined }
  const client = new Client({
    ...{ baseUrl: 'https://api.test', apiKey: new Secret('acme-key'), transport, clock },
    rateLimiter: new RateLimiter({ limit: () => 20, clock, random: () => 0.5, store }),
    memory: new MemoryBudget(32 * 2 ** 20),
    reporter: new SourceNotes(),
    userAgent: 'tester/1',
  })
  return (prompt: string) => prompted(client, { prompt, userAgent: 'canary/1', random: () => 0.5 }, never)
}

const answering =
  (status: number, headers: Record<string, string>, pieces: Iterable<Uint8Array>): Transport =>
  async () => ({
    ...{ status, headers },
    body: (async function* () {
      yield* pieces
    })(),
  })

it('the request goes to the documented path as a form with the prompt alone, under its own User-Agent', async () => {
  const sent: HttpRequest[] = []
  const received: Uint8Array[] = []
  const ask = open(async (request, signal) => {
    sent.push(request)
    for await (const piece of request.stream ?? []) received.push(piece)
    const headers = { 'content-type': 'application/json', date: new Date(START).toUTCString() }
    return answering(200, headers, [Buffer.from('{"response":"OK"}')])(request, signal)
  })
  expect(await ask('Is clause 3 void? – §§\r\n')).toBe(START)
  const [request, ...others] = sent
  if (!request || others.length > 0) return expect.fail('not one request')
  expect(`${request.method} ${request.url}`).toBe('POST https://api.test/api/v2/completion')
  expect(request.headers).toMatchObject({ 'user-agent': 'canary/1', authorization: 'Bearer acme-key' })
  const body = Buffer.concat(received)
  expect(request.headers['content-length']).toBe(String(body.length))
  const parts = readForm(request.headers['content-type'], body) ?? expect.fail('no form')
  expect(parts.map(({ name, bytes }) => [name, Buffer.from(bytes).toString()])).toEqual([
    ['prompt', 'Is clause 3 void? – §§\r\n'],
  ])
})

describe('an answer', () => {
  it.each([403, 500])('of %d is an error of its code', async (status) => {
    const ask = open(answering(status, {}, [Buffer.from('{"error":"planted"}')]))
    await expect(ask('x')).rejects.toMatchObject({ code: status === 403 ? 'forbidden' : 'server_error' })
  })

  it('that has no end is dropped at the cap', async () => {
    const flood = function* () {
      for (;;) yield Buffer.alloc(64 * 1024, 'x')
    }
    const ask = open(answering(200, { 'content-type': 'text/plain' }, flood()))
    await expect(ask('x')).rejects.toMatchObject({ code: 'too_large' })
  })

  const switches = [
    { assistant_body: 'response' },
    { assistant_body: 'event' },
    { assistant_body: 'text' },
    { assistant_accepts: 'form' },
  ] as const
  it.each(switches)('of the mock with %j is read', async (one) => {
    const clock = new VirtualClock(START)
    const mock = openMock({ clock, traffic: { entriesPerHour: 0 }, limits: { assistant: 0 }, switches: one })
    expect(await open(mock.transport, clock)('Is clause 3 void?')).toBeTypeOf('number')
  })

  it.each(['text/event-stream', 'application/x-ndjson', 'text/plain; charset=utf-8'])(
    'of %s is read',
    async (type) => {
      expect(
        await open(answering(200, { 'content-type': type }, [Buffer.from('data: x\n\n')]))('x'),
      ).toBeUndefined()
    },
  )
})
