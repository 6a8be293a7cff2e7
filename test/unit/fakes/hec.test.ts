// The fake HEC receiver compared with the facts that it represents.
import { deflateSync, gzipSync } from 'node:zlib'
import fc from 'fast-check'
import { Agent, request as undiciRequest } from 'undici'
import { afterEach, describe, expect, it } from 'vitest'
import type { Clock } from '../../../src/core/clock.ts'
import { ConnectorError } from '../../../src/core/errors.ts'
import type { HttpRequest } from '../../../src/contracts/platform.ts'
import { certificate } from '../../fakes/certificates.ts'
import { FakeHec, answerHec, hecTransport, listenHec } from '../../fakes/hec.ts'
import type { HecOptions } from '../../fakes/hec.ts'
import type { HecListener } from '../../fakes/hec-server.ts'

const channel = 'FE0ECFAD-13D5-401B-847D-77833BD77131'
const clock = { at: 1_000_000, now: () => clock.at }

function post(body: string | Uint8Array, more: Partial<HttpRequest> = {}): HttpRequest {
  return {
    method: 'POST',
    url: 'http://splunk.test:8088/services/collector/event',
    headers: { authorization: 'Splunk test-token' },
    body: Buffer.from(body),
    ...more,
  }
}

function ask(fake: FakeHec, request: HttpRequest) {
  const reply = answerHec(fake, request, clock)
  const text = Buffer.from(reply.body).toString('utf8')
  const json = text.startsWith('{') ? (JSON.parse(text) as Record<string, unknown>) : {}
  return { status: reply.status, headers: reply.headers, text, json, code: json['code'] }
}

const asked = (body: string | Uint8Array, options: HecOptions = {}, more: Partial<HttpRequest> = {}) => {
  const fake = new FakeHec(options)
  return { fake, ...ask(fake, post(body, more)) }
}

const object = (event: string) => `{"time":1.5,"event":${event}}`

describe('credentials', () => {
  it.each([
    ['no header', undefined, 401, 2],
    ['another scheme', 'Bearer test-token', 401, 3],
    ['no token behind the scheme', 'Splunk ', 401, 3],
    ['an unknown token', 'Splunk other', 403, 4],
    ['a name that every object has', 'Splunk constructor', 403, 4],
    ['a disabled token', 'Splunk off', 403, 1],
  ])('%s is refused and nothing is indexed', (_what, authorization, status, code) => {
    const tokens = { 'test-token': {}, off: { disabled: true } }
    const headers: Record<string, string> = authorization === undefined ? {} : { authorization }
    const answer = asked(object('1'), { tokens }, { headers })
    expect([answer.status, answer.code]).toEqual([status, code])
    expect(answer.fake.indexed).toEqual([])
  })

  it('a token in the query is code 16 unless that is switched on', () => {
    const url = 'http://splunk.test/services/collector?token=test-token'
    expect(asked(object('1'), {}, { url, headers: {} })).toMatchObject({ status: 400, code: 16 })
    expect(asked(object('1'), { queryAuth: true }, { url, headers: {} })).toMatchObject({ code: 0 })
  })
})

describe('bodies', () => {
  it('concatenated objects are indexed in order with the exact bytes of event and the text of time', () => {
    const raw = ['{"n": 12345678901234567890, "s":"\\u00e9\\"}{" }', '[1,{"event":2}]', '"text"', '0.10']
    const objects = raw.map(
      (event, i) => `{"fields":{"n":${i}},"event":${event},"time":1700000000.00000${i}}`,
    )
    const { fake, status, code } = asked(`\n${objects.join(' \r\n')}\t`)
    expect([status, code]).toEqual([200, 0])
    expect(fake.texts()).toEqual(raw)
    expect(fake.indexed.map(({ time }) => time)).toEqual(raw.map((_, i) => `1700000000.00000${i}`))
    expect(fake.indexed[3]?.fields).toEqual({ n: 3 })
  })

  it('any series of JSON values comes back byte for byte', () => {
    const property = fc.property(fc.array(fc.json(), { minLength: 1 }), (texts) => {
      const values = texts.filter((text) => text !== 'null' && text !== '""')
      fc.pre(values.length > 0)
      const { fake, status } = asked(values.map(object).join(''))
      expect(status).toBe(200)
      expect(fake.texts()).toEqual(values)
    })
    fc.assert(property)
  })

  it.each(['', ' \n'])('nothing but white space is code 5', (body) => {
    expect(asked(body)).toMatchObject({ status: 400, code: 5 })
  })

  it.each([
    ['cut short', '{"event":1', 6],
    ['a bare word', '{"event":yes}', 6],
    ['a trailing comma', '{"event":1,}', 6],
    ['mismatched brackets', '{"event":[1}]}', 6],
    ['a control character in a string', '{"event":"\u0001"}', 6],
    ['something between objects', ',{"event":1}', 6],
    ['an array', '[{"event":1}]', 6],
    ['a host that is no string', '{"host":1,"event":1}', 6],
    ['a time that is no number', '{"time":"soon","event":1}', 6],
    ['no event', '{"host":"h"}', 12],
    ['a blank event', '{"event":""}', 13],
    ['nested fields', '{"event":1,"fields":{"a":{"b":1}}}', 15],
  ])('%s: objects before it are indexed, and the number names the bad one', (_what, bad, code) => {
    const { fake, status, json } = asked(`${object('"a"')}${object('"b"')}${bad}${object('"c"')}`)
    expect(status).toBe(400)
    expect(json).toMatchObject({ code, 'invalid-event-number': 2 })
    expect(fake.texts()).toEqual(['"a"', '"b"'])
  })

  it('invalid UTF-8 is no JSON', () => {
    const body = Buffer.concat([Buffer.from(object('1')), Buffer.from('{"event":"\xff"}', 'latin1')])
    expect(asked(body).json).toMatchObject({ code: 6, 'invalid-event-number': 1 })
  })

  it('a refused index is code 7, its number names the object after the bad one, and the prefix is indexed', () => {
    const tokens = { 'test-token': { indexes: ['main'], defaultIndex: 'main' } }
    const bad = '{"index":"secret","event":2}'
    const { fake, json } = asked(`${object('0')}{"index":"main","event":1}${bad}${object('3')}`, { tokens })
    expect(json).toMatchObject({ code: 7, 'invalid-event-number': 3 })
    expect(fake.indexed.map(({ index }) => index)).toEqual(['main', 'main'])
  })

  it('an unknown envelope key is a success that indexes only what came before it', () => {
    const { fake, code } = asked(`${object('0')}{"event":1,"extra":1}${object('2')}`)
    expect(code).toBe(0)
    expect(fake.texts()).toEqual(['0'])
  })

  it('an only object with an unknown key is code 5', () => {
    expect(asked('{"event":1,"extra":1}').code).toBe(5)
  })

  it('an object with fields and no event is skipped, and the answer is still a success', () => {
    const { fake, code } = asked(`${object('0')}{"fields":{"a":1}}${object('2')}`)
    expect(code).toBe(0)
    expect(fake.texts()).toEqual(['0', '2'])
  })

  it('an event over maxEventSize is a parsing error', () => {
    const { fake, json } = asked(object('1') + object('"0123456789"'), { maxEventBytes: 10 })
    expect(json).toMatchObject({ code: 6, 'invalid-event-number': 1 })
    expect(fake.texts()).toEqual(['1'])
  })
})

describe('encodings and sizes', () => {
  const encoded = (encoding: string) => ({
    headers: { authorization: 'Splunk test-token', 'content-encoding': encoding },
  })

  it('gzip is read, deflate is 415 in HTML', () => {
    expect(asked(gzipSync(object('1')), {}, encoded('gzip')).fake.texts()).toEqual(['1'])
    const refused = asked(deflateSync(object('1')), {}, encoded('deflate'))
    expect(refused.status).toBe(415)
    expect(refused.headers['content-type']).toContain('text/html')
    expect(refused.fake.indexed).toEqual([])
  })

  it('a body over max_content_length is 413, counted before and after decompression', () => {
    const large = object(`"${'x'.repeat(5000)}"`)
    expect(asked(large, { maxContentBytes: 4000 }).status).toBe(413)
    expect(asked(gzipSync(large), { maxContentBytes: 4000 }, encoded('gzip')).status).toBe(413)
    expect(asked(gzipSync(large), { maxContentBytes: 8000 }, encoded('gzip')).status).toBe(200)
  })

  it('a body over Splunk Cloud’s limit is code 6 at event 0 and nothing is taken, however well it compresses', () => {
    const body = gzipSync(object(`"${'x'.repeat(5000)}"`))
    const { fake, status, json } = asked(body, { disguiseBytes: 5000 }, encoded('gzip'))
    expect(status).toBe(400)
    expect(json).toMatchObject({ code: 6, 'invalid-event-number': 0 })
    expect(fake.indexed).toEqual([])
  })
})

describe('faults', () => {
  it.each([
    [8, 500],
    [9, 503],
    [23, 503],
    [26, 429],
    [27, 429],
  ] as const)('code %i is %i, takes nothing, and the next request passes', (code, status) => {
    const fake = new FakeHec()
    fake.faults.push({ kind: 'code', code, retryAfter: '7' })
    const refused = ask(fake, post(object('1')))
    expect(refused).toMatchObject({ status, code, headers: { 'retry-after': '7' } })
    expect(fake.indexed).toEqual([])
    expect(ask(fake, post(object('1'))).code).toBe(0)
  })

  it.each([24, 25] as const)('code %i is a success: the events are indexed', (code) => {
    expect(asked(object('1'), { warning: code })).toMatchObject({ status: 200, code })
    const fake = new FakeHec()
    fake.faults.push({ kind: 'code', code })
    expect(ask(fake, post(object('1'))).code).toBe(code)
    expect(fake.texts()).toEqual(['1'])
  })

  it('an answer can be lost before and after the events were indexed', async () => {
    const fake = new FakeHec()
    const send = hecTransport(fake, virtualClock())
    for (const indexes of [false, true]) {
      fake.faults.push({ kind: 'reset', indexes })
      const sent = send(post(object('1')), new AbortController().signal)
      await expect(sent).rejects.toMatchObject({ code: 'unreachable' })
      expect(fake.indexed).toHaveLength(indexes ? 1 : 0)
    }
  })

  it('HTML with 200, garbage and a redirect index nothing', () => {
    const fake = new FakeHec()
    fake.faults.push({ kind: 'html' }, { kind: 'garbage' }, { kind: 'redirect', location: 'http://x/' })
    const answers = [1, 2, 3].map(() => ask(fake, post(object('1'))))
    expect(answers.map(({ status }) => status)).toEqual([200, 200, 307])
    expect(answers[2]?.headers['location']).toBe('http://x/')
    expect(fake.indexed).toEqual([])
  })

  it('a slow answer takes the clock its time, and stops waiting when the sender does', async () => {
    const fake = new FakeHec()
    const time = virtualClock()
    const send = hecTransport(fake, time)
    fake.faults.push({ kind: 'slow', ms: 90_000 })
    await send(post(object('1')), new AbortController().signal)
    expect(time.now()).toBe(90_000)
    await expect(send(post(object('1')), AbortSignal.abort())).rejects.toMatchObject({ code: 'aborted' })
    expect(fake.texts()).toEqual(['1'])
  })

  it('an endless body continues for as long as it is read', async () => {
    const fake = new FakeHec()
    fake.faultOf = () => ({ kind: 'endless' })
    const reply = await hecTransport(fake, virtualClock())(post(object('1')), new AbortController().signal)
    let bytes = 0
    for await (const chunk of reply.body) if ((bytes += chunk.length) > 2 ** 20) break
    expect(bytes).toBeGreaterThan(2 ** 20)
  })

  it('a wrong path is 404 and a wrong method 405', () => {
    expect(asked(object('1'), {}, { url: 'http://splunk.test/services/colector' }).status).toBe(404)
    expect(asked(object('1'), {}, { method: 'GET' }).status).toBe(405)
  })
})

describe('acknowledgements', () => {
  const tokens = { 'test-token': { acks: true } }
  const withChannel = (id: string, more: Record<string, string> = {}) => ({
    headers: { authorization: 'Splunk test-token', 'x-splunk-request-channel': id, ...more },
  })
  const poll = (fake: FakeHec, acks: number[], id = channel, more: Record<string, string> = {}) =>
    ask(
      fake,
      post(JSON.stringify({ acks }), {
        url: 'http://splunk.test/services/collector/ack',
        ...withChannel(id, more),
      }),
    )

  it('a channel is required, and has to be a GUID', () => {
    expect(asked(object('1'), { tokens })).toMatchObject({ status: 400, code: 10 })
    expect(asked(object('1'), { tokens }, withChannel('mine'))).toMatchObject({ status: 400, code: 11 })
  })

  it('without acknowledgements the endpoint is code 14 and an answer has no ackId', () => {
    const fake = new FakeHec()
    expect(poll(fake, [0])).toMatchObject({ status: 400, code: 14 })
    expect(ask(fake, post(object('1'), withChannel(channel))).json).not.toHaveProperty('ackId')
  })

  it('ids count from 0 per channel, turn true after a while, and true is reported once', () => {
    const fake = new FakeHec({ tokens, ackDelayMs: 2000 })
    const ids = [channel, channel, channel.replace('F', '0')].map(
      (id) => ask(fake, post(object('1'), withChannel(id))).json['ackId'],
    )
    expect(ids).toEqual([0, 1, 0])
    expect(poll(fake, [0, 1]).json).toEqual({ acks: { 0: false, 1: false } })
    clock.at += 2000
    expect(poll(fake, [0, 7]).json).toEqual({ acks: { 0: true, 7: false } })
    expect(poll(fake, [0, 1]).json).toEqual({ acks: { 0: false, 1: true } })
    expect(poll(fake, [0], 'FFFFFFFF-13D5-401B-847D-77833BD77131').status).toBe(200)
  })

  it('a restart forgets ids and counts from 0 again', () => {
    const fake = new FakeHec({ tokens, ackDelayMs: 0 })
    ask(fake, post(object('1'), withChannel(channel)))
    fake.restart()
    expect(poll(fake, [0]).json).toEqual({ acks: { 0: false } })
    expect(ask(fake, post(object('1'), withChannel(channel))).json['ackId']).toBe(0)
  })

  it('a 400 that indexed its prefix has an ackId too, one that took nothing does not', () => {
    const fake = new FakeHec({ tokens })
    expect(ask(fake, post(`${object('1')}{}`, withChannel(channel))).json).toHaveProperty('ackId', 0)
    expect(ask(fake, post(`{}${object('1')}`, withChannel(channel))).json).not.toHaveProperty('ackId')
  })

  it('a channel with too many pending ids is code 27 and takes nothing', () => {
    const fake = new FakeHec({ tokens, maxPendingAcks: 1 })
    ask(fake, post(object('1'), withChannel(channel)))
    expect(ask(fake, post(object('2'), withChannel(channel)))).toMatchObject({ status: 429, code: 27 })
    expect(fake.texts()).toEqual(['1'])
  })

  it('behind a balancer a poll finds its ids only with the cookie, until the session ends', () => {
    const fake = new FakeHec({ tokens, indexers: 2, ackDelayMs: 0 })
    const cookie = String(ask(fake, post(object('1'), withChannel(channel))).headers['set-cookie'])
    const sticky = { cookie: cookie.split(';')[0] ?? '' }
    expect(poll(fake, [0]).json).toEqual({ acks: { 0: false } })
    const found = poll(fake, [0], channel, sticky)
    expect(found.json).toEqual({ acks: { 0: true } })
    expect(found.headers).not.toHaveProperty('set-cookie')
    fake.expireCookies()
    expect(poll(fake, [0], channel, sticky).headers).toHaveProperty('set-cookie')
  })
})

describe('health', () => {
  const get = (fake: FakeHec, headers: Record<string, string> = {}) =>
    ask(fake, { method: 'GET', url: 'http://splunk.test/services/collector/health/1.0', headers })

  it.each([
    [17, 200],
    [18, 503],
    [19, 503],
    [20, 503],
  ] as const)('code %i is %i', (code, status) => {
    expect(get(new FakeHec({ health: code }))).toMatchObject({ status, code })
  })

  it('a wrong token is 21, a disabled one 22, none matters only where one is required', () => {
    const fake = new FakeHec({ tokens: { off: { disabled: true } } })
    expect(get(fake, { authorization: 'Splunk no' }).code).toBe(21)
    expect(get(fake, { authorization: 'Splunk off' })).toMatchObject({ status: 400, code: 22 })
    expect(get(fake).code).toBe(17)
    expect(get(new FakeHec({ healthNeedsToken: true })).code).toBe(21)
  })
})

describe('behind a socket', () => {
  let open: HecListener | undefined
  afterEach(async () => {
    await open?.close()
    open = undefined
  })
  const headers = { authorization: 'Splunk test-token' }
  const send = async (body: string) => {
    const url = `${open?.url ?? ''}/services/collector/event`
    const reply = await undiciRequest(url, { method: 'POST', headers, body, reset: true })
    return { status: reply.statusCode, body: reply.body }
  }

  it('answers as in memory, and counts its requests', async () => {
    const fake = new FakeHec()
    open = await listenHec(fake, { port: 0 })
    const reply = await send(object('1') + object('2'))
    expect(await reply.body.json()).toEqual({ text: 'Success', code: 0 })
    expect(fake.texts()).toEqual(['1', '2'])
    expect(fake.counts).toMatchObject({ requests: 1, events: 1 })
    expect(fake.exchanges).toMatchObject([{ status: 200, code: 0, indexed: 2 }])
  })

  it('resets the connection and streams endlessly if scripted', async () => {
    const fake = new FakeHec()
    fake.faults.push({ kind: 'reset', indexes: true }, { kind: 'endless' })
    open = await listenHec(fake, { port: 0 })
    await expect(send(object('1'))).rejects.toMatchObject({ code: 'ECONNRESET' })
    expect(fake.texts()).toEqual(['1'])
    const { body } = await send(object('1'))
    let bytes = 0
    for await (const chunk of body) if ((bytes += (chunk as Buffer).length) > 2 ** 20) break
    expect(bytes).toBeGreaterThan(2 ** 20)
  })
})

describe('behind TLS', () => {
  const authority = certificate('Test authority')
  const stranger = certificate('Another authority')
  const tls = { ...certificate('127.0.0.1', authority), clientCa: authority.cert }

  const ask = async (port: number, connect: Record<string, string>) => {
    const agent = new Agent({ connect })
    try {
      const headers = { authorization: 'Splunk test-token' }
      const url = `https://127.0.0.1:${port}/services/collector/event`
      const reply = await undiciRequest(url, {
        dispatcher: agent,
        method: 'POST',
        headers,
        body: object('1'),
      })
      return await reply.body.json()
    } finally {
      await agent.destroy()
    }
  }

  it('serves clients that trust its authority, and asks for a certificate if configured', async () => {
    const fake = new FakeHec()
    const open = await listenHec(fake, { port: 0, tls })
    const trust = { ca: authority.cert }
    await expect(ask(open.port, trust)).rejects.toThrow()
    await expect(ask(open.port, { ...trust, ...certificate('agent', stranger) })).rejects.toThrow()
    const known = certificate('agent', authority)
    expect(await ask(open.port, { ...trust, ...known })).toEqual({ text: 'Success', code: 0 })
    await open.close()
    expect(fake.texts()).toEqual(['1'])
  })

  it.each([
    ['an unknown authority', certificate('127.0.0.1', stranger), 'UNABLE_TO_VERIFY_LEAF_SIGNATURE'],
    ['another name', certificate('other.test', authority), 'ERR_TLS_CERT_ALTNAME_INVALID'],
    [
      'a certificate out of date',
      certificate('127.0.0.1', authority, 0, Date.now() - 3_600_000),
      'CERT_HAS_EXPIRED',
    ],
  ])('%s is refused by a sender that checks', async (_what, server, code) => {
    const open = await listenHec(new FakeHec(), { port: 0, tls: server })
    await expect(ask(open.port, { ca: authority.cert })).rejects.toMatchObject({ code })
    await open.close()
  })
})

function virtualClock(): Clock {
  let at = 0
  return { now: () => at, elapsed: () => at, sleep: async (ms) => void (at += ms) }
}

it('refuses with our own error class in memory, as a transport must', async () => {
  const fake = new FakeHec()
  fake.faults.push({ kind: 'reset' })
  const sent = hecTransport(fake, virtualClock())(post('{}'), new AbortController().signal)
  await expect(sent).rejects.toBeInstanceOf(ConnectorError)
})
