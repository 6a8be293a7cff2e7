// The listener over a real socket.
import { IncomingMessage, ServerResponse } from 'node:http'
import { connect, Server, Socket } from 'node:net'
import { request } from 'undici'
import { afterEach, describe, expect, it, vi } from 'vitest'
import { ConnectorError } from '../../../src/core/errors.ts'
import { AnswersOut, openHttp } from '../../../src/observability/listener.ts'
import type { HttpOptions, OpsHttp } from '../../../src/observability/listener.ts'
import { openRegistrySetup, ack } from './registry-setup.ts'

/** The runner's own second is too little for a busy machine. */
const PATIENCE_MS = 10_000

const opened: OpsHttp[] = []
afterEach(async () => {
  for (const http of opened.splice(0)) await http.close()
})

async function open(more: Partial<HttpOptions> = {}) {
  const setup = openRegistrySetup()
  ack(setup)
  const { registry, metrics, clock } = setup
  const http = await openHttp({
    ...{ listen: '127.0.0.1:0', hosts: () => [], clock, registry, metrics },
    ...{ live: () => true, ready: () => true },
    ...more,
  })
  opened.push(http)
  const base = `http://127.0.0.1:${http.address.port}`
  const get = async (
    path: string,
    method: 'GET' | 'HEAD' | 'POST' | 'PUT' = 'GET',
    body: string | null = null,
  ) => {
    const reply = await request(`${base}${path}`, { method, body, reset: true })
    return { status: reply.statusCode, headers: reply.headers, text: await reply.body.text() }
  }
  return { ...setup, http, base, get }
}

describe('the listener', () => {
  it('serves metrics, status, page and probes', async () => {
    const { get } = await open()
    expect(await get('/metrics')).toMatchObject({ status: 200 })
    expect((await get('/metrics')).headers['content-type']).toContain('version=0.0.4')
    expect(JSON.parse((await get('/status')).text)).toMatchObject({ version: '1.2.3', ok: true })
    expect((await get('/')).headers['content-type']).toBe('text/html; charset=utf-8')
    expect(await get('/livez')).toMatchObject({ status: 200, text: 'ok\n' })
    expect(await get('/readyz')).toMatchObject({ status: 200, text: 'ok\n' })
  })

  it('a crowd of idle connections, or half requests, keeps no probe out', async () => {
    const { http, get } = await open()
    const crowd = Array.from({ length: 300 }, (_, i) => {
      const socket = connect(http.address.port, '127.0.0.1')
      socket.on('error', () => undefined).resume()
      if (i % 2 === 0) socket.write('GET /livez HT')
      return socket
    })
    try {
      await Promise.all(crowd.map((socket) => new Promise((resolve) => socket.once('connect', resolve))))
      for (let i = 0; i < 3; i++) expect(await get('/livez')).toMatchObject({ status: 200, text: 'ok\n' })
      // One of 64 made room for the probe.
      await vi.waitFor(() => expect(crowd.filter(({ closed }) => !closed)).toHaveLength(63), PATIENCE_MS)
    } finally {
      for (const socket of crowd) socket.destroy()
    }
  })

  it('an answer in progress is not cut for a crowd', async () => {
    let answer = () => {}
    const slow = { begun: false, over: new Promise<void>((resolve) => (answer = resolve)) }
    const live = () => {
      slow.begun = true
      return slow.over.then(() => true)
    }
    const { http, get } = await open({ live })
    const asked = get('/livez')
    await vi.waitFor(() => expect(slow.begun).toBe(true), PATIENCE_MS)
    const crowd = Array.from({ length: 100 }, () => connect(http.address.port, '127.0.0.1'))
    for (const socket of crowd) socket.on('error', () => undefined).resume()
    await vi.waitFor(() => expect(crowd.filter(({ closed }) => closed)).toHaveLength(37), PATIENCE_MS)
    answer()
    expect(await asked).toMatchObject({ status: 200 })
    for (const socket of crowd) socket.destroy()
  })

  it('a crowd that reads no answers is no larger, and keeps no probe out for good', async () => {
    let asked = 0
    const live = () => (asked++, new Promise<never>(() => {}))
    const { http, get } = await open({ live, answerTimeoutMs: 2_000 })
    const crowd: Socket[] = []
    const closed = () => crowd.filter((socket) => socket.closed).length
    try {
      while (crowd.length < 80) {
        const socket = connect(http.address.port, '127.0.0.1').on('error', () => undefined)
        socket.resume().write('GET /livez HTTP/1.1\r\nhost: localhost\r\n\r\n')
        crowd.push(socket)
        await vi.waitFor(() => expect(asked + closed()).toBe(crowd.length), {
          timeout: PATIENCE_MS,
          interval: 1,
        })
      }
      expect(asked).toBe(64)
      await vi.waitFor(async () => expect(await get('/readyz')).toMatchObject({ status: 200 }), PATIENCE_MS)
    } finally {
      for (const socket of crowd) socket.destroy()
    }
  })

  it('HEAD has the headers of GET and no body', async () => {
    const { get } = await open()
    const [head, full] = [await get('/livez', 'HEAD'), await get('/livez')]
    expect(head).toMatchObject({ status: 200, text: '' })
    expect(head.headers['content-length']).toBe(full.headers['content-length'])
  })

  it('refuses other methods, other paths and names that every object has', async () => {
    const { get } = await open()
    const refused = await get('/status', 'POST', 'x')
    expect(refused).toMatchObject({ status: 405, headers: { allow: 'GET, HEAD' } })
    expect((await get('/-/healthy')).status).toBe(404)
    expect((await get('/constructor')).status).toBe(404)
    expect((await get('//etc/passwd')).status).toBe(404)
    expect((await get('/livez?verbose=1')).status).toBe(200)
  })

  it('a dead journal fails the liveness probe, loops not started the readiness probe', async () => {
    const { get } = await open({ live: () => Promise.reject(new Error('closed')), ready: () => false })
    expect((await get('/livez')).status).toBe(503)
    expect((await get('/readyz')).status).toBe(503)
  })

  it('a sink outage fails neither probe, and /status shows it', async () => {
    const { get, sink } = await open()
    sink.state('failing', new ConnectorError('unreachable', 'receiver refused the connection'))
    expect((await get('/livez')).status).toBe(200)
    expect((await get('/readyz')).status).toBe(200)
    expect(JSON.parse((await get('/status')).text)).toMatchObject({ ok: false })
  })

  it('a page that cannot be made is a 500 without a reason in it', async () => {
    const { get } = await open({
      registry: {
        status: () => {
          throw new Error('inner words')
        },
      },
    })
    const failed = await get('/status')
    expect(failed.status).toBe(500)
    expect(failed.text).not.toContain('inner')
  })

  it('an endless header is cut off', async () => {
    const { http } = await open()
    const socket = connect(http.address.port, '127.0.0.1')
    const chunks: string[] = []
    socket.on('data', (chunk) => chunks.push(chunk.toString()))
    socket.write(`GET / HTTP/1.1\r\nhost: x\r\nx: ${'y'.repeat(20_000)}\r\n\r\n`)
    await new Promise((resolve) => socket.on('close', resolve))
    expect(chunks.join('')).toContain('431')
  })

  it('closes while a client is in the middle of a request', async () => {
    const { http, get } = await open()
    const socket = connect(http.address.port, '127.0.0.1')
    await new Promise((resolve) => socket.on('connect', resolve))
    await new Promise((resolve) => socket.write('GET /livez HTTP/1.1\r\nhost:', resolve))
    await get('/livez')
    const gone = new Promise((resolve) => socket.on('close', resolve))
    socket.on('error', () => undefined)
    await http.close()
    await gone
  })

  it('an address in use is reported clearly, and no error of the configuration: it may be free at the next start', async () => {
    const { http } = await open()
    const listen = `127.0.0.1:${http.address.port}`
    const second = open({ listen })
    await expect(second).rejects.toMatchObject({ code: 'misconfigured' })
    await expect(second).rejects.toThrow(`server.listen: ${listen} is in use by another process`)
  })

  it.each(['EMFILE', 'ENFILE'])('too many open files is reported as that: %s', async (code) => {
    const listen = vi.spyOn(Server.prototype, 'listen').mockImplementation(function (this: Server) {
      process.nextTick(() => this.emit('error', Object.assign(new Error('no'), { code })))
      return this
    })
    try {
      await expect(open()).rejects.toThrow('too many files are open; raise the limit (ulimit -n')
    } finally {
      listen.mockRestore()
    }
  })

  it('nor is an address that this machine does not have: it may come up later', async () => {
    const absent = open({ listen: '192.0.2.1:0' })
    await expect(absent).rejects.toMatchObject({ code: 'misconfigured' })
    await expect(absent).rejects.toThrow('server.listen: 192.0.2.1:0 is not an address of this machine')
  })

  it.each(['9464', 'localhost', '127.0.0.1:99999', '::1:80', '[::1]'])('%s is no address', async (listen) => {
    await expect(open({ listen })).rejects.toMatchObject({ code: 'config_invalid' })
  })
})

/** One request with that Host, or none; the status line. */
function askAs(port: number, host: string | undefined, path = '/status', at = '127.0.0.1'): Promise<string> {
  return new Promise((resolve, reject) => {
    const socket = connect(port, at, () => {
      const line = host === undefined ? `GET ${path} HTTP/1.0` : `GET ${path} HTTP/1.1\r\nHost: ${host}`
      socket.write(`${line}\r\nConnection: close\r\n\r\n`)
    })
    const pieces: Buffer[] = []
    socket.on('data', (piece: Buffer) => void pieces.push(piece))
    socket.on('end', () => resolve(Buffer.concat(pieces).toString()))
    socket.on('error', reject)
  })
}

describe('a web page whose own name resolves to this listener', () => {
  it.each([
    ['127.0.0.1:0', '/'],
    ['127.0.0.1:0', '/status'],
    ['127.0.0.1:0', '/livez'],
    ['127.0.0.1:0', '/nothing'],
    ['0.0.0.0:0', '/'],
    ['0.0.0.0:0', '/status'],
    ['0.0.0.0:0', '/metrics'],
  ])('gets no answer on %s for %s', async (listen, path) => {
    const { http } = await open({ listen })
    for (const host of [
      'evil.example',
      'evil.example:9464',
      '127.0.0.1.evil.example',
      'localhost.evil.example',
      '',
    ]) {
      const answer = await askAs(http.address.port, host, path)
      expect(answer).toMatch(/^HTTP\/1\.1 421 /)
      expect(answer).toContain('server.allowed_hosts')
      expect(answer).not.toContain('archive')
    }
  })

  it.each([
    ...['localhost', 'LOCALHOST:1', 'localhost.', '127.0.0.1', '127.0.0.1:9464', '[::1]', '[::1]:9464'],
    ...['10.1.2.3:9464', '[fd00::1]:9464', 'Ferry.internal:9464', 'ferry.internal.'],
  ])('%s is not such a name', async (host) => {
    const { http } = await open({ listen: '0.0.0.0:0', hosts: () => ['ferry.internal'] })
    expect(await askAs(http.address.port, host)).toMatch(/^HTTP\/1\.1 200 /)
  })

  it('names are checked for each request: a reload may change them', async () => {
    let hosts = ['ferry.internal']
    const { http } = await open({ hosts: () => hosts })
    expect(await askAs(http.address.port, 'ferry.internal')).toMatch(/^HTTP\/1\.1 200 /)
    hosts = []
    expect(await askAs(http.address.port, 'ferry.internal')).toMatch(/^HTTP\/1\.1 421 /)
  })

  it('a request without a Host comes from no browser', async () => {
    const { http } = await open()
    expect(await askAs(http.address.port, undefined, '/livez')).toMatch(/^HTTP\/1\.1 200 /)
  })
})

/** Asks, sees that an answer begins, and reads no further until asked to. */
async function silentReader(port: number, path: string): Promise<Socket> {
  const socket = connect(port, '127.0.0.1', () => socket.write(ask(path))).on('error', () => undefined)
  await new Promise((resolve) => socket.once('readable', resolve))
  return socket
}

/** Reads on; all that came until the end of the answer, or of the connection. */
async function bytesOf(socket: Socket): Promise<number> {
  let bytes = 0
  for await (const piece of socket) bytes += (piece as Buffer).length
  return bytes
}

const ask = (path: string) => `GET ${path} HTTP/1.1\r\nhost: localhost\r\n\r\n`

describe('readers that do not read', () => {
  it('pipelined requests cost one answer, and the connection', async () => {
    const made = vi.fn(() => new Promise<boolean>(() => {}))
    const { http } = await open({ live: made })
    const socket = connect(http.address.port, '127.0.0.1', () => socket.write(ask('/livez').repeat(3000)))
    socket.on('error', () => undefined).resume()
    await new Promise((resolve) => socket.once('close', resolve))
    expect(made).toHaveBeenCalledTimes(1)
  })

  it('a connection may ask again once it has its answer', async () => {
    const { http } = await open()
    const socket = connect(http.address.port, '127.0.0.1')
    for (let i = 0; i < 20; i++) {
      const answered = new Promise<string>((resolve) => socket.once('data', (data) => resolve(String(data))))
      socket.write(ask('/livez'))
      expect(await answered).toMatch(/^HTTP\/1\.1 200 /)
    }
    socket.destroy()
  })

  it('a page is rendered once for all that ask within half a second', async () => {
    const setup = openRegistrySetup()
    ack(setup)
    const status = vi.spyOn(setup.registry, 'status')
    const { get, clock } = await open({ registry: setup.registry })
    const pages = await Promise.all(Array.from({ length: 10 }, () => get('/status')))
    expect(new Set(pages.map(({ text }) => text)).size).toBe(1)
    expect(status).toHaveBeenCalledTimes(1)
    clock.pass(499)
    await get('/status')
    expect(status).toHaveBeenCalledTimes(1)
    clock.pass(1)
    await get('/status')
    expect(status).toHaveBeenCalledTimes(2)
  })

  /** A page that no kernel buffers for the two ends of a connection. */
  const large = { config: () => 'x'.repeat(20 * 2 ** 20) }
  const whole = 20 * 2 ** 20

  it('hold 8 MiB at most together: the one that has not read for longest is closed', async () => {
    const { http, get } = await open(large)
    const [first, second] = [
      await silentReader(http.address.port, '/'),
      await silentReader(http.address.port, '/'),
    ]
    expect(await get('/livez')).toMatchObject({ status: 200 })
    expect(await bytesOf(first).catch(() => 0)).toBeLessThan(whole)
    expect((await get('/')).text.length).toBeGreaterThan(whole)
    expect(await bytesOf(second).catch(() => 0)).toBeLessThan(whole)
  })

  it('an answer that exceeds its time ends its connection, however often a piece of it moves', () => {
    vi.useFakeTimers()
    try {
      const out = new AnswersOut(300)
      const socket = new Socket()
      const response = new ServerResponse(new IncomingMessage(socket))
      expect(out.begin(socket, response)).toBe(true)
      for (let i = 0; i < 299; i++) {
        socket.emit('drain')
        vi.advanceTimersByTime(1)
      }
      expect(socket.destroyed).toBe(false)
      vi.advanceTimersByTime(1)
      expect(socket.destroyed).toBe(true)
    } finally {
      vi.useRealTimers()
    }
  })
})
