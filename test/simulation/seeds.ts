// What the four files of simulated seeds share: how many seeds each holds, and how a failing one is told.
import { execFile } from 'node:child_process'
import { join } from 'node:path'
import { describe, expect, test } from 'vitest'

/** Seeds of each file; AUDITFERRY_SEEDS asks for another number. */
const COUNT = Number(process.env['AUDITFERRY_SEEDS'] ?? 250)
/** Seeds of one test: few enough to see it move, enough not to drown in titles. */
const STEP = 25
const TIMEOUT_MS = 900_000
const main = join(import.meta.dirname, 'main.ts')

interface Ran {
  readonly code: number | string
  readonly output: string
}

/** In a process of its own: a daemon that died in the middle of something leaves what it held to the end of its process. */
export function run(count: number, from: number, program = main): Promise<Ran> {
  return new Promise((resolve) => {
    execFile(process.execPath, [program, String(count), String(from)], (error, stdout, stderr) => {
      resolve({ code: error ? (error.code ?? error.signal ?? 'unknown') : 0, output: stdout + stderr })
    })
  })
}

/** Share number `share` (from 0) of the seeds from 1 on, each a whole life of the daemon with its faults and deaths. */
export function simulateSeeds(share: number): void {
  const from = share * COUNT + 1
  const last = from + COUNT - 1
  describe('whatever went wrong, every sink holds all that the API showed', () => {
    for (let first = from; first <= last; first += STEP) {
      const count = Math.min(STEP, last - first + 1)
      // As many at once as there are cores: the runner itself only waits for them.
      test.concurrent(`seeds ${first} to ${first + count - 1}`, { timeout: TIMEOUT_MS }, async () => {
        const { code, output } = await run(count, first)
        // The output tells how each failing seed is run again.
        expect(code, output).toBe(0)
      })
    }
  })
}
