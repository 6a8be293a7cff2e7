// The listener over a real socket.
import { connect } from 'node:net'
import { request } from 'undici'
import { afterEach, describe, expect, it } from 'vitest'
import { ConnectorError } from '../../../src/model/errors.ts'
import { openHttp } from '../../../src/ops/http.ts'
import type { HttpOptions, OpsHttp } from '../../../src/ops/http.ts'
import { openHouse, settle } from './board-fixture.ts'

const opened: OpsHttp[] = []
afterEach(async () => {
  for (const http of opened.splice(0)) await http.close()
})

async function open(more: Partial<HttpOptions> = {}) {
  const house = openHouse()
  settle(house)
  const { board, metrics } = house
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
  return { ...house, http, base, get }
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

  it('an address in use is a fault of the configuration, said clearly', async () => {
    const { http } = await open()
    const listen = `127.0.0.1:${http.address.port}`
    const second = open({ listen })
    await expect(second).rejects.toMatchObject({ code: 'config_invalid' })
    await expect(second).rejects.toThrow(`server.listen: ${listen} is in use by another process`)
  })

  it.each(['9464', 'localhost', '127.0.0.1:99999', '::1:80', '[::1]'])('%s is no address', async (listen) => {
    await expect(open({ listen })).rejects.toMatchObject({ code: 'config_invalid' })
  })
})
