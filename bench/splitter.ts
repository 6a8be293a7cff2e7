// How fast the splitter is beside JSON.parse alone, and how much memory a 1 GB body takes. `node bench/splitter.ts`; it asserts nothing.
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { existsSync, readFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { openSplitter } from '../src/sources/splitter/splitter.ts'
import type { SplitterOptions } from '../src/sources/splitter/splitter.ts'

const SAMPLES = 9
const SAMPLE_MS = 120
const STREAM_BYTES = 1024 ** 3
const CHUNK_BYTES = 64 * 1024

const limits = { maxDepth: 512, maxEntryBytes: 16 * 1024 * 1024 }
const audit: SplitterOptions = { idKey: 'id', timeKey: 'timestamp', typeKey: 'type', ...limits }
const history: SplitterOptions = {
  arrayKey: 'events',
  idKey: 'unique_usage_id',
  timeKey: 'utc_time',
  typeKey: 'product_surface_area',
  ...limits,
}

function uuid(n: number): string {
  const hex = (Math.imul(n + 1, 2654435761) >>> 0).toString(16).padStart(8, '0')
  return `${hex}-4f0c-4b1e-9d3a-${String(n).padStart(12, '0')}`
}

const auditTypes = [
  'user:create_query',
  'auth:login',
  'user:fetch_vault_files',
  'admin:fetch_workspace_history',
]

function auditEntry(n: number): unknown {
  return {
    id: uuid(n),
    timestamp: `2026-11-20T10:${String(n % 60).padStart(2, '0')}:00.${String(n).padStart(6, '0')}`,
    type: auditTypes[n % auditTypes.length],
    user: `person.${n % 200}@example.com`,
    ip: `10.1.${n % 256}.17`,
    user_agent:
      'Mozilla/5.0 (Windows NT 10.0; Win64; x64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/130.0',
    data: { begin_date: '2026-11-01T00:00:00+00:00', num_events: n },
  }
}

function usageEvent(n: number): Record<string, unknown> {
  return {
    unique_usage_id: uuid(n),
    utc_time: `2026-11-20 10:${String(n % 60).padStart(2, '0')}:00`,
    user: `person.${n % 200}@example.com`,
    product_surface_area: 'ASSISTANT',
    subsurface: 'ASSISTANT_THREAD, ASSISTANT_THREAD_FOLLOWUP',
    access_point: 'WEB',
    action: 'CREATE',
    cm_id: `CM-${n % 50}`,
    parent_thread_id: 1_000_000 + n,
    source: 'KNOWLEDGE_BASE',
    playbook_name: '',
    review_table_name: '',
    space_name: '',
    vault_project_name: `Project ${n % 40} (closing documents)`,
    workflow_name: '',
    metadata: {},
  }
}

const prose =
  'The parties agree that the indemnity in clause 12.3 survives termination for a period of two years.\n' +
  'Where "Losses" are claimed, notice must be given within thirty days of becoming aware of them.\n\n'

function queryEvent(n: number): unknown {
  return {
    ...usageEvent(n),
    query: prose.repeat(10),
    response: prose.repeat(56),
    feedback_comments: '',
    feedback_sentiments: '',
    link: `https://app.example.com/history/${n}`,
  }
}

interface Kind {
  readonly name: string
  readonly count: number
  readonly options: SplitterOptions
  readonly body: Buffer
}

function kinds(): Kind[] {
  const list = (count: number, entry: (n: number) => unknown) =>
    Array.from({ length: count }, (_, n) => entry(n))
  const body = (value: unknown) => Buffer.from(JSON.stringify(value))
  return [
    { name: 'audit entries', count: 1000, options: audit, body: body(list(1000, auditEntry)) },
    {
      name: 'usage events',
      count: 1000,
      options: history,
      body: body({ events: list(1000, usageEvent) }),
    },
    { name: 'query events', count: 200, options: history, body: body({ events: list(200, queryEvent) }) },
  ]
}

function split(options: SplitterOptions, body: Uint8Array, chunkBytes: number): number {
  const splitter = openSplitter(options)
  let count = 0
  const drain = () => {
    for (let group = splitter.take(); group; group = splitter.take()) count += group.entries.count
  }
  for (let at = 0; at < body.length; at += chunkBytes) {
    splitter.push(body.subarray(at, at + chunkBytes))
    drain()
  }
  splitter.end()
  drain()
  return count
}

/** CPU seconds that one call takes. */
function sample(call: () => void): number {
  const before = process.cpuUsage()
  const endAt = performance.now() + SAMPLE_MS
  let calls = 0
  for (; performance.now() < endAt; calls++) call()
  const { user, system } = process.cpuUsage(before)
  return (user + system) / 1e6 / calls
}

function median(values: number[]): number {
  return values.toSorted((a, b) => a - b)[values.length >> 1] ?? NaN
}

/** Samples alternate, so that whatever else the machine does meets both. */
function compare(kind: Kind): string[] {
  const text = kind.body.toString()
  const contenders: [string, () => void][] = [
    [
      'JSON.parse alone',
      () => {
        JSON.parse(text)
      },
    ],
    ['splitter, whole page', () => split(kind.options, kind.body, kind.body.length)],
    ['splitter, 64 KiB chunks', () => split(kind.options, kind.body, CHUNK_BYTES)],
  ]
  const seconds = contenders.map((): number[] => [])
  for (let i = 0; i < SAMPLES + 2; i++)
    contenders.forEach(([, call], c) => {
      const value = sample(call)
      if (i >= 2) seconds[c]?.push(value)
    })
  const base = median(seconds[0] ?? [])
  const size = `${Math.round(kind.body.length / kind.count)} B`
  return contenders.map(([name], c) => {
    const each = median(seconds[c] ?? [])
    const speed = (kind.body.length / 1e6 / each).toFixed(0).padStart(6)
    const perMillion = ((each / kind.count) * 1e6).toFixed(2).padStart(6)
    return `${kind.name.padEnd(14)} ${size.padStart(8)}  ${name.padEnd(24)} ${speed} MB/s ${perMillion} CPU s/M ${(base / each).toFixed(2)} x`
  })
}

/** Linux tells `maxRSS` of a child with its parent's share from before the exec; `VmHWM` is this process alone. */
function peakMb(): number {
  const status = existsSync('/proc/self/status') ? readFileSync('/proc/self/status', 'utf8') : ''
  const peakKiB = Number(/VmHWM:\s+(\d+)/.exec(status)?.[1] ?? process.resourceUsage().maxRSS)
  return (peakKiB * 1024) / 1e6
}

/** In a process of its own: splits what comes over standard input, 64 KiB a read as from a socket. */
async function splitInput(): Promise<void> {
  const splitter = openSplitter(audit)
  const startMb = peakMb()
  const before = process.cpuUsage()
  let count = 0
  let bytes = 0
  const drain = () => {
    for (let group = splitter.take(); group; group = splitter.take()) count += group.entries.count
  }
  for await (const chunk of process.stdin as AsyncIterable<Buffer>) {
    bytes += chunk.length
    splitter.push(chunk)
    drain()
  }
  splitter.end()
  drain()
  const { user, system } = process.cpuUsage(before)
  const seconds = (user + system) / 1e6
  const body = `${(bytes / 1e9).toFixed(2)} GB body over a pipe`
  const speed = `${(bytes / 1e6 / seconds).toFixed(0)} MB/s of CPU, reading it included`
  const memory = `peak ${peakMb().toFixed(0)} MB of memory (${startMb.toFixed(0)} before the first byte)`
  console.log(`${body}: ${count} entries, ${speed}, ${memory}`)
}

async function streamed(): Promise<void> {
  const child = spawn(process.execPath, [fileURLToPath(import.meta.url), '--split-input'], {
    stdio: ['pipe', 'inherit', 'inherit'],
  })
  const done = once(child, 'exit')
  const page = Buffer.from(
    Array.from({ length: 1000 }, (_, n) => `${JSON.stringify(auditEntry(n))},`).join(''),
  )
  child.stdin.write('[')
  for (let sent = 0; sent < STREAM_BYTES; sent += page.length)
    if (!child.stdin.write(page)) await once(child.stdin, 'drain')
  child.stdin.end('null]')
  await done
}

export async function run(): Promise<void> {
  for (const kind of kinds()) for (const line of compare(kind)) console.log(line)
  await streamed()
}

if (import.meta.main) await (process.argv.includes('--split-input') ? splitInput() : run())
