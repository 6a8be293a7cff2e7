import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { faultNames } from '../../src/mock/switches.ts'
import { dice } from '../simulation/random.ts'
import type { Dice } from '../simulation/random.ts'
import { buildProgram } from './built.ts'
import type { Built } from './built.ts'
import { startChild, until } from './child.ts'
import type { Child } from './child.ts'
import { Arrivals, judge } from './judge.ts'
import { openStage, secrets } from './stage.ts'
import type { Stage } from './stage.ts'
import { crashSteps } from './steps.ts'
import type { CrashStep } from './steps.ts'

/** A hundred in all, four a journal: each death counts a sixth of the request limit as used for a minute. */
const KILLS = 4
const RANDOM_ROUNDS = 13
const STEP_ROUNDS = 12
const BACKLOG = 30_000
const LATE_MS = 1_500
const PATIENCE_MS = 90_000

let built: Built
beforeAll(() => {
  built = buildProgram()
})
afterAll(() => built.remove())

/** What may have come twice at the receiver. */
interface Doubts {
  count: number
}

async function openRound(seed: number, roll: Dice, batchEntries: number, doubts: Doubts): Promise<Stage> {
  const stage = await openStage({
    seed,
    batchEntries,
    compression: roll.pick(['gzip', 'none']),
    traffic: { backlog: BACKLOG, entriesPerHour: 18_000, rhythm: 'steady', exotic: 0.2 },
    switches: {
      from: roll.pick(['exclusive', 'inclusive']),
      late_by: LATE_MS,
      latency: 30,
      retry_after: 'none',
    },
    faults: { late: 0.1, error_500: 0.01, reset: 0.01, cut: 0.02, truncated: 0.02, duplicated: 0.05 },
  })
  stage.hec.faultOf = () => {
    if (!roll.chance(0.03)) return undefined
    const indexes = roll.chance(0.5)
    if (indexes) doubts.count++
    return roll.pick([
      { kind: 'reset', indexes },
      { kind: 'status', status: 502, indexes },
      { kind: 'garbage', indexes },
    ] as const)
  }
  return stage
}

/** Runs the daemon in peace until all that was there is in both sinks; then it stops as a service manager would stop it. */
async function calm(stage: Stage): Promise<string> {
  const { mock, hec } = stage
  for (const name of faultNames) mock.setFault(name, undefined)
  hec.faultOf = undefined
  const now = Date.now()
  const wanted = mock.entries().filter(({ atUs, visibleAt }) => atUs < now * 1000 || visibleAt < now)
  const daemon = startChild([built.main, 'run', '--config', stage.config])
  const arrivals = new Arrivals(stage)
  const missing = (arrived: ReadonlySet<string>) => wanted.filter(({ id }) => !arrived.has(id)).length
  await until(
    () => {
      arrivals.look()
      const { archive, splunk } = arrivals
      if (daemon.ending()) return true
      return Math.min(archive.size, splunk.size) >= wanted.length && missing(archive) + missing(splunk) === 0
    },
    PATIENCE_MS,
    () =>
      `of ${wanted.length} entries ${missing(arrivals.archive)} are missing in the file, ${missing(arrivals.splunk)} at the receiver\n${daemon.stderr()}`,
    100,
  )
  const stoppedAt = Date.now()
  daemon.kill('SIGTERM')
  expect(await daemon.ended, daemon.stderr()).toEqual({ code: 0, signal: null })
  expect(Date.now() - stoppedAt).toBeLessThan(10_000)
  const once = startChild([built.main, 'run', '--once', '--timeout', '60s', '--config', stage.config])
  expect(await once.ended, once.stderr()).toEqual({ code: 0, signal: null })
  return daemon.stderr() + once.stderr()
}

interface Death {
  readonly child: Child
  readonly told: string
}

async function round(seed: number, kill: (stage: Stage, roll: Dice) => Promise<Death>): Promise<void> {
  const roll = dice(seed)
  const doubts = { count: 0 }
  const batchEntries = roll.pick([100, 500, 1000])
  const stage = await openRound(seed, roll, batchEntries, doubts)
  try {
    const told: string[] = []
    let logs = ''
    for (let death = 0; death < KILLS; death++) {
      const { child, told: how } = await kill(stage, roll)
      expect(await child.ended, `${how}: ${child.stderr()}`).toEqual({ code: null, signal: 'SIGKILL' })
      told.push(how)
      logs += child.stderr()
    }
    logs += await calm(stage)
    // The stop in the end may leave one more request without its answer.
    const mayRepeat = batchEntries * (KILLS + doubts.count + 1)
    expect(judge(stage, { mayRepeat }), `seed ${seed}, killed: ${told.join('; ')}`).toEqual([])
    for (const secret of secrets) expect(logs).not.toContain(secret)
  } finally {
    await stage.close()
  }
}

/** One in five dies while it starts, the others while they read and send. */
async function killAtRandom(stage: Stage, roll: Dice): Promise<Death> {
  const child = startChild([built.main, 'run', '--config', stage.config])
  const starting = roll.chance(0.2)
  const waitMs = starting ? 100 + roll.below(500) : roll.below(1_000)
  if (!starting)
    await until(
      () => child.stderr().includes('"Started"'),
      PATIENCE_MS,
      () => child.stderr(),
    )
  await sleep(waitMs)
  child.kill('SIGKILL')
  return { child, told: `${waitMs} ms after ${starting ? 'its birth' : 'its start'}` }
}

const crashing = join(import.meta.dirname, 'crashing-main.ts')

async function killAt(stage: Stage, step: CrashStep, nth: number): Promise<Death> {
  const child = startChild([crashing, built.dist, stage.config, step, String(nth)])
  await until(
    () => child.ending() !== undefined,
    PATIENCE_MS,
    () => `${step} ${nth}: ${child.stderr()}`,
  )
  return { child, told: `${step}, time ${nth}` }
}

describe.concurrent('the built program, killed again and again, loses nothing and keeps its order', () => {
  const seeds = (from: number, count: number) => Array.from({ length: count }, (_, i) => from + i)

  test.for(seeds(1, RANDOM_ROUNDS))('at random moments, seed %i', async (seed) => {
    await round(seed, killAtRandom)
  })

  test.for(seeds(0, STEP_ROUNDS))('at each step of the walk, round %i', async (number) => {
    let death = number * KILLS
    await round(1000 + number, (stage, roll) => {
      const step = crashSteps[death++ % crashSteps.length] as CrashStep
      return killAt(stage, step, 1 + roll.below(6))
    })
  })
})
