// The RELP link: its window, its session, what each answer means.
import { assert, asyncProperty, boolean, constantFrom, nat, option, record } from 'fast-check'
import { describe, expect, test } from 'vitest'
import { ConnectorError } from '../../../../src/core/errors.ts'
import { makeWay } from '../../../../src/core/bytes.ts'
import type { Connection } from '../../../../src/contracts/platform.ts'
import { connectSocket } from '../../../../src/platform/sockets.ts'
import { RELP_WINDOW, RelpLink, type RelpSettings } from '../../../../src/sinks/syslog/relp.ts'
import { FakeRelp, type RelpSwitches } from '../../../fakes/relp-server.ts'
import { StepClock } from '../../../fakes/sink-deps.ts'

const never = new AbortController().signal
const where = 'logs.test:2514'

function bench(switches: RelpSwitches = {}, more: Partial<RelpSettings> = {}) {
  const fake = new FakeRelp(switches)
  const clock = new StepClock()
  const link = new RelpLink({ where, connect: fake.connect, clock, ...more })
  return { fake, clock, link }
}

const textsOf = (count: number, from = 0) =>
  Array.from({ length: count }, (_, i) => `<13>1 - - - - - - entry ${from + i} zoë`)
const messagesOf = (texts: readonly string[]) => texts.map((text) => Buffer.from(text))
const someMessages = (count: number, from = 0) => messagesOf(textsOf(count, from))

const caught = async (work: Promise<unknown>): Promise<ConnectorError> => {
  const error = await work.then(() => new Error('nothing was thrown'), (each: unknown) => each) // prettier-ignore
  expect(error).toBeInstanceOf(ConnectorError)
  expect((error as Error).message).not.toContain('zoë')
  return error as ConnectorError
}

/** Lets everything run that can run without time passing. */
const calm = async () => {
  for (let i = 0; i < 20; i++) await new Promise((resolve) => setImmediate(resolve))
}

/** Lets time pass by `ms` whenever something sleeps, until `work` is over. */
async function passing<T>(clock: StepClock, work: Promise<T>): Promise<T> {
  const ended = { yes: false }
  const done = () => void (ended.yes = true)
  work.then(done, done)
  for (let i = 0; i < 10_000; i++) {
    await new Promise((resolve) => setImmediate(resolve))
    if (ended.yes) return work
    clock.pass(1_000)
  }
  throw new Error('it did not end')
}

const all = (count: number) => ({ acknowledged: count, rejected: [] })

describe('the window', () => {
  test('messages arrive whole, once and in order, over one session for many calls', async () => {
    const { fake, link } = bench()
    for (const [count, from] of [
      [1, 0],
      [300, 1],
      [2, 301],
    ] as const)
      expect(await link.send(someMessages(count, from), never)).toEqual(all(count))
    expect(fake.stored).toEqual(textsOf(303))
    expect(fake.sessions).toHaveLength(1)
  })

  test('no message is no exchange', async () => {
    const { fake, link } = bench({ down: true })
    expect(await link.send([], never)).toEqual(all(0))
    expect(fake.sessions).toHaveLength(0)
  })

  test('it is kept full and never overrun: 128 without an answer by default', async () => {
    for (const window of [undefined, 5, 1]) {
      const { fake, link } = bench({ held: true }, window === undefined ? {} : { window })
      const sending = link.send(someMessages(400), never)
      await calm()
      expect(fake.seen).toBe(window ?? RELP_WINDOW)
      while (fake.stored.length < 400) {
        fake.release(1)
        await calm()
      }
      fake.release()
      expect(await sending).toEqual(all(400))
      expect(fake.mostOpen).toBe(window ?? RELP_WINDOW)
      expect(fake.stored).toEqual(textsOf(400))
    }
  })

  test('frames go out many to a write', async () => {
    const { fake, link } = bench()
    await link.send(someMessages(1_000), never)
    // Beside the opening: eight windows, and the last frame.
    expect(fake.sessions[0]?.pieces.length).toBeLessThanOrEqual(1 + 8 + 1)
  })

  test('no answer waits for ours: answers that a receiver holds back until it gets data from us arrive at once', async () => {
    for (const [count, window] of [
      [1, 128],
      [2, 128],
      [128, 128],
      [1_000, 128],
      [50, 1],
      [50, 3],
    ] as const) {
      const { fake, link, clock } = bench({ waiting: true }, { window })
      const sending = link.send(someMessages(count), never)
      await calm()
      expect(await Promise.race([sending, calm()]), `${count} in ${window}`).toEqual(all(count))
      expect(fake.stored).toEqual(textsOf(count))
      expect(clock.sleeping).toBe(0)
    }
  })

  test('a large message does not stop the window from moving', async () => {
    const { fake, link } = bench()
    const large = Array.from({ length: 200 }, (_, i) => `${i}`.repeat(9_000))
    expect(await link.send(messagesOf(large), never)).toEqual(all(200))
    expect(fake.stored).toEqual(large)
  })

  test('answers out of order and in any pieces are matched by their number', async () => {
    for (const pieceBytes of [1, 3, 7, Infinity]) {
      const { fake, link } = bench({ reversed: true, pieceBytes })
      expect(await link.send(someMessages(200), never)).toEqual(all(200))
      expect(fake.stored).toEqual(textsOf(200))
    }
  })

  test('a session ends in order before its numbers run out, and nothing is sent twice', async () => {
    const { fake, link } = bench({}, { largestTxnr: 40 })
    for (let from = 0; from < 150; from += 15)
      expect(await link.send(someMessages(15, from), never)).toEqual(all(15))
    expect(fake.stored).toEqual(textsOf(150))
    expect(fake.sessions).toHaveLength(5)
    expect(fake.sessions.slice(0, -1).every(({ closedInOrder }) => closedInOrder)).toBe(true)
  })
})

describe('what counts as taken', () => {
  test('a cut acknowledges the answers before it; the next call starts there, on a new session', async () => {
    for (const switches of [{ cutAt: 100 }, { cutBefore: 100 }]) {
      const { fake, link } = bench(switches)
      expect(await link.send(someMessages(300), never)).toEqual(all(100))
      fake.switches = {}
      expect(await link.send(someMessages(200, 100), never)).toEqual(all(200))
      const doubled = switches.cutAt === undefined ? [] : textsOf(1, 100)
      expect(fake.stored).toEqual([...textsOf(100), ...doubled, ...textsOf(200, 100)])
      expect(fake.sessions).toHaveLength(2)
    }
  })

  test('answers before a failed write count, though they were unread', async () => {
    const fake = new FakeRelp()
    const failed = new AbortController()
    const failing = async (): Promise<Connection> => {
      const connection = await fake.connect()
      const read = connection.read.bind(connection)
      const write = connection.write.bind(connection)
      let writes = 0
      connection.write = async (bytes, signal) => {
        if (++writes < 3) return write(bytes, signal)
        failed.abort()
        connection.destroy()
        throw new ConnectorError('unreachable', 'the network is gone')
      }
      connection.read = async (signal) => {
        if (fake.seen > 0 && !failed.signal.aborted)
          await new Promise((resolve) => {
            failed.signal.addEventListener('abort', resolve)
          })
        return read(signal)
      }
      return connection
    }
    const { link } = bench({}, { connect: failing })
    const large = Array.from({ length: 9 }, (_, i) => Buffer.alloc(100_000, `${i}`))
    expect(await link.send(large, never)).toEqual(all(3))
    expect(fake.stored).toHaveLength(3)
  })

  test('a cut before any answer acknowledges nothing and is reported', async () => {
    const { link } = bench({ cutAt: 0 })
    const error = await caught(link.send(someMessages(3), never))
    expect(error).toMatchObject({ code: 'unreachable' })
    expect(error.message).toBe('logs.test:2514: closed the connection')
  })

  test('an answer to a message that was not sent is no progress', async () => {
    for (const bytes of ['77 rsp 6 200 OK\n', '1 rsp 6 200 OK\n', '0 rsp 6 200 OK\n', '9 syslog 0\n']) {
      const { link, fake } = bench({ insteadOf: { number: 2, bytes } })
      expect(await link.send(someMessages(5), never)).toEqual(all(2))
      expect(fake.lines.size).toBe(0)
      const first = bench({ insteadOf: { number: 0, bytes } })
      expect(await caught(first.link.send(someMessages(5), never))).toMatchObject({ code: 'bad_reply' })
    }
  })

  test('an answer ahead of its message is no progress', async () => {
    const { fake, link } = bench({ insteadOf: { number: 0, bytes: '20 rsp 6 200 OK\n' } }, { window: 2 })
    expect(await caught(link.send(someMessages(50), never))).toMatchObject({ code: 'bad_reply' })
    expect(fake.seen).toBe(2)
  })

  test('an answer given twice is no progress', async () => {
    // Message 1 is txnr 3: answered, and then again in place of message 2.
    const { link } = bench({ insteadOf: { number: 2, bytes: '3 rsp 6 200 OK\n' } })
    expect(await link.send(someMessages(5), never)).toEqual(all(2))
    const first = bench({ insteadOf: { number: 0, bytes: '3 rsp 6 200 OK\n3 rsp 6 200 OK\n' } })
    const error = await caught(first.link.send(someMessages(5), never))
    expect(error).toMatchObject({ code: 'bad_reply', message: expect.stringContaining('twice') as string })
  })

  test('an unexpected answer ends the session, and the next call opens another', async () => {
    const late = { insteadOf: { number: 1, bytes: '3 rsp 6 200 OK\n3 rsp 6 200 OK\n' } }
    const { fake, link } = bench(late)
    expect(await link.send(someMessages(2), never)).toEqual(all(2))
    await calm()
    expect(fake.lines.size).toBe(0)
    fake.switches = {}
    expect(await link.send(someMessages(1, 2), never)).toEqual(all(1))
    expect(fake.stored).toEqual(textsOf(3))
  })

  test.each([
    ['without data', '2 rsp 0\n'],
    ['without a code', '2 rsp 2 OK\n'],
    ['that is no RELP', '\0\0\0'],
    ['without end', '2 rsp '.repeat(5_000)],
  ])('an answer %s is a bad reply', async (_, bytes) => {
    const { link } = bench({ insteadOf: { number: 0, bytes } })
    expect(await caught(link.send(someMessages(2), never))).toMatchObject({ code: 'bad_reply' })
  })

  test('silence for 90 s breaks the session; earlier answers count', async () => {
    const { fake, link, clock } = bench({ silentFrom: 2 })
    const sending = link.send(someMessages(5), never)
    await calm()
    clock.pass(89_999)
    await calm()
    expect(fake.lines.size).toBe(1)
    clock.pass(1)
    expect(await sending).toEqual(all(2))
    expect(fake.lines.size).toBe(0)
    expect(clock.sleeping).toBe(0)
    fake.switches = { silentFrom: 0 }
    expect(await caught(passing(clock, link.send(someMessages(5), never)))).toMatchObject({ code: 'timeout' })
  })

  test('each answer gives the receiver 90 s more', async () => {
    const { fake, link, clock } = bench({ held: true })
    const sending = link.send(someMessages(4), never)
    for (let i = 0; i < 4; i++) {
      await calm()
      clock.pass(80_000)
      await calm()
      fake.release(1)
    }
    expect(await sending).toEqual(all(4))
  })

  test('hints alone are no answer', async () => {
    const { fake, link, clock } = bench({ silentFrom: 0 })
    const sending = link.send(someMessages(2), never)
    for (let i = 0; i < 9; i++) {
      await calm()
      fake.say('0 hint 2 hm\n')
      await calm()
      clock.pass(10_000)
    }
    expect(await caught(sending)).toMatchObject({ code: 'timeout' })
  })

  test('a receiver that sends hints endlessly is given up, and the next call reports it', async () => {
    const { fake, link } = bench()
    await link.send(someMessages(2), never)
    fake.say('0 hint 0\n'.repeat(1_000))
    await calm()
    expect(fake.lines.size).toBe(1)
    fake.say('0 hint 0\n')
    await calm()
    expect(fake.lines.size).toBe(0)
    const error = await caught(link.send(someMessages(2, 2), never))
    expect(error).toMatchObject({ code: 'bad_reply', action: 'retry' })
    expect(error.message).toContain('hints')
    expect(await link.send(someMessages(2, 2), never)).toEqual(all(2))
    expect(fake.stored).toEqual(textsOf(4))
  })

  test('endless hints during a call acknowledge the answers before them', async () => {
    const { fake, link } = bench({ held: true })
    const sending = link.send(someMessages(5), never)
    await calm()
    fake.release(2)
    await calm()
    fake.say('0 hint 2 hm\n'.repeat(1_001))
    expect(await sending).toEqual(all(2))
    expect(fake.lines.size).toBe(0)
    fake.switches = {}
    expect((await caught(link.send(someMessages(3, 2), never))).message).toContain('hints')
    expect(await link.send(someMessages(3, 2), never)).toEqual(all(3))
  })

  test('endless hints before any answer are reported at once, and once', async () => {
    const { fake, link } = bench({ silentFrom: 0 })
    const sending = caught(link.send(someMessages(2), never))
    await calm()
    fake.say('0 hint 0\n'.repeat(5_000))
    expect((await sending).message).toContain('hints')
    fake.switches = {}
    expect(await link.send(someMessages(2), never)).toEqual(all(2))
  })

  test('a receiver that stops reading is given up after 90 s', async () => {
    const { link, clock, fake } = bench({ deafFrom: 128 })
    expect(await passing(clock, link.send(someMessages(500), never))).toEqual(all(128))
    expect(fake.lines.size).toBe(0)
  })

  test('a receiver that leaves an idle connection is noticed before the next message', async () => {
    for (const leave of [(fake: FakeRelp) => fake.leave(), (fake: FakeRelp) => fake.cutAll()]) {
      const { fake, link } = bench()
      await link.send(someMessages(2), never)
      leave(fake)
      await calm()
      expect(await link.send(someMessages(2, 2), never)).toEqual(all(2))
      expect(fake.stored).toEqual(textsOf(4))
    }
  })

  test('a goodbye counts before the connection ends', async () => {
    const { fake, link } = bench()
    await link.send(someMessages(2), never)
    fake.say('0 serverclose 0\n')
    await calm()
    expect(fake.lines.size).toBe(0)
    expect(await link.send(someMessages(2, 2), never)).toEqual(all(2))
    expect(fake.stored).toEqual(textsOf(4))
  })

  test('a goodbye in the middle acknowledges the answers before it', async () => {
    const { fake, link } = bench({ held: true })
    const sending = link.send(someMessages(10), never)
    await calm()
    fake.release(4)
    fake.leave()
    expect(await sending).toEqual(all(4))
  })

  test('whatever is cut, delayed or reordered, nothing is missing in the end and at most the window repeats', async () => {
    const faults = record({
      cutAt: option(nat(40), { nil: undefined }),
      cutBefore: option(nat(40), { nil: undefined }),
      silentFrom: option(nat(40), { nil: undefined }),
      reversed: boolean(),
      pieceBytes: constantFrom(1, 5, 100),
    })
    await assert(
      asyncProperty(faults, nat(20), async (fault, window) => {
        const given = Object.fromEntries(Object.entries(fault).filter(([, value]) => value !== undefined))
        const { fake, link, clock } = bench(given, { window: window + 1 })
        const messages = someMessages(50)
        let done = 0
        for (let calls = 0; done < 50; calls++) {
          expect(calls).toBeLessThan(10)
          const { acknowledged } = await passing(clock, link.send(messages.slice(done), never)).catch(() =>
            all(0),
          )
          done += acknowledged
          if (fake.seen > (fault.silentFrom ?? Infinity)) fake.switches = {}
        }
        const once = [...new Set(fake.stored)]
        expect(once.sort()).toEqual(textsOf(50).sort())
        expect(fake.stored.length - 50).toBeLessThanOrEqual(3 * (window + 1))
      }),
      { numRuns: 150 },
    )
  })
})

describe('refusals', () => {
  const refusing = (...numbers: readonly string[]) => ({
    codeOf: (message: string) => (numbers.some((each) => message.includes(`entry ${each} `)) ? 500 : 200),
  })

  test('a message refused in each try while others are taken is named, and the others arrive once', async () => {
    const { fake, link, clock } = bench(refusing('2'))
    const outcome = await passing(clock, link.send(someMessages(5), never))
    expect(outcome).toMatchObject({ acknowledged: 5, rejected: [{ index: 2, code: 'refused' }] })
    expect(outcome.rejected[0]?.reason).toMatch(/answered 500 3 times/)
    expect(outcome.rejected[0]?.reason).not.toContain('zoë')
    expect(fake.stored).toEqual(textsOf(5).filter((_, i) => i !== 2))
    expect(fake.seen).toBe(5 + 2)
  })

  test('a message that is taken in a later try is not lost and not refused', async () => {
    let tries = 0
    const codeOf = (message: string) => (message.includes('entry 1 ') && ++tries < 3 ? 500 : 200)
    const { fake, link, clock } = bench({ codeOf })
    expect(await passing(clock, link.send(someMessages(3), never))).toEqual(all(3))
    expect([...fake.stored].sort()).toEqual(textsOf(3))
    expect(fake.stored).toHaveLength(3)
  })

  test('a receiver that refuses everything is failing: nothing is acknowledged, nothing refused', async () => {
    for (const count of [1, 5, 300]) {
      const { fake, link, clock } = bench({ codeOf: () => 500 })
      for (let call = 0; call < 3; call++) {
        const error = await caught(passing(clock, link.send(someMessages(count), never)))
        expect(error).toMatchObject({ code: 'server_error', action: 'retry' })
        expect(error.message).toContain('answers 500')
      }
      expect(fake.stored).toEqual([])
    }
  })

  test('a receiver that begins to refuse everything is failing from there on', async () => {
    const { fake, link, clock } = bench({ codeOf: (_, number) => (number < 60 ? 200 : 500) })
    expect(await passing(clock, link.send(someMessages(100), never))).toEqual(all(60))
    const error = await caught(passing(clock, link.send(someMessages(40, 60), never)))
    expect(error.code).toBe('server_error')
    expect(fake.stored).toEqual(textsOf(60))
  })

  test('a message alone is refused only once the receiver takes a known one behind it', async () => {
    const { fake, link, clock } = bench(refusing('7'))
    expect(await passing(clock, link.send(someMessages(1), never))).toEqual(all(1))
    const outcome = await passing(clock, link.send(someMessages(1, 7), never))
    expect(outcome).toMatchObject({ acknowledged: 1, rejected: [{ index: 0 }] })
    expect(fake.stored).toEqual([...textsOf(1), ...textsOf(1)])
  })

  test('the known one is a copy: the bytes of its own batch may be overwritten', async () => {
    const { fake, link, clock } = bench(refusing('7'))
    const [known = Buffer.alloc(0)] = someMessages(1)
    await passing(clock, link.send([known], never))
    known.fill(0)
    await passing(clock, link.send(someMessages(1, 7), never))
    expect(fake.stored).toEqual([...textsOf(1), ...textsOf(1)])
  })

  test('the last of a batch, too, is refused only once the receiver takes something behind it', async () => {
    const { fake, link, clock } = bench(refusing('3', '4'))
    const outcome = await passing(clock, link.send(someMessages(5), never))
    expect(outcome).toMatchObject({ acknowledged: 5, rejected: [{ index: 3 }, { index: 4 }] })
    expect(new Set(fake.stored)).toEqual(new Set(textsOf(3)))
  })

  test('a receiver that changes its answer did not refuse for good: the others get all their tries again', async () => {
    const tries = new Map<string, number>()
    const patience: Record<string, number> = { 'entry 1 ': 2, 'entry 2 ': 4, 'entry 3 ': 5 }
    const codeOf = (message: string) => {
      const [name = ''] = /entry \d+ /.exec(message) ?? []
      tries.set(name, (tries.get(name) ?? 0) + 1)
      return (tries.get(name) ?? 0) < (patience[name] ?? 0) ? 500 : 200
    }
    const { fake, link, clock } = bench({ codeOf })
    expect(await passing(clock, link.send(someMessages(6), never))).toEqual(all(6))
    expect([...fake.stored].sort()).toEqual(textsOf(6))
  })

  test('a refusal that a cut interrupts is not decided', async () => {
    // In its second try, and in its last.
    for (const cutBefore of [5, 6]) {
      const { fake, link, clock } = bench({ ...refusing('2'), cutBefore })
      expect(await passing(clock, link.send(someMessages(5), never))).toEqual(all(2))
      expect(fake.stored).toEqual(textsOf(5).filter((_, i) => i !== 2))
    }
  })

  test('any code but 200 is no acceptance', async () => {
    for (const code of [100, 201, 299, 400, 501, 999]) {
      const { link, clock } = bench({ codeOf: () => code })
      expect((await caught(passing(clock, link.send(someMessages(2), never)))).code).toBe('server_error')
    }
  })

  test('a stop in the pause between two tries acknowledges what was taken before', async () => {
    const { link } = bench(refusing('2'))
    const stop = new AbortController()
    const sending = link.send(someMessages(5), stop.signal)
    await calm()
    stop.abort()
    expect(await sending).toEqual(all(2))
  })
})

describe('opening and closing', () => {
  test.each([
    ['500 required command not supported', 'misconfigured', /refuses the session and says "500 required/],
    ['200 OK\nrelp_software=x\ncommands=syslog', 'misconfigured', /without naming its RELP version/],
    ['200 OK\nrelp_version=7\ncommands=syslog', 'misconfigured', /speaks a RELP version/],
    ['200 OK\nrelp_version=0\ncommands=eventlog', 'misconfigured', /accepts no syslog messages/],
    ['200 OK\nrelp_version=0', 'misconfigured', /accepts no syslog messages/],
  ])('%j is no session', async (opening, code, message) => {
    const { fake, link } = bench({ opening })
    const error = await caught(link.send(someMessages(1), never))
    expect(error).toMatchObject({ code })
    expect(error.message).toMatch(/^logs\.test:2514: /)
    expect(error.message).toMatch(message)
    expect(fake.lines.size).toBe(0)
    expect(fake.seen).toBe(0)
  })

  test('offers in another order, of version 1 and with more commands are accepted', async () => {
    const { link } = bench({ opening: '200 OK\ncommands=eventlog, syslog\nx\nrelp_version=1\n' })
    expect(await link.send(someMessages(1), never)).toEqual(all(1))
  })

  test.each([
    ['another protocol', { greeting: 'SSH-2.0-OpenSSH_9.2\r\n' }, 'bad_reply', /is not RELP/],
    ['a hang-up', { hangsUp: true }, 'unreachable', /it may require TLS/],
    ['an answer without a code', { greeting: '1 rsp 0\n' }, 'bad_reply', /without its code/],
  ])('%s is reported in clear words', async (_, switches, code, message) => {
    const { fake, link } = bench(switches)
    const error = await caught(link.open(never))
    expect(error).toMatchObject({ code })
    expect(error.message).toMatch(message)
    expect(fake.lines.size).toBe(0)
  })

  test('a receiver that does not answer the opening is given up after 30 s', async () => {
    const { fake, link, clock } = bench({ greeting: '' })
    const opening = link.open(never)
    await calm()
    clock.pass(29_999)
    await calm()
    expect(fake.lines.size).toBe(1)
    clock.pass(1)
    expect(await caught(opening)).toMatchObject({ code: 'timeout' })
    expect(fake.lines.size).toBe(0)
    expect(clock.sleeping).toBe(0)
  })

  test('a refused connection is reported unchanged, and nothing stays open', async () => {
    const { fake, link } = bench({ down: true })
    expect(await caught(link.send(someMessages(1), never))).toMatchObject({ code: 'unreachable' })
    fake.switches = {}
    expect(await link.send(someMessages(1), never)).toEqual(all(1))
  })

  test('closing is sent and answered, and may be done twice', async () => {
    const { fake, link, clock } = bench()
    await link.send(someMessages(2), never)
    await link.close(500)
    await link.close(500)
    expect(fake.sessions[0]?.closedInOrder).toBe(true)
    expect(fake.lines.size).toBe(0)
    expect(clock.sleeping).toBe(0)
    expect(await link.send(someMessages(1, 2), never)).toEqual(all(1))
    expect(fake.sessions).toHaveLength(2)
  })

  test('a receiver that does not answer the goodbye is dropped after the given time', async () => {
    const { fake, link, clock } = bench({ rude: true })
    await link.open(never)
    const closing = link.close(500)
    await calm()
    expect(fake.lines.size).toBe(1)
    clock.pass(500)
    await closing
    expect(fake.lines.size).toBe(0)
  })

  test('a stop sends nothing more, waits a moment for outstanding answers, and acknowledges them', async () => {
    const { fake, link, clock } = bench({ held: true }, { window: 10 })
    const stop = new AbortController()
    const sending = link.send(someMessages(50), stop.signal)
    await calm()
    stop.abort()
    await calm()
    fake.release()
    expect(await sending).toEqual(all(10))
    expect(fake.seen).toBe(10)
    expect(clock.sleeping).toBe(0)
    await link.close(500)
    expect(fake.sessions[0]?.closedInOrder).toBe(true)
  })

  test('a stop during the last frame finishes it: the session stays whole and is closed in order', async () => {
    const { fake, link } = bench({ held: true })
    const stop = new AbortController()
    const sending = link.send(someMessages(5), stop.signal)
    await calm()
    fake.release(1)
    await calm()
    expect([fake.seen, fake.sessions[0]?.pieces.at(-1)]).toEqual([4, 1])
    stop.abort()
    await calm()
    fake.release()
    expect(await sending).toEqual(all(5))
    await link.close(500)
    expect(fake.sessions[0]?.closedInOrder).toBe(true)
  })

  test('a stop without any answer throws aborted within that moment', async () => {
    const { fake, link, clock } = bench({ held: true })
    const stop = new AbortController()
    const sending = link.send(someMessages(5), stop.signal)
    await calm()
    stop.abort()
    await calm()
    clock.pass(1_000)
    expect(await caught(sending)).toMatchObject({ code: 'aborted' })
    expect(fake.lines.size).toBe(0)
    expect(await caught(link.send(someMessages(5), stop.signal))).toMatchObject({ code: 'aborted' })
    expect(fake.sessions).toHaveLength(1)
  })

  test('closing in the middle ends at once', async () => {
    const { fake, link } = bench({ held: true })
    const sending = link.send(someMessages(5), never)
    await calm()
    await link.close(500)
    expect(await caught(sending)).toMatchObject({ code: 'aborted' })
    expect(fake.lines.size).toBe(0)
  })

  test('a bug is no failure of the receiver', async () => {
    const broken = async (): Promise<Connection> => {
      const connection = await new FakeRelp().connect()
      connection.read = () => Promise.reject(new TypeError('x is undefined'))
      return connection
    }
    const { link } = bench({}, { connect: broken })
    await expect(link.send(someMessages(1), never)).rejects.toThrow(TypeError)
  })
})

test('a session that waits for more keeps nothing of what it has sent', async () => {
  const { fake, link } = bench()
  const batch = async () => {
    const messages = someMessages(3)
    expect(await link.send(messages, never)).toEqual(all(3))
    return new WeakRef(messages[0] as Buffer)
  }
  const sent = await batch()
  await calm()
  makeWay(Infinity)
  expect(sent.deref()).toBeUndefined()
  expect(fake.lines.size).toBe(1)
})

describe('over real sockets', () => {
  const overTcp = async (switches: RelpSwitches) => {
    const fake = new FakeRelp(switches)
    const listener = await fake.listen()
    const connect = (signal: AbortSignal) =>
      connectSocket({ host: '127.0.0.1', port: listener.port }, undefined, 5_000, signal)
    return { fake, listener, link: new RelpLink({ where, connect, clock: new StepClock() }) }
  }

  test('thousands of messages arrive whole and in order, however the answers are cut', async () => {
    const { fake, listener, link } = await overTcp({ pieceBytes: 1_000 })
    const texts = Array.from({ length: 5_000 }, (_, i) => `entry ${i} `.padEnd(50 + (i % 700), 'é'))
    expect(await link.send(messagesOf(texts), never)).toEqual(all(5_000))
    expect(fake.stored).toEqual(texts)
    await link.close(500)
    expect(fake.sessions[0]?.closedInOrder).toBe(true)
    await listener.close()
  })

  test('unread answers before a cut count, though a write failed', async () => {
    const { fake, listener, link } = await overTcp({ cutAt: 2_000 })
    const { acknowledged } = await link.send(someMessages(5_000), never)
    expect(acknowledged).toBe(2_000)
    fake.switches = {}
    expect(await link.send(someMessages(3_000, 2_000), never)).toEqual(all(3_000))
    expect([...new Set(fake.stored)]).toEqual(textsOf(5_000))
    await link.close(500)
    await listener.close()
  })
})
