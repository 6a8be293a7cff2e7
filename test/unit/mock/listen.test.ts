// The HTTP server: real sockets, the same answers, and faults as a network shows them.
import { connect } from 'node:net'
import { request } from 'undici'
import { afterEach, describe, expect, it } from 'vitest'
import type { Clock } from '../../../src/core/clock.ts'
import { listenMock } from '../../../src/mock/listen.ts'
import type { Listening } from '../../../src/mock/listen.ts'
import { openMock } from '../../../src/mock/mock.ts'
import type { MockOptions } from '../../../src/mock/mock.ts'
import { addMany, bearer } from './stage.ts'

const real: Clock = {
  now: () => Date.now(),
  elapsed: () => performance.now(),
  sleep: (ms, signal) =>
    new Promise((resolve) => {
      const done = () => {
        clearTimeout(timer)
        signal?.removeEventListener('abort', done)
        resolve()
      }
      const timer = setTimeout(done, ms)
      signal?.addEventListener('abort', done, { once: true })
    }),
}

let listening: Listening | undefined
afterEach(async () => listening?.close())

async function served(options: Omit<MockOptions, 'clock'> = {}) {
  const mock = openMock({
    clock: real,
    traffic: { entriesPerHour: 0 },
    ...options,
    switches: { self_audit: 'off', ...options.switches },
  })
  listening = await listenMock(mock, { port: 0, host: '127.0.0.1' })
  const ids = addMany(mock, 200)
  const base = `${listening.url}/api/v1/logs/audit`
  const url = `${base}?from=${ids[0] ?? ''}&take=1000`
  return { mock, ids, url, base, ask: () => request(url, { headers: bearer }) }
}

/** The text received on a bare connection, and how it ended. */
async function bare(url: string) {
  const { hostname, port, pathname, search } = new URL(url)
  const socket = connect(Number(port), hostname)
  const pieces: Buffer[] = []
  const ended: string[] = []
  socket.on('data', (piece: Buffer) => pieces.push(piece))
  socket.on('error', (error: NodeJS.ErrnoException) => ended.push(error.code ?? ''))
  socket.on('end', () => ended.push('end'))
  socket.write(`GET ${pathname}${search} HTTP/1.1\r\nhost: x\r\nauthorization: Bearer acme-key\r\n\r\n`)
  await new Promise((resolve) => socket.once('close', resolve))
  return { text: Buffer.concat(pieces).toString(), ended }
}

describe('over HTTP', () => {
  it('sends the same bytes and headers as in memory, and records what was sent', async () => {
    const { mock, url, ids, ask } = await served()
    const { statusCode, headers, body } = await ask()
    const text = await body.text()
    const signal = new AbortController().signal
    const inMemory = await mock.transport({ method: 'GET', url, headers: bearer }, signal)
    const pieces: Uint8Array[] = []
    for await (const piece of inMemory.body) pieces.push(piece)
    expect([statusCode, text]).toEqual([200, Buffer.concat(pieces).toString()])
    expect(headers['content-length']).toBe(inMemory.headers['content-length'])
    expect(headers['content-type']).toBe('application/json')
    expect(mock.entries().filter(({ shownBy }) => shownBy.length > 0)).toHaveLength(ids.length - 1)
    expect(mock.requests[0]).toMatchObject({ status: 200, whole: true, elements: ids.length - 1 })
  })

  it('sends no Date if the switch says so', async () => {
    const { ask } = await served({ switches: { date_header: 'off' } })
    const { headers, body } = await ask()
    await body.dump()
    expect(headers['date']).toBeUndefined()
  })

  it('ends the connection midway for a cut, and before any byte for a reset', async () => {
    const { mock, url } = await served({ faults: { cut: { nth: [1] }, reset: { nth: [2] } } })
    const cut = await bare(url)
    const [head = '', body = ''] = cut.text.split('\r\n\r\n')
    const length = Number(/content-length: (\d+)/i.exec(head)?.[1])
    expect(body.length).toBe(Math.floor(length / 2))
    expect(cut.ended).toEqual(['end'])
    expect(await bare(url)).toEqual({ text: '', ended: ['ECONNRESET'] })
    expect(mock.entries().some(({ shownBy }) => shownBy.length > 0)).toBe(false)
    expect(mock.requests.map(({ whole }) => whole)).toEqual([false, false])
  })

  it('sends a slow body in pieces', async () => {
    const { ask } = await served({ faults: { slow: 1 }, switches: { slow_pause: 5 } })
    const started = performance.now()
    const { body } = await ask()
    expect(await body.json()).toHaveLength(199)
    expect(performance.now() - started).toBeGreaterThan(80)
  })

  it('waits for the reader of an endless body, and stops when the reader leaves', async () => {
    const { mock, ask } = await served({ faults: { endless: 1 } })
    const { body, headers } = await ask()
    expect(headers['content-length']).toBeUndefined()
    let length = 0
    for await (const piece of body as AsyncIterable<Buffer>) if ((length += piece.length) > 5e6) break
    await expect.poll(() => mock.requests[0]?.answeredAt).toBeGreaterThan(0)
    expect(mock.requests[0]?.whole).toBe(false)
  })

  it('ends a stalled answer when it closes', async () => {
    const { ask } = await served({ faults: { stalled: 1 } })
    const { body } = await ask()
    const read = expect(body.text()).rejects.toThrow()
    await listening?.close()
    listening = undefined
    await read
  })

  it('reports an address in use', async () => {
    const { mock } = await served()
    const port = Number(new URL(listening?.url ?? '').port)
    await expect(listenMock(mock, { port, host: '127.0.0.1' })).rejects.toMatchObject({ code: 'EADDRINUSE' })
  })
})
