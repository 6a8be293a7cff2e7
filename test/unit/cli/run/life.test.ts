// The daemon and the demo as processes: they stop when
// signalled, whatever hangs, and continue after a kill.
import { execFileSync, spawn } from 'node:child_process'
import type { ChildProcess } from 'node:child_process'
import { once } from 'node:events'
import {
  closeSync,
  constants,
  mkdtempSync,
  openSync,
  readFileSync,
  rmSync,
  statSync,
  writeFileSync,
  writeSync,
} from 'node:fs'
import { createServer } from 'node:net'
import type { AddressInfo, Server, Socket } from 'node:net'
import { tmpdir } from 'node:os'
import { join, resolve } from 'node:path'
import { afterEach, beforeEach, expect, onTestFinished, test } from 'vitest'
import { connectControl } from '../../../../src/control/client.ts'

const main = resolve('src/main.ts')
let folder = ''
const children: ChildProcess[] = []
const servers: Server[] = []
const sockets: Socket[] = []
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'life-'))
})
afterEach(async () => {
  for (const child of children.splice(0)) child.kill('SIGKILL')
  for (const socket of sockets.splice(0)) socket.destroy()
  for (const server of servers.splice(0)) await new Promise((resolve) => server.close(resolve))
  rmSync(folder, { recursive: true, force: true })
})

/** `stderr`: a file descriptor to use instead of collecting the text. */
function start(args: readonly string[], stderr: 'pipe' | number = 'pipe') {
  const child = spawn(process.execPath, [main, ...args], { cwd: folder, stdio: ['ignore', 'pipe', stderr] })
  children.push(child)
  const said = { text: '' }
  for (const stream of [child.stdout, child.stderr])
    stream?.on('data', (piece: Buffer) => void (said.text += piece.toString()))
  return { child, said }
}

async function until(seen: () => boolean | Promise<boolean>, what: string): Promise<void> {
  for (let tries = 0; tries < 300; tries++) {
    if (await seen()) return
    await new Promise((resolve) => setTimeout(resolve, 50))
  }
  throw new Error(`waited in vain for: ${what}`)
}

async function end(child: ChildProcess, signal: NodeJS.Signals) {
  const from = Date.now()
  // The exit event may come before the last output.
  const closed = once(child, 'close')
  child.kill(signal)
  const [code] = (await closed) as [number | null]
  return { code, ms: Date.now() - from }
}

/** Accepts connections and never answers. */
async function silent(): Promise<{ port: number; taken: () => number }> {
  const server = createServer((socket) => {
    sockets.push(socket)
    socket.on('error', () => undefined)
  })
  servers.push(server)
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  return { port: (server.address() as AddressInfo).port, taken: () => sockets.length }
}

/** A daemon whose first request gets no answer. */
async function startReading(stderr: 'pipe' | number = 'pipe') {
  const api = await silent()
  writeFileSync(
    join(folder, 'a.yaml'),
    `journal: { path: a.db }
workspaces: [{ name: acme, base_url: "http://127.0.0.1:${api.port}", api_key: planted-key, audit: {} }]
sinks: [{ name: archive, type: file, path: out.ndjson }]
server: { listen: 127.0.0.1:0 }
`,
  )
  const { child, said } = start(['run', '--config', 'a.yaml'], stderr)
  await until(() => api.taken() > 0, 'a request')
  return { child, said }
}

test('SIGTERM ends a daemon whose API never answers, with 0 and in time', async () => {
  const { child, said } = await startReading()
  const { code, ms } = await end(child, 'SIGTERM')
  expect(code).toBe(0)
  expect(ms).toBeLessThan(9_900)
  expect(said.text).toContain('"msg":"Stopped: ')
  expect(said.text).not.toContain('planted')
})

test('a full log pipe without a reader blocks nothing: the daemon starts, reads, and stops in time', async () => {
  const pipe = join(folder, 'log')
  execFileSync('mkfifo', [pipe])
  const reader = openSync(pipe, constants.O_RDONLY | constants.O_NONBLOCK)
  const writer = openSync(pipe, constants.O_WRONLY | constants.O_NONBLOCK)
  onTestFinished(() => [reader, writer].forEach((end) => closeSync(end)))
  const filler = Buffer.alloc(4_096, 'x')
  expect(() => {
    for (;;) writeSync(writer, filler)
  }).toThrow('EAGAIN')
  const { child } = await startReading(writer)
  const { code, ms } = await end(child, 'SIGTERM')
  expect(code).toBe(0)
  expect(ms).toBeLessThan(9_000)
})

test('SIGUSR1 and SIGUSR2 neither open a debugger nor end the daemon', async () => {
  const { child, said } = await startReading()
  child.kill('SIGUSR1')
  child.kill('SIGUSR2')
  const { code } = await end(child, 'SIGTERM')
  expect(code).toBe(0)
  expect(said.text).not.toContain('Debugger')
})

test('the result of a single run is the last line of its log', async () => {
  writeFileSync(
    join(folder, 'a.yaml'),
    `journal: { path: a.db }
workspaces: [{ name: acme, base_url: "http://127.0.0.1:9", api_key: planted-key, audit: {} }]
sinks: [{ name: archive, type: file, path: out.ndjson }]
`,
  )
  const { child, said } = start(['run', '--once', '--timeout', '1s', '--config', 'a.yaml'])
  expect(await once(child, 'close')).toEqual([1, null])
  const lines = said.text.trim().split('\n')
  expect(lines.map((line) => JSON.parse(line) as unknown).at(-1)).toMatchObject({
    level: 'warn',
    msg: 'Not everything was read and delivered; nothing is lost, and the next run continues',
    why: expect.stringMatching(/^the timeout came first: /) as string,
    ...{ entries_read: 0, 'delivered.archive': 0, pending: 0, dead_letters: 0, quarantined: 0, gaps: 0 },
  })
  expect(said.text).toContain('"msg":"Stopped: ')
})

test('SIGTERM right after the start ends the demo with 0', async () => {
  const { child } = start(['demo', '--data', folder, '--listen', '127.0.0.1:0'])
  await new Promise((resolve) => setTimeout(resolve, 350))
  // Before the program has loaded, no handler can see a signal, so wait for its first sign.
  await until(() => statSync(folder).nlink > 2 || child.exitCode !== null, 'its folder')
  expect((await end(child, 'SIGTERM')).code).toBe(0)
})

test('a killed demo continues where it was, without duplicates, and a second one is refused meanwhile', async () => {
  const journal = join(folder, 'demo', 'auditferry.db')
  const delivered = async () =>
    (await (await connectControl(journal))?.status())?.sinks[0]?.accepted_entries ?? 0
  const args = ['demo', '--data', folder, '--listen', '127.0.0.1:0']
  const first = start(args)
  await until(async () => (await delivered()) > 1000, 'entries')
  await until(() => first.said.text.includes('status --config'), 'its welcome')
  expect(statSync(join(folder, 'demo', 'auditferry.yaml')).mode & 0o777).toBe(0o600)
  const refused = start(args)
  const [code] = (await once(refused.child, 'close')) as [number]
  expect(code).toBe(1)
  expect(refused.said.text).toContain('is running on')
  await end(first.child, 'SIGKILL')
  const second = start(args)
  await until(() => second.said.text.includes('Continues where the last demo stopped'), 'its words')
  await until(async () => {
    const status = await (await connectControl(journal))?.status()
    return status?.sinks[0]?.pending_entries === 0 && status.workspaces[0]?.sources[0]?.caught_up_at !== null
  }, 'all caught up')
  expect((await end(second.child, 'SIGINT')).code).toBe(0)
  expect(second.said.text).toMatch(
    /\nStopping: .*\n\nStopped\. Nothing is lost: .*\n\n  what arrived   \S*entries\.ndjson\n  continue       .* demo --data \S+\n/,
  )
  expect(second.said.text).toContain(` demo --data ${folder}\n`)
  const ids = readFileSync(join(folder, 'demo', 'entries.ndjson'), 'utf8')
    .trim()
    .split('\n')
    .map((line) => (JSON.parse(line) as { id: string }).id)
  expect(new Set(ids).size).toBe(ids.length)
})

test('the demo reports a SIGHUP and goes on, unless its output is closed', async () => {
  const { child, said } = start(['demo', '--data', folder, '--listen', '127.0.0.1:0'])
  await until(() => said.text.includes('Ctrl-C ends it'), 'its welcome')
  child.kill('SIGHUP')
  await until(() => said.text.includes('SIGHUP: the demo has no configuration file to reload'), 'a word')
  expect(child.exitCode).toBeNull()
  const exited = once(child, 'exit')
  child.stdout?.destroy()
  child.kill('SIGHUP')
  expect(await exited).toEqual([0, null])
})
