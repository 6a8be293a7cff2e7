// Splunk's acknowledgements through the real dispatcher and journal: what counts as delivered is on the indexers' disks.
import fc from 'fast-check'
import { expect, it } from 'vitest'
import type { Transport } from '../../../../src/contracts/platform.ts'
import type { Sink } from '../../../../src/contracts/sink.ts'
import { runDispatcher } from '../../../../src/delivery/loop.ts'
import { BatchDispatcher } from '../../../../src/delivery/dispatcher.ts'
import { sinkKinds } from '../../../../src/sinks/index.ts'
import { acknowledged } from '../../../../src/sinks/splunk-hec/acks.ts'
import { cookiesAfter } from '../../../../src/sinks/splunk-hec/client.ts'
import { uuid } from '../../../contract/journal-parts.ts'
import { FakeHec, hecTransport } from '../../../fakes/hec.ts'
import type { HecExchange, HecOptions } from '../../../fakes/hec.ts'
import { sinkDeps } from '../../../fakes/sink-deps.ts'
import { settled, VirtualClock } from '../../../simulation/virtual-clock.ts'
import { openRig, range } from '../../delivery/rig.ts'

const SECOND = 1_000
const TOKEN = 'token-5ec2e7'
const ACKED = { tokens: { [TOKEN]: { acks: true } } }

const text = (bytes: Uint8Array) => Buffer.from(bytes).toString()

async function openHarbour(options: HecOptions = ACKED, given: Record<string, unknown> = {}) {
  const rig = await openRig(['splunk'])
  const fake = new FakeHec(options)
  let seed = 1
  const random = () => (seed = (seed * 16_807) % 2_147_483_647) / 2_147_483_647
  const { clock, log } = rig
  const sinkRig = rig.sinkRig('splunk')
  let stop: (() => Promise<void>) | undefined
  let wind: (() => void) | undefined
  let opened: Sink | undefined
  const harbour = {
    rig,
    fake,
    /** A body as a proxy changes it. */
    onTheWay: (body: string) => body,
    reporter: sinkRig.reporter,
    /** Sequence numbers that the receiver has for good, in the order in which it took them. */
    get safe() {
      const now = clock.now()
      return fake.indexed.filter(({ safeAt }) => safeAt <= now).map(seqOf)
    },
    get polls() {
      return fake.exchanges.filter(({ path }) => path.endsWith('/ack'))
    },
    get posts() {
      return fake.exchanges.filter(({ path }) => path.endsWith('/event'))
    },
    get assurance() {
      return opened?.assurance
    },
    get pending() {
      return rig.journal.stats().entries
    },
    /** A process starts, perhaps with other settings; the earlier one, if any, was killed. */
    async start(changed: Record<string, unknown> = {}) {
      await harbour.kill()
      const settings = { url: 'https://splunk:8088', token: TOKEN, ...given, ...changed }
      const parsed = sinkKinds.splunk_hec.options.parse(settings)
      const receiver = hecTransport(fake, clock)
      const transport: Transport = (request, signal) => {
        const { body } = request
        const changed = body && parsed.compression === 'none' ? harbour.onTheWay(text(body)) : undefined
        return receiver(changed === undefined ? request : { ...request, body: Buffer.from(changed) }, signal)
      }
      const deps = sinkDeps({ clock, random, log, transport: () => transport })
      const sink: Sink = sinkKinds.splunk_hec.open('splunk', parsed, deps)
      opened = sink
      const sinkDelivery = {
        ...sinkRig.options,
        sink,
        limits: { maxEntries: 3, maxBytes: 2 ** 20, lingerMs: 0 },
      }
      const [stopping, cut] = [new AbortController(), new AbortController()]
      const loop = runDispatcher(new BatchDispatcher(sinkDelivery), sinkDelivery, stopping.signal, cut.signal)
      wind = () => stopping.abort()
      stop = async () => {
        stopping.abort()
        cut.abort()
        await loop
      }
      await settled()
    },
    async kill(): Promise<void> {
      await stop?.()
      stop = undefined
    },
    /** As the daemon stops: work in progress has `withinMs` to end. */
    async halt(withinMs: number): Promise<void> {
      wind?.()
      await harbour.pass(withinMs)
      await harbour.kill()
    },
    async pass(ms: number) {
      const until = clock.now() + ms
      await settled()
      while (clock.advance(until)) await settled()
    },
  }
  return harbour
}

const channelsOf = (exchanges: readonly HecExchange[]) =>
  exchanges.map(({ headers }) => headers['x-splunk-request-channel'])

const seqOf = ({ fields }: { readonly fields: Readonly<Record<string, unknown>> }) =>
  Number.parseInt(String(fields['entry_id']).slice(-12), 16)

it('a batch is pending until the indexers have it, and the next goes out meanwhile', async () => {
  const harbour = await openHarbour(ACKED, { max_in_flight: 2 })
  await harbour.rig.append(9)
  await harbour.start()
  const channels = channelsOf(harbour.posts)
  expect([channels.length, new Set(channels).size]).toEqual([2, 2])
  expect(harbour.pending).toBe(9)
  await harbour.pass(2 * SECOND)
  expect(harbour.pending).toBeLessThanOrEqual(3)
  await harbour.pass(5 * SECOND)
  expect([harbour.pending, harbour.safe]).toEqual([0, range(1, 9)])
  await harbour.kill()
})

it('after a restart the old channel is asked, and nothing is sent again', async () => {
  const harbour = await openHarbour({ ...ACKED, ackDelayMs: 60 * SECOND }, { max_in_flight: 4 })
  await harbour.rig.append(9)
  await harbour.start()
  await harbour.pass(SECOND)
  const before = harbour.polls.length
  await harbour.start()
  await harbour.pass(90 * SECOND)
  expect(harbour.posts).toHaveLength(3)
  expect(new Set(channelsOf(harbour.polls.slice(before)))).toEqual(new Set(channelsOf(harbour.posts)))
  expect([harbour.pending, harbour.safe]).toEqual([0, range(1, 9)])
  await harbour.kill()
})

it('a batch that Splunk acknowledges during a stop is not sent again by the next process', async () => {
  const harbour = await openHarbour({ ...ACKED, ackDelayMs: 1.5 * SECOND })
  await harbour.rig.append(3)
  await harbour.start()
  await harbour.pass(SECOND)
  await harbour.halt(2.5 * SECOND)
  await harbour.start()
  await harbour.pass(400 * SECOND)
  expect([harbour.posts.length, harbour.pending, harbour.safe]).toEqual([1, 0, [1, 2, 3]])
  await harbour.kill()
})

it('whatever the settings become meanwhile, waiting batches are asked for or sent again, within the limit', async () => {
  const changes = [
    { acks: false },
    { acks: true },
    { max_in_flight: 1 },
    { url: undefined, urls: ['https://other:8088', 'https://splunk:8088'] },
    { url: 'https://other:8088' },
    { index: 'audit' },
  ]
  for (const changed of changes) {
    const harbour = await openHarbour({ ...ACKED, ackDelayMs: 10 * SECOND }, { max_in_flight: 4 })
    await harbour.rig.append(18)
    await harbour.start()
    await harbour.pass(SECOND)
    expect(harbour.posts).toHaveLength(4)
    await harbour.start(changed)
    await harbour.pass(SECOND)
    if (changed.max_in_flight === 1) expect(harbour.posts).toHaveLength(4)
    await harbour.pass(600 * SECOND)
    expect([harbour.pending, new Set(harbour.safe)]).toEqual([0, new Set(range(1, 18))])
    expect(harbour.posts).toHaveLength(changed.url === 'https://other:8088' ? 10 : 6)
    await harbour.kill()
  }
})

it('a batch that an indexer lost before it was safe goes out again after ack_timeout, under a new channel', async () => {
  const harbour = await openHarbour({ ...ACKED, ackDelayMs: 30 * SECOND }, { ack_timeout: '2m' })
  await harbour.rig.append(3)
  await harbour.start()
  await harbour.pass(SECOND)
  harbour.fake.crash(harbour.rig.clock.now())
  await harbour.pass(110 * SECOND)
  expect(harbour.posts).toHaveLength(1)
  await harbour.pass(60 * SECOND)
  const channels = channelsOf(harbour.posts)
  expect([channels.length, new Set(channels).size]).toEqual([2, 2])
  expect([harbour.pending, harbour.safe]).toEqual([0, [1, 2, 3]])
  expect(harbour.reporter.retries).toEqual(['timeout'])
  await harbour.kill()
})

it('an indexer that restarts its count confirms nothing that it lost, even after a kill', async () => {
  const harbour = await openHarbour(
    { ...ACKED, ackDelayMs: 20 * SECOND },
    { max_in_flight: 2, ack_timeout: '1m' },
  )
  await harbour.rig.append(3)
  await harbour.start()
  await harbour.pass(SECOND)
  harbour.fake.crash(harbour.rig.clock.now())
  await harbour.rig.append(3)
  await harbour.pass(SECOND)
  await harbour.start()
  await harbour.pass(30 * SECOND)
  expect([harbour.pending, harbour.safe]).toEqual([6, [4, 5, 6]])
  await harbour.pass(90 * SECOND)
  expect([harbour.pending, harbour.safe]).toEqual([0, [4, 5, 6, 1, 2, 3]])
  await harbour.kill()
})

it('`auto` is `stored` once the token has shown that it acknowledges, and reports that once', async () => {
  const harbour = await openHarbour(ACKED, { acks: 'auto' })
  await harbour.start()
  expect(harbour.assurance).toBe('received')
  await harbour.rig.append(9)
  await harbour.pass(10 * SECOND)
  expect([harbour.pending, harbour.assurance]).toEqual([0, 'stored'])
  expect(harbour.rig.log.lines.filter((line) => line.includes('acknowledgements on'))).toHaveLength(1)
  await harbour.kill()
})

it('`auto` falls back if the token has acknowledgements off, and reports that once', async () => {
  const harbour = await openHarbour({ tokens: { [TOKEN]: {} } })
  await harbour.rig.append(9)
  await harbour.start()
  expect(harbour.assurance).toBe('received')
  expect([harbour.pending, harbour.polls]).toEqual([0, []])
  expect(harbour.rig.log.lines.filter((line) => line.includes('acknowledgements off'))).toHaveLength(1)
  await harbour.kill()
})

it('`true` blocks the sink if the token has them off, before anything is sent, and resumes when they are on', async () => {
  const harbour = await openHarbour({ tokens: { [TOKEN]: {} } }, { acks: true })
  await harbour.rig.append(3)
  await harbour.start()
  await harbour.pass(300 * SECOND)
  expect(harbour.posts).toEqual([])
  expect(harbour.reporter.errors.at(-1)).toMatchObject({ code: 'misconfigured' })
  harbour.fake.options = { ...harbour.fake.options, ...ACKED }
  await harbour.pass(120 * SECOND)
  expect([harbour.pending, harbour.safe]).toEqual([0, [1, 2, 3]])
  await harbour.kill()
})

it('`false` never asks, whatever the token supports', async () => {
  const harbour = await openHarbour(ACKED, { acks: false })
  await harbour.rig.append(3)
  await harbour.start()
  expect([harbour.pending, harbour.polls]).toEqual([0, []])
  await harbour.kill()
})

it('polls that are refused, lost or garbage conclude nothing', async () => {
  const harbour = await openHarbour({ ...ACKED, ackDelayMs: 5 * SECOND })
  await harbour.rig.append(3)
  harbour.fake.ackFaults.push(
    { kind: 'status', status: 404 },
    { kind: 'reset' },
    { kind: 'garbage' },
    { kind: 'code', code: 4 },
  )
  await harbour.start()
  await harbour.pass(4 * SECOND)
  expect(harbour.pending).toBe(3)
  await harbour.pass(30 * SECOND)
  expect([harbour.pending, harbour.posts.length]).toEqual([0, 1])
  await harbour.kill()
})

it('a channel on which a batch without an answer may still wait confirms no other batch', async () => {
  const harbour = await openHarbour({ ...ACKED, indexers: 2, ackDelayMs: 2 * SECOND }, { ack_timeout: '2m' })
  const { fake, rig } = harbour
  // Indexer 0 takes it, and a proxy answers something else.
  fake.faults.push({ kind: 'garbage', indexes: true })
  await rig.append(3)
  await harbour.start()
  await harbour.pass(60 * SECOND)
  expect(harbour.pending).toBe(0)
  // The next goes to indexer 1, which dies before it is safe; a later poll reaches indexer 0.
  fake.expireCookies()
  await rig.append(3)
  await harbour.pass(1)
  fake.crash(rig.clock.now(), 1)
  fake.takeOut(1)
  await harbour.pass(30 * SECOND)
  expect([harbour.pending, harbour.safe.filter((seq) => seq > 3)]).toEqual([3, []])
  await harbour.pass(150 * SECOND)
  expect([harbour.pending, new Set(harbour.safe)]).toEqual([0, new Set(range(1, 6))])
  await harbour.kill()
})

it('events before a wrong index are not sent again, whether Splunk numbers it or not', async () => {
  const tokens = { [TOKEN]: { acks: true, indexes: ['audit'] } }
  for (const ackOnPrefix of [true, false]) {
    const harbour = await openHarbour({ tokens, ackOnPrefix }, { acks: true, compression: 'none' })
    const { fake, rig } = harbour
    await rig.append(3)
    harbour.onTheWay = (body) =>
      body.replace(`"event":{"id":"${uuid(3)}"`, (found) => `"index":"other",${found}`)
    await harbour.start()
    await harbour.pass(120 * SECOND)
    expect([harbour.pending, harbour.safe]).toEqual([1, [1, 2]])
    expect(harbour.reporter.errors.at(-1)?.message).toContain('may not write to this index')
    fake.options = { ...fake.options, ...ACKED }
    await harbour.pass(120 * SECOND)
    expect([harbour.pending, harbour.safe]).toEqual([0, [1, 2, 3]])
    await harbour.kill()
  }
})

it('batches that expire together go out again together', async () => {
  const harbour = await openHarbour(
    { ...ACKED, ackDelayMs: 30 * SECOND },
    { ack_timeout: '1m', max_in_flight: 8 },
  )
  await harbour.rig.append(24)
  await harbour.start()
  await harbour.pass(SECOND)
  harbour.fake.crash(harbour.rig.clock.now())
  await harbour.pass(75 * SECOND)
  expect(harbour.posts).toHaveLength(16)
  await harbour.pass(60 * SECOND)
  expect([harbour.pending, harbour.safe]).toEqual([0, range(1, 24)])
  await harbour.kill()
})

it.each([false, true])(
  'a collector that asks for an hour’s pause does not pause the other: acks %s',
  async (acks) => {
    const harbour = await openHarbour(ACKED, {
      acks,
      url: undefined,
      urls: ['https://one:8088', 'https://two:8088'],
    })
    await harbour.rig.append(3)
    const faults = acks ? harbour.fake.ackFaults : harbour.fake.faults
    faults.push({ kind: 'code', code: 9, retryAfter: '3600' })
    await harbour.start()
    await harbour.pass(120 * SECOND)
    expect(harbour.pending).toBe(0)
    await harbour.kill()
  },
)

it('`true`: one batch notices a token whose acknowledgements are switched off later, and it is not sent again and again', async () => {
  const harbour = await openHarbour(ACKED, { acks: true })
  await harbour.rig.append(3)
  await harbour.start()
  await harbour.pass(5 * SECOND)
  expect([harbour.pending, harbour.posts.length]).toEqual([0, 1])
  harbour.fake.options = { ...harbour.fake.options, tokens: { [TOKEN]: {} } }
  await harbour.rig.append(3)
  await harbour.pass(600 * SECOND)
  expect([harbour.pending, harbour.posts.length]).toEqual([3, 2])
  await harbour.kill()
})

it('an acknowledgement in an answer that is no success confirms nothing', async () => {
  const harbour = await openHarbour({ ...ACKED, ackDelayMs: 60 * SECOND })
  await harbour.rig.append(3)
  const body = '{"acks":{"0":true}}'
  harbour.fake.ackFaults.push({ kind: 'status', status: 503, body, type: 'application/json' })
  await harbour.start()
  await harbour.pass(5 * SECOND)
  expect(harbour.pending).toBe(3)
  await harbour.kill()
})

it('whatever crashes, is lost or goes to another indexer: what counts as delivered is safe, and everything arrives', async () => {
  const moment = fc.constantFrom(
    'wait',
    'wait',
    'more',
    'kill',
    'crash',
    'restart',
    'cookies',
    'lost poll',
    'lost answer',
  )
  const setting = fc.record({
    indexers: fc.constantFrom(1, 2, 3),
    cookieRolls: fc.boolean(),
    ackOnPrefix: fc.boolean(),
  })
  await fc.assert(
    fc.asyncProperty(
      setting,
      fc.integer({ min: 1, max: 4 }),
      fc.array(fc.tuple(moment, fc.nat(9)), { maxLength: 25 }),
      async (options, max, moments) => {
        const harbour = await openHarbour(
          { ...ACKED, ackDelayMs: 3 * SECOND, ...options },
          { max_in_flight: max, ack_timeout: '1m' },
        )
        const { fake, rig } = harbour
        const { clock } = rig
        await rig.append(6)
        await harbour.start()
        const settledOnesAreSafe = () => {
          const position = rig.journal.stats().sinks[0]?.position ?? 0
          expect(range(1, position).filter((seq) => !harbour.safe.includes(seq))).toEqual([])
        }
        for (const [each, count] of moments) {
          if (each === 'more') await rig.append(count)
          else if (each === 'kill') await harbour.start()
          else if (each === 'crash') fake.crash(clock.now(), count % options.indexers)
          else if (each === 'restart') fake.restart(count % options.indexers)
          else if (each === 'cookies') fake.expireCookies()
          else if (each === 'lost poll') fake.ackFaults.push({ kind: 'reset', tells: true })
          else if (each === 'lost answer') fake.faults.push({ kind: 'reset', indexes: true })
          await harbour.pass(count * 700)
          settledOnesAreSafe()
        }
        await harbour.pass(1800 * SECOND)
        settledOnesAreSafe()
        expect(harbour.pending).toBe(0)
        await harbour.kill()
      },
    ),
    { numRuns: 100 },
  )
})

it('after a clock was set back no batch waits longer than ack_timeout', async () => {
  const clock = new VirtualClock(Date.UTC(2026, 10, 17))
  const ticket = { origin: 'https://splunk:8088', channel: 'c', cookie: '', ackId: 0 }
  const asking = { clock, timeoutMs: 300 * SECOND, isSafe: () => Promise.resolve(false) }
  const never = new AbortController().signal
  let reported: unknown
  void acknowledged({ ...ticket, sentAt: clock.now() + 3600 * SECOND }, asking, never).catch(
    (error: unknown) => (reported = error),
  )
  const until = clock.now() + 320 * SECOND
  await settled()
  while (clock.advance(until)) await settled()
  expect(reported).toMatchObject({ code: 'timeout' })
})

it('cookies are kept by name, the last of each, and no expired one', () => {
  const first = cookiesAfter('', 'AWSALB=a1; Path=/; Max-Age=604800\nAWSALBCORS=a1; Secure\nother=; HttpOnly')
  expect(first).toBe('AWSALB=a1; AWSALBCORS=a1; other=')
  expect(cookiesAfter(first, 'AWSALB=b2')).toBe('AWSALB=b2; AWSALBCORS=a1; other=')
  expect(cookiesAfter(first, 'other=x; max-age=0')).toBe('AWSALB=a1; AWSALBCORS=a1')
  expect(cookiesAfter(first, undefined)).toBe(first)
  expect(cookiesAfter(first, 'no cookie at all')).toBe(first)
  expect(cookiesAfter(first, `big=${'x'.repeat(20_000)}`)).toBe(first)
})

it('an in-flight batch without a ticket, or with one of a removed endpoint, is sent again', async () => {
  const parsed = sinkKinds.splunk_hec.options.parse({ url: 'https://splunk:8088', token: TOKEN })
  const sink: Sink = sinkKinds.splunk_hec.open(
    'splunk',
    parsed,
    sinkDeps({ transport: () => () => Promise.reject(new Error('asked')) }),
  )
  const ticket = { origin: 'https://splunk:8088', channel: 'c', cookie: '', ackId: 0, sentAt: 0 }
  expect(sink.resume?.(JSON.stringify(ticket))?.detail).toBe(JSON.stringify(ticket))
  for (const detail of [
    '',
    'null',
    '{}',
    JSON.stringify({ ...ticket, ackId: -1 }),
    JSON.stringify({ ...ticket, origin: 'https://gone:8088' }),
  ])
    expect(sink.resume?.(detail)).toBeUndefined()
})
