// One answer of the history of gigabytes, plain and gzip, through the whole program into a file: how long it takes and how much memory at most. Prints, asserts nothing. `npm run build`, then `node bench/history.ts [gigabytes] [program]`
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { createServer } from 'node:http'
import type { ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { Writable } from 'node:stream'
import { pipeline } from 'node:stream/promises'
import { fileURLToPath } from 'node:url'
import { createGzip } from 'node:zlib'

const BLOCK_EVENTS = 64
const DAY_MS = 86_400_000

const prose =
  'The parties agree that the indemnity in clause 12.3 survives termination for a period of two years.\n' +
  'Where "Losses" are claimed, notice must be given within thirty days of becoming aware of them.\n\n'

/** 64 query events of some 14 KB, and where in each its number stands. */
function block(): { readonly bytes: Buffer; readonly numberAt: number[] } {
  const time = new Date().toISOString().slice(0, 19).replace('T', ' ')
  const event = JSON.stringify({
    unique_usage_id: '7d3f0000-0000-4000-8000-000000000000',
    utc_time: time,
    user: 'person.17@example.com',
    product_surface_area: 'ASSISTANT',
    cm_id: 'CM-17',
    metadata: {},
    query: prose.repeat(10),
    response: prose.repeat(56),
    feedback_comments: '',
    feedback_sentiments: '',
    link: 'https://app.example.com/history/17',
  })
  const bytes = Buffer.from(`${event},`.repeat(BLOCK_EVENTS))
  const size = bytes.length / BLOCK_EVENTS
  const at = event.indexOf('000000000000')
  return { bytes, numberAt: Array.from({ length: BLOCK_EVENTS }, (_, i) => i * size + at) }
}

/** The body, in blocks; each event with an id of its own. */
function* body(totalBytes: number): Generator<Buffer> {
  const { bytes, numberAt } = block()
  yield Buffer.from('{"events":[')
  let n = 0
  for (let sent = 0; sent < totalBytes; sent += bytes.length) {
    const piece = Buffer.from(bytes)
    for (const at of numberAt) piece.write(String(++n).padStart(12, '0'), at, 'latin1')
    yield sent + bytes.length < totalBytes ? piece : piece.subarray(0, -1)
  }
  yield Buffer.from(']}')
}

/** Today is one answer of gigabytes; every other day is empty. */
async function serve(encoding: string, totalBytes: number): Promise<void> {
  const server = createServer((incoming, outgoing) => {
    const asked = new URL(incoming.url ?? '', 'http://x').searchParams
    // A window that reaches into today by more than its edge.
    const midnight = Math.floor(Date.now() / DAY_MS) * DAY_MS
    const end = Number(asked.get('end_time'))
    // Seconds only: of milliseconds nothing is shown.
    const today = end < 1e11 && end * 1000 > midnight + 60_000
    outgoing.setHeader('content-type', 'application/json')
    if (today) void answer(outgoing, encoding, totalBytes).catch(() => outgoing.destroy())
    else outgoing.end('{"events":[]}')
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  process.send?.((server.address() as AddressInfo).port)
}

async function answer(outgoing: ServerResponse, encoding: string, totalBytes: number): Promise<void> {
  if (encoding === 'plain') return pipeline(body(totalBytes), outgoing)
  outgoing.setHeader('content-encoding', 'gzip')
  return pipeline(body(totalBytes), createGzip({ level: 1 }), outgoing)
}

/** The highest that a process has stood so far, MB; undefined when it is gone. */
function peakMb(pid: number | undefined): number | undefined {
  try {
    const kib = /VmHWM:\s+(\d+) kB/.exec(readFileSync(`/proc/${pid}/status`, 'utf8'))?.[1]
    return kib === undefined ? undefined : (Number(kib) * 1024) / 1e6
  } catch {
    return undefined
  }
}

async function measure(encoding: string, totalBytes: number, program: string): Promise<string> {
  const folder = mkdtempSync(join(tmpdir(), 'auditferry-bench-'))
  const self = fileURLToPath(import.meta.url)
  const server = spawn(process.execPath, [self, '--serve', encoding, String(totalBytes)], {
    stdio: ['ignore', 'inherit', 'inherit', 'ipc'],
  })
  try {
    const [port] = (await once(server, 'message')) as [number]
    const config = join(folder, 'auditferry.yaml')
    writeFileSync(config, configOf(folder, port))
    const startedAt = performance.now()
    const daemon = spawn(process.execPath, [program, 'run', '--once', '--config', config], {
      stdio: ['ignore', 'inherit', 'pipe'],
    })
    let peak = 0
    const look = setInterval(() => (peak = Math.max(peak, peakMb(daemon.pid) ?? 0)), 20)
    let said = ''
    daemon.stderr.pipe(
      new Writable({
        write(chunk: Buffer, _, done) {
          said += chunk.toString()
          done()
        },
      }),
    )
    const [code] = (await once(daemon, 'exit')) as [number]
    clearInterval(look)
    const seconds = (performance.now() - startedAt) / 1000
    const reported =
      /(?<="msg":"Everything visible at start was read and delivered",).*(?=})/.exec(said)?.[0] ??
      `exit ${code}: ${said.slice(-400)}`
    const speed = (totalBytes / 1e6 / seconds).toFixed(0)
    return `${encoding.padEnd(6)} ${(totalBytes / 1e9).toFixed(2)} GB in ${seconds.toFixed(1)} s (${speed} MB/s), peak ${peak.toFixed(0)} MB; ${reported}`
  } finally {
    server.kill()
    rmSync(folder, { recursive: true, force: true })
  }
}

function configOf(folder: string, port: number): string {
  return `journal: { path: ${join(folder, 'journal.db')} }
workspaces:
  - name: acme
    base_url: http://127.0.0.1:${port}
    api_key: acme-key
    history: { usage: false, query: true, start: 1d }
sinks:
  - { name: archive, type: file, path: ${join(folder, 'out.ndjson')}, sources: [history.query] }
`
}

export async function run(gigabytes = 2, program = 'dist/main.js'): Promise<void> {
  for (const encoding of ['plain', 'gzip']) console.log(await measure(encoding, gigabytes * 1e9, program))
}

if (import.meta.main) {
  const [first, second, third] = process.argv.slice(2)
  await (first === '--serve'
    ? serve(second ?? 'plain', Number(third))
    : run(first === undefined ? undefined : Number(first), second))
}
