// TLS files in mid-swap: one rule for every kind of connection.
import { execFileSync } from 'node:child_process'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { createServer, type Server } from 'node:https'
import type { AddressInfo, Socket } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { TLSSocket } from 'node:tls'
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import type { TlsOptions } from '../../../src/contracts/platform.ts'
import { connectSocket } from '../../../src/platform/sockets.ts'
import { tlsMaterial } from '../../../src/platform/tls-material.ts'
import { openTransport } from '../../../src/platform/transport.ts'
import { certificate } from '../../fakes/certificates.ts'

const never = new AbortController().signal
const authority = certificate('authority')
const local = certificate('127.0.0.1', authority)
const [ours, newer] = [certificate('ours', authority), certificate('newer', authority)]

let folder = ''
let server: Server
let sockets: Socket[]
/** the client certificate of each connection */
let shown: string[]
let closers: (() => Promise<void>)[]

beforeEach(async () => {
  folder = mkdtempSync(join(tmpdir(), 'tls-material-'))
  sockets = []
  shown = []
  closers = []
  const strict = { ...local, ca: authority.cert, requestCert: true, rejectUnauthorized: true }
  server = createServer(strict, (_, response) => response.setHeader('connection', 'close').end())
  server.on('connection', (socket: Socket) => sockets.push(socket.on('error', () => undefined)))
  server.on('secureConnection', (socket: TLSSocket) => {
    shown.push(String(socket.getPeerX509Certificate()?.subject))
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
})

afterEach(async () => {
  for (const close of closers) await close()
  for (const socket of sockets) socket.destroy()
  await new Promise((resolve) => server.close(resolve))
  rmSync(folder, { recursive: true })
})

const port = () => (server.address() as AddressInfo).port
const put = (name: string, text: string) => writeFileSync(join(folder, name), text)

function filesOf(): TlsOptions {
  put('ca.pem', authority.cert)
  put('own.pem', ours.cert)
  put('own.key', ours.key)
  return { ca_file: join(folder, 'ca.pem'), cert_file: join(folder, 'own.pem'), key_file: join(folder, 'own.key') } // prettier-ignore
}

/** Each gives a way to connect once. */
const ways = {
  'a stream': (tls: TlsOptions) => async () => {
    const connection = await connectSocket({ host: '127.0.0.1', port: port() }, tls, 5_000, never)
    connection.destroy()
  },
  'a request': (tls: TlsOptions) => {
    const transport = openTransport({ tls })
    closers.push(() => transport.close())
    const url = `https://127.0.0.1:${port()}/`
    return async () => {
      const { body } = await transport.send({ method: 'GET', url, headers: {} }, never)
      for await (const part of body) if (part.length > 0) break
    }
  },
}

describe.each(Object.entries(ways))('%s', (_, way) => {
  test.each([
    ['a truncated authority', 'ca.pem', authority.cert.slice(0, 200)],
    ['an empty authority', 'ca.pem', ''],
    ['a truncated certificate', 'own.pem', ours.cert.slice(0, 200)],
    ['a certificate whose key does not exist yet', 'own.pem', newer.cert],
    ['a truncated key', 'own.key', ours.key.slice(0, 60)],
  ])('%s keeps the working material', async (_what, name, text) => {
    const connect = way(filesOf())
    await connect()
    put(name, text)
    await connect()
    rmSync(join(folder, name))
    await connect()
    expect(shown).toEqual(['CN=ours', 'CN=ours', 'CN=ours'])
  })

  test('the new pair is used once both of its files are complete', async () => {
    const connect = way(filesOf())
    await connect()
    put('own.pem', newer.cert)
    await connect()
    put('own.key', newer.key)
    await connect()
    expect(shown).toEqual(['CN=ours', 'CN=ours', 'CN=newer'])
  })

  test('files that never fitted are reported, and used as soon as they do', async () => {
    const tls = filesOf()
    put('own.key', newer.key)
    const connect = way(tls)
    await expect(connect()).rejects.toMatchObject({ code: 'tls_invalid' })
    put('own.pem', newer.cert)
    await connect()
    put('ca.pem', '')
    await connect()
    expect(shown).toEqual(['CN=newer', 'CN=newer'])
  })

  test('an authority that never was valid is reported by its path', async () => {
    const tls = filesOf()
    put('ca.pem', 'no PEM')
    await expect(way(tls)()).rejects.toThrow('ca.pem (no PEM)')
    put('ca.pem', '-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n')
    await expect(way(tls)()).rejects.toThrow('ca.pem (no PEM)')
  })
})

test('a pipe in place of a TLS file is reported at once, and not waited for', async () => {
  const pipe = join(folder, 'pipe')
  execFileSync('mkfifo', [pipe])
  const reported = tlsMaterial({ ca_file: pipe })
  await expect(reported).rejects.toThrow(`cannot use ${pipe} (not a regular file)`)
})

test('unchanged files give the same material, so that kept connections stay', async () => {
  const tls = filesOf()
  const material = await tlsMaterial(tls)
  expect(await tlsMaterial(tls)).toBe(material)
  put('ca.pem', authority.cert)
  expect(await tlsMaterial(tls)).toBe(material)
  put('ca.pem', `${authority.cert}\n`)
  expect(await tlsMaterial(tls)).not.toBe(material)
})
