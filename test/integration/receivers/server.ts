// A receiver that can be stopped and started again at the same port, and the lines that it wrote.
import { existsSync, readFileSync } from 'node:fs'
import { until } from './ports.ts'
import type { Found, Running, Start } from './program.ts'

export interface Server {
  readonly port: number
  /** With SIGKILL by default. */
  stop(signal?: NodeJS.Signals): Promise<void>
  /** Resolves when it listens. */
  start(): Promise<void>
}

export interface Receiver extends Server {
  /** Lines that it has written, one a message. */
  lines(): readonly string[]
}

/** A large program takes its time if the disk is busy and nothing of it is cached. */
const START_MS = 60_000

const always = () => Promise.resolve(true)

/** `ready`: beside that it listens. */
export function serverOf(found: Found, start: Start, ready: () => Promise<boolean> = always): Server {
  let running: Running | undefined
  return {
    port: start.port.number,
    stop: async (signal = 'SIGKILL') => running?.stop(signal),
    start: async () => {
      const begun = await found.start(start)
      running = begun
      await until(
        `${found.name} at port ${start.port.number}`,
        async () => {
          const ended = await begun.ended()
          if (ended !== undefined) throw new Error(`${found.name} has ended: ${ended}`)
          return (await begun.listening()) && ready()
        },
        START_MS,
      )
    },
  }
}

export function receiverOf(found: Found, start: Start, out: string): Receiver {
  const lines = () => (existsSync(out) ? readFileSync(out, 'utf8').split('\n').slice(0, -1) : [])
  return { ...serverOf(found, start), lines }
}
