// Streams over real sockets, plain and under TLS.
import { createSocket } from 'node:dgram'
import { mkdtempSync, rmSync, utimesSync, writeFileSync } from 'node:fs'
import { type AddressInfo, createServer, type Server, type Socket } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { createServer as createTls, type TlsOptions as ServerOptions } from 'node:tls'
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { ConnectorError } from '../../../src/core/errors.ts'
import type { Connection, TlsOptions } from '../../../src/contracts/platform.ts'
import { openDatagrams } from '../../../src/platform/datagrams.ts'
import { connectSocket } from '../../../src/platform/sockets.ts'
import { certificate } from '../../fakes/certificates.ts'

const never = new AbortController().signal
const DAY_MS = 86_400_000
let folder: string
let servers: Server[]
let sockets: Socket[]
let connections: Connection[]

beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'sockets-'))
  servers = []
  sockets = []
  connections = []
})

afterEach(async () => {
  for (const each of [...connections, ...sockets]) each.destroy()
  for (const server of servers) await new Promise((resolve) => server.close(resolve))
  rmSync(folder, { recursive: true })
})

type Meet = (socket: Socket) => void

async function listen(server: Server): Promise<number> {
  servers.push(server)
  server.on('connection', (socket: Socket) => sockets.push(socket.on('error', () => undefined)))
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  return (server.address() as AddressInfo).port
}

const plain = (meet: Meet = () => undefined) => listen(createServer(meet))

function secure(options: ServerOptions, meet: Meet = () => undefined): Promise<number> {
  const server = createTls(options, (socket) => meet(socket.on('error', () => undefined)))
  return listen(server.on('tlsClientError', () => undefined))
}

async function connect(
  port: number,
  tls?: TlsOptions,
  timeoutMs = 5_000,
  signal = never,
  host = '127.0.0.1',
) {
  const connection = await connectSocket({ host, port }, tls, timeoutMs, signal)
  connections.push(connection)
  return connection
}

const caught = async (work: Promise<unknown>): Promise<ConnectorError> => {
  const error = await work.then(() => new Error('nothing was thrown'), (each: unknown) => each) // prettier-ignore
  expect(error).toBeInstanceOf(ConnectorError)
  return error as ConnectorError
}

async function until(holds: () => boolean): Promise<void> {
  for (let i = 0; i < 2_000 && !holds(); i++) await new Promise((resolve) => setTimeout(resolve, 2))
  expect(holds()).toBe(true)
}

function written(name: string, text: string): string {
  const path = join(folder, name)
  writeFileSync(path, text)
  return path
}

const authority = certificate('authority')
const local = certificate('127.0.0.1', authority)
const trusting = () => ({ ca_file: written('ca.pem', authority.cert) })

describe('a plain stream', () => {
  test('carries bytes both ways, in their order', async () => {
    const port = await plain((socket) => socket.pipe(socket))
    const connection = await connect(port)
    const large = Buffer.alloc(300_000, 'a')
    void connection.write(large, never)
    await connection.write(Buffer.from('end'), never)
    let heard = Buffer.alloc(0)
    while (heard.length < 300_003)
      heard = Buffer.concat([heard, (await connection.read(never)) ?? Buffer.from('closed early')])
    expect(heard.equals(Buffer.concat([large, Buffer.from('end')]))).toBe(true)
    expect([connection.gone, connection.certificateEndsAt]).toEqual([false, undefined])
  })

  test('notices the orderly end of a peer without writing to it', async () => {
    const port = await plain((socket) => socket.end('bye'))
    const connection = await connect(port)
    expect(Buffer.from((await connection.read(never)) ?? []).toString()).toBe('bye')
    expect(await connection.read(never)).toBeUndefined()
    expect(connection.gone).toBe(true)
    expect((await caught(connection.write(Buffer.from('x'), never))).code).toBe('unreachable')
  })

  test('notices a reset without writing, and reports it to readers and writers', async () => {
    const port = await plain()
    const connection = await connect(port)
    await until(() => sockets.length === 1)
    sockets[0]?.resetAndDestroy()
    await until(() => connection.gone)
    expect((await caught(connection.read(never))).message).toContain(`127.0.0.1:${port} reset the connection`)
    expect((await caught(connection.write(Buffer.from('x'), never))).code).toBe('unreachable')
  })

  test('aborts a write to a peer that takes nothing, and destroys the connection', async () => {
    const port = await plain((socket) => socket.pause())
    const connection = await connect(port)
    const stop = new AbortController()
    const writing = connection.write(Buffer.alloc(64 * 1024 * 1024), stop.signal)
    setTimeout(() => stop.abort(), 50)
    expect((await caught(writing)).code).toBe('aborted')
    expect(connection.gone).toBe(true)
  })

  test('reports a peer that ends its side while a write is stuck, though the write still waits', async () => {
    const port = await listen(
      createServer({ allowHalfOpen: true, pauseOnConnect: true }, (socket) => socket.end()),
    )
    const connection = await connect(port)
    const stop = new AbortController()
    const writing = connection.write(Buffer.alloc(64 * 1024 * 1024), stop.signal)
    writing.catch(() => undefined)
    await until(() => connection.gone)
    stop.abort()
    await caught(writing)
  })

  test('aborts a read without harm to the connection', async () => {
    const port = await plain((socket) => socket.pipe(socket))
    const connection = await connect(port)
    const stop = new AbortController()
    const reading = connection.read(stop.signal)
    stop.abort()
    expect((await caught(reading)).code).toBe('aborted')
    await connection.write(Buffer.from('still'), never)
    expect(Buffer.from((await connection.read(never)) ?? []).toString()).toBe('still')
  })

  test('keeps no endless data of a peer in memory when nothing reads it', async () => {
    let taken = 0
    const port = await plain((socket) => {
      const talk = () => {
        while (taken < 200_000_000 && socket.write(Buffer.alloc(65_536))) taken += 65_536
      }
      socket.on('drain', talk)
      talk()
    })
    const connection = await connect(port)
    await new Promise((resolve) => setTimeout(resolve, 200))
    expect(taken).toBeLessThan(50_000_000)
    expect(connection.gone).toBe(false)
  })

  test('end sends what was written, and waits until the peer has read it', async () => {
    let heard = 0
    const port = await plain((socket) => socket.on('data', (part: Buffer) => (heard += part.length)))
    const connection = await connect(port)
    void connection.write(Buffer.alloc(5_000_000), never)
    await connection.end(5_000)
    expect(heard).toBe(5_000_000)
  })

  test('end gives a peer that does not end so many ms and no more', async () => {
    const port = await listen(createServer({ allowHalfOpen: true }))
    const connection = await connect(port)
    const since = performance.now()
    await connection.end(100)
    expect(performance.now() - since).toBeGreaterThan(90)
    expect(connection.gone).toBe(true)
    await connection.end(100)
  })

  test('a port without a listener is unreachable; an unknown name has no address', async () => {
    const port = await plain()
    await new Promise((resolve) => servers.pop()?.close(resolve))
    expect(await caught(connect(port))).toMatchObject({ code: 'unreachable' })
    expect(await caught(connect(port, undefined, 5_000, never, 'no-such-host.invalid'))).toMatchObject({
      code: 'unreachable',
    })
  })

  test('nothing begins under a signal that has aborted', async () => {
    expect((await caught(connect(1, undefined, 5_000, AbortSignal.abort()))).code).toBe('aborted')
  })
})

describe('a stream over TLS', () => {
  test('is trusted for the named authority, and reports when the certificate ends', async () => {
    const port = await secure(local, (socket) => socket.pipe(socket))
    const connection = await connect(port, trusting())
    await connection.write(Buffer.from('hello'), never)
    expect(Buffer.from((await connection.read(never)) ?? []).toString()).toBe('hello')
    expect(Math.abs((connection.certificateEndsAt ?? 0) - Date.now() - DAY_MS)).toBeLessThan(60_000)
  })

  test.each([
    ['no authority of ours signed', () => certificate('127.0.0.1')],
    ['for another name', () => certificate('other.test', authority)],
    [
      'that has expired',
      () => certificate('127.0.0.1', authority, Date.now() - 3 * DAY_MS, Date.now() - DAY_MS),
    ],
    ['that is not valid yet', () => certificate('127.0.0.1', authority, Date.now() + DAY_MS)],
  ])('a certificate %s is refused', async (_, issue) => {
    const port = await secure(issue())
    expect(await caught(connect(port, trusting()))).toMatchObject({ code: 'tls_invalid' })
  })

  test.each(['siem.test', '10.0.0.1'])('server_name %s is what the certificate must name', async (name) => {
    const port = await secure(certificate(name, authority))
    const connection = await connect(port, { ...trusting(), server_name: name })
    expect(connection.gone).toBe(false)
    expect((await caught(connect(port, trusting()))).code).toBe('tls_invalid')
  })

  test('TLS 1.1 is refused', async () => {
    const port = await secure({
      ...local,
      minVersion: 'TLSv1',
      maxVersion: 'TLSv1.1',
      ciphers: 'DEFAULT@SECLEVEL=0',
    })
    expect((await caught(connect(port, trusting()))).code).toBe('tls_invalid')
  })

  test.each(['TLSv1.2', 'TLSv1.3'] as const)(
    'with %s a client certificate is shown if there is one, and its absence is reported',
    async (version) => {
      const own = certificate('client', authority)
      const strict = {
        ...local,
        ca: authority.cert,
        requestCert: true,
        minVersion: version,
        maxVersion: version,
      }
      const port = await secure(strict, (socket) => socket.pipe(socket))
      const error = await caught(connect(port, trusting()))
      expect(['tls_invalid', 'unreachable']).toContain(error.code)
      const files = { cert_file: written('own.pem', own.cert), key_file: written('own.key', own.key) }
      const connection = await connect(port, { ...trusting(), ...files })
      await connection.write(Buffer.from('me'), never)
      expect(Buffer.from((await connection.read(never)) ?? []).toString()).toBe('me')
      expect(Math.abs((connection.ownCertificateEndsAt ?? 0) - Date.now() - DAY_MS)).toBeLessThan(60_000)
    },
  )

  test('a file that changed is read again with the next connection; one in mid-swap keeps the working one', async () => {
    const port = await secure(local)
    const tls = { ca_file: written('ca.pem', certificate('stranger').cert) }
    expect((await caught(connect(port, tls))).code).toBe('tls_invalid')
    written('ca.pem', authority.cert)
    await connect(port, tls)
    written('ca.pem', '-----BEGIN CERT')
    utimesSync(tls.ca_file, 1, 1)
    await connect(port, tls)
    rmSync(tls.ca_file)
    await connect(port, tls)
  })

  test('a file that never was PEM, and a key of another certificate, are reported by their kind', async () => {
    const port = await secure(local)
    expect((await caught(connect(port, { ca_file: join(folder, 'none.pem') }))).message).toContain(
      'none.pem (ENOENT)',
    )
    const files = { cert_file: written('a.pem', local.cert), key_file: written('b.key', authority.key) }
    expect((await caught(connect(port, { ...trusting(), ...files }))).code).toBe('tls_invalid')
  })

  test('a peer that takes the connection and never shakes hands is a timeout', async () => {
    const port = await plain((socket) => socket.resume())
    const error = await caught(connect(port, trusting(), 100))
    expect([error.code, error.message]).toEqual([
      'timeout',
      expect.stringContaining('did not answer the TLS handshake'),
    ])
    await until(() => sockets.every((socket) => socket.closed || socket.destroyed || socket.readableEnded))
  })

  test('a peer that speaks another protocol is no TLS peer', async () => {
    const port = await plain((socket) => socket.end('220 mail.test ESMTP\r\n'))
    expect(['tls_invalid', 'unreachable']).toContain((await caught(connect(port, trusting()))).code)
  })
})

describe('datagrams', () => {
  const receiver = async () => {
    const heard: string[] = []
    const socket = createSocket('udp4', (message) => heard.push(message.toString()))
    await new Promise<void>((resolve) => socket.bind(0, '127.0.0.1', resolve))
    const close = () => new Promise<void>((resolve) => socket.close(() => resolve()))
    return { heard, port: socket.address().port, close }
  }

  test('arrive one by one', async () => {
    const there = await receiver()
    const datagrams = await openDatagrams({ host: 'localhost', port: there.port })
    for (const each of ['one', 'two', 'three']) await datagrams.send(Buffer.from(each))
    await until(() => there.heard.length === 3)
    expect(there.heard).toEqual(['one', 'two', 'three'])
    await datagrams.close()
    await datagrams.close()
    expect((await caught(datagrams.send(Buffer.from('late')))).code).toBe('unreachable')
    await there.close()
  })

  test('a datagram that does not fit is too large, and harms none after it', async () => {
    const there = await receiver()
    const datagrams = await openDatagrams({ host: '127.0.0.1', port: there.port })
    expect((await caught(datagrams.send(Buffer.alloc(65_508)))).code).toBe('too_large')
    await datagrams.send(Buffer.from('small'))
    await until(() => there.heard.length === 1)
    await datagrams.close()
    await there.close()
  })

  test('a port without a listener is reported, if late', async () => {
    const there = await receiver()
    await there.close()
    const datagrams = await openDatagrams({ host: '127.0.0.1', port: there.port })
    const tries = async () => {
      for (let i = 0; i < 50; i++) {
        await datagrams.send(Buffer.from('x'))
        await new Promise((resolve) => setTimeout(resolve, 2))
      }
    }
    expect((await caught(tries())).code).toBe('unreachable')
    await datagrams.close()
  })

  test('an address to which nothing may be sent is reported at once, and leaves no socket open', async () => {
    const error = await caught(openDatagrams({ host: '255.255.255.255', port: 514 }))
    expect(error).toMatchObject({ code: 'unreachable', cause: { syscall: 'connect' } })
    expect(error.message).not.toContain('ERR_SOCKET')
    await until(() => !process.getActiveResourcesInfo().includes('UDPWrap'))
  })

  test('a name without an address is unreachable', async () => {
    expect((await caught(openDatagrams({ host: 'no-such-host.invalid', port: 1 }))).code).toBe('unreachable')
  })
})
