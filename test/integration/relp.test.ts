// RELP and RELP over TLS against rsyslog's imrelp: whole, in order, through kills, and blocked if the certificate is not right.
import { mkdtempSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as pause } from 'node:timers/promises'
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { ConnectorError } from '../../src/core/errors.ts'
import type { Sink } from '../../src/contracts/sink.ts'
import type { TlsOptions } from '../../src/contracts/platform.ts'
import { systemClock } from '../../src/platform/clock.ts'
import { connectSocket } from '../../src/platform/sockets.ts'
import { sinkKinds } from '../../src/sinks/index.ts'
import { RELP_WINDOW, RelpLink } from '../../src/sinks/syslog/relp.ts'
import { certificate, type Issued } from '../fakes/certificates.ts'
import { linesOf, runOf, someEntries } from '../fakes/lines.ts'
import { sinkDeps } from '../fakes/sink-deps.ts'
import { freePort, until } from './receivers/ports.ts'
import { foundRsyslog, imrelp as openImrelp } from './receivers/rsyslog.ts'
import type { Receiver } from './receivers/server.ts'

const never = new AbortController().signal
const missing = foundRsyslog.missing !== undefined

const host = '127.0.0.1'
let folder = ''
let receivers: Receiver[] = []

beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'auditferry-imrelp-'))
})

afterEach(async () => {
  for (const each of receivers) await each.stop()
  receivers = []
  rmSync(folder, { recursive: true, force: true })
})

async function imrelp(port: number, more = ''): Promise<Receiver> {
  const receiver = await openImrelp({ folder, port, more })
  receivers.push(receiver)
  await receiver.start()
  return receiver
}

const received = () =>
  readFileSync(join(folder, 'out'), { encoding: 'utf8', flag: 'a+' }).split('\n').slice(0, -1)
const size = () => statSync(join(folder, 'out'), { throwIfNoEntry: false })?.size ?? 0

const linkTo = (port: number, tls?: TlsOptions) =>
  new RelpLink({
    where: `${host}:${port}`,
    clock: systemClock,
    connect: (signal) => connectSocket({ host, port }, tls, 5_000, signal),
  })

const textsOf = (count: number, from = 0) =>
  Array.from({ length: count }, (_, i) => `<13>1 - host auditferry - - - entry ${from + i} zoë`)
const messagesOf = (texts: readonly string[]) => texts.map((text) => Buffer.from(text))

function sinkAt(address: string, tls?: object): Sink {
  const deps = { ...sinkDeps(), clock: systemClock, connect: connectSocket }
  return sinkKinds.syslog.open('siem', sinkKinds.syslog.options.parse({ address, tls }), deps)
}

const linesFor = (sink: Sink, count: number, from = 1) =>
  linesOf(runOf(someEntries(count, from), { firstSeq: from }), sink.frame)

const entryOf = (line: string) => line.slice(line.indexOf('{'))

function rawsOf(count: number): string[] {
  const { entries } = runOf(someEntries(count))
  return Array.from({ length: count }, (_, i) => Buffer.from(entries.raw(i)).toString())
}

function writeTls(name: string, { cert, key }: Issued): { cert: string; key: string } {
  const files = { cert: join(folder, `${name}.crt`), key: join(folder, `${name}.key`) }
  writeFileSync(files.cert, cert)
  writeFileSync(files.key, key)
  return files
}

describe.skipIf(missing)('imrelp', () => {
  test('entries arrive whole and in order, batch after batch, over one session that is closed in order', async () => {
    const port = await freePort()
    await imrelp(port)
    const sink = sinkAt(`relp://${host}:${port}`)
    for (const [count, from] of [
      [1, 1],
      [999, 2],
      [3_000, 1_001],
    ] as const)
      expect(
        await sink.deliver(
          { lines: linesFor(sink, count, from), detail: '', possibleDuplicate: false },
          never,
        ),
      ).toEqual({ acknowledged: count, rejected: [] })
    await sink.close()
    expect(received().map(entryOf)).toEqual(rawsOf(4_000))
    for (const result of await sink.check(never)) expect(result).toMatchObject({ ok: true })
    await sink.close()
    expect(received()).toHaveLength(4_000)
  })

  test('content that looks like a frame, a line or another message inside a message stays inside it', async () => {
    const port = await freePort()
    await imrelp(port)
    const link = linkTo(port)
    const texts = [
      'a\n2 syslog 5 forge\n3 close 0\nb',
      '<13>1 x\n<14>1 y',
      ' 7 syslog 3 abc',
      'é'.repeat(10_000),
    ]
    expect(await link.send(messagesOf(texts), never)).toEqual({ acknowledged: 4, rejected: [] })
    await link.close(1_000)
    expect(received()).toEqual([
      'a#0122 syslog 5 forge#0123 close 0#012b',
      '<13>1 x#012<14>1 y',
      ' 7 syslog 3 abc',
      'é'.repeat(10_000),
    ])
  })

  test('killed in mid-batch and started again, it misses nothing and has at most a window twice', async () => {
    const port = await freePort()
    let receiver = await imrelp(port)
    const count = 60_000
    const messages = messagesOf(textsOf(count))
    const link = linkTo(port)
    let done = 0
    let kills = 0
    const killing = (async () => {
      for (const share of [0.2, 0.5, 0.8]) {
        await until('a share of the messages', () => size() > share * count * 50)
        await receiver.stop()
        kills++
        receiver = await imrelp(port)
      }
    })()
    while (done < count) {
      try {
        const { acknowledged, rejected } = await link.send(messages.slice(done, done + 5_000), never)
        expect(rejected).toEqual([])
        done += acknowledged
      } catch (error) {
        expect(error).toMatchObject({ action: 'retry' })
        await pause(20)
      }
    }
    await killing
    await link.close(1_000)
    const lines = received()
    expect([...new Set(lines)]).toEqual(textsOf(count))
    expect(kills).toBe(3)
    expect(lines.length - count).toBeLessThanOrEqual(3 * RELP_WINDOW)
  })

  test('restarted while idle, it gets the next message at once and only once', async () => {
    const port = await freePort()
    const receiver = await imrelp(port)
    const link = linkTo(port)
    await link.send(messagesOf(textsOf(3)), never)
    await receiver.stop()
    await imrelp(port)
    expect(await link.send(messagesOf(textsOf(3, 3)), never)).toEqual({ acknowledged: 3, rejected: [] })
    await link.close(1_000)
    expect(received()).toEqual(textsOf(6))
  })

  test('no answer waits for ours: a call of two messages takes far less than the 40 ms of a delayed acknowledgement', async () => {
    const port = await freePort()
    await imrelp(port)
    const link = linkTo(port)
    const startedAt = performance.now()
    for (let i = 0; i < 200; i++) await link.send(messagesOf(textsOf(2, 2 * i)), never)
    expect((performance.now() - startedAt) / 200).toBeLessThan(20)
    await link.close(1_000)
    expect(received()).toEqual(textsOf(400))
  })
})

describe.skipIf(missing)('imrelp over TLS', () => {
  const authority = certificate('Test CA')
  const day = 86_400_000

  interface Given {
    server?: Issued
    more?: string
  }

  async function overTls({ server = certificate('localhost', authority), more = '' }: Given = {}) {
    const port = await freePort()
    const ca = writeTls('ca', authority)
    const own = writeTls('server', server)
    const auth = more === '' ? 'tls.authMode="name" tls.permittedPeer=["sender"]' : more
    await imrelp(
      port,
      `tls="on" tls.caCert="${ca.cert}" tls.myCert="${own.cert}" tls.myPrivKey="${own.key}" ${auth}`,
    )
    return { port, ca_file: ca.cert }
  }

  function senderTls(ca_file: string, own: Issued = certificate('sender', authority)) {
    const { cert, key } = writeTls('sender', own)
    return { ca_file, cert_file: cert, key_file: key, server_name: 'localhost' }
  }

  async function failure(sink: Sink): Promise<ConnectorError> {
    const lines = linesFor(sink, 3)
    const error = await sink.deliver({ lines, detail: '', possibleDuplicate: false }, never).then(
      () => new Error('it was taken'),
      (each: unknown) => each,
    )
    await sink.close()
    expect(error).toBeInstanceOf(ConnectorError)
    expect(received()).toEqual([])
    return error as ConnectorError
  }

  test('with certificates on both sides entries arrive whole and in order', async () => {
    const { port, ca_file } = await overTls()
    const sink = sinkAt(`relp+tls://${host}:${port}`, senderTls(ca_file))
    for (const from of [1, 1_001]) {
      const lines = linesFor(sink, 1_000, from)
      expect(await sink.deliver({ lines, detail: '', possibleDuplicate: false }, never)).toMatchObject({
        acknowledged: 1_000,
      })
    }
    await sink.close()
    expect(received().map(entryOf)).toEqual(rawsOf(2_000))
  })

  test('an untrusted authority blocks the sink, with a clear message', async () => {
    const { port, ca_file } = await overTls()
    const { cert } = writeTls('other', certificate('Other CA'))
    const error = await failure(
      sinkAt(`relp+tls://${host}:${port}`, { ...senderTls(ca_file), ca_file: cert }),
    )
    expect(error).toMatchObject({ code: 'tls_invalid', action: 'block' })
    expect(error.message).toContain("no trusted authority signed; see 'tls.ca_file'")
  })

  test('a certificate for another name blocks the sink, with a clear message', async () => {
    const { port, ca_file } = await overTls({ server: certificate('elsewhere.test', authority) })
    const error = await failure(sinkAt(`relp+tls://${host}:${port}`, senderTls(ca_file)))
    expect(error).toMatchObject({ code: 'tls_invalid', action: 'block' })
    expect(error.message).toContain('for another name')
  })

  test('an expired certificate blocks the sink, with a clear message', async () => {
    const expired = certificate('localhost', authority, Date.now() - 3 * day, Date.now() - day)
    const { port, ca_file } = await overTls({ server: expired })
    const error = await failure(sinkAt(`relp+tls://${host}:${port}`, senderTls(ca_file)))
    expect(error).toMatchObject({ code: 'tls_invalid', action: 'block' })
    expect(error.message).toContain('has expired')
  })

  test('without the required certificate, or with an unknown one, nothing is acknowledged and the message says why', async () => {
    const { port, ca_file } = await overTls()
    const stranger = certificate('sender', certificate('Other CA'))
    for (const tls of [{ ca_file, server_name: 'localhost' }, senderTls(ca_file, stranger)]) {
      const error = await failure(sinkAt(`relp+tls://${host}:${port}`, tls))
      expect(['retry', 'block']).toContain(error.action)
      expect(error.message).toMatch(/certificate|TLS/)
    }
  })

  test('with a name that it does not permit nothing is acknowledged, and nothing lost', async () => {
    const { port, ca_file } = await overTls()
    const tls = senderTls(ca_file, certificate('somebody', authority))
    const error = await failure(sinkAt(`relp+tls://${host}:${port}`, tls))
    expect(['retry', 'block']).toContain(error.action)
    expect(error.message).toMatch(/certificate/)
  })

  test('RELP without TLS to a port that requires it, and the reverse, are reported clearly', async () => {
    const { port } = await overTls()
    expect((await failure(sinkAt(`relp://${host}:${port}`))).message).toMatch(/TLS/)
    const plain = await freePort()
    await imrelp(plain)
    const error = await failure(sinkAt(`relp+tls://${host}:${plain}`))
    expect(error.message).toMatch(/TLS/)
  })
})
