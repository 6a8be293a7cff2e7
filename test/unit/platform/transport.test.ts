// Requests over real sockets: what arrives, what comes back, what each failure is called.
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http'
import { createServer as createTls, type ServerOptions } from 'node:https'
import {
  type AddressInfo,
  connect,
  createServer as createTcp,
  type LookupFunction,
  type Server as TcpServer,
  type Socket,
} from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { Readable } from 'node:stream'
import { gzipSync } from 'node:zlib'
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import type { HttpReply } from '../../../src/contracts/platform.ts'
import { transportError } from '../../../src/platform/network-errors.ts'
import { Proxies } from '../../../src/platform/proxies.ts'
import { openTransport, type OpenTransport, type TransportSettings } from '../../../src/platform/transport.ts'
import { certificate } from '../../fakes/certificates.ts'

const never = new AbortController().signal
let folder: string
let servers: (Server | TcpServer)[]
let transports: OpenTransport[]
let sockets: Socket[]

beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'transport-'))
  servers = []
  transports = []
  sockets = []
})

afterEach(async () => {
  for (const each of transports) await each.close()
  for (const socket of sockets) socket.destroy()
  for (const server of servers) {
    await new Promise((resolve) => server.close(resolve))
  }
  rmSync(folder, { recursive: true })
})

async function listen(server: Server | TcpServer): Promise<number> {
  servers.push(server)
  server.on('connection', (socket: Socket) => sockets.push(socket))
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  return (server.address() as AddressInfo).port
}

type Answer = (request: IncomingMessage, response: ServerResponse) => void

const plain = (answer: Answer) => listen(createServer(answer))
const secure = (options: ServerOptions, answer: Answer) => listen(createTls(options, answer))

function open(settings: TransportSettings = {}) {
  const transport = openTransport(settings)
  transports.push(transport)
  return transport.send
}

const get = (port: number, scheme = 'http', host = '127.0.0.1') => ({
  method: 'GET' as const,
  url: `${scheme}://${host}:${port}/a?b=c`,
  headers: {},
})

async function textOf({ body }: HttpReply): Promise<string> {
  const parts: Uint8Array[] = []
  for await (const part of body) parts.push(part)
  return Buffer.concat(parts).toString()
}

function written(name: string, text: string): string {
  const path = join(folder, name)
  writeFileSync(path, text)
  return path
}

test('a request arrives as it is, and status, headers and body come back', async () => {
  const port = await plain((request, response) => {
    const parts: Buffer[] = []
    request.on('data', (part: Buffer) => parts.push(part))
    request.on('end', () => {
      response.writeHead(201, [['X-One', 'a'], ['X-One', 'b']].flat()) // prettier-ignore
      const { method, url, headers } = request
      response.end([method, url, headers['x-two'], Buffer.concat(parts).toString()].join(' '))
    })
  })
  const request = { ...get(port), method: 'POST' as const, headers: { 'x-two': '2' }, body: Buffer.from('é') }
  const reply = await open()(request, never)
  expect(reply.status).toBe(201)
  expect(reply.headers['x-one']).toBe('b')
  expect(await textOf(reply)).toBe('POST /a?b=c 2 é')
})

test('connections are kept from one request to the next', async () => {
  const ports = new Set<number | undefined>()
  const port = await plain((request, response) => (ports.add(request.socket.remotePort), response.end('x')))
  const send = open()
  for (let i = 0; i < 3; i++) {
    await textOf(await send(get(port), never))
    await new Promise((resolve) => setImmediate(resolve))
  }
  expect(ports.size).toBe(1)
})

test('a redirect is not followed, a 500 is not repeated, a packed body stays packed', async () => {
  let asked = 0
  const packed = gzipSync('packed')
  const port = await plain((_, response) => {
    asked++
    if (asked === 1) response.writeHead(302, { location: '/elsewhere' }).end()
    else if (asked === 2) response.writeHead(500).end()
    else response.writeHead(200, { 'content-encoding': 'gzip' }).end(packed)
  })
  const send = open()
  const statuses = [await send(get(port), never), await send(get(port), never)]
  for (const reply of statuses) await textOf(reply)
  expect(statuses.map(({ status }) => status)).toEqual([302, 500])
  const parts: Uint8Array[] = []
  for await (const part of (await send(get(port), never)).body) parts.push(part)
  expect(Buffer.concat(parts).equals(packed)).toBe(true)
  expect(asked).toBe(3)
})

test('a body that is dropped closes its connection, read or not', async () => {
  let closed = 0
  const port = await plain((request, response) => {
    request.socket.once('close', () => closed++)
    response.write(Buffer.alloc(100_000))
  })
  const send = open()
  const unread = await send(get(port), never)
  await unread.body[Symbol.asyncIterator]().return?.()
  for await (const part of (await send(get(port), never)).body) if (part.length > 0) break
  await expect.poll(() => closed).toBe(2)
})

async function closedPort(): Promise<number> {
  const server = createTcp()
  const port = await listen(server)
  await new Promise((resolve) => server.close(resolve))
  servers.pop()
  return port
}

test('no listener, a reset, and an unknown name are unreachable, reported with host and port', async () => {
  const send = open()
  const port = await closedPort()
  await expect(send(get(port), never)).rejects.toMatchObject({ code: 'unreachable' })
  await expect(send(get(port), never)).rejects.toThrow(`127.0.0.1:${port} refused the connection`)
  const resets = await listen(createTcp((socket) => void socket.once('data', () => socket.resetAndDestroy())))
  await expect(send(get(resets), never)).rejects.toMatchObject({ code: 'unreachable' })
  const nowhere = { ...get(1), url: 'http://no-such-name.invalid:1/' }
  await expect(send(nowhere, never)).rejects.toMatchObject({ code: 'unreachable' })
})

test('a connection cut in the middle of the body is unreachable', async () => {
  const port = await plain((request, response) => {
    response.writeHead(200, { 'content-length': '100' })
    response.write('half', () => request.socket.destroy())
  })
  const reply = await open()(get(port), never)
  await expect(textOf(reply)).rejects.toMatchObject({ code: 'unreachable' })
})

test('an answer that is not HTTP is a bad reply', async () => {
  const port = await listen(
    createTcp((socket) => void socket.once('data', () => socket.end('SSH-2.0-x\r\n'))),
  )
  await expect(open()(get(port), never)).rejects.toMatchObject({ code: 'bad_reply' })
})

test('an abort is aborted: before, while waiting, and in the body', async () => {
  const port = await plain((request, response) => {
    if (request.headers['x-body']) response.writeHead(200).write('x')
  })
  const send = open()
  await expect(send(get(port), AbortSignal.abort())).rejects.toMatchObject({ code: 'aborted' })
  const waiting = new AbortController()
  setTimeout(() => waiting.abort(), 20)
  await expect(send(get(port), waiting.signal)).rejects.toMatchObject({ code: 'aborted' })
  const reading = new AbortController()
  const reply = await send({ ...get(port), headers: { 'x-body': '1' } }, reading.signal)
  setTimeout(() => reading.abort(), 20)
  await expect(textOf(reply)).rejects.toMatchObject({ code: 'aborted' })
})

test('a secret that no header can contain is reported without being shown', async () => {
  const request = {
    ...get(await plain((_, response) => response.end())),
    headers: { authorization: 'a\nsecret' },
  }
  const error = await open()(request, never).catch((each: unknown) => each)
  expect(error).toMatchObject({ code: 'misconfigured' })
  expect(String(error)).not.toContain('secret')
})

const authority = certificate('Test authority')
const served = certificate('127.0.0.1', authority)
const hello: Answer = (_, response) => response.end('hello')

test('a private CA is trusted by its file, and only then', async () => {
  const port = await secure(served, hello)
  const trusting = open({ tls: { ca_file: written('ca.pem', authority.cert) } })
  expect(await textOf(await trusting(get(port, 'https'), never))).toBe('hello')
  const error = await open()(get(port, 'https'), never).catch((each: unknown) => each)
  expect(error).toMatchObject({ code: 'tls_invalid' })
  expect(String(error)).toContain('tls.ca_file')
})

test.each(['EMFILE', 'ENFILE'])('too many open files is not blamed on the other side: %s', (code) => {
  const cause = Object.assign(new Error('no'), { code })
  expect(transportError('siem.example.com:443', cause, never)).toMatchObject({
    code: 'unreachable',
    message: `siem.example.com:443 cannot be contacted: too many files are open; raise the limit (ulimit -n, LimitNOFILE) (${code})`,
  })
})

test('an error of a workspace’s API names the environment’s settings, since a workspace has no tls keys', async () => {
  const port = await secure(served, hello)
  const send = open({ to: 'api' })
  const error = await send(get(port, 'https'), never).catch((each: unknown) => each)
  expect(String(error)).toContain('NODE_EXTRA_CA_CERTS (chart: privateCA)')
  for (const code of ['ERR_TLS_CERT_ALTNAME_INVALID', 'UNABLE_TO_GET_ISSUER_CERT', 'CLOSED']) {
    const cause = Object.assign(new Error('no'), { code })
    const [api, sink] = (['api', 'sink'] as const).map((to) => ({ to, encrypted: true }))
    expect(transportError('api.example.com:443', cause, never, api).message).not.toContain('tls.')
    expect(transportError('siem.example.com:443', cause, never, sink).message).toContain('tls.')
  }
})

test.each([
  ['for another name', certificate('other.example.com', authority), 'tls.server_name'],
  ['that expired', certificate('127.0.0.1', authority, 0, Date.now() - 60_000), 'expired'],
  ['that is not valid yet', certificate('127.0.0.1', authority, Date.now() + 9e6), 'not valid yet'],
  ['of another authority', certificate('127.0.0.1', certificate('Another')), 'no trusted authority'],
])('a certificate %s is refused', async (_, shown, word) => {
  const port = await secure(shown, hello)
  const send = open({ tls: { ca_file: written('ca.pem', authority.cert) } })
  const error = await send(get(port, 'https'), never).catch((each: unknown) => each)
  expect(error).toMatchObject({ code: 'tls_invalid' })
  expect(String(error)).toContain(word)
})

test('server_name is requested and compared with the certificate', async () => {
  let asked: string | false | null = null
  const port = await secure(certificate('hec.internal', authority), (request, response) => {
    asked = (request.socket as unknown as { servername: string }).servername
    response.end('hello')
  })
  const tls = { ca_file: written('ca.pem', authority.cert), server_name: 'hec.internal' }
  expect(await textOf(await open({ tls })(get(port, 'https'), never))).toBe('hello')
  expect(asked).toBe('hec.internal')
})

test('a client certificate is shown; without one the refusal names the key that is missing', async () => {
  const demanding = { ...served, ca: authority.cert, requestCert: true, rejectUnauthorized: true }
  const port = await secure(demanding, hello)
  const ours = certificate('client', authority)
  const ca_file = written('ca.pem', authority.cert)
  const tls = { ca_file, cert_file: written('c.pem', ours.cert), key_file: written('k.pem', ours.key) }
  expect(await textOf(await open({ tls })(get(port, 'https'), never))).toBe('hello')
  await expect(open({ tls: { ca_file } })(get(port, 'https'), never)).rejects.toThrow('tls.cert_file')
})

test('TLS 1.1 is refused, and plain HTTP on a TLS port is reported', async () => {
  const old = {
    ...served,
    maxVersion: 'TLSv1.1',
    minVersion: 'TLSv1',
    ciphers: 'DEFAULT@SECLEVEL=0',
  } as const
  const send = open({ tls: { ca_file: written('ca.pem', authority.cert) } })
  const request = get(await secure(old, hello), 'https')
  await expect(send(request, never)).rejects.toMatchObject({ code: 'tls_invalid' })
  const error = await send(get(await plain(hello), 'https'), never).catch((each: unknown) => each)
  expect(error).toMatchObject({ code: 'tls_invalid' })
})

test('a CA file that changed is read again; one that is missing in mid-swap keeps the old', async () => {
  const port = await secure(served, (_, response) => response.setHeader('connection', 'close').end('hello'))
  const ca_file = written('ca.pem', certificate('Another').cert)
  const send = open({ tls: { ca_file } })
  await expect(send(get(port, 'https'), never)).rejects.toMatchObject({ code: 'tls_invalid' })
  written('ca.pem', authority.cert + '\n')
  expect(await textOf(await send(get(port, 'https'), never))).toBe('hello')
  rmSync(ca_file)
  expect(await textOf(await send(get(port, 'https'), never))).toBe('hello')
})

test('a missing CA file, or one without PEM, is reported by its path', async () => {
  const missing = open({ tls: { ca_file: join(folder, 'none.pem') } })
  const error = await missing(get(1, 'https'), never).catch((each: unknown) => each)
  expect(error).toMatchObject({ code: 'tls_invalid' })
  expect(String(error)).toContain('none.pem')
  const key_file = written('bad.pem', 'no PEM')
  const tls = { cert_file: written('c.pem', served.cert), key_file }
  const port = await secure(served, hello)
  await expect(open({ tls })(get(port, 'https'), never)).rejects.toMatchObject({ code: 'tls_invalid' })
})

/** A proxy that knows CONNECT only. */
async function proxy(status = 200): Promise<{ port: number; targets: string[] }> {
  const targets: string[] = []
  const server = createServer()
  server.on('connect', (request, socket) => {
    targets.push(request.url ?? '')
    if (status !== 200) {
      socket.end(`HTTP/1.1 ${status} No\r\n\r\n`)
      return
    }
    const [host, port] = (request.url ?? '').split(':')
    const far = connect(Number(port), host ?? '', () => {
      socket.write('HTTP/1.1 200 OK\r\n\r\n')
      far.pipe(socket)
      socket.pipe(far)
    })
    for (const end of [far, socket]) end.on('error', () => (far.destroy(), socket.destroy()))
    socket.on('close', () => far.destroy())
  })
  return { port: await listen(server), targets }
}

test('HTTPS_PROXY is used, with the receiver’s own CA; hosts in NO_PROXY bypass it', async () => {
  const port = await secure(served, hello)
  const { port: proxyPort, targets } = await proxy()
  const https = `http://127.0.0.1:${proxyPort}`
  const tls = { ca_file: written('ca.pem', authority.cert) }
  expect(await textOf(await open({ tls, proxy: { https } })(get(port, 'https'), never))).toBe('hello')
  expect(targets).toEqual([`127.0.0.1:${port}`])
  const around = open({ tls, proxy: { https, none: '127.0.0.1' } })
  expect(await textOf(await around(get(port, 'https'), never))).toBe('hello')
  expect(targets).toHaveLength(1)
  await expect(open({ proxy: { https } })(get(port, 'https'), never)).rejects.toMatchObject({
    code: 'tls_invalid',
  })
})

const login = 'ferry:planted-login@'
const failureOf = (settings: TransportSettings, request: Parameters<ReturnType<typeof open>>[0]) =>
  open(settings)(request, never).then(
    () => undefined,
    (each: unknown) => each as Error,
  )

test.each([
  ['https', 'HTTPS_PROXY'],
  ['http', 'HTTP_PROXY'],
] as const)('an unreachable proxy for %s is reported as the proxy of %s', async (scheme, variable) => {
  const gone = createServer()
  const port = await listen(gone)
  await new Promise((resolve) => gone.close(resolve))
  const proxies = { [scheme]: `http://${login}127.0.0.1:${port}` }
  const error = await failureOf({ to: 'api', proxy: proxies }, get(443, scheme, 'far.example.com'))
  expect(error).toMatchObject({ code: 'unreachable' })
  expect(error?.message).toContain(
    `the proxy 127.0.0.1:${port} (${variable}), on the way to far.example.com:443, refused the connection`,
  )
  const unknown = { [scheme]: `http://${login}proxy.invalid:3128` }
  const nowhere = await failureOf({ to: 'api', proxy: unknown }, get(443, scheme, 'far.example.com'))
  expect(nowhere?.message).toContain(`the proxy proxy.invalid:3128 (${variable}), on the way to`)
  expect(`${error?.message} ${nowhere?.message}`).not.toMatch(/ferry|planted-login/)
})

test('an error that a proxy may have caused names its variable', async () => {
  const none = await listen(createTcp((socket) => void socket.end('no proxy\r\n\r\n')))
  const { port: refusing } = await proxy(407)
  const wantsLogin = await plain((_, response) => void response.writeHead(407).end())
  const far = (scheme: string) => get(443, scheme, 'far.example.com')
  const failures = await Promise.all([
    failureOf({ proxy: { https: `http://127.0.0.1:${none}` } }, far('https')),
    failureOf({ proxy: { https: `http://127.0.0.1:${refusing}` } }, far('https')),
    failureOf({ proxy: { https: `https://localhost:${refusing}` } }, far('https')),
    failureOf({ proxy: { http: `http://127.0.0.1:${refusing}` } }, far('https')),
    failureOf({ proxy: { http: `http://127.0.0.1:${wantsLogin}` } }, far('http')),
  ])
  const variables = ['HTTPS_PROXY', 'HTTPS_PROXY', 'HTTPS_PROXY', 'HTTP_PROXY', 'HTTP_PROXY']
  expect(failures.map((error) => /^the proxy .*\((\w+_PROXY)\)/.exec(error?.message ?? '')?.[1])).toEqual(
    variables,
  )
})

test.each([
  [407, 'misconfigured', '', 'asks for a login: put one into HTTPS_PROXY'],
  [407, 'misconfigured', 'ferry:planted-login@', 'does not accept the login in HTTPS_PROXY'],
  [403, 'misconfigured', '', 'its rules forbid this connection'],
  [502, 'unreachable', '', 'the proxy could not connect to it'],
  [302, 'unreachable', '', 'is it a proxy?'],
])(
  'a proxy that answers %i is reported by its status and what to do: %s',
  async (status, code, login, words) => {
    const { port } = await proxy(status)
    const https = `http://${login}127.0.0.1:${port}`
    const error = await failureOf({ proxy: { https } }, get(443, 'https', 'far.example.com'))
    expect(error).toMatchObject({ code })
    expect(error?.message).toContain(`(HTTPS_PROXY) answered ${status} when asked for far.example.com:443`)
    expect(error?.message).toContain(words)
    expect(error?.message).not.toMatch(/ferry|planted/)
  },
)

test.each(['https', 'http'] as const)('the login in a proxy’s URL is sent to it, for %s', async (scheme) => {
  const logins: (string | undefined)[] = []
  const server = createServer((request, response) => {
    logins.push(`${request.url ?? ''} ${request.headers['proxy-authorization'] ?? ''}`)
    response.end('by the proxy')
  })
  server.on('connect', (request, socket) => {
    logins.push(`${request.url ?? ''} ${request.headers['proxy-authorization'] ?? ''}`)
    socket.end('HTTP/1.1 502 No\r\n\r\n')
  })
  const port = await listen(server)
  const send = open({ proxy: { [scheme]: `http://us%65r:p%40ss@127.0.0.1:${port}` } })
  await send(get(80, scheme, 'far.example.com'), never).then(textOf, () => undefined)
  const asked = scheme === 'http' ? 'http://far.example.com/a?b=c' : 'far.example.com:80'
  expect(logins).toEqual([`${asked} Basic ${Buffer.from('user:p@ss').toString('base64')}`])
})

test.each([
  ['10.0.0.0/8', 'http://10.20.30.40/', true],
  ['10.0.0.0/8', 'http://11.0.0.1/', false],
  ['192.168.1.7/32,fd00::/8', 'http://[fd12::7]:8080/', true],
  ['fd00::/8', 'http://[fe80::1]/', false],
  ['10.0.0.0/8', 'http://far.example.com/', false],
  ['example.com', 'http://far.example.com/', true],
  ['.example.com', 'http://example.com/', true],
  ['*.example.com', 'http://example.com/', false],
  ['xample.com', 'http://example.com/', false],
  ['other, EXAMPLE.com:8080', 'http://example.com:8080/', true],
  ['example.com:8080', 'http://example.com/', false],
  ['[::1]:80', 'http://[::1]/', true],
  ['::1', 'http://[::1]:81/', true],
  ['*', 'http://far.example.com/', true],
])('NO_PROXY %s, asked for %s: without a proxy is %s', (none, url, direct) => {
  const proxies = new Proxies({ http: 'http://proxy.example.com:3128', none })
  expect(proxies.proxyFor(url) === undefined).toBe(direct)
})

test.each(['10.0.0.0/33', '10.0.0/8', 'fd00::/129', 'http://example.com/'])(
  'NO_PROXY with %s, which is no range, is refused instead of ignored',
  async (none) => {
    const proxies = { http: 'http://127.0.0.1:1', none }
    const error = await failureOf({ proxy: proxies }, get(80))
    expect(error).toMatchObject({ code: 'misconfigured' })
    expect(error?.message).toContain(`NO_PROXY contains ${none}, which is not an address range`)
  },
)

test('errors of hosts in NO_PROXY do not name a proxy', async () => {
  const gone = createServer()
  const port = await listen(gone)
  await new Promise((resolve) => gone.close(resolve))
  const settings = {
    proxy: { https: 'http://proxy.invalid:3128', http: 'http://proxy.invalid:3128', none: '127.0.0.1' },
  }
  for (const scheme of ['http', 'https']) {
    const error = await failureOf(settings, get(port, scheme))
    expect(error?.message).toMatch(new RegExp(`^127\\.0\\.0\\.1:${port} refused`))
  }
})

test.each([
  'nonsense',
  'proxy.example.com:3128',
  'ftp://proxy.example.com',
  `http://%zz${login}proxy.example.com`,
])(
  'HTTPS_PROXY or HTTP_PROXY that is no address of a proxy is reported by its name alone: %s',
  async (text) => {
    for (const [scheme, variable] of [
      ['https', 'HTTPS_PROXY'],
      ['http', 'HTTP_PROXY'],
    ] as const) {
      const error = await failureOf({ proxy: { [scheme]: text } }, get(443, scheme, 'far.example.com'))
      expect(error).toMatchObject({ code: 'misconfigured' })
      expect(error?.message).toMatch(
        new RegExp(`^the environment's ${variable} is not the address of a proxy`),
      )
      expect(error?.message).not.toMatch(/nonsense|planted|ftp/)
    }
  },
)

test.each([`https://${login}10.0.0.1:3128`, 'https://[fd00::1]:3128'])(
  'a proxy over TLS needs a name, which is reported before any request: %s',
  async (text) => {
    for (const [scheme, variable] of [
      ['https', 'HTTPS_PROXY'],
      ['http', 'HTTP_PROXY'],
    ] as const) {
      const error = await failureOf({ proxy: { [scheme]: text } }, get(443, scheme, 'far.example.com'))
      expect(error).toMatchObject({ code: 'misconfigured' })
      expect(error?.message).toMatch(
        new RegExp(`^the environment's ${variable} names an https proxy by its IP`),
      )
      expect(error?.message).not.toMatch(/planted/)
    }
  },
)

test('a connection that is not accepted in time is a timeout', async () => {
  // A TLS handshake that the other side never answers counts as connecting.
  const port = await listen(createTcp((socket) => void socket.on('error', () => undefined)))
  const send = open({ connectTimeoutMs: 100 })
  await expect(send(get(port, 'https'), never)).rejects.toMatchObject({ code: 'timeout' })
})

describe('interim answers', () => {
  const interim = [
    'HTTP/1.1 100 Continue\r\n\r\n',
    'HTTP/1.1 102 Processing\r\n\r\n',
    'HTTP/1.1 103 Early Hints\r\nLink: </x>; rel=preload\r\n\r\n',
  ]

  test.each([
    ['100', interim.slice(0, 1)],
    ['102', interim.slice(1, 2)],
    ['103', interim.slice(2)],
    ['several in a row', [...interim, ...interim]],
  ])('an unsolicited %s before the final answer is skipped, and the connection kept', async (_, lines) => {
    let connections = 0
    const server = createTcp((socket) => {
      connections++
      socket.on('data', () => {
        // Each in a segment of its own, and the final one behind them.
        for (const line of lines) socket.write(line)
        setImmediate(() => socket.write('HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nfinal'))
      })
    })
    const port = await listen(server)
    const send = open()
    for (const body of [undefined, Buffer.from('{}')]) {
      const request = { ...get(port), method: 'POST' as const, ...(body && { body }) }
      const reply = await send(request, never)
      expect([reply.status, await textOf(reply)]).toEqual([200, 'final'])
      await new Promise((resolve) => setImmediate(resolve))
    }
    expect(connections).toBe(1)
  })

  test('a switch to another protocol is no interim answer', async () => {
    const port = await listen(
      createTcp((socket) =>
        socket.once('data', () =>
          socket.write('HTTP/1.1 101 Switching Protocols\r\nupgrade: x\r\nconnection: upgrade\r\n\r\n'),
        ),
      ),
    )
    await expect(open()(get(port), never)).rejects.toMatchObject({ code: 'bad_reply' })
  })
})

/** Nodes behind one address: each connection is to the next of them, and stays with it, like behind a load balancer. */
async function balancer(...nodes: readonly Answer[]) {
  const asked: number[] = []
  const behind = new WeakMap<Socket, number>()
  let next = 0
  const server = createServer((request, response) => {
    const node = behind.get(request.socket) as number
    asked.push(node)
    response.setHeader('keep-alive', 'timeout=75')
    nodes[node]?.(request, response)
  })
  server.keepAliveTimeout = 75_000
  server.on('connection', (socket: Socket) => behind.set(socket, next++ % nodes.length))
  return { port: await listen(server), asked }
}

const status =
  (code: number): Answer =>
  (_, response) =>
    response.writeHead(code).end('an answer')
const settled = () => new Promise((resolve) => setImmediate(resolve))

describe('after a bad answer', () => {
  test.each([429, 502, 503])('the request behind a %i takes a new connection', async (code) => {
    const { port, asked } = await balancer(status(code), status(200))
    const send = open()
    for (const wanted of [code, 200, 200]) {
      const reply = await send(get(port), never)
      await textOf(reply)
      await settled()
      expect(reply.status).toBe(wanted)
    }
    expect(asked).toEqual([0, 1, 1])
  })

  test.each([400, 401, 403, 404, 412])(
    'the request behind a %i keeps its connection: any machine would answer so',
    async (code) => {
      const { port, asked } = await balancer(status(code), status(200))
      const send = open()
      for (let i = 0; i < 2; i++) {
        await textOf(await send(get(port), never))
        await settled()
      }
      expect(asked).toEqual([0, 0])
    },
  )

  test('connections that were idle meanwhile are not reused either', async () => {
    let held: ServerResponse | undefined
    const once: Answer = (_, response) => {
      if (held) status(503)(_, response)
      else held = response
    }
    const { port, asked } = await balancer(once, status(503), status(200))
    const send = open()
    const [slow, quick] = [send(get(port), never), expect.poll(() => asked.length).toBe(1)]
    await quick
    await textOf(await send(get(port), never))
    held?.end('slow')
    await textOf(await slow)
    await settled()
    expect((await send(get(port), never)).status).toBe(200)
    expect(asked).toEqual([0, 1, 2])
  })

  test('an answer that its reader rejects counts as bad', async () => {
    const { port, asked } = await balancer(status(200), status(200))
    const send = open()
    const reply = await send(get(port), never)
    await textOf(reply)
    await settled()
    reply.distrust?.()
    await textOf(await send(get(port), never))
    expect(asked).toEqual([0, 1])
  })

  /** The same port on several addresses of this machine. */
  async function named(...answers: readonly Answer[]) {
    const asked: string[] = []
    const addresses = answers.map((_, i) => `127.0.0.${i + 1}`)
    let port = 0
    for (const [i, answer] of answers.entries()) {
      const address = addresses[i] as string
      const server = createServer((request, response) => {
        asked.push(address)
        answer(request, response)
      })
      servers.push(server)
      server.on('connection', (socket: Socket) => sockets.push(socket))
      await new Promise<void>((resolve) => server.listen(port, address, resolve))
      port = (server.address() as AddressInfo).port
    }
    const lookup: LookupFunction = (_, __, done) =>
      done(
        null,
        addresses.map((address) => ({ address, family: 4 })),
      )
    return { asked, send: open({ lookup }), url: get(port, 'http', 'nodes.example.com') }
  }

  const reset: Answer = (request) => void request.socket.resetAndDestroy()
  const cut: Answer = (request, response) => {
    response.writeHead(200, { 'content-length': '100' })
    response.write('half', () => request.socket.destroy())
  }

  test.each([
    ['503', status(503)],
    ['a reset', reset],
    ['a body that breaks off', cut],
  ])('of a name with several addresses another one is tried: %s', async (_, bad) => {
    const { asked, send, url } = await named(bad, bad, status(200))
    for (let i = 0; i < 4; i++) {
      await send(url, never).then(textOf, () => undefined).catch(() => undefined) // prettier-ignore
      await settled()
    }
    expect(asked).toEqual(['127.0.0.1', '127.0.0.2', '127.0.0.3', '127.0.0.3'])
  })

  test('of a name with several addresses another one is tried if one is silent', async () => {
    const { asked, send, url } = await named(() => undefined, status(200))
    const stop = new AbortController()
    const waiting = send(url, stop.signal)
    await expect.poll(() => asked.length).toBe(1)
    stop.abort()
    await expect(waiting).rejects.toMatchObject({ code: 'aborted' })
    await textOf(await send(url, never))
    expect(asked).toEqual(['127.0.0.1', '127.0.0.2'])
  })
})

test('unsolicited bytes on an idle connection are not the next answer', async () => {
  const connections: Socket[] = []
  const server = createTcp((socket) => {
    connections.push(socket)
    socket.on('data', () => socket.write('HTTP/1.1 200 OK\r\ncontent-length: 1\r\n\r\n1'))
  })
  const port = await listen(server)
  const send = open()
  await textOf(await send(get(port), never))
  const closed = new Promise((resolve) => connections[0]?.once('close', resolve))
  connections[0]?.write('HTTP/1.1 201 Created\r\ncontent-length: 1\r\n\r\n2')
  await closed
  const reply = await send(get(port), never)
  expect([reply.status, await textOf(reply), connections.length]).toEqual([200, '1', 2])
})

describe('a TLS port that takes the connection and sends nothing', () => {
  test('is dropped at once when the request is aborted, and when all is closed', async () => {
    const taken: Socket[] = []
    const server = createTcp((socket) => taken.push(socket.on('error', () => undefined).resume()))
    const port = await listen(server)
    const transport = openTransport()
    const stop = new AbortController()
    const waiting = transport.send(get(port, 'https'), stop.signal)
    await expect.poll(() => taken.length).toBe(1)
    stop.abort()
    await expect(waiting).rejects.toMatchObject({ code: 'aborted' })
    const another = transport.send(get(port, 'https'), never)
    another.catch(() => undefined)
    await expect.poll(() => taken.length).toBe(2)
    await transport.close()
    await expect(another).rejects.toMatchObject({ code: 'unreachable' })
    await expect.poll(() => taken.every((socket) => socket.closed)).toBe(true)
  })

  test('is reported as that, and no firewall is blamed', async () => {
    const port = await listen(createTcp((socket) => void socket.on('error', () => undefined).resume()))
    const error = await failureOf({ connectTimeoutMs: 100 }, get(port, 'https'))
    expect(error?.message).toContain('accepted the connection but did not answer the TLS handshake')
    expect(error?.message).not.toContain('firewall')
  })
})

describe('an error names only what was seen and what is set', () => {
  const closes = () => listen(createTcp((socket) => void socket.once('data', () => socket.end())))

  test('plain HTTP that is closed before an answer mentions no certificates', async () => {
    const error = await failureOf({}, get(await closes()))
    expect(error?.message).toContain('closed the connection before it answered')
    expect(error?.message).not.toMatch(/tls\.|certificate/)
  })

  test('an HTTPS port that gets plain HTTP is recognized', async () => {
    const alert = Buffer.from([0x15, 0x03, 0x01, 0x00, 0x02, 0x02, 0x46])
    const port = await listen(createTcp((socket) => void socket.once('data', () => socket.end(alert))))
    const error = await failureOf({}, get(port))
    expect(error).toMatchObject({ code: 'bad_reply' })
    expect(error?.message).toContain('is it an https:// port?')
  })

  test('a client certificate that is not accepted is reported by the key that is set', async () => {
    const demanding = { ...served, ca: authority.cert, requestCert: true, rejectUnauthorized: true }
    const port = await secure(demanding, hello)
    const stranger = certificate('client', certificate('Another'))
    const ca_file = written('ca.pem', authority.cert)
    const tls = {
      ca_file,
      cert_file: written('c.pem', stranger.cert),
      key_file: written('k.pem', stranger.key),
    }
    const error = await failureOf({ tls }, get(port, 'https'))
    expect(error?.message).toContain('tls.cert_file')
    expect(error?.message).not.toContain('set tls.cert_file')
  })
})

test('a body whose announced length is wrong is an error, and no request that hangs', async () => {
  const port = await plain((request, response) => request.resume().on('end', () => response.end('x')))
  for (const length of ['3', '9']) {
    const stream = Readable.from([Buffer.from('five!')])
    const request = { ...get(port), method: 'PUT' as const, headers: { 'content-length': length }, stream }
    await expect(open()(request, never)).rejects.toMatchObject({ code: 'bad_reply' })
  }
})

test('a body in one-byte chunks comes in larger pieces', async () => {
  const bytes = 20_000
  const port = await listen(
    createTcp((socket) => {
      socket
        .on('error', () => undefined)
        .once('data', () => {
          socket.write('HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n')
          socket.end(`${'1\r\n \r\n'.repeat(bytes)}0\r\n\r\n`)
        })
    }),
  )
  let [pieces, total] = [0, 0]
  for await (const piece of (await open()(get(port), never)).body) {
    pieces++
    total += piece.length
  }
  expect(total).toBe(bytes)
  expect(pieces).toBeLessThan(200)
})
