// Requests over real sockets: what arrives, what comes back, what each failure is called.
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http'
import { createServer as createTls, type ServerOptions } from 'node:https'
import {
  type AddressInfo,
  connect,
  createServer as createTcp,
  type Server as TcpServer,
  type Socket,
} from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { gzipSync } from 'node:zlib'
import { afterEach, beforeEach, expect, test } from 'vitest'
import type { HttpReply } from '../../../src/model/http.ts'
import { transportError } from '../../../src/ops/transport-errors.ts'
import { openTransport, type OpenTransport, type TransportSettings } from '../../../src/ops/transport.ts'
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

test('a redirect is not followed, a 500 is not asked again, a packed body stays packed', async () => {
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

test('a body that is left closes its connection, read or not', async () => {
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

test('nobody there, a reset, and no such name are unreachable, told with host and port', async () => {
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

test('what is not HTTP is a bad reply', async () => {
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

test('a secret that no header can hold is told without being shown', async () => {
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

test.each(['EMFILE', 'ENFILE'])('too many open files is the fault of nobody who is asked: %s', (code) => {
  const cause = Object.assign(new Error('no'), { code })
  expect(transportError('siem.example.com:443', cause, never)).toMatchObject({
    code: 'unreachable',
    message: `siem.example.com:443 cannot be asked: too many files are open; raise the limit (ulimit -n, LimitNOFILE) (${code})`,
  })
})

test('a workspace has no tls keys: what is told of its API names what is set around the process', async () => {
  const port = await secure(served, hello)
  const send = open({ to: 'api' })
  const error = await send(get(port, 'https'), never).catch((each: unknown) => each)
  expect(String(error)).toContain('NODE_EXTRA_CA_CERTS (chart: privateCA)')
  for (const code of ['ERR_TLS_CERT_ALTNAME_INVALID', 'UNABLE_TO_GET_ISSUER_CERT', 'UND_ERR_SOCKET']) {
    const cause = Object.assign(new Error('no'), { code })
    expect(transportError('api.example.com:443', cause, never, 'api').message).not.toContain('tls.')
    expect(transportError('siem.example.com:443', cause, never).message).toContain('tls.')
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

test('server_name is asked for and held against the certificate', async () => {
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

test('TLS 1.1 is refused, and plain HTTP on a TLS port is told', async () => {
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

test('a CA file that changed is read again; one that is gone in mid-swap keeps the old', async () => {
  const port = await secure(served, (_, response) => response.setHeader('connection', 'close').end('hello'))
  const ca_file = written('ca.pem', certificate('Another').cert)
  const send = open({ tls: { ca_file } })
  await expect(send(get(port, 'https'), never)).rejects.toMatchObject({ code: 'tls_invalid' })
  written('ca.pem', authority.cert + '\n')
  expect(await textOf(await send(get(port, 'https'), never))).toBe('hello')
  rmSync(ca_file)
  expect(await textOf(await send(get(port, 'https'), never))).toBe('hello')
})

test('a CA file that is not there, or holds no PEM, is told by its path', async () => {
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

test('HTTPS_PROXY is gone through, with the receiver’s own CA; NO_PROXY is not', async () => {
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

test('a proxy that refuses is unreachable, and told', async () => {
  const { port } = await proxy(407)
  const send = open({ proxy: { https: `http://127.0.0.1:${port}` } })
  const error = await send(get(443, 'https', 'far.example.com'), never).catch((each: unknown) => each)
  expect(error).toMatchObject({ code: 'unreachable' })
  expect(String(error)).toContain('far.example.com:443 was not reached: the proxy refused')
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
] as const)('a proxy for %s that is not there is told as the proxy of %s', async (scheme, variable) => {
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

test('what may be the fault of a proxy on the way names its variable', async () => {
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
  expect(failures.map((error) => / proxy of (\w+)/.exec(error?.message ?? '')?.[1])).toEqual(variables)
  expect(failures.at(-1)?.message).toContain('far.example.com:443 was not reached: the proxy refused')
})

test('whom NO_PROXY names is told without a proxy', async () => {
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
])('HTTPS_PROXY or HTTP_PROXY that is no address of a proxy is told by its name alone: %s', async (text) => {
  for (const [scheme, variable] of [
    ['https', 'HTTPS_PROXY'],
    ['http', 'HTTP_PROXY'],
  ] as const) {
    const error = await failureOf({ proxy: { [scheme]: text } }, get(443, scheme, 'far.example.com'))
    expect(error).toMatchObject({ code: 'misconfigured' })
    expect(error?.message).toMatch(new RegExp(`^the environment's ${variable} is no address of a proxy`))
    expect(error?.message).not.toMatch(/nonsense|planted|ftp/)
  }
})

test.each([`https://${login}10.0.0.1:3128`, 'https://[fd00::1]:3128'])(
  'a proxy that is spoken to over TLS needs a name, which is told before anybody is asked: %s',
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

test('a connection that is not taken in time is a timeout', async () => {
  // A TLS handshake that the other side never answers counts as connecting.
  const port = await listen(createTcp((socket) => void socket.on('error', () => undefined)))
  const send = open({ connectTimeoutMs: 100 })
  await expect(send(get(port, 'https'), never)).rejects.toMatchObject({ code: 'timeout' })
})
