// The HEC fake's acknowledgements, indexers and limits, compared with the facts that they represent.
import { request as undiciRequest } from 'undici'
import { describe, expect, it } from 'vitest'
import type { Clock } from '../../../src/core/clock.ts'
import type { HttpRequest } from '../../../src/contracts/platform.ts'
import { FakeHec, answerHec, hecTransport, hecTransports, listenHec } from '../../fakes/hec.ts'
import type { HecOptions } from '../../fakes/hec.ts'

const CHANNEL = 'fe0ecfad-13d5-401b-847d-77833bd77131'
const OTHER = 'aaaaaaaa-13d5-401b-847d-77833bd77131'
const tokens = { 'test-token': { acks: true } }
const never = new AbortController().signal

/** A client that keeps what the receiver sends: its channel and, when `sticky`, its cookie. */
class Client {
  readonly fake: FakeHec
  readonly clock = { at: 1_000_000, now: () => this.clock.at }
  cookie = ''
  sticky = true
  sent = 0

  constructor(options: HecOptions = {}) {
    this.fake = new FakeHec({ tokens, ...options })
  }

  ask(path: string, body: string, more: Record<string, string> = {}) {
    const headers: Record<string, string> = { authorization: 'Splunk test-token', ...more }
    if (this.sticky && this.cookie !== '') headers['cookie'] = this.cookie
    const url = `http://splunk.test/services/collector/${path}`
    const reply = answerHec(this.fake, { method: 'POST', url, headers, body: Buffer.from(body) }, this.clock)
    const given = reply.headers['set-cookie']
    if (given !== undefined) this.cookie = given.split(';')[0] ?? ''
    const text = Buffer.from(reply.body).toString()
    const json = text.startsWith('{') ? (JSON.parse(text) as Record<string, unknown>) : {}
    return { status: reply.status, code: json['code'], ackId: json['ackId'], json, given, reply }
  }

  send(channel = CHANNEL, body = `{"event":${this.sent++}}`) {
    return this.ask('event', body, { 'x-splunk-request-channel': channel })
  }

  poll(acks: readonly unknown[], channel = CHANNEL) {
    const asked = this.ask('ack', JSON.stringify({ acks }), { 'x-splunk-request-channel': channel })
    return { ...asked, acks: asked.json['acks'] }
  }
}

describe('ids', () => {
  it('count from 0, one after the other, in each channel separately', () => {
    const client = new Client()
    const ids = [CHANNEL, CHANNEL, OTHER, CHANNEL].map((channel) => client.send(channel).ackId)
    expect(ids).toEqual([0, 1, 0, 2])
  })

  it('belong to a channel in any case of its letters', () => {
    const client = new Client({ ackDelayMs: 0 })
    client.send(CHANNEL.toUpperCase())
    expect(client.poll([0]).acks).toEqual({ 0: true })
  })

  it('turn true after the delay, are reported once, and are false from then on', () => {
    const client = new Client({ ackDelayMs: 2000 })
    client.send()
    client.clock.at += 1999
    expect(client.poll([0]).acks).toEqual({ 0: false })
    client.clock.at += 1
    expect(client.poll([0]).acks).toEqual({ 0: true })
    expect(client.poll([0]).acks).toEqual({ 0: false })
  })

  it('requested twice in one poll are reported once, as one key', () => {
    const client = new Client({ ackDelayMs: 0 })
    client.send()
    expect(client.poll([0, 0]).acks).toEqual({ 0: true })
  })

  it('turn true in another order, or never, if scripted', () => {
    const client = new Client()
    client.fake.ackDelayOf = (request) => [0, 5000, 10, Infinity][request] ?? 0
    for (let i = 0; i < 3; i++) client.send()
    client.clock.at += 10
    expect(client.poll([0, 1, 2]).acks).toEqual({ 0: false, 1: true, 2: false })
    client.clock.at += 10_000
    expect(client.poll([0, 1, 2]).acks).toEqual({ 0: true, 1: false, 2: false })
  })

  it('of another channel, or unknown, are false and no error', () => {
    const client = new Client({ ackDelayMs: 0 })
    client.send()
    expect(client.poll([0], OTHER)).toMatchObject({ status: 200, acks: { 0: false } })
    expect(client.poll([99, -1, 2 ** 40])).toMatchObject({
      status: 200,
      acks: { 99: false, '-1': false, [2 ** 40]: false },
    })
    expect(client.poll([0]).acks).toEqual({ 0: true })
  })

  it('are not assigned if nothing was taken', () => {
    const client = new Client()
    client.fake.faults.push({ kind: 'code', code: 9 })
    expect(client.send()).toMatchObject({ code: 9, ackId: undefined })
    expect(client.send(CHANNEL, '{"nonsense')).toMatchObject({ code: 6, ackId: undefined })
    expect(client.send().ackId).toBe(0)
  })

  it('come with the 400 that indexed a prefix, and not if that is switched off', () => {
    const bad = '{"event":1}{"event":}'
    expect(new Client().send(CHANNEL, bad)).toMatchObject({ status: 400, code: 6, ackId: 0 })
    expect(new Client({ ackOnPrefix: false }).send(CHANNEL, bad).ackId).toBeUndefined()
  })

  it('come with 24 and 25, which are a success', () => {
    for (const warning of [24, 25] as const) {
      const client = new Client({ warning, ackDelayMs: 0 })
      expect(client.send()).toMatchObject({ status: 200, code: warning, ackId: 0 })
      expect(client.poll([0]).acks).toEqual({ 0: true })
    }
  })
})

describe('the ack endpoint', () => {
  it.each(['', '[]', '{}', '{"acks":0}', '{"acks":["0"]}', '{"acks":[0.5]}', '{"acks":['])(
    'refuses %j as no list of ids',
    (body) => {
      const answer = new Client().ask('ack', body, { 'x-splunk-request-channel': CHANNEL })
      expect(answer).toMatchObject({ status: 400, code: 6 })
    },
  )

  it('requires a channel, and a token', () => {
    const client = new Client()
    expect(client.ask('ack', '{"acks":[0]}')).toMatchObject({ status: 400, code: 10 })
    expect(client.poll([0], 'mine')).toMatchObject({ status: 400, code: 11 })
    client.fake.options = { ...client.fake.options, tokens: {} }
    expect(client.poll([0])).toMatchObject({ status: 403, code: 4 })
  })

  it('answers 28 in place of 11 like Cloud', () => {
    const client = new Client({ badChannelCode: 28 })
    expect(client.send('mine')).toMatchObject({ status: 400, code: 28 })
  })

  it('is code 14 for a token without acknowledgements, whose events are taken all the same and get no id', () => {
    const client = new Client({ tokens: { 'test-token': {} } })
    expect(client.send()).toMatchObject({ status: 200, code: 0, ackId: undefined })
    expect(client.send('not a channel')).toMatchObject({ status: 200, code: 0 })
    expect(client.poll([0])).toMatchObject({ status: 400, code: 14 })
  })

  it('is 404 at a receiver without acknowledgements, whatever its token has', () => {
    const client = new Client({ ackless: true })
    expect(client.send()).toMatchObject({ status: 200, code: 0, ackId: undefined })
    expect(client.poll([0]).status).toBe(404)
  })

  it('may answer 4xx or 5xx: that consumes nothing', () => {
    const client = new Client({ ackDelayMs: 0 })
    client.send()
    client.fake.ackFaults.push({ kind: 'status', status: 400 }, { kind: 'code', code: 8 })
    expect([client.poll([0]).status, client.poll([0]).status]).toEqual([400, 500])
    expect(client.poll([0]).acks).toEqual({ 0: true })
  })

  it('may lose the answer that was true: it is false forever after', () => {
    const client = new Client({ ackDelayMs: 0 })
    client.send()
    client.fake.ackFaults.push({ kind: 'reset' }, { kind: 'reset', tells: true })
    expect(client.poll([0]).reply.reset).toBe(true)
    expect(client.poll([0]).reply.reset).toBe(true)
    expect(client.poll([0]).acks).toEqual({ 0: false })
  })

  it('may fail at any poll, counted from 1', () => {
    const client = new Client({ ackDelayMs: 0 })
    client.fake.ackFaultOf = (poll) => (poll === 2 ? { kind: 'html' } : undefined)
    const types = [1, 2, 3].map(() => client.poll([0]).reply.headers['content-type'])
    expect(types.map((type) => type?.includes('html'))).toEqual([false, true, false])
    expect(client.fake.counts).toMatchObject({ acks: 3, faults: 1, events: 0 })
  })
})

describe('a leaving indexer', () => {
  it('restarted, has forgotten its ids and counts from 0 again; what it took is indexed', () => {
    const client = new Client({ ackDelayMs: 0 })
    client.send()
    client.send()
    client.fake.restart()
    expect(client.poll([0, 1]).acks).toEqual({ 0: false, 1: false })
    expect(client.send().ackId).toBe(0)
    expect(client.fake.texts()).toEqual(['0', '1', '2'])
  })

  it('crashed, has lost what was not indexed yet, and only that', () => {
    const client = new Client({ ackDelayMs: 1000 })
    client.send()
    client.clock.at += 1000
    client.send()
    client.fake.crash(client.clock.at)
    expect(client.fake.texts()).toEqual(['0'])
    expect(client.send().ackId).toBe(0)
  })

  it('leaves the others alone', () => {
    const client = new Client({ ackDelayMs: 1000, indexers: 2, sticky: false })
    for (let i = 0; i < 4; i++) client.send()
    client.fake.crash(client.clock.at, 1)
    expect(client.fake.indexed.map(({ indexer }) => indexer)).toEqual([0, 0])
    expect([client.send().ackId, client.send().ackId]).toEqual([2, 0])
  })

  it('gone for good resets the connection; with a balancer before it, its requests go to another', () => {
    const alone = new Client()
    alone.fake.takeOut(0)
    expect(alone.send().reply.reset).toBe(true)
    const client = new Client({ indexers: 2 })
    client.send()
    const first = client.cookie
    client.fake.takeOut(0)
    expect(client.send()).toMatchObject({ status: 200, ackId: 0 })
    expect(client.cookie).not.toBe(first)
    client.fake.takeOut(1)
    expect(client.send().status).toBe(503)
    client.fake.putBack(1)
    expect(client.send().ackId).toBe(1)
    expect(client.fake.exchanges.map(({ indexer }) => indexer)).toEqual([0, 1, -1, 1])
  })
})

describe('a balancer', () => {
  it('sends a client with its cookie to the same indexer, and gives the cookie once', () => {
    const client = new Client({ indexers: 3 })
    expect(client.send().given).toMatch(/^AWSALB=[0-9a-f]{32,}; Expires=.* GMT; Path=\/$/)
    expect([client.send(), client.poll([0])].map(({ given }) => given)).toEqual([undefined, undefined])
    expect(client.fake.exchanges.map(({ indexer }) => indexer)).toEqual([0, 0, 0])
  })

  it('sends a client without it to another each time: ids collide, and a poll answers for another batch', () => {
    const client = new Client({ indexers: 2 })
    client.sticky = false
    client.fake.ackDelayOf = (request) => (request === 1 ? Infinity : 0)
    expect([client.send().ackId, client.send().ackId]).toEqual([0, 0])
    // The batch of the first indexer is never indexed, and that of the second answers for it.
    expect([client.poll([0]).acks, client.poll([0]).acks]).toEqual([{ 0: false }, { 0: true }])
  })

  it('asks for no cookie either once it is not sticky any more', () => {
    const client = new Client({ indexers: 2 })
    client.send()
    client.fake.options = { ...client.fake.options, sticky: false }
    client.send()
    expect(client.fake.exchanges.map(({ indexer }) => indexer)).toEqual([0, 1])
  })

  it('gives no cookie if it is not sticky', () => {
    const client = new Client({ indexers: 2, sticky: false })
    expect(client.send().given).toBeUndefined()
    expect(client.send().given).toBeUndefined()
    expect(client.fake.exchanges.map(({ indexer }) => indexer)).toEqual([0, 1])
  })

  it('ignores a cookie after its time, and gives another', () => {
    const client = new Client({ indexers: 2, cookieLifeMs: 60_000, ackDelayMs: 0 })
    client.send()
    client.clock.at += 59_999
    expect(client.poll([]).given).toBeUndefined()
    client.clock.at += 1
    expect(client.poll([0])).toMatchObject({ acks: { 0: false }, given: expect.any(String) as string })
    expect(client.fake.exchanges.map(({ indexer }) => indexer)).toEqual([0, 0, 1])
  })

  it('may give a fresh cookie for the same indexer with each answer', () => {
    const client = new Client({ indexers: 2, cookieRolls: true, cookieName: 'AWSALBCORS', ackDelayMs: 0 })
    const cookies = [client.send(), client.send()].map(({ given }) => given)
    expect(cookies[0]).toMatch(/^AWSALBCORS=/)
    expect(cookies[1]).toMatch(/^AWSALBCORS=/)
    expect(cookies[1]).not.toBe(cookies[0])
    expect(client.poll([0, 1]).acks).toEqual({ 0: true, 1: true })
  })

  it.each(['AWSALB=zz', 'AWSALB=', 'AWSALB=00', 'other=1', 'XAWSALB=30'])(
    'takes %s for no cookie',
    (cookie) => {
      const client = new Client({ indexers: 2 })
      client.cookie = cookie
      expect(client.send()).toMatchObject({ status: 200, given: expect.any(String) as string })
    },
  )

  it('finds its cookie among others', () => {
    const client = new Client({ indexers: 2 })
    client.send()
    client.cookie = `a=1; ${client.cookie}; b=2`
    expect(client.send().ackId).toBe(1)
  })
})

describe('limits', () => {
  it('unreported ids are 25 near the limit and 27 at it; a poll makes room', () => {
    const client = new Client({ maxPendingAcks: 3, warnPendingAcks: 2, ackDelayMs: 0 })
    const codes = [0, 0, 0, 0].map(() => client.send().code)
    expect(codes).toEqual([0, 25, 25, 27])
    expect(client.fake.texts()).toEqual(['0', '1', '2'])
    expect(client.poll([0, 1]).acks).toEqual({ 0: true, 1: true })
    expect(client.send()).toMatchObject({ status: 200, ackId: 3 })
  })

  it('27 is 429, of one channel alone; the whole indexer and its channels have limits of their own', () => {
    const client = new Client({ maxPendingAcks: 1 })
    client.send()
    expect(client.send()).toMatchObject({ status: 429, code: 27 })
    expect(client.send(OTHER).code).toBe(0)
    const inAll = new Client({ maxPendingAcksInAll: 1 })
    inAll.send()
    expect(inAll.send(OTHER).code).toBe(27)
    const channels = new Client({ maxChannels: 1 })
    channels.send()
    expect([channels.send(OTHER).code, channels.send().code]).toEqual([27, 0])
  })

  it('unindexed events are 24 near the limit and 26 at it, with or without acknowledgements', () => {
    for (const acks of [true, false]) {
      const limits = { maxQueuedEvents: 3, warnQueuedEvents: 2, ackDelayMs: 1000 }
      const client = new Client({ tokens: { 'test-token': { acks } }, ...limits })
      const two = '{"event":1}{"event":2}'
      expect(client.send().code).toBe(0)
      expect(client.send(CHANNEL, two)).toMatchObject({ status: 200, code: 24 })
      expect(client.send()).toMatchObject({ status: 429, code: 26 })
      client.clock.at += 1000
      expect(client.send().code).toBe(0)
      expect(client.fake.indexed).toHaveLength(4)
    }
  })
})

describe('idle channels', () => {
  it('are kept forever by default', () => {
    const client = new Client({ ackDelayMs: 0 })
    client.send()
    client.clock.at += 30 * 86_400_000
    expect(client.poll([0]).acks).toEqual({ 0: true })
  })

  it('are forgotten after ten minutes if that is on, counting from 0 again; a poll is use too', () => {
    const client = new Client({ ackDelayMs: 0, idleCleanup: true })
    client.send()
    client.clock.at += 599_999
    client.poll([])
    client.clock.at += 599_999
    expect(client.send().ackId).toBe(1)
    client.clock.at += 600_000
    expect(client.poll([0, 1]).acks).toEqual({ 0: false, 1: false })
    expect(client.send().ackId).toBe(0)
  })
})

describe('lenient receivers', () => {
  it('an unknown key, an object without event and a refused index are as elsewhere', () => {
    const kind = { unknownKey: 'ignored', eventless: 'refused', wrongIndexNamesNext: false } as const
    const client = new Client({ ...kind, tokens: { 'test-token': { acks: true, indexes: ['a'] } } })
    client.send(CHANNEL, '{"event":1,"extra":2}{"event":3}')
    expect(client.fake.texts()).toEqual(['1', '3'])
    const eventless = client.send(CHANNEL, '{"event":1}{"fields":{}}')
    expect(eventless.json).toMatchObject({ code: 12, 'invalid-event-number': 1 })
    const index = client.send(CHANNEL, '{"event":1}{"event":1,"index":"b"}')
    expect(index.json).toMatchObject({ code: 7, 'invalid-event-number': 1 })
  })
})

const virtual: Clock = { now: () => 0, elapsed: () => 0, sleep: async () => undefined }
const event: HttpRequest = {
  method: 'POST',
  url: 'https://a.test:8088/services/collector/event',
  headers: { authorization: 'Splunk test-token', 'x-splunk-request-channel': CHANNEL },
  body: Buffer.from('{"event":1}'),
}

it('several collectors each have their own state, and an unknown one cannot be reached', async () => {
  const [a, b] = [new FakeHec({ tokens }), new FakeHec({ tokens })]
  const send = hecTransports({ 'a.test': a, 'b.test': b }, virtual)
  await send(event, never)
  await send({ ...event, url: event.url.replace('a.', 'b.') }, never)
  expect([a.texts(), b.texts()]).toEqual([['1'], ['1']])
  const unknown = send({ ...event, url: event.url.replace('a.', 'c.') }, never)
  await expect(unknown).rejects.toMatchObject({ code: 'unreachable' })
})

it('in memory a lost poll answer is unreachable, as a transport must report', async () => {
  const fake = new FakeHec({ tokens })
  fake.ackFaults.push({ kind: 'reset', tells: true })
  const url = event.url.replace('/event', '/ack')
  const poll = hecTransport(fake, virtual)({ ...event, url, body: Buffer.from('{"acks":[0]}') }, never)
  await expect(poll).rejects.toMatchObject({ code: 'unreachable' })
})

it('behind a socket it acknowledges by the clock that it is given, cookie and all', async () => {
  const fake = new FakeHec({ tokens, indexers: 2, ackDelayMs: 5000 })
  const clock = { at: 0, now: () => clock.at }
  const open = await listenHec(fake, { port: 0, clock })
  const ask = async (path: string, body: string, cookie = '') => {
    const headers = { ...event.headers, cookie }
    const url = `${open.url}/services/collector/${path}`
    const reply = await undiciRequest(url, { method: 'POST', headers, body, reset: true })
    const json = await reply.body.json()
    return { json, cookie: String(reply.headers['set-cookie'] ?? '').split(';')[0] ?? '' }
  }
  const sent = await ask('event', '{"event":1}')
  expect(sent.json).toEqual({ text: 'Success', code: 0, ackId: 0 })
  const poll = async (cookie: string) => (await ask('ack', '{"acks":[0]}', cookie)).json
  expect(await poll(sent.cookie)).toEqual({ acks: { 0: false } })
  clock.at = 5000
  expect(await poll('')).toEqual({ acks: { 0: false } })
  expect(await poll(sent.cookie)).toEqual({ acks: { 0: true } })
  await open.close()
})
