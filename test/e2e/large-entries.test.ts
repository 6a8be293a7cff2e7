// The program as it is built, before an API whose entries have the largest size: its memory is bounded whatever comes (invariant 4).
import { mkdtempSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { createServer } from 'node:http'
import type { ServerResponse } from 'node:http'
import { createServer as createTcpServer, type AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { pipeline } from 'node:stream/promises'
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from 'vitest'
import { FakeRelp } from '../fakes/relp-server.ts'
import { buildProgram } from './built.ts'
import type { Built } from './built.ts'
import { startChild } from './child.ts'

let built: Built
beforeAll(async () => {
  built = await buildProgram()
})
afterAll(() => built.remove())

/** What the image and the systemd unit set: otherwise glibc keeps some 20 MB more for the next huge entry. */
const AS_INSTALLED = { MALLOC_MMAP_THRESHOLD_: '8388608' }
const LOOK_MS = 20
const SINKS = ['a', 'b', 'c', 'd', 'e']
const ENTRIES = 6
const BYTES = 16_700_000

function* answer(text: string): Generator<string> {
  const at = new Date(Date.now() - 60_000).toISOString().slice(0, 19).replace('T', ' ')
  yield '{"events":['
  for (let i = 0; i < ENTRIES; i++) {
    yield `${i > 0 ? ',' : ''}{"unique_usage_id":"00000000-0000-4000-8000-00000000000${i}","utc_time":"${at}","text":"`
    yield text
    yield '"}'
  }
  yield ']}'
}

/** The history of today is six entries; all else is empty. */
async function openApi(text: string): Promise<string> {
  const serve = (url: string, reply: ServerResponse) => {
    const toS = Number(new URL(url, 'http://api.test').searchParams.get('end_time'))
    reply.setHeader('content-type', 'application/json')
    return pipeline(toS > Date.now() / 1000 - 30 ? answer(text) : ['{"events":[]}'], reply)
  }
  const server = createServer((request, reply) => void serve(request.url ?? '', reply).catch(() => undefined))
  await new Promise<void>((resolve) => void server.listen(0, '127.0.0.1', resolve))
  onTestFinished(() => void server.close())
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`
}

interface Syslog {
  readonly addresses: readonly string[]
  /** bytes of its messages, over all connections */
  readonly received: () => number
}

/** A receiver over TCP and one over RELP, which take everything. */
async function openSyslog(): Promise<Syslog> {
  let tcpBytes = 0
  const relp = new FakeRelp()
  const tcp = createTcpServer((socket) => {
    socket.on('data', (chunk) => (tcpBytes += chunk.length)).on('error', () => undefined)
  })
  await new Promise<void>((resolve) => void tcp.listen(0, '127.0.0.1', resolve))
  onTestFinished(() => void tcp.close())
  const listener = await relp.listen()
  onTestFinished(() => listener.close())
  const relpBytes = () => relp.stored.reduce((sum, message) => sum + message.length, 0)
  return {
    addresses: [
      `tcp://127.0.0.1:${(tcp.address() as AddressInfo).port}`,
      `relp://127.0.0.1:${listener.port}`,
    ],
    received: () => tcpBytes + relpBytes(),
  }
}

/** A collector that takes everything. */
async function openHec() {
  let bytes = 0
  const server = createServer((request, reply) => {
    request.on('data', (chunk: Buffer) => (bytes += chunk.length))
    request.on('end', () =>
      reply.setHeader('content-type', 'application/json').end('{"text":"Success","code":0}'),
    )
  })
  await new Promise<void>((resolve) => void server.listen(0, '127.0.0.1', resolve))
  onTestFinished(() => void server.close())
  return { url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`, received: () => bytes }
}

/** Runs the program until all is delivered; returns its peak memory. */
async function peakBytesOf(folder: string, of: string, sinks: readonly string[]): Promise<number> {
  const config = join(folder, 'auditferry.yaml')
  writeFileSync(
    config,
    `journal: { path: ${join(folder, 'auditferry.db')} }
workspaces: [{ name: acme, base_url: "${await openApi(of.repeat(BYTES))}", api_key: k, history: { start: 1d } }]
sinks: [${sinks.join(', ')}]
`,
  )
  const child = startChild([built.main, 'run', '--once', '--config', config], AS_INSTALLED)
  onTestFinished(() => child.kill('SIGKILL'))
  let peakBytes = 0
  const look = setInterval(() => {
    const peak = /^VmHWM:\s+(\d+) kB$/m.exec(statusOf(child.pid))?.[1]
    if (peak) peakBytes = Number(peak) * 1024
  }, LOOK_MS)
  expect(await child.ended, child.stderr()).toEqual({ code: 0, signal: null })
  clearInterval(look)
  return peakBytes
}

const syslogSink = (address: string, index: number) =>
  `{ name: s${index}, type: syslog, format: cef, address: "${address}" }`

const hecSink = (url: string) =>
  `{ name: hec, type: splunk_hec, format: cef, acks: false, compression: none, token: t, url: "${url}" }`

function openFolder(): string {
  const folder = mkdtempSync(join(tmpdir(), 'large-'))
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }))
  return folder
}

function expectBounded(peakBytes: number, what: string): void {
  process.stdout.write(
    `peak memory of six entries of 16.7 MB of ${what}: ${(peakBytes / 1e6).toFixed(0)} MB\n`,
  )
  expect(peakBytes).toBeGreaterThan(0)
  expect(peakBytes).toBeLessThan(256e6)
}

/** Of `=` an entry becomes twice as long in CEF. */
describe.runIf(process.platform === 'linux')(
  'six entries of 16.7 MB in one answer take less than 256 MB of memory',
  () => {
    test.each([
      { of: 'x', format: 'raw', times: 1 },
      { of: '=', format: 'cef', times: 2 },
    ])('of $of as $format into five files', async ({ of, format, times }) => {
      const folder = openFolder()
      const sinks = SINKS.map(
        (name) => `{ name: ${name}, type: file, format: ${format}, path: ${join(folder, name)} }`,
      )
      expectBounded(await peakBytesOf(folder, of, sinks), `${of} into five files`)
      for (const name of SINKS)
        expect(statSync(join(folder, name)).size).toBeGreaterThan(ENTRIES * BYTES * times)
    })

    test('of = as CEF over TCP and RELP, where the text is in memory beside the messages that it is split into', async () => {
      const { addresses, received } = await openSyslog()
      const sinks = addresses.map(syslogSink)
      expectBounded(await peakBytesOf(openFolder(), '=', sinks), '= over TCP and RELP')
      expect(received()).toBeGreaterThan(2 * ENTRIES * BYTES * 2)
    })

    test('of = as CEF into HEC, where a line is three times its entry', async () => {
      const { url, received } = await openHec()
      expectBounded(await peakBytesOf(openFolder(), '=', [hecSink(url)]), '= into HEC')
      expect(received()).toBeGreaterThan(ENTRIES * BYTES * 3)
    })

    test('of = as CEF into HEC, over TCP and over RELP, one of which sends when another has just been answered', async () => {
      const { addresses, received } = await openSyslog()
      const hec = await openHec()
      const sinks = [hecSink(hec.url), ...addresses.map(syslogSink)]
      expectBounded(await peakBytesOf(openFolder(), '=', sinks), '= into HEC and over syslog')
      expect(hec.received()).toBeGreaterThan(ENTRIES * BYTES * 3)
      expect(received()).toBeGreaterThan(2 * ENTRIES * BYTES * 2)
    })
  },
)

function statusOf(pid: number | undefined): string {
  try {
    return readFileSync(`/proc/${pid}/status`, 'utf8')
  } catch {
    return ''
  }
}
