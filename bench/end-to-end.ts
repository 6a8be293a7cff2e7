// The whole path: a mock without limits in one process, the built daemon in another, a file or a HEC receiver behind it. Prints, asserts nothing. `node bench/end-to-end.ts [entries] [runs] [file | gzip | none | tcp | udp]`
import { createReadStream, existsSync, mkdtempSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { LOOK_MS, median, noUsage, program, runToEnd, start, startHec, startMock, usageOf } from './rig.ts'
import type { Usage } from './rig.ts'

interface Figures extends Usage {
  readonly wallSeconds: number
  /** from the first byte at the sink to the last */
  readonly flowSeconds: number
  /** from the first byte at the sink to the end: without what a start takes */
  readonly flowCpuSeconds: number
  readonly mockCpuSeconds: number
}

interface Arrived {
  /** undefined: some may be missing, as they may over UDP; it has been printed how many came */
  readonly entries: number | undefined
  /** of the first byte, epoch ms */
  readonly firstAt: number
  readonly flowSeconds: number
}

interface Goal {
  readonly name: string
  sink(folder: string): Promise<{ yaml: string; arrived: () => Promise<Arrived>; stop: () => void }>
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
      first ||= Date.now()
      last = Date.now()
      size = now
    }, LOOK_MS)
    return {
      yaml: `{ name: archive, type: file, path: ${path} }`,
      arrived: async () => ({
        entries: await linesOf(path),
        firstAt: first,
        flowSeconds: (last - first) / 1000,
      }),
      stop: () => clearInterval(timer),
    }
  },
}

async function linesOf(path: string): Promise<number> {
  let lines = 0
  for await (const chunk of createReadStream(path) as AsyncIterable<Buffer>)
    for (let at = chunk.indexOf(10); at >= 0; at = chunk.indexOf(10, at + 1)) lines++
  return lines
}

/** `batchEntries`: else the default, 1,000 */
export const toHec = (compression: 'gzip' | 'none', batchEntries?: number): Goal => ({
  name: `HEC, ${compression}${batchEntries === undefined ? '' : `, ${batchEntries} a batch`}`,
  async sink() {
    const { url, receiver } = await startHec()
    return {
      yaml: `{ name: splunk, type: splunk_hec, url: "${url}", token: bench, compression: ${compression}${batchOf(batchEntries)} }`,
      arrived: async () => {
        const reported = (await (await fetch(url)).json()) as Record<'objects' | 'firstAt' | 'lastAt', number>
        const { objects: entries, firstAt, lastAt } = reported
        return { entries, firstAt, flowSeconds: (lastAt - firstAt) / 1000 }
      },
      stop: () => receiver.kill(),
    }
  },
})

const batchOf = (entries: number | undefined): string =>
  entries === undefined ? '' : `, batch: { max_entries: ${entries}, max_bytes: ${entries}KiB }`

/** Datagrams that the kernel drops are not told by anybody: `received` says how many came. */
const toSyslog = (transport: 'tcp' | 'udp'): Goal => ({
  name: `syslog ${transport}`,
  async sink() {
    let port = ''
    let reported = { count: 0, firstAt: 0, lastAt: 0 }
    const receiver = await start(['bench/syslog-receiver.ts', transport], /listening on \d+/, (text) => {
      port = /listening on (\d+)/.exec(text)?.[1] ?? port
      const last = text.trim().split('\n').at(-1) ?? ''
      if (last.startsWith('{')) reported = JSON.parse(last) as typeof reported
    })
    return {
      yaml: `{ name: siem, type: syslog, address: "${transport}://127.0.0.1:${port}" }`,
      arrived: async () => {
        await sleep(10 * LOOK_MS)
        if (transport === 'udp') process.stdout.write(`  ${reported.count} datagrams received\n`)
        const { count, firstAt, lastAt } = reported
        return {
          entries: transport === 'udp' ? undefined : count,
          firstAt,
          flowSeconds: (lastAt - firstAt) / 1000,
        }
      },
      stop: () => receiver.kill(),
    }
  },
})

export async function drain(goal: Goal, entries: number): Promise<Figures> {
  const folder = mkdtempSync(join(tmpdir(), 'auditferry-bench-'))
  const { url, mock } = await startMock(entries)
  const sink = await goal.sink(folder)
  const config = join(folder, 'auditferry.yaml')
  writeFileSync(
    config,
    `journal: { path: ${join(folder, 'auditferry.db')} }
workspaces:
  - { name: acme, base_url: "${url}", api_key: acme-key, audit: {}, rate_limits: { audit: 1000000000 } }
sinks: [${sink.yaml}]
log: { level: warn }
`,
  )
  try {
    const taken = await runToEnd([program, 'run', '--once', '--config', config])
    await sleep(2 * LOOK_MS)
    const mockCpuSeconds = usageOf(mock, noUsage).cpuSeconds
    const arrived = await sink.arrived()
    if (arrived.entries !== undefined && arrived.entries !== entries)
      throw new Error(
        `${goal.name}: of ${entries} entries ${arrived.entries} arrived, so there is nothing to time`,
      )
    const flowCpuSeconds = taken.cpuSeconds - taken.cpuSecondsBy(arrived.firstAt)
    return { ...taken, flowSeconds: arrived.flowSeconds, flowCpuSeconds, mockCpuSeconds }
  } finally {
    sink.stop()
    mock.kill()
    rmSync(folder, { recursive: true, force: true })
  }
}

export async function run(entries = 500_000, runs = 3, only = ''): Promise<void> {
  process.stdout.write(
    `${entries} entries, median of ${runs}; CPU and memory are the daemon's; flowing: from the first byte at the sink on, whole: its start included\n`,
  )
  process.stdout.write(
    'sink                      entries/s flowing   entries/s whole   CPU s/M flowing   whole   peak MiB   mock CPU s/M\n',
  )
  const all = [toFile, toHec('gzip'), toHec('gzip', 2000), toHec('none'), toSyslog('tcp'), toSyslog('udp')]
  const goals = all.filter(({ name }) => name.includes(only))
  for (const goal of goals) {
    const figures: Figures[] = []
    for (let i = 0; i < runs; i++) figures.push(await drain(goal, entries))
    const of = (pick: (figure: Figures) => number) => median(figures.map(pick))
    const perMillion = 1_000_000 / entries
    const columns = [
      goal.name.padEnd(25),
      Math.round(entries / of((figure) => figure.flowSeconds))
        .toString()
        .padStart(17),
      Math.round(entries / of((figure) => figure.wallSeconds))
        .toString()
        .padStart(17),
      (of((figure) => figure.flowCpuSeconds) * perMillion).toFixed(1).padStart(17),
      (of((figure) => figure.cpuSeconds) * perMillion).toFixed(1).padStart(7),
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
