// Keys as written on the command line, what each may
// call, and how they change while the mock serves.
import { once } from 'node:events'
import { connect } from 'node:net'
import { request } from 'undici'
import { afterEach, describe, expect, it } from 'vitest'
import { permissionWords, readKey } from '../../../src/mock/router.ts'
import { listenMock } from '../../../src/mock/listen.ts'
import type { Listening } from '../../../src/mock/listen.ts'
import type { Mock } from '../../../src/mock/mock.ts'
import { call } from './caller.ts'
import { bearer, context } from './stage.ts'

let listening: Listening | undefined
afterEach(async () => {
  await listening?.close()
  listening = undefined
})

describe('a key', () => {
  it('is a name, a secret and its permissions', () => {
    expect(readKey('siem:s3cret', 'acme.example')).toEqual({ key: 's3cret', user: 'siem@acme.example' })
    expect(readKey('tool:a-b+c=:audit,history.usage', 'acme.example')).toEqual({
      key: 'a-b+c=',
      user: 'tool@acme.example',
      permissions: ['audit', 'history.usage'],
    })
    expect(readKey('none:x:', 'acme.example').permissions).toEqual([])
  })

  it('is refused with the expected form, and without the secret', () => {
    expect(() => readKey('hunter2', 'x')).toThrow(/expected name:secret/)
    const messageOf = (text: string) => {
      try {
        return readKey(text, 'x').key
      } catch (error) {
        return (error as Error).message
      }
    }
    for (const text of ['hunter2', 'a:hunter2:all', 'a:hunter2:history.qeury', 'a:hunter 2', ':hunter2'])
      expect(messageOf(text)).not.toContain('hunter')
    expect(() => readKey('a:b:history.qeury', 'x')).toThrow(
      /no such permission as history.qeury; there are audit, audit.page, /,
    )
  })

  it('calls what its permissions allow and nothing else, in every area', async () => {
    const paths: Record<string, [string, 'GET' | 'POST']> = {
      'audit.latest': ['/api/v1/logs/audit/latest', 'GET'],
      'history.usage': ['/api/v2/history/usage?start_time=1794909600', 'GET'],
      'history.query': ['/api/v1/history/query?start_time=1794909600', 'GET'],
      'vault.projects': ['/api/v1/vault/workspace/projects', 'GET'],
      'assistant.completion': ['/api/v2/completion', 'POST'],
    }
    const all = Object.keys(paths)
    expect(permissionWords).toEqual(expect.arrayContaining(all))
    for (const permission of [...all, 'vault', 'assistant']) {
      const { mock } = context({
        workspaces: [{ name: 'acme', keys: [readKey(`x:acme-key:${permission}`, 'acme.example')] }],
      })
      for (const [name, [path, method]] of Object.entries(paths)) {
        const { status } = await call(mock, path, { method })
        expect([permission, name, status === 403]).toEqual([permission, name, !name.startsWith(permission)])
      }
    }
  })
})

describe('the control path', () => {
  const rotate = (body: string) =>
    request(`${listening?.url ?? ''}/mock/rotate-key`, { method: 'POST', body }).then(
      ({ statusCode }) => statusCode,
    )
  const serve = async (mock: Mock, control: boolean) => {
    listening = await listenMock(mock, { port: 0, host: '127.0.0.1', control })
  }

  it('rotates a key: the old one stops working at once, and the audit log has an entry', async () => {
    const { mock } = context()
    await serve(mock, true)
    expect(await rotate('{"old":"acme-key","new":"fresh"}')).toBe(204)
    expect((await call(mock, '/api/v1/logs/audit/latest')).status).toBe(401)
    expect((await call(mock, '/api/v1/logs/audit/latest', { key: 'fresh' })).status).toBe(200)
    expect(mock.entries().map(({ type }) => type)).toEqual(['api:token_mgmt_rotate'])
  })

  it('names the mistake, and leaves the paths of the API alone', async () => {
    const { mock } = context()
    await serve(mock, true)
    expect(await rotate('{"old":"other","new":"fresh"}')).toBe(404)
    for (const body of ['', 'x', '{"old":"acme-key"}', '{"old":"acme-key","new":"a b"}', 'x'.repeat(9999)])
      expect(await rotate(body)).toBe(400)
    const { statusCode } = await request(`${listening?.url ?? ''}/api/v1/logs/audit/latest`, {
      headers: bearer,
    })
    expect(statusCode).toBe(404)
  })

  it('is off by default', async () => {
    const { mock } = context()
    await serve(mock, false)
    expect(await rotate('{"old":"acme-key","new":"fresh"}')).toBe(401)
    expect((await call(mock, '/api/v1/logs/audit/latest')).status).toBe(404)
  })
})

describe('a request body over HTTP', () => {
  const post = (body: string) =>
    request(`${listening?.url ?? ''}/api/v2/completion`, {
      method: 'POST',
      headers: { ...bearer, 'content-type': 'application/json' },
      body,
    })

  it('is read to its end, and refused over the limit', async () => {
    const { mock } = context({ maxBodyBytes: 100_000 })
    listening = await listenMock(mock, { port: 0, host: '127.0.0.1' })
    const fine = await post(JSON.stringify({ prompt: 'x'.repeat(19_000) }))
    expect([fine.statusCode, await fine.body.text()]).toEqual([200, expect.stringContaining('response')])
    const large = await post(JSON.stringify({ prompt: 'x'.repeat(100_000) }))
    expect([large.statusCode, await large.body.text()]).toEqual([413, '{"error":"Request body too large"}'])
  })

  it('of a client that disconnects midway does no harm', async () => {
    const { mock } = context()
    listening = await listenMock(mock, { port: 0, host: '127.0.0.1' })
    const socket = connect(Number(new URL(listening.url).port), '127.0.0.1')
    socket.write(
      'POST /api/v2/completion HTTP/1.1\r\nhost: x\r\nauthorization: Bearer acme-key\r\ncontent-length: 1000\r\n\r\n{"prom',
    )
    await expect.poll(() => mock.requests.length).toBe(1)
    socket.destroy()
    await once(socket, 'close')
    expect((await post('{"prompt":"x"}')).statusCode).toBe(200)
    expect(mock.entries()).toHaveLength(1)
  })
})
