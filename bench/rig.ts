// What the benchmarks of the whole path stand on: programs beside them, what the kernel counts of each, a mock without limits.
import { spawn } from 'node:child_process'
import type { ChildProcess } from 'node:child_process'
import { existsSync, readFileSync } from 'node:fs'
import { freePort } from './free-port.ts'

const TICKS_PER_SECOND = 100
export const LOOK_MS = 10

/** The built program where there is one. */
export const program = existsSync('dist/main.js') ? 'dist/main.js' : 'src/main.ts'

export interface Usage {
  cpuSeconds: number
  peakMiB: number
}

export const noUsage: Usage = { cpuSeconds: 0, peakMiB: 0 }

/** Linux only: what the kernel counts of a process, all threads together; `last` once it has ended. */
export function usageOf(child: ChildProcess, last: Usage): Usage {
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
export async function start(
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

interface Taken extends Usage {
  readonly wallSeconds: number
  /** what it had taken by then, epoch ms */
  cpuSecondsBy(at: number): number
}

/** Runs a program to its end and says what it took. Throws where it ends with anything but 0. */
export async function runToEnd(args: readonly string[]): Promise<Taken> {
  const startedAt = performance.now()
  const child = spawn(process.execPath, args, { stdio: ['ignore', 'ignore', 'pipe'] })
  let reported = ''
  child.stderr.on('data', (chunk: Buffer) => (reported += chunk.toString()))
  const ended = new Promise<number | null>((resolve) => {
    child.once('exit', resolve)
  })
  let usage = noUsage
  const looks: { at: number; cpuSeconds: number }[] = []
  const look = setInterval(() => {
    usage = usageOf(child, usage)
    looks.push({ at: Date.now(), cpuSeconds: usage.cpuSeconds })
  }, LOOK_MS)
  const code = await ended
  clearInterval(look)
  if (code !== 0) throw new Error(`${args.join(' ')} ended with ${code}: ${reported}`)
  const cpuSecondsBy = (by: number) => looks.findLast(({ at }) => at <= by)?.cpuSeconds ?? 0
  return { ...usage, wallSeconds: (performance.now() - startedAt) / 1000, cpuSecondsBy }
}

/** A mock without limits, all its pages rendered. */
export async function startMock(entries: number): Promise<{ url: string; mock: ChildProcess }> {
  const port = String(await freePort())
  const load = ['--backlog', String(entries), '--entries-per-hour', '0', '--rate-limit', '0']
  const args = [program, 'mock', '--port', port, ...load, '--switch', 'self_audit=off']
  return { url: `http://127.0.0.1:${port}`, mock: await start(args, /mock API at/) }
}

/** A HEC receiver that costs next to nothing. */
export async function startHec(): Promise<{ url: string; receiver: ChildProcess }> {
  const port = String(await freePort())
  const args = ['bench/hec-receiver.ts', '--port', port]
  return { url: `http://127.0.0.1:${port}`, receiver: await start(args, /"url"/) }
}

export const median = (values: readonly number[]) =>
  values.toSorted((a, b) => a - b)[Math.floor(values.length / 2)] ?? NaN
