// The built program with the audit log alone, killed at any moment: nothing lost, order kept, no line twice in a file.
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { roundsOf } from '../rounds.ts'
import { dice } from '../simulation/random.ts'
import type { Dice } from '../simulation/random.ts'
import { buildProgram } from './built.ts'
import type { Built } from './built.ts'
import { judge } from './judge.ts'
import { calm, type Death, die, expectNoSecret, killAt, killAtRandom } from './lives.ts'
import { openStage } from './stage.ts'
import type { Stage } from './stage.ts'
import { crashSteps } from './steps.ts'
import type { CrashStep } from './steps.ts'

/** A hundred in all, four a journal: each death counts a sixth of the request limit as used for a minute. */
const KILLS = 4
const RANDOM_ROUNDS = 13
const STEP_ROUNDS = 12
const BACKLOG = 30_000
const LATE_MS = 1_500

let built: Built
beforeAll(async () => {
  built = await buildProgram()
})
afterAll(() => built.remove())

/** Entries that may be at the receiver twice. */
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

async function round(seed: number, kill: (stage: Stage, roll: Dice) => Promise<Death>): Promise<void> {
  const roll = dice(seed)
  const doubts = { count: 0 }
  const batchEntries = roll.pick([100, 500, 1000])
  const stage = await openRound(seed, roll, batchEntries, doubts)
  try {
    const { reported, logs } = await die(KILLS, () => kill(stage, roll))
    expectNoSecret(logs + (await calm(built, stage)))
    // The stop in the end may leave one more request without its answer.
    const mayRepeat = batchEntries * (KILLS + doubts.count + 1)
    expect(judge(stage, { mayRepeat }), `seed ${seed}, killed: ${reported}`).toEqual([])
  } finally {
    await stage.close()
  }
}

describe.concurrent('the built program, killed again and again, loses nothing and keeps its order', () => {
  const seeds = (from: number, count: number) => Array.from({ length: count }, (_, i) => from + i)

  test.for(roundsOf(seeds(1, RANDOM_ROUNDS), 1))('at random moments, seed %i', async (seed) => {
    await round(seed, (stage, roll) => killAtRandom(built, stage, roll))
  })

  test.for(roundsOf(seeds(0, STEP_ROUNDS), 1))('at each named step, round %i', async (number) => {
    let death = number * KILLS
    await round(1000 + number, (stage, roll) => {
      const step = crashSteps[death++ % crashSteps.length] as CrashStep
      return killAt(built, stage, step, 1 + roll.below(6))
    })
  })
})
