// Seeds run in lots: each lot in a process of its own, as many processes at once as there are cores.
import { execFile } from 'node:child_process'
import { join } from 'node:path'
import { describe, expect, test } from 'vitest'
import { roundsOf } from '../rounds.ts'

const TIMEOUT_MS = 900_000

interface SeedsOfProgram {
  /** in this folder */
  readonly program: string
  readonly title: string
  /** seeds from 1 on in `npm test`, and with those of `npm run test:long` */
  readonly first: number
  readonly all: number
  /** seeds of one process: enough that its start costs little, few enough that the cores finish together */
  readonly lot: number
  /** more of its arguments */
  readonly more?: readonly string[]
}

interface Ran {
  readonly code: number | string
  readonly output: string
}

/** In a process of its own: a daemon that died in the middle of something keeps its memory to the end of its process. */
function run(program: string, args: readonly string[]): Promise<Ran> {
  const path = join(import.meta.dirname, program)
  return new Promise((resolve) => {
    execFile(process.execPath, [path, ...args], (error, stdout, stderr) => {
      resolve({ code: error ? (error.code ?? error.signal ?? 'unknown') : 0, output: stdout + stderr })
    })
  })
}

export function runSeeds({ program, title, first, all, lot, more = [] }: SeedsOfProgram): void {
  const seeds = roundsOf(
    Array.from({ length: all }, (_, index) => index + 1),
    first,
  )
  describe(title, () => {
    for (let at = 0; at < seeds.length; at += lot) {
      const part = seeds.slice(at, at + lot)
      const [from, last] = [part[0] as number, part.at(-1) as number]
      // The runner itself only waits for them.
      test.concurrent(`seeds ${from} to ${last}`, { timeout: TIMEOUT_MS }, async () => {
        const { code, output } = await run(program, [String(part.length), String(from), ...more])
        // The output names how to run each failing seed again.
        expect(code, output).toBe(0)
      })
    }
  })
}
