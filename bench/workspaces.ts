// One daemon for many workspaces: what it takes at its start, idle and busy, and whether one workspace's burst delays the others. Prints, asserts nothing. Linux only. `node bench/workspaces.ts [1 10 100 …]`
import { fork, spawn } from 'node:child_process'
import type { ChildProcess } from 'node:child_process'
import { once } from 'node:events'
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { freePort } from './free-port.ts'
import { followFile, quantile } from './workspaces-lag.ts'
import type { Told } from './workspaces-mock.ts'

const TICKS_PER_SECOND = 100
/** entries of each workspace that are there before the first start */
const BACKLOG = 500
const PHASE_MS = 20_000
const IDLE_INTERVAL = '10s'
const BUSY_INTERVAL = '5s'
/** entries a second of each workspace while it is busy */
const PER_SECOND = 1
const BURST = 20_000
const LOOK_MS = 100
const START_MS = 60_000
/** the event loop's delay is looked at in steps of this width, which is part of what it tells */
const LOOP_STEP_MS = 100

interface Place {
  readonly folder: string
  readonly url: string
  readonly mock: ChildProcess
  readonly count: number
}

interface Daemon {
  readonly child: ChildProcess
  readonly url: string
}

interface Status {
  readonly workspaces: readonly {
    readonly sources: readonly { readonly name: string; readonly caught_up_at: string | null }[]
  }[]
  readonly sinks: readonly { readonly pending_entries: number }[]
}

function cpuSeconds({ pid }: ChildProcess): number {
  const fields = readFileSync(`/proc/${pid}/stat`, 'utf8').split(') ')[1]?.split(' ') ?? []
  return (Number(fields[11]) + Number(fields[12])) / TICKS_PER_SECOND
}

/** `VmRSS`: now; `VmHWM`: at most so far. */
function mebibytes({ pid }: ChildProcess, what: 'VmRSS' | 'VmHWM'): number {
  const text = readFileSync(`/proc/${pid}/status`, 'utf8')
  return Number(new RegExp(`${what}:\\s+(\\d+) kB`).exec(text)?.[1]) / 1024
}

async function startDaemon({ folder, url, count }: Place, interval: string): Promise<Daemon> {
  const listen = `127.0.0.1:${await freePort()}`
  const workspaces = Array.from({ length: count }, (_, i) => ({
    ...{ name: `w${i}`, base_url: url, api_key: `w${i}-key` },
    audit: { interval },
    history: {},
  }))
  const path = join(folder, 'entries.ndjson')
  const sinks = [{ name: 'archive', type: 'file', path, format: 'envelope' }]
  const journal = { path: join(folder, 'auditferry.db') }
  const config = join(folder, 'auditferry.yaml')
  writeFileSync(
    config,
    JSON.stringify({ journal, workspaces, sinks, server: { listen }, log: { level: 'error' } }),
  )
  const child = spawn(process.execPath, ['dist/main.js', 'run', '--config', config], { stdio: 'inherit' })
  return { child, url: `http://${listen}` }
}

/** Waits until every source named has read all there is and nothing is owed; seconds since the call. After a restart the history is not due at once. */
async function caughtUp({ child, url }: Daemon, names: readonly string[]): Promise<number> {
  const from = performance.now()
  while (performance.now() - from < START_MS) {
    if (child.exitCode !== null) throw new Error(`the daemon ended with ${child.exitCode}`)
    const answer = await fetch(`${url}/status`).catch(() => undefined)
    const status = (await answer?.json()) as Status | undefined
    const sources = (status?.workspaces ?? [])
      .flatMap((workspace) => workspace.sources)
      .filter(({ name }) => names.includes(name))
    const pending = status?.sinks.some((sink) => sink.pending_entries > 0)
    if (status && !pending && sources.every((source) => source.caught_up_at !== null))
      return (performance.now() - from) / 1000
    await sleep(LOOK_MS)
  }
  throw new Error(`not caught up within ${START_MS} ms`)
}

async function stop({ child }: Daemon): Promise<void> {
  if (child.exitCode !== null) return
  child.kill()
  await once(child, 'exit')
}

interface Load {
  readonly cpuPercent: number
  readonly requests: number
  /** the longest time that the thread did not come round, as a timer saw it */
  readonly stallMs: number
}

async function series(url: string) {
  const text = await (await fetch(`${url}/metrics`)).text()
  const valuesOf = (name: string) =>
    text
      .split('\n')
      .filter((line) => line.startsWith(`${name}{`) || line.startsWith(`${name} `))
      .map((line) => Number(line.slice(line.lastIndexOf(' ') + 1)))
  const requests = valuesOf('auditferry_source_requests_total').reduce((sum, value) => sum + value, 0)
  const loopMs = (valuesOf('nodejs_eventloop_lag_max_seconds')[0] ?? NaN) * 1000
  return { requests, stallMs: Math.max(0, loopMs - LOOP_STEP_MS) }
}

/** What the daemon takes while `phase` runs; each look at its metrics lies outside. */
async function during({ child, url }: Daemon, phase: () => Promise<void>): Promise<Load> {
  const before = await series(url)
  const cpuBefore = cpuSeconds(child)
  const from = performance.now()
  await phase()
  const cpu = cpuSeconds(child) - cpuBefore
  const cpuPercent = (cpu / ((performance.now() - from) / 1000)) * 100
  const { requests, stallMs } = await series(url)
  return { cpuPercent, requests: requests - before.requests, stallMs }
}

/** Size and the quickest of several times: the machine's other work is not ours. */
async function pageOf({ url }: Daemon, path: string): Promise<string> {
  const times: number[] = []
  let bytes = 0
  for (let i = 0; i < 10; i++) {
    const from = performance.now()
    bytes = (await (await fetch(url + path)).arrayBuffer()).byteLength
    times.push(performance.now() - from)
  }
  const [best, median] = [Math.min(...times), quantile(times, 0.5)]
  return `${path} ${(bytes / 1024).toFixed(0)} KiB in ${best.toFixed(1)} ms (median ${median.toFixed(1)})`
}

const say = (text: string) => process.stdout.write(`${text}\n`)
const reported = ({ cpuPercent, requests, stallMs }: Load) =>
  `${cpuPercent.toFixed(1)} % of a core, ${requests} requests, longest stall ${stallMs.toFixed(0)} ms`

async function idle(place: Place, daemon: Daemon): Promise<void> {
  const seconds = await caughtUp(daemon, ['audit', 'history.usage'])
  const cpu = cpuSeconds(daemon.child)
  say(
    `  start: ${place.count * BACKLOG} entries caught up after ${seconds.toFixed(1)} s, ${cpu.toFixed(1)} CPU s, peak ${mebibytes(daemon.child, 'VmHWM').toFixed(0)} MiB`,
  )
  const load = await during(daemon, () => sleep(PHASE_MS))
  say(`  idle: ${reported(load)}, ${mebibytes(daemon.child, 'VmRSS').toFixed(0)} MiB`)
  for (const path of ['/status', '/metrics', '/']) say(`  ${await pageOf(daemon, path)}`)
}

async function busy(place: Place, daemon: Daemon): Promise<void> {
  await caughtUp(daemon, ['audit'])
  const tell = (what: Told) => place.mock.send(what)
  const startAt = Date.now()
  const followed = followFile(join(place.folder, 'entries.ndjson'), startAt)
  let burstAt = Infinity
  const load = await during(daemon, async () => {
    tell({ perSecond: PER_SECOND })
    await sleep(PHASE_MS / 2)
    burstAt = Date.now()
    tell({ burst: BURST })
    await sleep(PHASE_MS / 2)
  })
  tell({ perSecond: 0 })
  await sleep(PHASE_MS / 2)
  followed.stop()
  say(`  busy: ${reported(load)}, peak ${mebibytes(daemon.child, 'VmHWM').toFixed(0)} MiB`)
  const lag = (what: string, seen: typeof followed.seen) => {
    const lags = seen.map(({ lagMs }) => lagMs / 1000)
    say(
      `  ${what}: ${lags.length} entries, lag ${quantile(lags, 0.5).toFixed(1)} s median, ${quantile(lags, 1).toFixed(1)} s at worst`,
    )
  }
  const { seen } = followed
  lag(
    'before the burst',
    seen.filter(({ madeAt }) => madeAt < burstAt),
  )
  const others = seen.filter(({ workspace, madeAt }) => workspace !== 'w0' && madeAt >= burstAt)
  if (others.length > 0) lag('the others in the burst', others)
  lag(
    'the burst itself',
    seen.filter(({ workspace, madeAt }) => workspace === 'w0' && madeAt >= burstAt),
  )
}

async function phase(place: Place, interval: string, run: typeof idle): Promise<void> {
  const daemon = await startDaemon(place, interval)
  try {
    await run(place, daemon)
  } finally {
    await stop(daemon)
  }
}

export async function run(counts: readonly number[] = [1, 10, 100]): Promise<void> {
  for (const count of counts) {
    const folder = mkdtempSync(join(tmpdir(), 'auditferry-bench-'))
    const mock = fork('bench/workspaces-mock.ts', [String(count), String(BACKLOG)])
    try {
      const [{ url }] = (await once(mock, 'message')) as [{ url: string }]
      const place = { folder, url, mock, count }
      say(`${count} workspaces`)
      await phase(place, IDLE_INTERVAL, idle)
      await phase(place, BUSY_INTERVAL, busy)
    } finally {
      mock.kill()
      rmSync(folder, { recursive: true, force: true })
    }
  }
}

if (import.meta.main) {
  const counts = process.argv.slice(2).map(Number)
  await run(counts.length > 0 ? counts : undefined)
}
