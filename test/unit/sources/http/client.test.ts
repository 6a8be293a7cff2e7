// One request, one answer: every status, limit and kind of bad body has its code; no message contains a secret.
import { brotliCompressSync, deflateSync, gzipSync } from 'node:zlib'
import { expect, it } from 'vitest'
import { openMock } from '../../../../src/mock/mock.ts'
import type { FaultName } from '../../../../src/mock/switches.ts'
import { ConnectorError } from '../../../../src/core/errors.ts'
import type { ErrorCode } from '../../../../src/core/errors.ts'
import type { HttpReply, HttpRequest, Transport } from '../../../../src/contracts/platform.ts'
import { MemoryBudget } from '../../../../src/core/memory-budget.ts'
import { Secret } from '../../../../src/core/secret.ts'
import { RateLimiter } from '../../../../src/sources/http/rate-limiter.ts'
import { Client } from '../../../../src/sources/http/client.ts'
import type { Answer, Ask } from '../../../../src/sources/http/client.ts'
import { SourceNotes } from '../../../fakes/reporters.ts'
import { VirtualClock, settled } from '../../../simulation/virtual-clock.ts'
import { driven, START } from '../../app/audit-harness.ts'

const KEY = 'key-that-nobody-may-see'
const CONTENT = 'content-that-nobody-may-see'
const PATH = '/api/v1/logs/audit'
const never = new AbortController().signal

interface Given {
  readonly status?: number
  readonly headers?: Record<string, string>
  readonly body?: AsyncIterable<Uint8Array> | string | Uint8Array
}

/** Reports whether its body was read to the end, dropped, or never touched. */
function reply({ status = 200, headers = { 'content-type': 'application/json' }, body = '[]' }: Given) {
  const state = { left: false, whole: false }
  const pieces = typeof body === 'string' || body instanceof Uint8Array ? pieced([Buffer.from(body)]) : body
  const inner = pieces[Symbol.asyncIterator]()
  const iterator: AsyncIterator<Uint8Array> = {
    next: async () => {
      const step = await inner.next()
      if (step.done) state.whole = true
      return step
    },
    return: async () => {
      state.left = true
      await inner.return?.()
      return { done: true, value: undefined }
    },
  }
  const given: HttpReply = { status, headers, body: { [Symbol.asyncIterator]: () => iterator } }
  return { given, state }
}

async function* pieced(pieces: Iterable<Uint8Array>): AsyncGenerator<Uint8Array> {
  for (const piece of pieces) yield piece
}

function open(transport: Transport, secret = new Secret(KEY)) {
  const clock = new VirtualClock(START)
  const memory = new MemoryBudget(32 * 2 ** 20)
  const reporter = new SourceNotes()
  const store = { load: async () => undefined, save: async () => undefined }
  const rateLimiter = new RateLimiter({ limit: () => 100, clock, random: () => 0.5, store })
  const client = new Client({
    baseUrl: 'https://api.test',
    apiKey: secret,
    transport,
    clock,
    rateLimiter,
    memory,
    reporter,
    userAgent: 'tester/1',
  })
  /** The body's bytes, counted; nothing of it is kept. */
  const ask = async (path = PATH, signal = never) => {
    let bytes = 0
    const counts = client.get(path, 'live', signal, async function* ({ body }) {
      for await (const chunk of body) yield chunk.length
    })
    for await (const length of counts) bytes += length
    return bytes
  }
  return { clock, memory, reporter, rateLimiter, client, ask }
}

const answers = (given: Given) => open(async () => reply(given).given)

async function errorOf(asked: Promise<unknown>): Promise<ConnectorError> {
  try {
    await asked
  } catch (error) {
    if (error instanceof ConnectorError) return error
    throw error
  }
  throw new Error('it went well')
}

it.each<[number, ErrorCode]>([
  [400, 'bad_request'],
  [401, 'unauthorized'],
  [403, 'forbidden'],
  [404, 'not_found'],
  [408, 'timeout'],
  [410, 'not_found'],
  [413, 'too_large'],
  [422, 'bad_request'],
  [429, 'rate_limited'],
  [500, 'server_error'],
  [502, 'server_error'],
  [503, 'server_error'],
  [301, 'redirected'],
  [302, 'redirected'],
  [307, 'redirected'],
  [308, 'redirected'],
  [206, 'bad_reply'],
  [418, 'bad_reply'],
])('status %i is %s, and its permit, its memory and its body are released', async (status, code) => {
  const { given, state } = reply({ status, body: `{"error":"${CONTENT}"}` })
  const { ask, rateLimiter, memory, reporter } = open(async () => given)
  const error = await errorOf(ask())
  expect(error.code).toBe(code)
  expect(error.message).toContain(String(status))
  expect(error.message).not.toContain(CONTENT)
  expect(state.left).toBe(true)
  expect(memory.usedBytes).toBe(0)
  expect(rateLimiter.used.permits).toBe(1)
  expect(reporter.codes).toEqual([String(status)])
})

it('200 and 201 are success', async () => {
  expect(await answers({ status: 200, body: '[1]' }).ask()).toBe(3)
  expect(await answers({ status: 201, body: '[1]' }).ask()).toBe(3)
})

it('a 204 is an empty answer for a caller that allows one, and no answer for any other', async () => {
  const { client, rateLimiter, memory } = answers({
    status: 204,
    body: '',
    headers: { 'content-type': 'text/html' },
  })
  const use = async function* ({ none, body }: Answer) {
    let bytes = 0
    for await (const chunk of body) bytes += chunk.length
    yield { none, bytes }
  }
  const sent = async (ask: Pick<Ask, 'orNone'>) => {
    for await (const seen of client.send({ method: 'GET', path: PATH, ...ask }, 'live', never, use))
      return seen
    return undefined
  }
  expect(await sent({ orNone: true })).toEqual({ none: true, bytes: 0 })
  await expect(sent({})).rejects.toMatchObject({ code: 'bad_reply' })
  expect([memory.usedBytes, rateLimiter.used.permits]).toEqual([0, 2])
})

it('a redirect is never followed: one request leaves, and the message says what to set', async () => {
  const asked: HttpRequest[] = []
  const { ask } = open(async (request) => {
    asked.push(request)
    return reply({ status: 302, headers: { location: 'https://elsewhere.invalid/' } }).given
  })
  const error = await errorOf(ask())
  expect(error.message).toContain('base_url')
  expect(error.message).not.toContain('elsewhere')
  expect(asked).toHaveLength(1)
})

it('a 404 after a good answer says that the entry is gone, and not that base_url is wrong', async () => {
  let status = 200
  const { ask } = open(async () => reply({ status }).given)
  await ask()
  status = 404
  expect((await errorOf(ask())).message).toMatch(
    / answered 404: the API no longer has the entry at which reading continues$/,
  )
})

it('a 404 of the API may mean none; one in HTML means a wrong address and blocks', async () => {
  const json = await errorOf(answers({ status: 404, body: '{"error":"Not found"}' }).ask())
  expect(json.code).toBe('not_found')
  const html = await errorOf(
    answers({ status: 404, headers: { 'content-type': 'text/html' }, body: '<html>' }).ask(),
  )
  expect([html.code, html.action]).toEqual(['misconfigured', 'block'])
  expect(html.message).toContain('base_url')
})

it.each([
  ['17', 17_000],
  [' 17 ', 17_000],
  ['0', 0],
  ['1.5', 1_500],
  ['999999', 3_600_000],
  [new Date(START + 90_000).toUTCString(), 90_000],
  [new Date(START - 90_000).toUTCString(), 0],
  ['', undefined],
  ['soon', undefined],
  ['-5', undefined],
  ['5 minutes', undefined],
])('retry-after %j waits %s ms', async (hint, waitMs) => {
  const headers = { 'content-type': 'application/json', 'retry-after': hint }
  for (const status of [429, 503]) {
    const error = await errorOf(answers({ status, headers }).ask())
    expect(error.retryAfterMs).toBe(waitMs)
  }
})

it('a date in Retry-After is read by the clock of the server that wrote it', async () => {
  const skewed = START - 3_600_000
  const headers = {
    date: new Date(skewed).toUTCString(),
    'retry-after': new Date(skewed + 20_000).toUTCString(),
  }
  expect((await errorOf(answers({ status: 429, headers }).ask())).retryAfterMs).toBe(20_000)
})

it.each([
  [{}, 'for about a minute'],
  [{ 'retry-after': '20' }, 'before the time in the answer'],
])('a 429 names a possible cause and the pause: %j', async (headers, until) => {
  const { message } = await errorOf(answers({ status: 429, headers }).ask())
  expect(message).toMatch(
    /answered 429: the API limits requests: none is sent .* another client may use the same key/,
  )
  expect(message).toContain(`none is sent ${until}, nothing is lost. If this repeats,`)
})

it('after a 429 the next request waits for its Retry-After', async () => {
  let status = 429
  const { ask, clock } = open(async () => reply({ status, headers: { 'retry-after': '42' } }).given)
  await errorOf(ask())
  status = 200
  await driven(clock, ask())
  expect(clock.now()).toBe(START + 42_000)
})

it('a request carries the key, asks for plain JSON and names the program', async () => {
  const asked: HttpRequest[] = []
  const { ask } = open(async (request) => {
    asked.push(request)
    return reply({}).given
  })
  await ask(`${PATH}?from=x&take=2`)
  expect(asked[0]).toMatchObject({
    method: 'GET',
    url: `https://api.test${PATH}?from=x&take=2`,
    headers: {
      authorization: `Bearer ${KEY}`,
      accept: 'application/json',
      'accept-encoding': 'identity',
      'user-agent': 'tester/1',
    },
  })
})

it('a key that changed in its file is used within a second', async () => {
  const clock = new VirtualClock(START)
  let key = 'old'
  const seen: string[] = []
  const { ask, clock: own } = open(
    async ({ headers }) => {
      seen.push(headers['authorization'] ?? '')
      return reply({}).given
    },
    new Secret('old', () => key),
  )
  expect(clock.now()).toBe(own.now())
  await ask()
  key = 'new'
  own.advance(START + 1_000)
  await ask()
  expect(seen).toEqual(['Bearer old', 'Bearer new'])
})

it('a request whose key changes while it waits for a permit goes out with the new key and a permit of that', async () => {
  let key = 'old'
  const seen: (string | undefined)[] = []
  const { ask, rateLimiter, clock } = open(
    async ({ headers }) => {
      seen.push(headers['authorization'])
      return reply({}).given
    },
    new Secret('old', () => key),
  )
  await rateLimiter.limited(5_000)
  const asked = ask()
  await settled()
  key = 'new'
  await driven(clock, asked)
  expect(seen).toEqual(['Bearer new'])
  expect(rateLimiter.used.permits).toBe(1)
})

it('two requests in progress with a key that is given up are each retried at once', async () => {
  let key = 'old'
  let answer: () => void = () => undefined
  const gate = new Promise<void>((resolve) => {
    answer = resolve
  })
  const { ask } = open(
    async () => {
      await gate
      return reply({ status: 401 }).given
    },
    new Secret('old', () => key),
  )
  const both = [errorOf(ask()), errorOf(ask())]
  await settled()
  key = 'new'
  answer()
  expect((await Promise.all(both)).map(({ retryAfterMs }) => retryAfterMs)).toEqual([0, 0])
})

it('a 401 reads the key again at once: a changed one is tried without waiting, the same one blocks', async () => {
  let key = 'old'
  const { ask } = open(
    async ({ headers }) => reply({ status: headers['authorization'] === 'Bearer new' ? 200 : 401 }).given,
    new Secret('old', () => key),
  )
  const held = await errorOf(ask())
  expect([held.code, held.retryAfterMs]).toEqual(['unauthorized', undefined])
  key = 'new'
  const changed = await errorOf(ask())
  expect([changed.code, changed.retryAfterMs]).toEqual(['unauthorized', 0])
  expect(await ask()).toBe(2)
})

it('a key file that cannot be read briefly keeps the old key', async () => {
  const secret = new Secret(KEY, () => {
    throw new Error('ENOENT')
  })
  const { ask } = open(async () => reply({}).given, secret)
  expect(await ask()).toBe(2)
})

it('an answer of another content type is bad, whatever its body', async () => {
  const { given, state } = reply({ headers: { 'content-type': 'text/html; charset=utf-8' }, body: CONTENT })
  const error = await errorOf(open(async () => given).ask())
  expect(error.code).toBe('bad_reply')
  expect(error.message).toContain('proxy')
  expect(error.message).not.toContain(CONTENT)
  expect(state.left).toBe(true)
})

it.each(['application/json', 'Application/JSON; charset=utf-8', 'application/problem+json'])(
  'the content type %s is JSON',
  async (type) => {
    expect(await answers({ headers: { 'content-type': type } }).ask()).toBe(2)
  },
)

it.each<[string, (text: string) => Uint8Array]>([
  ['gzip', gzipSync],
  ['x-gzip', gzipSync],
  ['GZIP', gzipSync],
  ['deflate', deflateSync],
  ['br', brotliCompressSync],
])('a body compressed with %s without being asked is understood', async (encoding, compress) => {
  const text = JSON.stringify(['x'.repeat(100_000)])
  const headers = { 'content-type': 'application/json', 'content-encoding': encoding }
  expect(await answers({ headers, body: compress(text) }).ask()).toBe(text.length)
})

it.each(['zstd', 'constructor', '__proto__', 'toString', 'hasOwnProperty'])(
  'an unknown compression is a bad reply, and its connection is closed: %s',
  async (encoding) => {
    const { given, state } = reply({ headers: { 'content-encoding': encoding } })
    expect((await errorOf(open(async () => given).ask())).code).toBe('bad_reply')
    expect(state.left).toBe(true)
  },
)

it.each([
  [401, 'text/xml; charset=UTF-8'],
  [404, 'application/json; charset=UTF-8'],
  [303, 'text/html'],
  [200, 'text/html'],
])('a Splunk that answers %i in place of the API is recognized', async (status, type) => {
  const headers = { 'content-type': type, server: 'Splunkd' }
  const error = await errorOf(answers({ status, headers, body: '' }).ask())
  expect(error.code).toBe('misconfigured')
  expect(error.message).toMatch(/answered \d+, but a Splunk server answers there, not the API: set base_url/)
  expect(error.message).not.toContain('key')
})

it('an implausible answer is not requested again on the same connection', async () => {
  let distrusted = 0
  const distrust = () => distrusted++
  const page = { headers: { 'content-type': 'text/html' }, body: '<html>' }
  for (const given of [page, {}]) {
    const transport = async () => ({ ...reply(given).given, distrust })
    await open(transport).ask().catch(() => undefined) // prettier-ignore
  }
  expect(distrusted).toBe(1)
})

it.each(['gzip', 'deflate', 'br'])('a %s body that does not decompress is a bad reply', async (encoding) => {
  const headers = { 'content-encoding': encoding }
  const error = await errorOf(answers({ headers, body: Buffer.alloc(500, 'no such stream') }).ask())
  expect(error.code).toBe('bad_reply')
})

it('a gzip body that ends in the middle is a bad reply', async () => {
  const whole = gzipSync(JSON.stringify(['x'.repeat(1000), CONTENT]))
  const headers = { 'content-encoding': 'gzip' }
  const error = await errorOf(answers({ headers, body: whole.subarray(0, whole.length - 12) }).ask())
  expect(error.code).toBe('bad_reply')
})

it('a compressed body that is dropped before its end closes its connection', async () => {
  const unit = gzipSync(Buffer.alloc(2 ** 20, ' '))
  const { given, state } = reply({
    headers: { 'content-encoding': 'gzip' },
    body: pieced(
      (function* () {
        for (;;) yield unit
      })(),
    ),
  })
  const { client, memory, rateLimiter } = open(async () => given)
  const chunks = client.get(PATH, 'live', never, ({ body }) => body)
  await chunks.next()
  await chunks.return(undefined)
  for (let i = 0; i < 50 && !state.left; i++) await settled()
  expect(state.left).toBe(true)
  expect(memory.usedBytes).toBe(0)
  expect(rateLimiter.used.permits).toBe(1)
})

it('a connection that breaks in the middle of a compressed body is reported as that', async () => {
  const broken = async function* () {
    yield gzipSync('[1]').subarray(0, 8)
    throw new ConnectorError('unreachable', 'the connection broke')
  }
  const error = await errorOf(answers({ headers: { 'content-encoding': 'gzip' }, body: broken() }).ask())
  expect(error.code).toBe('unreachable')
})

it('an unanswered request is given up after its deadline, and releases its permit and memory', async () => {
  let aborted = false
  const { ask, clock, memory, rateLimiter, reporter } = open(
    (_request, signal) =>
      new Promise((_resolve, reject) => {
        signal.addEventListener('abort', () => {
          aborted = true
          reject(signal.reason as Error)
        })
      }),
  )
  const error = await driven(clock, errorOf(ask()))
  expect(error.code).toBe('timeout')
  expect(clock.now()).toBeLessThanOrEqual(START + 60_000)
  expect([aborted, memory.usedBytes, rateLimiter.used.permits]).toEqual([true, 0, 1])
  expect(reporter.codes).toEqual(['timeout'])
})

it('a transport that ignores its signal does not block the client', async () => {
  const { ask, clock } = open(() => new Promise(() => undefined))
  expect((await driven(clock, errorOf(ask()))).code).toBe('timeout')
})

/** `bytes` every `everyMs`, endlessly or so many times. */
function drip(clock: () => VirtualClock, bytes: number, everyMs: number, times = Infinity) {
  return (async function* () {
    const chunk = Buffer.alloc(bytes, ' ')
    for (let i = 0; i < times; i++) {
      await clock().sleep(everyMs)
      yield chunk
    }
  })()
}

it('a body that trickles is given up a minute after the request began, however steadily', async () => {
  const opened = open(async () => reply({ body: drip(() => opened.clock, 100, 1_000) }).given)
  const error = await driven(opened.clock, errorOf(opened.ask()))
  expect(error.code).toBe('timeout')
  expect(opened.clock.now()).toBe(START + 60_000)
})

it('a body that falls silent is given up well before a failing part has to show, which is half a minute', async () => {
  const silent = async function* () {
    yield Buffer.from('[')
    await new Promise(() => undefined)
  }
  const { ask, clock } = open(async () => reply({ body: silent() }).given)
  const error = await driven(clock, errorOf(ask()))
  expect([error.code, clock.now()]).toEqual(['timeout', START + 25_000])
})

it('a large body may take long if it keeps a minimum rate', async () => {
  const opened = open(async () => reply({ body: drip(() => opened.clock, 2 ** 20, 10_000, 40) }).given)
  expect(await driven(opened.clock, opened.ask())).toBe(40 * 2 ** 20)
  expect(opened.clock.now()).toBe(START + 400_000)
})

it('a large body below the minimum rate is given up', async () => {
  const body = async function* () {
    yield Buffer.alloc(5 * 2 ** 20, ' ')
    yield* drip(() => opened.clock, 1_000, 5_000)
  }
  const opened = open(async () => reply({ body: body() }).given)
  const error = await driven(opened.clock, errorOf(opened.ask()))
  expect(error.code).toBe('timeout')
  expect(opened.clock.now()).toBeLessThan(START + 60_000 + 170_000)
})

it.each<[FaultName, ErrorCode]>([
  ['cut', 'unreachable'],
  ['reset', 'unreachable'],
  ['stalled', 'timeout'],
  ['html', 'bad_reply'],
  ['wrong_type', 'bad_reply'],
  ['unauthorized', 'unauthorized'],
  ['forbidden', 'forbidden'],
  ['error_500', 'server_error'],
  ['storm_429', 'rate_limited'],
  ['redirect', 'redirected'],
])('the fault %s is %s', async (fault, code) => {
  const opened = open((request, signal) => mock.transport(request, signal))
  const mock = openMock({
    clock: opened.clock,
    traffic: { entriesPerHour: 0 },
    workspaces: [{ name: 'acme', keys: [{ key: KEY }] }],
    faults: { [fault]: 1 },
  })
  mock.add({ data: { text: CONTENT } })
  const error = await driven(opened.clock, errorOf(opened.ask(`${PATH}/latest`)))
  expect(error.code).toBe(code)
  expect(error.message).not.toContain(CONTENT)
  expect(error.message).not.toContain(KEY)
  expect(String(error.stack)).not.toContain(KEY)
  expect(opened.memory.usedBytes).toBe(0)
})

it('an abort ends a request at once and is reported as abort, wherever it was', async () => {
  const leaving = new AbortController()
  const { ask, memory } = open(() => new Promise(() => undefined))
  const asked = errorOf(ask(PATH, leaving.signal))
  await settled()
  leaving.abort()
  expect((await asked).code).toBe('aborted')
  expect(memory.usedBytes).toBe(0)
})

it('an abort while the request waits for its permit is reported the same way', async () => {
  const leaving = new AbortController()
  const { ask, rateLimiter } = answers({})
  await rateLimiter.limited(100_000)
  const asked = errorOf(ask(PATH, leaving.signal))
  await settled()
  leaving.abort()
  expect((await asked).code).toBe('aborted')
})

it('a held body reserves its memory before it is read, and waits while there is none', async () => {
  let read = 0
  const { ask, memory, reporter } = open(async () => {
    async function* body() {
      read++
      yield Buffer.from('[]')
    }
    return reply({ body: body() }).given
  })
  const leave = await memory.reserve(32 * 2 ** 20, never)
  const done = ask()
  await settled()
  expect([read, reporter.waitsForMemoryNow]).toEqual([0, 1])
  leave()
  expect(await done).toBe(2)
  expect(reporter.waitsForMemoryNow).toBe(0)
})

it('the progress of an answer is reported piece by piece from its head on, and so is its end', async () => {
  const noted = open(async () => reply({ body: drip(() => noted.clock, 2 ** 20, 10_000, 3) }).given)
  const asked = noted.ask()
  await settled()
  expect(noted.reporter).toMatchObject({ answersNow: 1, piecesCame: 0 })
  noted.clock.advance(START + 10_000)
  await settled()
  expect(noted.reporter).toMatchObject({ answersNow: 1, piecesCame: 1 })
  await driven(noted.clock, asked)
  expect(noted.reporter).toMatchObject({ answersNow: 0, piecesCame: 3 })
  const hung = open(async () => reply({ body: drip(() => hung.clock, 1, 3_600_000) }).given)
  expect((await driven(hung.clock, errorOf(hung.ask()))).code).toBe('timeout')
  expect(hung.reporter).toMatchObject({ answersNow: 0, piecesCame: 0 })
})

it('an API that goes silent behind the wait for memory is given up like any other', async () => {
  const opened = open(async () => reply({ body: drip(() => opened.clock, 1, 3_600_000) }).given)
  const leave = await opened.memory.reserve(32 * 2 ** 20, never)
  const asked = errorOf(opened.ask())
  await settled()
  leave()
  expect((await driven(opened.clock, asked)).code).toBe('timeout')
  expect([opened.memory.usedBytes, opened.clock.now() < START + 3_600_000]).toEqual([0, true])
})

it('an abort while the body waits for memory closes the connection', async () => {
  const { given, state } = reply({})
  const { ask, memory, rateLimiter, reporter } = open(async () => given)
  const leave = await memory.reserve(32 * 2 ** 20, never)
  const leaving = new AbortController()
  const asked = errorOf(ask(PATH, leaving.signal))
  await settled()
  leaving.abort()
  expect((await asked).code).toBe('aborted')
  leave()
  expect([state.left, memory.usedBytes, rateLimiter.used.permits]).toEqual([true, 0, 1])
  expect(reporter.waitsForMemoryNow).toBe(0)
})

it('a server that does not answer holds no memory', async () => {
  const { ask, memory } = open(() => new Promise(() => undefined))
  const leaving = new AbortController()
  const asked = errorOf(ask(PATH, leaving.signal))
  await settled()
  expect(memory.usedBytes).toBe(0)
  leaving.abort()
  await asked
})

it.each([
  ['a body whose length is declared: that much', { 'content-length': '1000000' }, 1_000_000],
  ['a small one: its buffers', { 'content-length': '2' }, 256 * 1024],
  ['a large one: the part that is held', { 'content-length': '99999999' }, 4 * 2 ** 20],
  ['a compressed one may become large', { 'content-length': '2', 'content-encoding': 'br' }, 4 * 2 ** 20],
  ['an invalid length counts for nothing', { 'content-length': '-1' }, 4 * 2 ** 20],
  ['a body of unknown length may be large', {}, 4 * 2 ** 20],
])('memory for %s', async (_title, headers, bytes) => {
  const stalled = { [Symbol.asyncIterator]: () => ({ next: () => new Promise<never>(() => undefined) }) }
  const given = { status: 200, headers: { 'content-type': 'application/json', ...headers }, body: stalled }
  const { ask, memory } = open(async () => given)
  const leaving = new AbortController()
  const asked = errorOf(ask(PATH, leaving.signal))
  await settled()
  expect(memory.usedBytes).toBe(bytes)
  leaving.abort()
  await asked
  expect(memory.usedBytes).toBe(0)
})

it('the wait for memory does not count against the server', async () => {
  const { ask, memory, clock } = answers({})
  const leave = await memory.reserve(32 * 2 ** 20, never)
  const done = ask()
  await settled()
  clock.advance(START + 600_000)
  leave()
  expect(await driven(clock, done)).toBe(2)
})

it('the wait for a permit is reported, and the state of waiting too', async () => {
  const { ask, rateLimiter, clock, reporter } = answers({})
  await rateLimiter.limited(5_000)
  await driven(clock, ask())
  expect(reporter.states).toEqual(['waiting', 'reading'])
  expect(reporter.waitedMs).toBe(5_000)
})
