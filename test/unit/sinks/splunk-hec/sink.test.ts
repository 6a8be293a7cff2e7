// The Splunk sink over a scripted transport.
import { gunzipSync } from 'node:zlib'
import { expect, test, vi } from 'vitest'
import type { SinkDeps } from '../../../../src/contracts/sink-kind.ts'
import type { Transport } from '../../../../src/contracts/platform.ts'
import { ConnectorError } from '../../../../src/core/errors.ts'
import { Secret } from '../../../../src/core/secret.ts'
import type { Lines } from '../../../../src/contracts/sink.ts'
import { sinkKinds } from '../../../../src/sinks/index.ts'
import { linesOf, runOf, someEntries } from '../../../fakes/lines.ts'
import { hecReply, type ScriptedReply, ScriptedTransport } from '../../../fakes/scripted-transport.ts'
import { sinkDeps, StepClock } from '../../../fakes/sink-deps.ts'

const kind = sinkKinds.splunk_hec
const never = new AbortController().signal
const TOKEN = '5ec2e700-0000-4000-8000-000000000001'

function open(
  replies: readonly ScriptedReply[],
  options: Record<string, unknown> = {},
  parts: Partial<SinkDeps> = {},
) {
  const transport = new ScriptedTransport(replies)
  const where = options['urls'] ? {} : { url: 'https://splunk:8088' }
  const parsed = kind.options.parse({ ...where, token: TOKEN, ...options })
  const deps = sinkDeps({ transport: () => transport.send, ...parts })
  return { sink: kind.open('splunk', parsed, deps), transport, clock: deps.clock, parsed }
}

type Opened = ReturnType<typeof open>

const batchOf = ({ sink }: Opened, count: number): Lines => linesOf(runOf(someEntries(count)), sink.frame)
const deliver = (opened: Opened, count = 5, signal = never) =>
  opened.sink.deliver({ lines: batchOf(opened, count), detail: '', possibleDuplicate: false }, signal)

const ok = hecReply(200, 0, 'Success')
const whole = { acknowledged: 5, rejected: [] }

test('a batch is one gzipped POST of concatenated objects, with token and channel', async () => {
  const opened = open([ok])
  expect(await deliver(opened, 2)).toEqual({ acknowledged: 2, rejected: [] })
  const [request] = opened.transport.asked
  expect(request?.method).toBe('POST')
  expect(request?.url).toBe('https://splunk:8088/services/collector/event')
  expect(request?.headers).toMatchObject({
    authorization: `Splunk ${TOKEN}`,
    'content-encoding': 'gzip',
    'content-type': 'application/json',
  })
  expect(request?.headers['x-splunk-request-channel']).toMatch(
    /^[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/,
  )
  const body = gunzipSync(request?.body ?? new Uint8Array(0)).toString()
  expect(body.match(/\{"time":/g)).toHaveLength(2)
})

test('compression none sends the bytes as they are', async () => {
  const opened = open([ok], { compression: 'none' })
  const lines = batchOf(opened, 3)
  await opened.sink.deliver({ lines, detail: '', possibleDuplicate: false }, never)
  expect(Buffer.from(opened.transport.asked[0]?.body ?? []).equals(lines.bytes)).toBe(true)
  expect(opened.transport.asked[0]?.headers).not.toHaveProperty('content-encoding')
})

test('code 0 with 200 acknowledges the whole batch', async () => {
  expect(await deliver(open([ok]))).toEqual(whole)
})

test.each([24, 25])('code %i is success, and the next batches wait longer each time', async (code) => {
  const opened = open([hecReply(200, code), hecReply(200, code), ok, ok])
  expect(await deliver(opened)).toEqual(whole)
  const pauses: number[] = []
  for (let i = 0; i < 3; i++) {
    const before = opened.clock.slept.length
    const delivery = deliver(opened)
    const pause = opened.clock.slept[before] ?? 0
    if (pause < 60_000) pauses.push(pause)
    opened.clock.pass(16_000)
    expect(await delivery).toEqual(whole)
  }
  expect(pauses).toEqual([1000, 2000, 0])
})

test('the message of a refused token names its file, which is read again automatically; no other token has that', async () => {
  const advice = '. Put a valid token into /run/secrets/hec; no restart is needed'
  const unknown = hecReply(403, 4, 'Invalid token')
  const messageOf = async (opened: Opened) =>
    deliver(opened).then(String, (error: unknown) => (error as ConnectorError).message)
  const fromFile = (replies: readonly ScriptedReply[], options = {}) => {
    const opened = open(replies, options)
    opened.parsed.token.follow(() => TOKEN, '', 'file', '/run/secrets/hec')
    return opened
  }
  expect(await messageOf(fromFile([unknown, unknown]))).toBe(
    `Splunk at splunk:8088 answered 403, code 4 "Invalid token": Splunk does not know the token; check 'token'${advice}`,
  )
  expect(await messageOf(fromFile([{ status: 401, body: '' }]))).toContain(`check 'token'${advice}`)
  expect(await messageOf(open([unknown, unknown]))).toMatch(/check 'token'$/)
  expect(await messageOf(fromFile([hecReply(503, 9, 'Server is busy')]))).not.toContain(advice)
})

const splunkd = { server: 'Splunkd' }
const unauthenticated = '<response>\n  <messages>\n    <msg type="WARN">call not properly authenticated</msg>'

test.each<[string, ScriptedReply, string]>([
  ['the API, without a key', { status: 401, body: '{"error":"Invalid token"}' }, 'like the workspace'],
  ['the API, without such a path', { status: 404, body: '{"error":"Not found"}' }, 'like the workspace'],
  [
    'the management port',
    { status: 401, body: unauthenticated, headers: { ...splunkd, 'content-type': 'text/xml' } },
    'management port',
  ],
  ['the web port', { status: 303, headers: { ...splunkd, location: '/en-US/account/login' } }, 'web port'],
  [
    'the web port’s page',
    { status: 200, body: '<html>', headers: { ...splunkd, 'content-type': 'text/html' } },
    'web port',
  ],
])('another server in place of a collector is recognized: %s', async (_, reply, words) => {
  const error = await deliver(open([reply])).then(String, (each: unknown) => each)
  expect(error).toMatchObject({ code: 'misconfigured' })
  expect(String(error)).toContain(words)
  expect(String(error)).toContain("'url'")
  expect(String(error)).not.toContain("'token'")
})

test('a gateway’s own answers to a size, a rate or a failure count as before, whatever their form', async () => {
  const codeOf = async (status: number) =>
    deliver(open([{ status, body: '{"error":"no"}' }])).then(
      String,
      (each: unknown) => (each as ConnectorError).code,
    )
  expect([await codeOf(413), await codeOf(429), await codeOf(502)]).toEqual([
    'too_large',
    'rate_limited',
    'server_error',
  ])
})

test.each([5, 6, 12, 13, 15])(
  'code %i with N takes 0..N-1, refuses N, and leaves the rest pending',
  async (code) => {
    const reply = hecReply(400, code, 'invalid DATA format', { 'invalid-event-number': 2 })
    const outcome = await deliver(open([reply]))
    expect(outcome).toMatchObject({ acknowledged: 3, rejected: [{ index: 2, code: 'refused' }] })
    expect(outcome.rejected[0]?.reason).toBe(`Splunk answered 400, code ${code} "Invalid data format"`)
  },
)

test('a prefix answer about the first line alone acknowledges that one', async () => {
  const reply = hecReply(400, 6, 'Invalid data format', { 'invalid-event-number': 0, ackId: 3 })
  expect(await deliver(open([reply]))).toMatchObject({ acknowledged: 1, rejected: [{ index: 0 }] })
})

test.each([
  ['none', {}],
  ['one that is not in the batch', { 'invalid-event-number': 5 }],
  ['a negative one', { 'invalid-event-number': -1 }],
  ['no number', { 'invalid-event-number': '2' }],
])('code 6 that names %s means that nothing was taken', async (_, more) => {
  await expect(deliver(open([hecReply(400, 6, 'Invalid', more)]))).rejects.toMatchObject({ code: 'refused' })
})

test('an id that will not be asked for leaves its channel behind', async () => {
  let draws = 0
  const random = () => (draws++ % 7) / 7
  const opened = open([hecReply(400, 6, '', { 'invalid-event-number': 0, ackId: 0 }), ok, ok], {}, { random })
  expect(await deliver(opened)).toMatchObject({ acknowledged: 1, rejected: [{ index: 0 }] })
  for (let i = 0; i < 2; i++) await deliver(opened)
  const [first, ...then] = opened.transport.asked.map(({ headers }) => headers['x-splunk-request-channel'])
  expect(then).not.toContain(first)
  expect(new Set(then).size).toBe(1)
})

test('over 5 MiB, code 6 about event 0 is 413 in disguise', async () => {
  const reply = hecReply(400, 6, 'Invalid data format', { 'invalid-event-number': 0 })
  const opened = open([reply, reply])
  const raw = JSON.stringify({ text: 'x'.repeat(3 * 2 ** 20) })
  const large = runOf([{ id: 'a', raw }, { id: 'b', raw }]) // prettier-ignore
  const lines = linesOf(large, opened.sink.frame)
  const delivery = { lines, detail: '', possibleDuplicate: false }
  await expect(opened.sink.deliver(delivery, never)).rejects.toMatchObject({ code: 'too_large' })
  expect(await deliver(opened)).toMatchObject({ acknowledged: 1, rejected: [{ index: 0 }] })
})

test('code 7 names the object after the bad one: all before the bad one is acknowledged, then the sink is blocked', async () => {
  const opened = open([
    hecReply(400, 7, 'Incorrect index', { 'invalid-event-number': 3 }),
    hecReply(400, 7, 'Incorrect index', { 'invalid-event-number': 1 }),
  ])
  expect(await deliver(opened)).toEqual({ acknowledged: 2, rejected: [] })
  await expect(deliver(opened)).rejects.toMatchObject({ code: 'misconfigured', action: 'block' })
})

test.each([
  ['no number', {}],
  ['0', { 'invalid-event-number': 0 }],
  ['a number beyond the batch', { 'invalid-event-number': 99 }],
])('code 7 with %s acknowledges nothing', async (_, more) => {
  await expect(deliver(open([hecReply(400, 7, 'Incorrect index', more)]))).rejects.toMatchObject({
    code: 'misconfigured',
  })
})

test('code 7 about the last object acknowledges all before it', async () => {
  const reply = hecReply(400, 7, 'Incorrect index', { 'invalid-event-number': 5 })
  expect(await deliver(open([reply]))).toEqual({ acknowledged: 4, rejected: [] })
})

test.each([
  [403, 1, 'forbidden', 'block'],
  [401, 2, 'unauthorized', 'block'],
  [401, 3, 'unauthorized', 'block'],
  [403, 4, 'forbidden', 'block'],
  [400, 5, 'refused', 'split'],
  [500, 8, 'server_error', 'retry'],
  [503, 9, 'rate_limited', 'retry'],
  [400, 10, 'misconfigured', 'block'],
  [400, 11, 'misconfigured', 'block'],
  [400, 14, 'misconfigured', 'block'],
  [400, 16, 'unauthorized', 'block'],
  [503, 18, 'rate_limited', 'retry'],
  [503, 23, 'unreachable', 'retry'],
  [429, 26, 'rate_limited', 'retry'],
  [429, 27, 'rate_limited', 'retry'],
  [400, 28, 'misconfigured', 'block'],
  [200, 99, 'misconfigured', 'block'],
  [413, 6, 'too_large', 'split'],
  [502, 6, 'server_error', 'retry'],
  [502, 0, 'server_error', 'retry'],
] as const)('%i with code %i acknowledges nothing: %s, %s', async (status, code, name, action) => {
  const error = await deliver(open([hecReply(status, code, 'Server is busy')])).catch((each: unknown) => each)
  expect(error).toMatchObject({ code: name, action })
  expect((error as Error).message).toContain(`splunk:8088 answered ${status}, code ${code} "Server is busy"`)
})

test.each([
  [200, 'misconfigured'],
  [204, 'misconfigured'],
  [302, 'redirected'],
  [400, 'bad_request'],
  [401, 'unauthorized'],
  [403, 'forbidden'],
  [404, 'misconfigured'],
  [405, 'misconfigured'],
  [407, 'misconfigured'],
  [408, 'timeout'],
  [413, 'too_large'],
  [415, 'misconfigured'],
  [418, 'misconfigured'],
  [429, 'rate_limited'],
  [500, 'server_error'],
  [502, 'server_error'],
  [503, 'server_error'],
  [504, 'server_error'],
] as const)('%i with another server’s page: %s', async (status, code) => {
  const page = { status, body: '<html>a portal of secrets</html>' }
  const error = await deliver(open([page])).catch((each: unknown) => each)
  expect(error).toMatchObject({ code })
  expect((error as Error).message).not.toContain('portal of secrets')
})

test.each(['{"code":"0","text":"x"}', '{"text":"x"}', '{"code":0}', '[0]', 'null', '""', ''])(
  '200 with %s is not delivered',
  async (body) => {
    const error = await deliver(open([{ status: 200, body }])).catch((each: unknown) => each)
    expect(error).toMatchObject({ code: 'misconfigured' })
    expect((error as Error).message).toContain('not from an event collector')
  },
)

test('Retry-After is passed on, in seconds and as a date', async () => {
  const clock = new StepClock()
  const date = new Date(clock.now() + 90_000).toUTCString()
  for (const [header, ms] of [
    ['7', 7000],
    [date, 90_000],
    ['soon', undefined],
  ] as const) {
    // prettier-ignore
    const busy = { ...hecReply(503, 9), headers: { 'retry-after': header } }
    await expect(deliver(open([busy], {}, { clock }))).rejects.toMatchObject({ retryAfterMs: ms })
  }
})

test.each([
  ['999999999', 3_600_000],
  ['1.5', 1_500],
  ['Sun, 06 Nov 2099 08:49:37 GMT', 3_600_000],
  ['-5', undefined],
])('Retry-After %j pauses a sink for %s ms: an hour at most', async (header, ms) => {
  const busy = { ...hecReply(503, 9), headers: { 'retry-after': header } }
  await expect(deliver(open([busy]))).rejects.toMatchObject({ code: 'rate_limited', retryAfterMs: ms })
})

const tokensOf = ({ transport }: Opened) => transport.asked.map(({ headers }) => headers['authorization'])

test('a refused token is read again once, without a warning', async () => {
  let token = TOKEN
  const opened = open([ok, hecReply(403, 4, 'Invalid token'), ok])
  opened.parsed.token.follow(() => token)
  await deliver(opened)
  token = 'new-token'
  expect(await deliver(opened)).toEqual(whole)
  expect(tokensOf(opened)).toEqual([`Splunk ${TOKEN}`, `Splunk ${TOKEN}`, 'Splunk new-token'])
})

test('a token that did not change is not tried twice', async () => {
  const opened = open([hecReply(403, 4)])
  opened.parsed.token.follow(() => TOKEN)
  await expect(deliver(opened)).rejects.toMatchObject({ code: 'forbidden' })
  expect(opened.transport.asked).toHaveLength(1)
})

const three = { urls: ['https://a:1', 'https://b:2', 'https://c:3'] }
const hosts = ({ transport }: Opened) => transport.asked.map(({ url }) => new URL(url).host).join(' ')

test('several endpoints are used in turn', async () => {
  const opened = open([ok, ok, ok, ok], three)
  for (let i = 0; i < 4; i++) await deliver(opened)
  expect(hosts(opened)).toBe('a:1 b:2 c:3 a:1')
})

test('a failed endpoint pauses, and its batch goes to the next on the next try', async () => {
  const opened = open([{ error: 'unreachable' }, ok, ok, ok, ok, ok], three)
  await expect(deliver(opened)).rejects.toMatchObject({ code: 'unreachable' })
  for (let i = 0; i < 3; i++) await deliver(opened)
  opened.clock.pass(60_000)
  for (let i = 0; i < 2; i++) await deliver(opened)
  expect(hosts(opened)).toBe('a:1 b:2 c:3 b:2 c:3 a:1')
})

test('a success resets the count of failures: the next pause is a short one again', async () => {
  const down = { error: 'unreachable' } as const
  const opened = open([down, ok, ok, ok, down, ok, ok], { urls: ['https://a:1', 'https://b:2'] })
  await expect(deliver(opened)).rejects.toThrow()
  await deliver(opened)
  opened.clock.pass(60_000)
  for (let i = 0; i < 2; i++) await deliver(opened)
  await expect(deliver(opened)).rejects.toThrow()
  await deliver(opened)
  opened.clock.pass(700)
  await deliver(opened)
  expect(hosts(opened)).toBe('a:1 b:2 a:1 b:2 a:1 b:2 a:1')
})

test('when all pause, the one that is ready first is used: a sink never waits on its own', async () => {
  const down = { error: 'unreachable' } as const
  const opened = open([down, down, down, ok], three)
  for (let i = 0; i < 3; i++) await expect(deliver(opened)).rejects.toThrow()
  await deliver(opened)
  expect(hosts(opened)).toBe('a:1 b:2 c:3 a:1')
})

test('an endpoint that shuts down has taken nothing: the next is used at once, each but once', async () => {
  const opened = open([hecReply(503, 23), ok], three)
  expect(await deliver(opened)).toEqual(whole)
  expect(hosts(opened)).toBe('a:1 b:2')
  const all = open([hecReply(503, 23), hecReply(503, 23), hecReply(503, 23)], three)
  await expect(deliver(all)).rejects.toMatchObject({ code: 'unreachable' })
})

test('an error of the settings or of a line does not pause an endpoint', async () => {
  const opened = open([hecReply(403, 4), hecReply(400, 6), ok, ok], { urls: ['https://a:1', 'https://b:2'] })
  for (let i = 0; i < 2; i++) await expect(deliver(opened)).rejects.toThrow()
  for (let i = 0; i < 2; i++) await deliver(opened)
  expect(hosts(opened)).toBe('a:1 b:2 a:1 b:2')
})

test('an endless answer is dropped at 64 KiB and counts as none', async () => {
  const opened = open([{ status: 200, body: '{"text":"Success","code":0', endless: true }])
  await expect(deliver(opened)).rejects.toMatchObject({ code: 'misconfigured' })
  expect(opened.transport.left).toBe(1)
})

test('a truncated answer acknowledges nothing', async () => {
  const opened = open([{ status: 200, body: '{"text":"Success","code":0}', cut: 'unreachable' }])
  await expect(deliver(opened)).rejects.toMatchObject({ code: 'unreachable' })
})

test('a receiver that is silent for a minute is a timeout, and no timer is left behind', async () => {
  const opened = open([{ deaf: true }, ok])
  const delivery = deliver(opened)
  const failure = expect(delivery).rejects.toMatchObject({ code: 'timeout' })
  await new Promise((resolve) => setImmediate(resolve))
  opened.clock.pass(60_000)
  await failure
  await deliver(opened)
  expect(opened.clock.sleeping).toBe(0)
})

test('an abort during a request, or in a pause, throws aborted', async () => {
  const opened = open([hecReply(200, 24), { deaf: true }])
  await deliver(opened)
  for (let i = 0; i < 2; i++) {
    const stop = new AbortController()
    const failure = expect(deliver(opened, 5, stop.signal)).rejects.toMatchObject({ code: 'aborted' })
    if (i === 1) opened.clock.pass(1000)
    await new Promise((resolve) => setImmediate(resolve))
    stop.abort()
    await failure
  }
  expect(opened.clock.sleeping).toBe(0)
})

test('a batch is compressed once: in advance, and for all its tries', async () => {
  let packed = 0
  const gzip = async (bytes: Uint8Array) => (packed++, bytes)
  const opened = open([{ error: 'unreachable' }, ok, ok], {}, { gzip })
  const [lines, other] = [batchOf(opened, 3), batchOf(opened, 4)]
  opened.sink.warm?.(lines)
  const delivery = { lines, detail: '', possibleDuplicate: false }
  await expect(opened.sink.deliver(delivery, never)).rejects.toThrow()
  await opened.sink.deliver({ ...delivery, possibleDuplicate: true }, never)
  expect(packed).toBe(1)
  await opened.sink.deliver({ lines: other, detail: '', possibleDuplicate: false }, never)
  expect(packed).toBe(2)
})

test('a compression that failed is repeated', async () => {
  let calls = 0
  const gzip = (bytes: Uint8Array) => (calls++ ? Promise.resolve(bytes) : Promise.reject(new Error('no')))
  const opened = open([ok], {}, { gzip })
  const delivery = { lines: batchOf(opened, 3), detail: '', possibleDuplicate: false }
  opened.sink.warm?.(delivery.lines)
  await expect(opened.sink.deliver(delivery, never)).rejects.toThrow('no')
  expect(await opened.sink.deliver(delivery, never)).toMatchObject({ acknowledged: 3 })
})

const echoes = [`Invalid token ${TOKEN}`, 'Invalid token: planted-content', 'x'.repeat(9999), '\u001b[31m']

test.each(echoes)('a receiver’s echo is not quoted: %j', async (words) => {
  const first = { 'invalid-event-number': 0 }
  const codes = [[403, 4, {}], [400, 6, {}], [400, 7, first], [500, 99, {}], [413, 6, {}]] as const // prettier-ignore
  for (const [status, code, more] of codes) {
    const error = await deliver(open([hecReply(status, code, words, more)])).catch((each: unknown) => each)
    expect((error as Error).message).toContain(`answered ${status}, code ${code}: `)
    expect((error as Error).message).not.toContain(words)
    expect((error as Error).message).not.toMatch(/planted|5ec2e700|xxx|\u001b/)
  }
  for (const code of [5, 6, 12, 13, 15]) {
    const { rejected } = await deliver(open([hecReply(400, code, words, first)]))
    expect(rejected.map(({ reason }) => reason)).toEqual([`Splunk answered 400, code ${code}`])
  }
  const busy = open([hecReply(503, 9, words), hecReply(503, 9, words)])
  expect(JSON.stringify(await busy.sink.check(never))).not.toMatch(/planted|5ec2e700|xxx|u001b/)
})

test('a code that is no small number is none of Splunk’s, and is not quoted', async () => {
  const error = await deliver(open([hecReply(400, 5200700000001)])).catch((each: unknown) => each)
  expect((error as Error).message).not.toContain('5200700000001')
})

// prettier-ignore
test.each([5, 6, 7, 12, 13, 15].flatMap((code) => [200, 401, 403, 404, 413, 500, 503].map((status) => [status, code] as const)))(
  '%i with code %i and an event’s number acknowledges nothing and makes no dead letter',
  async (status, code) => {
    const reply = hecReply(status, code, 'Invalid data format', { 'invalid-event-number': 2 })
    await expect(deliver(open([reply]))).rejects.toBeInstanceOf(ConnectorError)
  },
)

test('check reports health, token, index and acknowledgements in plain words, and indexes nothing', async () => {
  const acks = { status: 200, body: '{"acks":{"0":false}}' }
  const good = open([hecReply(200, 17), hecReply(400, 5), hecReply(400, 12), acks], { index: 'audit' })
  const results = await good.sink.check(never)
  expect(results.map(({ ok: fine, what }) => `${what}: ${fine}`)).toEqual([
    'splunk:8088 health: true',
    'splunk:8088 token: true',
    'splunk:8088 index: true',
    'splunk:8088 acknowledgements: true',
  ])
  expect(good.transport.asked.map(({ method, body }) => [method, body?.length])).toEqual([
    ['GET', undefined],
    ['POST', 0],
    ['POST', 17],
    ['POST', 12],
  ])
})

test.each([0, 24, 25])(
  'check takes success on an empty post (code %i) for a good token, and sends nothing that could be taken for an event',
  async (code) => {
    const opened = open([hecReply(200, 17), hecReply(200, code)], { index: 'audit', acks: false })
    const results = await opened.sink.check(never)
    expect(results.map(({ ok: fine, what, message }) => `${what}: ${fine}, ${message}`)).toEqual([
      'splunk:8088 health: true, the collector is up',
      'splunk:8088 token: true, the token is accepted',
      'splunk:8088 index: true, not checked: this receiver could index the check as an event',
    ])
    expect(opened.transport.asked.map(({ body }) => body?.length ?? 0)).toEqual([0, 0])
  },
)

test('check reports acknowledgements that are off: no error for `auto`, one for `true`', async () => {
  for (const [acks, ok] of [
    ['auto', true],
    [true, false],
  ] as const) {
    const opened = open([hecReply(200, 17), hecReply(400, 5), hecReply(400, 14, 'ACK is disabled')], { acks })
    const results = await opened.sink.check(never)
    expect(results.at(-1)).toMatchObject({ what: 'splunk:8088 acknowledgements', ok })
    expect(results.at(-1)?.message).toContain('off')
  }
})

test('check reports how far the clocks are apart, and from a minute on as an error', async () => {
  for (const [aheadMs, ok, words] of [
    [500, true, 'agrees'],
    [-20_000, true, '20 s behind'],
    [90_000, false, '90 s ahead'],
  ] as const) {
    const clock = new StepClock()
    const headers = { date: new Date(clock.now() + aheadMs).toUTCString() }
    const opened = open([{ ...hecReply(200, 17), headers }, hecReply(400, 5)], { acks: false }, { clock })
    const reported = (await opened.sink.check(never)).find(({ what }) => what === 'splunk:8088 clock')
    expect([reported?.ok, reported?.message]).toEqual([ok, expect.stringContaining(words)])
  }
})

test('a collector that never answers is named, beside the results of the others', async () => {
  const clock = new StepClock()
  const send: Transport = ({ url }, signal) =>
    new Promise((_, reject) => {
      if (url.includes('silent')) signal.addEventListener('abort', () => reject(new Error('aborted')))
      else reject(new ConnectorError('unreachable', 'closed:8088 refused the connection'))
    })
  const urls = ['https://silent:8088', 'https://closed:8088']
  const checked = open([], { urls }, { clock, transport: () => send }).sink.check(never)
  // Of each collector sleep two deadlines, until it has answered or failed.
  await vi.waitUntil(() => clock.sleeping === 2)
  clock.advance()
  expect(await checked).toEqual([
    { what: 'silent:8088', ok: false, message: expect.stringContaining('no answer within 20 s') as string },
    { what: 'closed:8088', ok: false, message: 'closed:8088 refused the connection' },
  ])
})

test.each([
  [
    'a fault of an event that was not sent',
    [hecReply(200, 17), hecReply(400, 6, 'Invalid data format', { 'invalid-event-number': 0 })],
    'answered 400, code 6 "Invalid data format"',
  ],
  ['a bad token', [hecReply(200, 17), hecReply(403, 4, 'Invalid token')], "check 'token'"],
  ['a wrong index', [hecReply(200, 17), hecReply(400, 5), hecReply(400, 7)], 'the index'],
  ['no server', [{ error: 'unreachable' as const }], 'as scripted'],
  [
    'a portal',
    [
      { status: 200, body: '<html>' },
      { status: 200, body: '<html>' },
    ],
    'not from an event collector',
  ],
])('check finds %s', async (_, replies, word) => {
  const results = await open(replies, { index: 'audit' }).sink.check(never)
  const bad = results.filter((each) => !each.ok)
  expect(bad.map(({ message }) => message).join()).toContain(word)
})

test.each([
  [{ acks: 'yes' }, 'expected true or false without quotes, or auto'],
  [{ url: 'https://splunk:8088/services' }, 'expected http(s)://host:port'],
  [{ url: 'https://user:pw@splunk:8088' }, 'expected http(s)://host:port'],
  [{ url: 'ftp://splunk:8088' }, 'expected http(s)://host:port'],
  [{ url: undefined }, 'expected either url or urls'],
  [{ urls: ['https://b:1'] }, 'expected either url or urls'],
  [{ ack_timeout: '5 minutes' }, 'expected a duration'],
  [{ ack_timeout: '25h' }, 'expected at most 1d'],
  [{ compression: 'deflate' }, 'gzip'],
  [{ tls: { cert_file: '/c.pem' } }, 'both cert_file and key_file'],
  [{ tokn: 'x' }, 'tokn'],
])('%o is refused: %s', (given, message) => {
  const result = kind.options.safeParse({ url: 'https://splunk:8088', token: 'x', ...given })
  expect(result.error?.issues.map((issue) => issue.message).join()).toContain(message)
})

test('by default it asks for acks if the token has them, waits five minutes for them, compresses, and has one batch in flight', () => {
  const parsed = kind.options.parse({ url: 'https://splunk:8088', token: 'x' })
  expect(parsed).toMatchObject({ acks: 'auto', ack_timeout: 300_000, compression: 'gzip', max_in_flight: 1 })
  expect(parsed.token).toBeInstanceOf(Secret)
  expect(kind.urls?.(parsed)).toEqual(['https://splunk:8088'])
})

test('files that TLS needs are named for the check of references', () => {
  const tls = { ca_file: '/ca.pem', cert_file: '/c.pem', key_file: '/k.pem', server_name: 'splunk.internal' }
  const parsed = kind.options.parse({ url: 'https://splunk:8088', token: 'x', tls })
  expect(kind.files?.(parsed)).toMatchObject([
    { field: 'tls.ca_file', path: '/ca.pem' },
    { field: 'tls.cert_file', path: '/c.pem' },
    { field: 'tls.key_file', path: '/k.pem' },
  ])
})
