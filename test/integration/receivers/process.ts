// A receiver as a process of this machine.
import { spawn } from 'node:child_process'
import { taken } from './ports.ts'
import type { Running, Start } from './program.ts'

const KEPT = 4_000

export function startProcess(
  command: readonly string[],
  env: Readonly<Record<string, string>>,
  { args, env: more, port }: Start,
): Running {
  const [program = '', ...first] = command
  const child = spawn(program, [...first, ...args], {
    stdio: ['ignore', 'ignore', 'pipe'],
    env: { ...process.env, ...env, ...more },
  })
  let said = ''
  child.stderr.setEncoding('utf8').on('data', (text: string) => (said = (said + text).slice(-KEPT)))
  child.on('error', ({ message }) => (said += message))
  const gone = () => child.pid === undefined || child.exitCode !== null || child.signalCode !== null
  return {
    ended: async () => (gone() ? said : undefined),
    listening: () => taken(port),
    stop: async (signal) => {
      if (gone()) return
      const ended = new Promise((resolve) => child.once('exit', resolve))
      child.kill(signal)
      await ended
    },
  }
}
