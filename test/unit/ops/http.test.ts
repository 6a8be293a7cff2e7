// The listener over a real socket.
import { connect, Server, type Socket } from 'node:net'
import { request } from 'undici'
import { afterEach, describe, expect, it, vi } from 'vitest'
import { ConnectorError } from '../../../src/model/errors.ts'
import { answersTo } from '../../../src/ops/host-names.ts'
import { openHttp } from '../../../src/ops/http.ts'
import type { HttpOptions, OpsHttp } from '../../../src/ops/http.ts'
import { openBoardStand, settle } from './board-stand.ts'

const opened: OpsHttp[] = []
afterEach(async () => {
  for (const http of opened.splice(0)) await http.close()
})

async function open(more: Partial<HttpOptions> = {}) {
  const stand = openBoardStand()
  settle(stand)
  const { board, metrics } = stand
  const listen = '127.0.0.1:0'
  const http = await openHttp({ listen, board, metrics, live: () => true, ready: () => true, ...more })
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
  return { ...stand, http, base, get }
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

  it('a crowd of connections that ask for nothing, or for half of something, keeps no probe out', async () => {
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
      await vi.waitFor(() => expect(crowd.filter(({ closed }) => !closed)).toHaveLength(63))
    } finally {
      for (const socket of crowd) socket.destroy()
    }
  })

  it('an answer under way is not cut for a crowd', async () => {
    let answer = () => {}
    const slow = { begun: false, over: new Promise<void>((resolve) => (answer = resolve)) }
    const live = () => {
      slow.begun = true
      return slow.over.then(() => true)
    }
    const { http, get } = await open({ live })
    const asked = get('/livez')
    await vi.waitFor(() => expect(slow.begun).toBe(true))
    const crowd = Array.from({ length: 100 }, () => connect(http.address.port, '127.0.0.1'))
    for (const socket of crowd) socket.on('error', () => undefined).resume()
    await vi.waitFor(() => expect(crowd.filter(({ closed }) => closed)).toHaveLength(37))
    answer()
    expect(await asked).toMatchObject({ status: 200 })
    for (const socket of crowd) socket.destroy()
  })

  it('a crowd whose answers nobody takes is no larger, and keeps no probe out for good', async () => {
    let asked = 0
    const live = () => (asked++, new Promise<never>(() => {}))
    const { http, get } = await open({ live, answerTimeoutMs: 500 })
    const crowd: Socket[] = []
    const closed = () => crowd.filter((socket) => socket.closed).length
    try {
      while (crowd.length < 80) {
        const socket = connect(http.address.port, '127.0.0.1').on('error', () => undefined)
        socket.resume().write('GET /livez HTTP/1.1\r\nhost: localhost\r\n\r\n')
        crowd.push(socket)
        await vi.waitFor(() => expect(asked + closed()).toBe(crowd.length), { interval: 1 })
      }
      expect(asked).toBe(64)
      await vi.waitFor(async () => expect(await get('/readyz')).toMatchObject({ status: 200 }), 5000)
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

  it('a sink outage fails neither probe, and /status tells the truth', async () => {
    const { get, sink } = await open()
    sink.state('failing', new ConnectorError('unreachable', 'receiver refused the connection'))
    expect((await get('/livez')).status).toBe(200)
    expect((await get('/readyz')).status).toBe(200)
    expect(JSON.parse((await get('/status')).text)).toMatchObject({ ok: false })
  })

  it('a page that cannot be made is a 500 without a reason in it', async () => {
    const { get } = await open({
      board: {
        status: () => {
          throw new Error('inner words')
        },
      },
    })
    const failed = await get('/status')
    expect(failed.status).toBe(500)
    expect(failed.text).not.toContain('inner')
  })

  it('a header without end is cut off', async () => {
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

  it('an address in use is said clearly, and no fault of the text: it may be free at the next start', async () => {
    const { http } = await open()
    const listen = `127.0.0.1:${http.address.port}`
    const second = open({ listen })
    await expect(second).rejects.toMatchObject({ code: 'misconfigured' })
    await expect(second).rejects.toThrow(`server.listen: ${listen} is in use by another process`)
  })

  it.each(['EMFILE', 'ENFILE'])('too many open files is said as what it is: %s', async (code) => {
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

  it('nor is one that this machine does not have: it may come up later', async () => {
    const absent = open({ listen: '192.0.2.1:0' })
    await expect(absent).rejects.toMatchObject({ code: 'misconfigured' })
    await expect(absent).rejects.toThrow('server.listen: 192.0.2.1:0 is no address of this machine')
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

describe('a page of the web that has its name point here', () => {
  it.each(['/', '/status', '/metrics', '/livez', '/nothing'])(
    'is not answered %s on loopback',
    async (path) => {
      const { http } = await open()
      for (const host of [
        'evil.example',
        'evil.example:9464',
        '127.0.0.1.evil.example',
        'localhost.evil.example',
      ]) {
        const answer = await askAs(http.address.port, host, path)
        expect(answer).toMatch(/^HTTP\/1\.1 421 /)
        expect(answer).toContain('unknown Host')
        expect(answer).not.toContain('archive')
      }
    },
  )

  it.each([
    ...['localhost', 'LOCALHOST:1', 'localhost.', '127.0.0.1', '127.0.0.1:9464', '[::1]', '[::1]:9464'],
    ...['10.1.2.3:9464', '[fd00::1]:9464'],
  ])('is what %s is not', async (host) => {
    const { http } = await open()
    expect(await askAs(http.address.port, host)).toMatch(/^HTTP\/1\.1 200 /)
  })

  it('nor is a request without a Host, nor the name that is listened on', async () => {
    const { http } = await open({ listen: 'localhost:0' })
    const at = http.address.address
    expect(await askAs(http.address.port, undefined, '/livez', at)).toMatch(/^HTTP\/1\.1 200 /)
    expect(answersTo('Ferry.internal:9464', '127.0.0.1', 'ferry.internal')).toBe(true)
    expect(answersTo('ferry.internal', '::1', '127.0.0.1')).toBe(false)
    expect(answersTo('ferry.internal', '::ffff:127.0.0.1', '::')).toBe(false)
  })

  it('a listener that others reach answers to the names that they have for it', () => {
    expect(answersTo('auditferry.monitoring.svc:9464', '10.0.0.7', '0.0.0.0')).toBe(true)
  })
})
