// The syslog sink over scripted sockets.
import { setImmediate as turn } from 'node:timers/promises'
import { describe, expect, test } from 'vitest'
import type { z } from 'zod'
import { ConnectorError } from '../../../../src/core/errors.ts'
import type { Lines, Sink } from '../../../../src/contracts/sink.ts'
import { options } from '../../../../src/sinks/syslog/options.ts'
import { syslog } from '../../../../src/sinks/syslog/sink.ts'
import { linesOf, runOf, someEntries } from '../../../fakes/lines.ts'
import { FakeRelp } from '../../../fakes/relp-server.ts'
import { sinkDeps, type TestDeps } from '../../../fakes/sink-deps.ts'
import { BriskClock, type FakeConnection, FakeDatagramPeer, FakePeer } from '../../../fakes/sockets.ts'
import { framesOf, parse5424 } from '../../../fakes/syslog-parser.ts'

const never = new AbortController().signal
const DAY_MS = 86_400_000

interface Setup {
  readonly sink: Sink
  readonly peer: FakePeer
  readonly deps: TestDeps
  readonly clock: BriskClock
}

function setup(given: Partial<z.input<typeof options>> = {}, peer = new FakePeer()): Setup {
  const clock = new BriskClock()
  const deps = sinkDeps({ clock, connect: peer.connect })
  const sink = syslog.open('siem', options.parse({ address: 'tcp://siem.test:601', ...given }), deps)
  return { sink, peer, deps, clock }
}

const idsOf = (count: number, from: number) => someEntries(count, from).map(({ id }) => id)
const batch = (sink: Sink, count: number, from: number): Lines =>
  linesOf(runOf(someEntries(count, from), { firstSeq: from }), sink.frame)
const deliver = (sink: Sink, lines: Lines, signal = never) =>
  sink.deliver({ lines, detail: '', possibleDuplicate: false }, signal)
const idsIn = (stream: Buffer) => framesOf(stream).map((frame) => parse5424(frame).data['id'])
const received = ({ peer }: Setup) => peer.streams().map(idsIn)

const caught = async (work: Promise<unknown>): Promise<ConnectorError> => {
  const error = await work.then(() => new Error('nothing was thrown'), (each: unknown) => each) // prettier-ignore
  expect(error).toBeInstanceOf(ConnectorError)
  return error as ConnectorError
}

describe('over a stream', () => {
  test('one connection carries batch after batch, octet-counted', async () => {
    const it = setup()
    expect(await deliver(it.sink, batch(it.sink, 3, 1))).toEqual({ acknowledged: 3, rejected: [] })
    expect(await deliver(it.sink, batch(it.sink, 2, 4))).toEqual({ acknowledged: 2, rejected: [] })
    expect(received(it)).toEqual([idsOf(5, 1)])
    expect(it.peer.asked).toEqual([{ to: { host: 'siem.test', port: 601 }, tls: undefined }])
  })

  test('a peer that left before a batch is reconnected, and gets again what it was sent lately', async () => {
    for (const reset of [false, true]) {
      const it = setup()
      await deliver(it.sink, batch(it.sink, 3, 1))
      it.peer.last.over(reset)
      await deliver(it.sink, batch(it.sink, 2, 4))
      expect(received(it)).toEqual([idsOf(3, 1), idsOf(5, 1)])
      expect(it.deps.log.lines.join()).toContain('are sent again')
    }
  })

  test('lines sent longer ago than tcp_linger are not sent again', async () => {
    const it = setup({ tcp_linger: '30s' })
    await deliver(it.sink, batch(it.sink, 3, 1))
    it.clock.pass(20_000)
    await deliver(it.sink, batch(it.sink, 2, 4))
    it.clock.pass(11_000)
    it.peer.last.over(true)
    await deliver(it.sink, batch(it.sink, 1, 6))
    expect(received(it)).toEqual([idsOf(5, 1), idsOf(3, 4)])
  })

  test('possibly lost lines do not age while the receiver is away', async () => {
    const it = setup()
    await deliver(it.sink, batch(it.sink, 3, 1))
    it.peer.last.over(true)
    it.peer.down = true
    await turn()
    it.clock.pass(3_600_000)
    for (let i = 0; i < 3; i++) await caught(deliver(it.sink, batch(it.sink, 2, 4)))
    it.peer.down = false
    await deliver(it.sink, batch(it.sink, 2, 4))
    expect(received(it)[1]).toEqual(idsOf(5, 1))
  })

  test('a reset during a repeat loses none of it', async () => {
    const it = setup()
    await deliver(it.sink, batch(it.sink, 300, 1))
    it.peer.last.over(true)
    await turn()
    it.clock.pass(3_600_000)
    let writes = 0
    it.peer.wrote = (connection) => {
      if (++writes === 1) connection.over(true)
    }
    await caught(deliver(it.sink, batch(it.sink, 1, 301)))
    it.clock.pass(3_600_000)
    await deliver(it.sink, batch(it.sink, 1, 301))
    expect(received(it).at(-1)).toEqual(idsOf(301, 1))
  })

  test('resets an hour apart, each during a repeat, lose none of it', async () => {
    const it = setup()
    await deliver(it.sink, batch(it.sink, 3, 1))
    it.peer.wrote = (connection) => connection.over(true)
    it.peer.last.over(true)
    for (let i = 0; i < 3; i++) {
      await caught(deliver(it.sink, batch(it.sink, 1, 4)))
      it.clock.pass(3_600_000)
    }
    it.peer.wrote = () => undefined
    await deliver(it.sink, batch(it.sink, 1, 4))
    expect(received(it).at(-1)).toEqual(idsOf(4, 1))
  })

  test('possibly lost lines go out again even when nothing new comes, with pauses of their own', async () => {
    const it = setup()
    await deliver(it.sink, batch(it.sink, 3, 1))
    it.peer.down = true
    it.peer.last.over(true)
    for (let i = 0; i < 100; i++) {
      await turn()
      it.clock.pass(1_000)
    }
    expect(it.peer.asked.length).toBeGreaterThan(3)
    expect(it.peer.asked.length).toBeLessThan(12)
    it.peer.down = false
    for (let i = 0; i < 40; i++) {
      await turn()
      it.clock.pass(1_000)
    }
    expect(received(it)).toEqual([idsOf(3, 1), idsOf(3, 1)])
    await deliver(it.sink, batch(it.sink, 2, 4))
    expect(received(it)).toEqual([idsOf(3, 1), idsOf(5, 1)])
    await it.sink.close()
    expect([it.peer.open, it.clock.sleeping]).toEqual([0, 0])
  })

  test('lines that were repeated and may be lost again are repeated again', async () => {
    const it = setup()
    await deliver(it.sink, batch(it.sink, 3, 1))
    for (let i = 0; i < 3; i++) {
      it.peer.last.over(true)
      for (let seconds = 0; seconds < 10; seconds++) {
        await turn()
        it.clock.pass(500)
      }
    }
    expect(received(it)).toEqual(Array(4).fill(idsOf(3, 1)))
    await it.sink.close()
  })

  test('a batch that comes during a repeat takes the rest along, once', async () => {
    const it = setup()
    await deliver(it.sink, batch(it.sink, 3, 1))
    it.peer.last.over(true)
    it.peer.stalled = 'once'
    await turn()
    it.clock.pass(1_000)
    for (let i = 0; i < 5; i++) await turn()
    expect(it.peer.connections).toHaveLength(2)
    await deliver(it.sink, batch(it.sink, 2, 4))
    expect(received(it)).toEqual([idsOf(3, 1), [], idsOf(5, 1)])
  })

  test('a batch and a repeat share one connection, however slowly it is taken', async () => {
    const it = setup()
    await deliver(it.sink, batch(it.sink, 3, 1))
    it.peer.last.over(true)
    let taken: (value: unknown) => void = () => undefined
    it.peer.holding = new Promise((resolve) => (taken = resolve))
    const delivery = deliver(it.sink, batch(it.sink, 2, 4))
    for (let i = 0; i < 30; i++) await turn()
    taken(undefined)
    await delivery
    for (let i = 0; i < 30; i++) await turn()
    expect(received(it)).toEqual([idsOf(3, 1), idsOf(5, 1)])
  })

  test.each([
    ['at once', (connection: FakeConnection) => connection.over(true)],
    ['a little later', (connection: FakeConnection) => void turn().then(() => connection.over(true))],
  ])('a receiver that resets every repeat, %s, is tried less and less often', async (_, reset) => {
    const it = setup()
    await deliver(it.sink, batch(it.sink, 3, 1))
    it.peer.wrote = reset
    it.peer.last.over(true)
    for (let i = 0; i < 120; i++) {
      it.clock.pass(1_000)
      await turn()
      await turn()
    }
    expect(it.peer.asked.length).toBeGreaterThan(4)
    expect(it.peer.asked.length).toBeLessThan(12)
    await it.sink.close()
  })

  test('a receiver that closes idle connections does not get the same lines forever', async () => {
    const it = setup()
    await deliver(it.sink, batch(it.sink, 3, 1))
    for (let i = 0; i < 20; i++) {
      for (let seconds = 0; seconds < 12; seconds++) {
        it.clock.pass(1_000)
        await turn()
        await turn()
      }
      if (it.peer.open > 0) it.peer.last.over()
    }
    expect(it.peer.connections.length).toBeLessThanOrEqual(4)
  })

  test('kept lines are bounded in bytes: the oldest is dropped first, and whole', async () => {
    const it = setup({ max_message_bytes: '1MiB' })
    const raw = (id: string) => JSON.stringify({ id, fill: 'x'.repeat(500_000) })
    const made = (from: number) => someEntries(4, from).map(({ id }) => ({ id, raw: raw(id) }))
    for (const from of [1, 5, 9, 13, 17]) await deliver(it.sink, linesOf(runOf(made(from)), it.sink.frame))
    it.peer.last.over(true)
    await deliver(it.sink, batch(it.sink, 1, 21))
    expect(it.peer.streams()[1]?.length).toBeLessThan(8.5 * 2 ** 20)
    expect(received(it)[1]).toEqual(idsOf(17, 5))
  })

  test('tcp_linger: 0s keeps nothing', async () => {
    const it = setup({ tcp_linger: '0s' })
    await deliver(it.sink, batch(it.sink, 3, 1))
    it.peer.last.over(true)
    await deliver(it.sink, batch(it.sink, 2, 4))
    expect(received(it)).toEqual([idsOf(3, 1), idsOf(2, 4)])
  })

  test('kept lines are copies: the batch’s own bytes may be overwritten', async () => {
    const it = setup()
    const lines = batch(it.sink, 3, 1)
    await deliver(it.sink, lines)
    lines.bytes.fill(0)
    it.peer.last.over(true)
    await deliver(it.sink, batch(it.sink, 2, 4))
    expect(received(it)[1]).toEqual(idsOf(5, 1))
  })

  test('a peer that ends while a batch is being sent acknowledges nothing of it', async () => {
    for (const reset of [false, true]) {
      const it = setup()
      await deliver(it.sink, batch(it.sink, 2, 1))
      it.peer.wrote = (connection) => setImmediate(() => connection.over(reset))
      expect((await caught(deliver(it.sink, batch(it.sink, 3, 3)))).code).toBe('unreachable')
      it.peer.wrote = () => undefined
      await deliver(it.sink, batch(it.sink, 3, 3))
      expect(received(it).at(-1)).toEqual(idsOf(5, 1))
    }
  })

  test('a peer that takes each connection and closes it soon never acknowledges anything', async () => {
    const it = setup()
    const elsewhere = { sleep: it.clock.sleep.bind(it.clock) }
    it.clock.sleep = async (ms, signal) => {
      if (ms === 1_000) for (let i = 0; i < 20; i++) await turn()
      return elsewhere.sleep(ms, signal)
    }
    it.peer.wrote = (connection) => void turn().then(turn).then(turn).then(() => connection.over()) // prettier-ignore
    for (let i = 0; i < 5; i++)
      expect((await caught(deliver(it.sink, batch(it.sink, 3, 1)))).code).toBe('unreachable')
  })

  test('a peer that takes no byte for 30 s is a timeout, and its connection is given up', async () => {
    const it = setup()
    await deliver(it.sink, batch(it.sink, 1, 1))
    it.peer.stalled = true
    const late = caught(deliver(it.sink, batch(it.sink, 3, 2)))
    await turn()
    it.clock.pass(29_000)
    await turn()
    expect(it.peer.open).toBe(1)
    it.clock.pass(1_001)
    expect((await late).code).toBe('timeout')
    expect(it.peer.open).toBe(0)
    it.peer.stalled = false
    await deliver(it.sink, batch(it.sink, 3, 2))
    expect(received(it)[1]).toEqual(idsOf(4, 1))
  })

  test.each<[string, string, (it: Setup, stop: AbortController) => void]>([
    ['it ended it', 'The receiver ended the connection: ', ({ peer }) => peer.last.over()],
    ['it was reset', 'The connection to the receiver broke off: ', ({ peer }) => peer.last.over(true)],
    [
      'it took no more',
      'The receiver accepted no more data, so its connection was closed: ',
      ({ clock }) => clock.pass(30_001),
    ],
    ['it talked', 'The receiver sends data', ({ peer }) => peer.last.say(Buffer.alloc(70_000))],
    ['the daemon stopped', '', (_, stop) => stop.abort()],
  ])('the end of a connection is reported with its cause and side: %s', async (_, reported, make) => {
    const it = setup()
    await deliver(it.sink, batch(it.sink, 1, 1))
    it.peer.stalled = true
    const stop = new AbortController()
    const over = caught(deliver(it.sink, batch(it.sink, 3, 2), stop.signal))
    await turn()
    make(it, stop)
    await turn()
    const lines = it.deps.log.lines.filter((line) => line.includes('are sent again'))
    expect(lines.map((line) => line.slice(0, reported.length))).toEqual(reported === '' ? [] : [reported])
    stop.abort()
    await over
    await it.sink.close()
    expect(it.deps.log.lines.filter((line) => line.includes('are sent again'))).toEqual(lines)
  })

  test('a receiver that takes 1000 bytes a second gets all of it: the timeout grows, but not forever', async () => {
    const it = setup()
    // Like a system: its buffer takes a megabyte at once, and more only when a third of that has left.
    const memory = new WeakMap<object, number>()
    it.peer.taking = async (connection, { length }, signal) => {
      if ((memory.get(connection) ?? 1_000_000) < length) {
        await it.clock.sleep(333_000, signal)
        memory.set(connection, 333_000)
      }
      memory.set(connection, (memory.get(connection) ?? 1_000_000) - length)
    }
    const filled = (from: number) =>
      someEntries(100, from).map(({ id }) => ({ id, raw: JSON.stringify({ id, fill: 'x'.repeat(6_000) }) }))
    const messages: string[] = []
    for (let from = 1; from < 1_200; from += 100) {
      for (let settled = 0; settled === 0;) {
        const delivery = deliver(it.sink, linesOf(runOf(filled(from)), it.sink.frame)).then(
          (outcome) => (settled = outcome.acknowledged),
          (error: unknown) => messages.push((error as Error).message),
        )
        const over = new AbortController()
        void delivery.then(() => over.abort())
        for (let seconds = 0; !over.signal.aborted; seconds += 10) {
          expect(seconds).toBeLessThan(100_000)
          await turn()
          it.clock.pass(10_000)
        }
      }
    }
    expect(messages.map((message) => / for (\d+) s;/.exec(message)?.[1])).toEqual(['30', '60', '120', '240'])
    expect(new Set(idsIn(it.peer.streams().at(-1) ?? Buffer.alloc(0))).size).toBeGreaterThan(1_000)
    it.peer.taking = () => undefined
    for (let from = 1_201; from < 8_000; from += 100) await deliver(it.sink, linesOf(runOf(filled(from)), it.sink.frame)) // prettier-ignore
    it.peer.stalled = true
    const late = caught(deliver(it.sink, batch(it.sink, 3, 8_001)))
    await turn()
    it.clock.pass(30_001)
    expect((await late).message).toContain('for 30 s')
  })

  test('a stop during a write is aborted and leaves no connection that begins in half a message', async () => {
    const it = setup()
    await deliver(it.sink, batch(it.sink, 1, 1))
    it.peer.stalled = true
    const stop = new AbortController()
    const delivery = caught(deliver(it.sink, batch(it.sink, 3, 2), stop.signal))
    await turn()
    stop.abort()
    expect((await delivery).code).toBe('aborted')
    expect(it.peer.open).toBe(0)
    await it.sink.close()
    expect(it.peer.asked).toHaveLength(1)
  })

  test.each<[string, boolean, string[]]>([
    ['is sent once more before the end', false, idsOf(3, 1)],
    ['is reported if even that fails', true, []],
  ])('a possible loss when a stop comes during its repeat %s', async (_, stuck, brought) => {
    const it = setup()
    await deliver(it.sink, batch(it.sink, 3, 1))
    it.peer.last.over(true)
    await turn()
    it.peer.stalled = true
    const stop = new AbortController()
    const delivery = caught(deliver(it.sink, batch(it.sink, 2, 4), stop.signal))
    for (let i = 0; i < 5; i++) await turn()
    stop.abort()
    expect((await delivery).code).toBe('aborted')
    it.peer.stalled = stuck
    const closed = it.sink.close()
    await turn()
    it.clock.pass(1_000)
    await closed
    expect(received(it).slice(2).flat()).toEqual(brought)
    expect(it.deps.log.lines.filter((line) => line.includes('may be lost'))).toHaveLength(stuck ? 1 : 0)
  })

  test('a peer that keeps talking is no syslog receiver', async () => {
    const it = setup()
    await deliver(it.sink, batch(it.sink, 1, 1))
    it.peer.last.say(Buffer.alloc(70_000))
    await turn()
    expect(it.peer.open).toBe(0)
  })

  test('a peer that sends one word stays connected', async () => {
    const it = setup()
    await deliver(it.sink, batch(it.sink, 1, 1))
    it.peer.last.say(Buffer.from('hello'))
    await turn()
    await deliver(it.sink, batch(it.sink, 1, 2))
    expect(it.peer.connections).toHaveLength(1)
  })

  test('closing ends the connection in an orderly way', async () => {
    const it = setup()
    await deliver(it.sink, batch(it.sink, 1, 1))
    await Promise.all([it.sink.close(), it.sink.close()])
    expect([it.peer.last.ended, it.peer.open]).toEqual([true, 0])
    expect(it.deps.log.lines).toEqual([])
  })

  test('closing with nothing sent lately does not connect to a receiver that is away', async () => {
    const untouched = setup()
    const old = setup({ tcp_linger: '30s' })
    await deliver(old.sink, batch(old.sink, 3, 1))
    old.clock.pass(31_000)
    old.peer.last.over(true)
    for (const { sink, peer, deps } of [untouched, old]) {
      peer.down = true
      const asked = peer.asked.length
      await sink.close()
      expect(peer.asked).toHaveLength(asked)
      expect(deps.log.lines.filter((line) => line.includes('may be lost'))).toEqual([])
    }
  })

  test('what a receiver may have lost just before the end is sent once more at the end, or reported', async () => {
    for (const down of [false, true]) {
      const it = setup()
      await deliver(it.sink, batch(it.sink, 3, 1))
      it.peer.last.over(true)
      if (down) await turn()
      it.peer.down = down
      await it.sink.close()
      expect(it.clock.sleeping).toBe(0)
      expect(received(it)).toEqual(down ? [idsOf(3, 1)] : [idsOf(3, 1), idsOf(3, 1)])
      expect(it.deps.log.lines.join().includes('may be lost')).toBe(down)
      expect(it.peer.open).toBe(0)
    }
  })
})

describe('over TLS', () => {
  const tls = { ca_file: '/etc/ca.pem', server_name: 'siem' }

  test('the material of the options is used; without any it is TLS all the same', async () => {
    const it = setup({ address: 'tls://[::1]:6514', tls })
    await deliver(it.sink, batch(it.sink, 1, 1))
    const bare = setup({ address: 'tls://siem.test:6514' })
    await deliver(bare.sink, batch(bare.sink, 1, 1))
    expect([...it.peer.asked, ...bare.peer.asked]).toEqual([
      { to: { host: '::1', port: 6514 }, tls },
      { to: { host: 'siem.test', port: 6514 }, tls: {} },
    ])
  })

  test('a certificate that ends within 30 days is reported once a day', async () => {
    const it = setup({ address: 'tls://siem.test:6514', tls })
    it.peer.certificateEndsAt = it.clock.now() + 31 * DAY_MS
    it.peer.ownCertificateEndsAt = it.clock.now() + 10 * DAY_MS
    const reported = () => it.deps.log.lines.filter((line) => line.includes('ends soon'))
    for (let i = 0; i < 3; i++) await deliver(it.sink, batch(it.sink, 1, 1))
    expect(reported()).toEqual([expect.stringMatching(/our client certificate.*"days":10/)])
    it.clock.pass(DAY_MS + 1)
    await deliver(it.sink, batch(it.sink, 1, 2))
    it.clock.pass(DAY_MS / 2)
    await deliver(it.sink, batch(it.sink, 1, 2))
    expect(reported()).toHaveLength(3)
    expect(reported()[1]).toMatch(/receiver's certificate.*siem.test:6514/)
  })

  test('check reports the days that are left, of both', async () => {
    const it = setup({ address: 'tls://siem.test:6514', tls })
    it.peer.certificateEndsAt = it.clock.now() + 40 * DAY_MS
    it.peer.ownCertificateEndsAt = it.clock.now() - 1
    const [open, theirs, ours] = await it.sink.check(never)
    expect(open).toMatchObject({ what: 'siem.test:6514 TLS', ok: true })
    expect(open?.message).toContain('assurance: sent')
    expect(theirs).toMatchObject({ ok: true, message: expect.stringContaining('in 39 days') as string })
    expect(ours).toMatchObject({ ok: false, message: 'has ended: renew it' })
    expect(it.peer.open).toBe(0)
  })
})

describe('check over a stream', () => {
  test('a receiver that is away, or closes at once, is reported', async () => {
    const it = setup()
    it.peer.down = true
    expect(await it.sink.check(never)).toEqual([
      { what: 'siem.test:601 TCP', ok: false, message: expect.stringContaining('refused') as string },
    ])
    it.peer.down = false
    const connect = it.peer.connect
    const closing = sinkDeps({
      clock: it.clock,
      connect: async (...to) => {
        const connection = await connect(...to)
        it.peer.last.over()
        return connection
      },
    })
    const sink = syslog.open('siem', options.parse({ address: 'tcp://siem.test:601' }), closing)
    const results = await sink.check(never)
    expect(it.clock.sleeping).toBe(0)
    expect(results).toMatchObject([{ ok: false, message: expect.stringContaining('closed') as string }])
  })
})

describe('over UDP', () => {
  function datagramSetup(given: object = {}) {
    const peer = new FakeDatagramPeer()
    const deps = sinkDeps({ clock: new BriskClock(), datagrams: peer.datagrams })
    const sink = syslog.open('siem', options.parse({ address: 'udp://siem.test:514', ...given }), deps)
    return { sink, peer, deps }
  }

  test('each message is a datagram without a count, each part of an entry too', async () => {
    const { sink, peer } = datagramSetup({ max_message_bytes: 600 })
    const raw = JSON.stringify({ id: 'b', fill: 'x'.repeat(1000) })
    await deliver(sink, linesOf(runOf([{ id: 'a' }, { id: 'b', raw }, { id: 'c' }]), sink.frame))
    const parsed = peer.received.map(parse5424)
    expect(parsed.map(({ data }) => [data['id'], data['part']])).toEqual([
      ...[['a', undefined], ['b', '1/3'], ['b', '2/3'], ['b', '3/3'], ['c', undefined]], // prettier-ignore
    ])
  })

  test('an entry that does not fit a datagram is refused by name, the rest is sent', async () => {
    const { sink, peer } = datagramSetup()
    peer.mostBytes = 400
    const big = { id: 'b', raw: JSON.stringify({ id: 'b', fill: 'x'.repeat(1000) }) }
    const outcome = await deliver(sink, linesOf(runOf([{ id: 'a' }, big, { id: 'c' }]), sink.frame))
    expect(outcome).toMatchObject({ acknowledged: 3, rejected: [{ index: 1, code: 'too_large', own: true }] })
    expect(peer.received).toHaveLength(2)
  })

  test('check resolves the address, sends nothing and leaves nothing open; errors are reported', async () => {
    const { sink, peer } = datagramSetup()
    expect(await sink.check(never)).toMatchObject([{ what: 'siem.test:514 UDP', ok: true }])
    expect([peer.opened, peer.open, peer.sent]).toEqual([1, 0, 0])
    const faults = [
      [new ConnectorError('unreachable', 'siem.test:514 has no address'), 'siem.test:514 has no address'],
      [new Error('of another kind'), 'could not be asked'],
    ] as const
    for (const [fault, message] of faults) {
      const deps = sinkDeps({ datagrams: () => Promise.reject(fault) })
      const away = syslog.open('siem', options.parse({ address: 'udp://siem.test:514' }), deps)
      expect(await away.check(never)).toEqual([{ what: 'siem.test:514 UDP', ok: false, message }])
    }
  })

  test('refusals are reported in the order of the entries, from whichever side they come', async () => {
    const { sink, peer } = datagramSetup({ oversize: 'dead_letter', max_message_bytes: 600 })
    peer.mostBytes = 400
    const made = [300, 1000, 300].map((bytes, i) => ({
      ...{ id: `${i}`, raw: JSON.stringify({ id: `${i}`, fill: 'x'.repeat(bytes) }) },
    }))
    const { rejected } = await deliver(sink, linesOf(runOf(made), sink.frame))
    expect(rejected.map(({ index, reason }) => [index, reason.includes('max_message_bytes')])).toEqual([
      ...[[0, false], [1, true], [2, false]], // prettier-ignore
    ])
  })

  test('a stop during a batch sends no further datagram of it, and acknowledges nothing', async () => {
    const { sink, peer } = datagramSetup()
    const stop = new AbortController()
    peer.fits = () => {
      stop.abort()
      return true
    }
    expect((await caught(deliver(sink, batch(sink, 3, 1), stop.signal))).code).toBe('aborted')
    expect([peer.received.length, peer.open]).toEqual([1, 0])
  })

  test('the name is resolved again after a minute, and after a failure', async () => {
    const { sink, peer, deps } = datagramSetup()
    for (let i = 0; i < 3; i++) await deliver(sink, batch(sink, 2, 1))
    expect(peer.opened).toBe(1)
    deps.clock.pass(61_000)
    await deliver(sink, batch(sink, 2, 1))
    peer.down = true
    await caught(deliver(sink, batch(sink, 2, 1)))
    peer.down = false
    await deliver(sink, batch(sink, 2, 1))
    expect([peer.opened, peer.open]).toEqual([3, 1])
    await sink.close()
    expect(peer.open).toBe(0)
  })
})

describe('over RELP', () => {
  function relpSetup(more: Partial<z.input<typeof options>> = {}) {
    const fake = new FakeRelp()
    const deps = sinkDeps({ clock: new BriskClock(), connect: fake.connect })
    const given = { address: 'relp://siem.test:2514', max_message_bytes: 600, ...more }
    return { fake, deps, sink: syslog.open('siem', options.parse(given), deps) }
  }
  const big = { id: 'b', raw: JSON.stringify({ id: 'b', fill: 'x'.repeat(1000) }) }

  test('a certificate that ends within 30 days is reported once a day, and check reports the days of both', async () => {
    const { fake, sink, deps } = relpSetup({ address: 'relp+tls://siem.test:2514' })
    fake.certificateEndsAt = deps.clock.now() + 10 * DAY_MS
    fake.ownCertificateEndsAt = deps.clock.now() + 40 * DAY_MS
    const reported = () => deps.log.lines.filter((line) => line.includes('ends soon'))
    for (let i = 0; i < 3; i++) await deliver(sink, batch(sink, 1, i))
    expect(reported()).toEqual([expect.stringMatching(/receiver's certificate.*siem.test:2514.*"days":10/)])
    deps.clock.pass(DAY_MS)
    await deliver(sink, batch(sink, 1, 4))
    expect(reported()).toHaveLength(2)
    const [open, theirs, ours] = await sink.check(never)
    expect(open).toMatchObject({ what: 'siem.test:2514 RELP', ok: true })
    expect(theirs?.message).toMatch(/in 9 days: renew it soon/)
    expect(ours?.message).toMatch(/in 39 days/)
    await sink.close()
    expect(fake.lines.size).toBe(0)
  })

  test('an entry in parts is acknowledged as a whole', async () => {
    const { fake, sink } = relpSetup()
    const lines = linesOf(runOf([{ id: 'a' }, big, { id: 'c' }]), sink.frame)
    expect(await deliver(sink, lines)).toEqual({ acknowledged: 3, rejected: [] })
    expect(fake.stored.map((message) => parse5424(Buffer.from(message)).data['part'])).toEqual([
      ...[undefined, '1/3', '2/3', '3/3', undefined],
    ])
    await sink.close()
  })

  test('an entry of which one part is refused for good is refused, once', async () => {
    const { fake, sink } = relpSetup()
    fake.switches.codeOf = (message) => (/part="[12]\/3"/.test(message) ? 500 : undefined)
    const lines = linesOf(runOf([{ id: 'a' }, big, { id: 'c' }]), sink.frame)
    const outcome = await deliver(sink, lines)
    expect(outcome.acknowledged).toBe(3)
    expect(outcome.rejected.map(({ index }) => index)).toEqual([1])
    // Others were taken behind it: it says nothing of the receiver.
    expect(outcome.rejected.map(({ own }) => own)).toEqual([true])
    await sink.close()
  })

  test('a connection that ends in the middle of an entry acknowledges what came before it, and the entry is sent again whole', async () => {
    const { fake, sink } = relpSetup()
    fake.switches.cutBefore = 3
    const run = runOf([{ id: 'a' }, big, { id: 'c' }])
    expect(await deliver(sink, linesOf(run, sink.frame))).toEqual({ acknowledged: 1, rejected: [] })
    const rest = runOf([big, { id: 'c' }], { firstSeq: 2 })
    expect(await deliver(sink, linesOf(rest, sink.frame))).toEqual({ acknowledged: 2, rejected: [] })
    await sink.close()
  })

  test('an entry in more parts than a call may have arguments is sent', async () => {
    const { fake, sink } = relpSetup({ max_message_bytes: 480, hostname: 'h'.repeat(250) })
    const raw = JSON.stringify({ id: 'b', fill: 'x'.repeat(12 * 2 ** 20) })
    const lines = linesOf(runOf([{ id: 'a' }, { id: 'b', raw }, { id: 'c' }]), sink.frame)
    expect(await deliver(sink, lines)).toEqual({ acknowledged: 3, rejected: [] })
    expect(fake.stored.length).toBeGreaterThan(125_000)
    expect(fake.stored.at(-2)).toMatch(/x"\}$/)
    await sink.close()
  })

  test('an entry of which one part is refused for good is refused, whatever the outcome of a later part', async () => {
    const { fake, sink } = relpSetup()
    // The third part is refused too, but nothing behind it is taken: alone it would be undecided.
    fake.switches.codeOf = (message, number) =>
      number > 3 || /part="[13]\/3"/.test(message) ? 500 : undefined
    const outcome = await deliver(sink, linesOf(runOf([{ id: 'a' }, big]), sink.frame))
    expect(outcome).toMatchObject({ acknowledged: 2, rejected: [{ index: 1, code: 'refused' }] })
    await sink.close()
  })

  test('a first entry that arrived only in part acknowledges nothing, and is not made a dead letter', async () => {
    const { fake, sink } = relpSetup()
    fake.switches.cutBefore = 1
    const error = await caught(deliver(sink, linesOf(runOf([big]), sink.frame)))
    expect(error.action).toBe('retry')
    expect(await deliver(sink, linesOf(runOf([big]), sink.frame))).toEqual({ acknowledged: 1, rejected: [] })
    await sink.close()
  })
})

test('a hostname with a colon is refused for RFC 3164 alone, which ends the host there', () => {
  const given = { address: 'udp://siem.test:514', hostname: '2001:db8::1' }
  const refused = options.safeParse({ ...given, rfc: 3164 }).error?.issues[0]
  expect([refused?.path, refused?.message]).toEqual([
    ['hostname'],
    expect.stringContaining('expected a name'),
  ])
  expect(options.safeParse(given).success).toBe(true)
})

test('an entry that may not be sent at its size becomes a dead letter by name, and is not sent', async () => {
  const it = setup({ oversize: 'dead_letter', max_message_bytes: 600 })
  const big = { id: 'b', raw: JSON.stringify({ id: 'b', fill: 'x'.repeat(1000) }) }
  const lines = linesOf(runOf([{ id: 'a' }, big, { id: 'c' }]), it.sink.frame)
  const outcome = await deliver(it.sink, lines)
  expect(outcome).toEqual({
    acknowledged: 3,
    rejected: [
      {
        ...{ index: 1, code: 'too_large', own: true },
        reason: expect.stringMatching(
          /^its message has 1\d{3} bytes including the syslog header, more than max_message_bytes \(600\)\. Increase max_message_bytes, or set oversize to split or compact; then run auditferry dead-letters retry$/,
        ) as string,
      },
    ],
  })
  expect(received(it)).toEqual([['a', 'c']])
  const split = setup({
    oversize: 'split',
    max_message_bytes: 480,
    hostname: 'h'.repeat(250),
    app_name: 'a'.repeat(48),
  })
  const id = 'i'.repeat(200)
  const unsplit = runOf([{ id, raw: JSON.stringify({ id, fill: 'x'.repeat(1000) }) }])
  expect(await deliver(split.sink, linesOf(unsplit, split.sink.frame))).toMatchObject({
    rejected: [
      {
        reason: expect.stringMatching(
          /^its message has \d+ bytes .* cannot be split: .*\. Increase max_message_bytes; then run auditferry dead-letters retry$/,
        ) as string,
      },
    ],
  })
  const alone = setup({ oversize: 'dead_letter', max_message_bytes: 600 })
  expect(await deliver(alone.sink, linesOf(runOf([big]), alone.sink.frame))).toMatchObject({
    acknowledged: 1,
    rejected: [{ index: 0 }],
  })
  expect(alone.peer.asked).toEqual([])
})

describe('options', () => {
  const faults = (given: object) => {
    const parsed = options.safeParse({ address: 'tcp://h:1', ...given })
    return parsed.success
      ? []
      : parsed.error.issues.map(({ path, message }) => `${path.join('.')}: ${message}`)
  }

  test.each([
    'udp://10.0.0.1:514',
    'tcp://siem.example.com:601',
    'tls://[2001:db8::1]:6514',
    'relp://localhost:2514',
    'relp+tls://siem_a:2514',
  ])('%s is an address', (address) => {
    expect(faults({ address })).toEqual([])
  })

  test.each([
    ...['siem:514', 'tcp://siem', 'tcp://siem:0', 'tcp://siem:65536', 'http://siem:80', 'tcp://u:p@siem:1'],
    ...['tcp://siem:1/path', 'tcp://:514', 'tcp://::1:514', 'tcp://a b:1', ' tcp://a:1'],
  ])('%s is none', (address) => {
    expect(faults({ address })).toEqual([expect.stringContaining('address: expected udp://')])
  })

  test('sizes are accepted in bytes and with a unit, within bounds; more than a datagram is refused with udp', () => {
    expect(options.parse({ address: 'tcp://h:1', max_message_bytes: '64KiB' }).max_message_bytes).toBe(65_536)
    expect(options.parse({ address: 'tcp://h:1', max_message_bytes: 2048 }).max_message_bytes).toBe(2048)
    for (const most of [479, '17MiB', '8 k', 1.5, true])
      expect(faults({ max_message_bytes: most })).toHaveLength(1)
    expect(faults({ address: 'udp://h:1', max_message_bytes: '64KiB' })).toEqual([
      'max_message_bytes: expected at most 65507 bytes: more does not fit a datagram',
    ])
  })

  test('tls beside an address without TLS is refused rather than ignored', () => {
    expect(faults({ tls: { server_name: 'x' } })).toEqual([
      expect.stringMatching(/^tls: has an effect with tls:/),
    ])
  })

  test('settings that change bytes change the fingerprint; others do not', () => {
    const shape = (given: object) => setup(given).sink.shape
    const usual = shape({})
    expect(shape({ tcp_linger: '1s', address: 'tcp://other:1' })).toBe(usual)
    for (const given of [
      { rfc: 3164 },
      { facility: 'auth' },
      { app_name: 'x' },
      { hostname: 'x' },
      { enterprise_id: 1 },
      { oversize: 'compact' },
      { max_message_bytes: 999 },
    ])
      expect(shape(given)).not.toBe(usual)
  })
})
