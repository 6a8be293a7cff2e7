// The whole path: a mock without limits in one process, the built daemon in another, a file or a HEC receiver behind it. Prints, asserts nothing. `node bench/end-to-end.ts [entries] [runs] [file | gzip | none | tcp | udp]`
import { spawn } from 'node:child_process'
import type { ChildProcess } from 'node:child_process'
import { existsSync, mkdtempSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { freePort } from './free-port.ts'

const TICKS_PER_SECOND = 100
const LOOK_MS = 10

interface Usage {
  cpuSeconds: number
  peakMiB: number
}

interface Figures extends Usage {
  readonly wallSeconds: number
  /** from the first byte at the sink to the last */
  readonly flowSeconds: number
  readonly mockCpuSeconds: number
}

/** Linux only: what the kernel counts of a process, all threads together. */
function usageOf(child: ChildProcess, last: Usage): Usage {
  try {
    const fields = readFileSync(`/proc/${child.pid}/stat`, 'utf8').split(') ')[1]?.split(' ') ?? []
    const peak = /VmHWM:\s+(\d+) kB/.exec(readFileSync(`/proc/${child.pid}/status`, 'utf8'))?.[1]
    if (!peak) return last
    return {
      cpuSeconds: (Number(fields[11]) + Number(fields[12])) / TICKS_PER_SECOND,
      peakMiB: Number(peak) / 1024,
    }
  } catch {
    return last
  }
}

/** Starts a program and waits for the line that says it is ready. */
async function start(
  args: readonly string[],
  ready: RegExp,
  heard: (text: string) => void = () => undefined,
): Promise<ChildProcess> {
  const child = spawn(process.execPath, args, { stdio: ['ignore', 'pipe', 'inherit'] })
  let text = ''
  await new Promise<void>((resolve, reject) => {
    child.stdout.on('data', (chunk: Buffer) => {
      heard(chunk.toString())
      if (ready.test((text = (text + chunk.toString()).slice(-4096)))) resolve()
    })
    child.once('exit', (code) => reject(new Error(`${args.join(' ')} ended with ${code}`)))
  })
  return child
}

interface Goal {
  readonly name: string
  sink(folder: string): Promise<{ yaml: string; flowSeconds: () => Promise<number>; stop: () => void }>
}

const toFile: Goal = {
  name: 'file',
  async sink(folder) {
    const path = join(folder, 'entries.ndjson')
    let first = 0
    let last = 0
    let size = 0
    const timer = setInterval(() => {
      const now = existsSync(path) ? statSync(path).size : 0
      if (now === size) return
      first ||= performance.now()
      last = performance.now()
      size = now
    }, LOOK_MS)
    return {
      yaml: `{ name: archive, type: file, path: ${path} }`,
      flowSeconds: () => Promise.resolve((last - first) / 1000),
      stop: () => clearInterval(timer),
    }
  },
}

const toHec = (compression: 'gzip' | 'none'): Goal => ({
  name: `HEC, ${compression}`,
  async sink() {
    const port = await freePort()
    const url = `http://127.0.0.1:${port}`
    const args = [
      'bench/hec-receiver.ts',
      '--port',
      String(port),
      ...(compression === 'gzip' ? ['--gunzip'] : []),
    ]
    const receiver = await start(args, /"url"/)
    return {
      yaml: `{ name: splunk, type: splunk_hec, url: "${url}", token: bench, compression: ${compression} }`,
      flowSeconds: async () => {
        const { firstAt, lastAt } = (await (await fetch(url)).json()) as { firstAt: number; lastAt: number }
        return (lastAt - firstAt) / 1000
      },
      stop: () => receiver.kill(),
    }
  },
})

/** Datagrams that the kernel drops are not told by anybody: `received` says how many came. */
const toSyslog = (transport: 'tcp' | 'udp'): Goal => ({
  name: `syslog ${transport}`,
  async sink() {
    let port = ''
    let told = { count: 0, seconds: 0 }
    const receiver = await start(['bench/syslog-receiver.ts', transport], /listening on \d+/, (text) => {
      port = /listening on (\d+)/.exec(text)?.[1] ?? port
      const last = text.trim().split('\n').at(-1) ?? ''
      if (last.startsWith('{')) told = JSON.parse(last) as typeof told
    })
    return {
      yaml: `{ name: siem, type: syslog, address: "${transport}://127.0.0.1:${port}" }`,
      flowSeconds: async () => {
        await sleep(10 * LOOK_MS)
        if (transport === 'udp') process.stdout.write(`  ${told.count} datagrams received\n`)
        return told.seconds
      },
      stop: () => receiver.kill(),
    }
  },
})

async function drain(goal: Goal, entries: number): Promise<Figures> {
  const folder = mkdtempSync(join(tmpdir(), 'auditferry-bench-'))
  const port = await freePort()
  const program = existsSync('dist/main.js') ? 'dist/main.js' : 'src/main.ts'
  const mockArgs = [
    'mock',
    '--port',
    String(port),
    '--backlog',
    String(entries),
    '--entries-per-hour',
    '0',
    '--rate-limit',
    '0',
  ]
  const mock = await start([program, ...mockArgs, '--switch', 'self_audit=off'], /mock API at/)
  const sink = await goal.sink(folder)
  const config = join(folder, 'auditferry.yaml')
  writeFileSync(
    config,
    `journal: { path: ${join(folder, 'auditferry.db')} }
workspaces:
  - { name: acme, base_url: "http://127.0.0.1:${port}", api_key: acme-key, audit: {}, rate_limits: { audit: 1000000000 } }
sinks: [${sink.yaml}]
log: { level: warn }
`,
  )
  try {
    const startedAt = performance.now()
    const daemon = spawn(process.execPath, [program, 'run', '--once', '--config', config], {
      stdio: ['ignore', 'ignore', 'pipe'],
    })
    const ended = new Promise<number | null>((resolve) => {
      daemon.once('exit', resolve)
    })
    let usage: Usage = { cpuSeconds: 0, peakMiB: 0 }
    const look = setInterval(() => (usage = usageOf(daemon, usage)), LOOK_MS)
    const code = await ended
    const wallSeconds = (performance.now() - startedAt) / 1000
    clearInterval(look)
    if (code !== 0) throw new Error(`the daemon ended with ${code}`)
    await sleep(2 * LOOK_MS)
    const mockCpuSeconds = usageOf(mock, { cpuSeconds: 0, peakMiB: 0 }).cpuSeconds
    return { ...usage, wallSeconds, flowSeconds: await sink.flowSeconds(), mockCpuSeconds }
  } finally {
    sink.stop()
    mock.kill()
    rmSync(folder, { recursive: true, force: true })
  }
}

const median = (values: readonly number[]) =>
  values.toSorted((a, b) => a - b)[Math.floor(values.length / 2)] ?? NaN

export async function run(entries = 500_000, runs = 3, only = ''): Promise<void> {
  process.stdout.write(
    `${entries} entries, median of ${runs}; CPU and memory are the daemon's, its start included\n`,
  )
  process.stdout.write(
    'sink         entries/s flowing   entries/s whole   CPU s/M   peak MiB   mock CPU s/M\n',
  )
  const all = [toFile, toHec('gzip'), toHec('none'), toSyslog('tcp'), toSyslog('udp')]
  const goals = all.filter(({ name }) => name.includes(only))
  for (const goal of goals) {
    const figures: Figures[] = []
    for (let i = 0; i < runs; i++) figures.push(await drain(goal, entries))
    const of = (pick: (figure: Figures) => number) => median(figures.map(pick))
    const perMillion = 1_000_000 / entries
    const columns = [
      goal.name.padEnd(12),
      Math.round(entries / of((figure) => figure.flowSeconds))
        .toString()
        .padStart(17),
      Math.round(entries / of((figure) => figure.wallSeconds))
        .toString()
        .padStart(17),
      (of((figure) => figure.cpuSeconds) * perMillion).toFixed(1).padStart(9),
      of((figure) => figure.peakMiB)
        .toFixed(0)
        .padStart(10),
      (of((figure) => figure.mockCpuSeconds) * perMillion).toFixed(1).padStart(14),
    ]
    process.stdout.write(`${columns.join(' ')}\n`)
  }
}

if (import.meta.main) {
  const [, , entries, runs, only] = process.argv
  await run(Number(entries ?? 500_000), Number(runs ?? 3), only)
}
