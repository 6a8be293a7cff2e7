// A process of the program: its output, and how it ended.
import { spawn } from 'node:child_process'
import { setTimeout as sleep } from 'node:timers/promises'

interface Ending {
  readonly code: number | null
  readonly signal: NodeJS.Signals | null
}

export interface Child {
  readonly pid: number
  readonly stderr: () => string
  readonly ended: Promise<Ending>
  /** undefined while it runs */
  readonly ending: () => Ending | undefined
  kill(signal: NodeJS.Signals): void
}

/** `env`: beside the search path; nothing of the test's own: no proxy, no options for node. */
export function startChild(args: readonly string[], env: Readonly<Record<string, string>> = {}): Child {
  const child = spawn(process.execPath, args, {
    env: { PATH: process.env['PATH'], ...env },
    stdio: ['ignore', 'ignore', 'pipe'],
  })
  let stderr = ''
  let ending: Ending | undefined
  child.stderr.setEncoding('utf8').on('data', (text: string) => {
    stderr += text
  })
  const ended = new Promise<Ending>((resolve, reject) => {
    child.once('error', reject)
    child.once('close', (code, signal) => {
      ending = { code, signal }
      resolve(ending)
    })
  })
  return {
    pid: child.pid ?? 0,
    stderr: () => stderr,
    ended,
    ending: () => ending,
    kill: (signal) => void child.kill(signal),
  }
}

/** Looks until `ready`; throws with the text of `reported` if that takes too long. */
export async function until(
  ready: () => boolean,
  timeoutMs: number,
  reported: () => string,
  everyMs = 20,
): Promise<void> {
  const deadline = Date.now() + timeoutMs
  while (!ready()) {
    if (Date.now() > deadline) throw new Error(`not within ${timeoutMs} ms: ${reported()}`)
    await sleep(everyMs)
  }
}

/** A daemon logs itself that all of it runs. */
export function untilStarted(daemon: Child, timeoutMs: number): Promise<void> {
  return until(() => daemon.stderr().includes('"Started"'), timeoutMs, daemon.stderr)
}
