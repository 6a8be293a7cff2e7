// The assistant's client: what it sends and refuses to send, and an answer in whatever shape it comes; against the mock with each of its switches.
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { openMock } from '../../../../src/mock/mock.ts'
import { readForm } from '../../../../src/mock/multipart.ts'
import type { Switches } from '../../../../src/mock/switches.ts'
import { ConnectorError } from '../../../../src/core/errors.ts'
import type { HttpReply, HttpRequest, Transport } from '../../../../src/contracts/platform.ts'
import { Room } from '../../../../src/core/memory-budget.ts'
import { Secret } from '../../../../src/core/secret.ts'
import {
  Assistant,
  assistantText,
  type AssistantOptions,
  type Prompt,
} from '../../../../src/sources/assistant/assistant.ts'
import { Budget } from '../../../../src/sources/http/rate-limiter.ts'
import { Client } from '../../../../src/sources/http/client.ts'
import { SourceNotes } from '../../../fakes/watches.ts'
import { VirtualClock } from '../../../simulation/virtual-clock.ts'
import { START } from '../../app/desk.ts'

const never = new AbortController().signal

async function* chunked(...chunks: readonly (string | Uint8Array)[]): AsyncGenerator<Uint8Array> {
  for (const chunk of chunks) yield typeof chunk === 'string' ? Buffer.from(chunk) : chunk
}

function open(
  transport: Transport,
  options: Partial<AssistantOptions> = {},
  clock = new VirtualClock(START),
) {
  const store = { load: async () => undefined, save: async () => undefined }
  const client = new Client({
    ...{ baseUrl: 'https://api.test', apiKey: new Secret('acme-key'), transport, clock },
    budget: new Budget({ limit: () => 20, clock, random: () => 0.5, store }),
    room: new Room(32 * 2 ** 20),
    watch: new SourceNotes(),
    userAgent: 'tester/1',
  })
  const assistant = new Assistant({ client, ...options })
  return async (prompt: Prompt) => {
    const pieces: string[] = []
    const answers = assistant.complete(prompt, never, async function* (answer) {
      for await (const piece of answer.pieces) yield piece
    })
    for await (const piece of answers) pieces.push(piece)
    return pieces
  }
}

function listening(body = '{"response":"OK"}', type = 'application/json') {
  const sent: HttpRequest[] = []
  const transport: Transport = async (request): Promise<HttpReply> => {
    sent.push(request)
    return { status: 200, headers: { 'content-type': type }, body: chunked(body) }
  }
  return { sent, transport }
}

/** By the mock's own reader of forms. */
function fieldsOf({ body = new Uint8Array(), headers }: HttpRequest): Record<string, string> {
  const parts = readForm(headers['content-type'], body) ?? expect.fail('no form')
  const told = parts.map(({ name, fileName, contentType, bytes }) => {
    const text = Buffer.from(bytes).toString()
    return [name, fileName === undefined ? text : `${fileName} ${contentType ?? ''} ${text}`]
  })
  return Object.fromEntries(told) as Record<string, string>
}

describe('a request', () => {
  it('goes to the documented path as a form, with the fields that were given and no others', async () => {
    const { sent, transport } = listening()
    const ask = open(transport)
    expect(await ask({ prompt: 'Is clause 3 void? – §§\r\n' })).toEqual(['OK'])
    await ask({ prompt: 'x', stream: true, mode: 'draft', model: 'beta-opus-4-7', userAgent: 'canary/1' })
    expect(sent.map(({ method, url }) => `${method} ${url}`)).toEqual(
      Array(2).fill('POST https://api.test/api/v2/completion'),
    )
    expect(sent.map(fieldsOf)).toEqual([
      { prompt: 'Is clause 3 void? – §§\r\n' },
      { prompt: 'x', stream: 'true', mode: 'draft', model: 'beta-opus-4-7' },
    ])
    expect(sent.map(({ headers }) => headers['user-agent'])).toEqual(['tester/1', 'canary/1'])
    expect(sent.every(({ headers }) => headers['authorization'] === 'Bearer acme-key')).toBe(true)
  })

  it('carries a file under the name that is set, and nothing in its name or type begins a header of its own', async () => {
    const { sent, transport } = listening()
    const ask = open(transport, { fileField: 'document' })
    const bytes = Buffer.from('%PDF\r\n--form-\r\n')
    await ask({
      prompt: 'x',
      file: { name: 'a"b\r\nX-Evil: 1.pdf', type: 'application/pdf\r\nX-Evil: 1', bytes },
    })
    const text = Buffer.from(sent[0]?.body ?? []).toString()
    expect(text).not.toMatch(/^X-Evil/m)
    expect(text).toContain('name="document"; filename="a%22b%0D%0AX-Evil: 1.pdf"')
    expect(text).toContain('\r\n\r\n%PDF\r\n--form-\r\n\r\n--')
  })

  it('goes as JSON where that is said, but not with a file', async () => {
    const { sent, transport } = listening()
    const ask = open(transport, { fields: 'json' })
    await ask({ prompt: 'x', model: 'alpha-5' })
    await ask({ prompt: 'x', file: { name: 'a', bytes: Buffer.from('b') } })
    expect(sent[0]?.headers['content-type']).toBe('application/json')
    expect(JSON.parse(Buffer.from(sent[0]?.body ?? []).toString())).toEqual({ prompt: 'x', model: 'alpha-5' })
    expect(fieldsOf(sent[1] ?? expect.fail())).toEqual({
      prompt: 'x',
      file: 'a application/octet-stream b',
    })
  })

  const file = { name: 'a', bytes: Buffer.from('b') }
  it.each<[string, Prompt, string]>([
    ['an empty prompt', { prompt: '' }, 'it is empty'],
    ['a prompt above 20,000 characters (spec §2.7)', { prompt: 'p'.repeat(20_001) }, 'longer than 20000'],
    ['one above 4,000 with a file (spec §2.7)', { prompt: 'p'.repeat(4_001), file }, 'longer than 4000'],
    [
      'a model of no known slug (spec §2.7)',
      { prompt: 'p', model: 'ppp' as 'alpha-5' },
      'no model of this name',
    ],
  ])('is not sent with %s, and the error holds nothing of it', async (_, prompt, told) => {
    const { sent, transport } = listening()
    const error: unknown = await open(transport)(prompt).catch((thrown: unknown) => thrown)
    if (!(error instanceof ConnectorError)) return expect.fail('it went out')
    expect([error.code, sent.length]).toEqual(['bad_request', 0])
    expect(error.message).toContain(told)
    expect(error.message).not.toContain('ppp')
  })

  it('may have as many characters as are documented, whatever they take', async () => {
    const { sent, transport } = listening()
    const ask = open(transport)
    await ask({ prompt: '😀'.repeat(20_000) })
    await ask({ prompt: '😀'.repeat(4_000), file })
    expect(sent).toHaveLength(2)
  })

  it('that the server refuses is an error of its code', async () => {
    const refuse: Transport = async () => ({ status: 403, headers: {}, body: chunked('{"error":"planted"}') })
    await expect(open(refuse)({ prompt: 'x' })).rejects.toMatchObject({ code: 'forbidden' })
  })

  it('whose answer has no end is left at the cap', async () => {
    const flood: Transport = async () => ({
      status: 200,
      headers: { 'content-type': 'text/plain' },
      body: (async function* () {
        for (;;) yield Buffer.alloc(64 * 1024, 'x')
      })(),
    })
    await expect(open(flood)({ prompt: 'x' })).rejects.toMatchObject({ code: 'too_large' })
  })
})

describe('an answer', () => {
  const cases: readonly [string, boolean, string, readonly string[]][] = [
    ['JSON', false, '{"response":"a\\nb"}', ['a\nb']],
    ['pretty JSON', false, ' {\n  "answer": "a"\n}\n', ['a']],
    ['JSON deeper down', false, '{"response":{"content":{"text":"a"}}}', ['a']],
    ['JSON that calls nothing so', false, '{"x":[1,2.50]}', ['{"x":[1,2.50]}']],
    ['a JSON string', false, '"a"', ['a']],
    ['what only begins as JSON', false, '{a plain answer', ['{a plain answer']],
    ['plain text', false, 'An answer: yes', ['An answer: yes']],
    ['nothing', false, '', []],
    [
      'a JSON object a line',
      true,
      '{"response":"a"}\n\n{"delta":{"content":"b"}}\r\n{"text":"c"}',
      ['a', 'b', 'c'],
    ],
    ['whole JSON though a stream was asked for', true, '{\n"response": "a"\n}', ['a']],
    [
      'events',
      true,
      ': hi\nevent: x\ndata: {"response":"a"}\n\ndata:b\ndata: c\n\ndata: [DONE]\n\n',
      ['a', 'b\nc'],
    ],
    ['events whose last is not ended', true, 'data: a\r\n\r\ndata: b', ['a', 'b']],
  ]

  const read = async (stream: boolean, chunks: readonly Uint8Array[]) => {
    const pieces: string[] = []
    for await (const piece of assistantText(chunked(...chunks), stream)) pieces.push(piece)
    return pieces
  }

  it.each(cases)('as %s is read', async (_, stream, body, wanted) => {
    expect(await read(stream, [Buffer.from(body)])).toEqual(wanted)
  })

  it('is the same wherever the network cuts it', async () => {
    await fc.assert(
      fc.asyncProperty(
        fc.constantFrom(...cases),
        fc.array(fc.nat(80)),
        async ([, stream, body, wanted], cuts) => {
          const bytes = Buffer.from(body.replace('answer', 'änsw€r😀'))
          const places = [
            0,
            ...cuts.map((cut) => cut % (bytes.length + 1)).toSorted((a, b) => a - b),
            bytes.length,
          ]
          const chunks = places.slice(1).map((end, i) => bytes.subarray(places[i], end))
          const whole = await read(stream, [bytes])
          // Plain text comes in the network's own pieces.
          expect((await read(stream, chunks)).join('')).toBe(whole.join(''))
          if (!body.includes('answer')) expect(whole).toEqual(wanted)
        },
      ),
    )
  })
})

describe('against the mock', () => {
  function mocked(switches: Partial<Switches>, options: Partial<AssistantOptions> = {}) {
    const clock = new VirtualClock(START)
    const mock = openMock({ clock, traffic: { entriesPerHour: 0 }, limits: { assistant: 0 }, switches })
    return open(mock.transport, options, clock)
  }
  const prompt = 'Is clause 3 void?'

  const bodies = ['response', 'event', 'text'] as const
  it.each(bodies)('a whole answer as %s', async (assistant_body) => {
    const [answer, ...rest] = await mocked({ assistant_body })({ prompt })
    expect(rest).toEqual([])
    expect(answer).toMatch(/^On the question “Is clause 3 void\?”:\n\n/)
  })

  const streams = ['sse', 'ndjson', 'text'] as const
  it.each(streams)(
    'a streamed answer as %s, in the pieces that the body itself tells apart',
    async (assistant_stream_body) => {
      const pieces = await mocked({ assistant_stream_body })({ prompt, stream: true })
      if (assistant_stream_body !== 'text') expect(pieces.length).toBeGreaterThan(1)
      expect(pieces.join('')).toMatch(/^On the question “Is clause 3 void\?”:\n\n/)
    },
  )

  it('a form where only that is taken, JSON where only that is, and a file under each name', async () => {
    expect(await mocked({ assistant_accepts: 'form' })({ prompt })).toHaveLength(1)
    expect(await mocked({ assistant_accepts: 'json' }, { fields: 'json' })({ prompt })).toHaveLength(1)
    for (const fileField of ['file', 'files', 'document', 'attachment'] as const) {
      const ask = mocked({ assistant_file_field: fileField }, { fileField })
      const [answer] = await ask({ prompt, file: { name: 'a.pdf', bytes: Buffer.from('%PDF') } })
      expect(answer).toContain('(see a.pdf)')
    }
  })
})
