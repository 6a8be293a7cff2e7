// One round of the kill suites of the audit log: a stage with faults, some deaths, a last life, the judge.
import { expect } from 'vitest'
import { dice } from '../simulation/random.ts'
import type { Dice } from '../simulation/random.ts'
import type { Built } from './built.ts'
import { judge } from './judge.ts'
import { calm, type Death, die, expectNoSecret, killAt, killAtRandom } from './lives.ts'
import { openStage } from './stage.ts'
import type { Stage, StageOptions } from './stage.ts'
import { crashSteps } from './steps.ts'
import type { CrashStep } from './steps.ts'

/** Each death counts a sixth of the request limit as used for a minute. */
const KILLS = 4
const BACKLOG = 30_000
const LATE_MS = 1_500

type Postgres = StageOptions['postgres']

/** Entries that may be at the receiver twice. */
interface Doubts {
  count: number
}

async function openRound(
  { seed, batchEntries, postgres }: Pick<StageOptions, 'seed' | 'batchEntries' | 'postgres'>,
  roll: Dice,
  doubts: Doubts,
): Promise<Stage> {
  const stage = await openStage({
    ...{ seed, batchEntries, postgres },
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

async function round(
  built: Built,
  { seed, postgres }: { readonly seed: number; readonly postgres?: Postgres },
  kill: (stage: Stage, roll: Dice) => Promise<Death>,
): Promise<void> {
  const roll = dice(seed)
  const doubts = { count: 0 }
  const batchEntries = roll.pick([100, 500, 1000])
  const stage = await openRound({ seed, batchEntries, postgres }, roll, doubts)
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

/** `postgres`: for the journal; absent: a file of SQLite. */
export function randomRound(built: Built, seed: number, postgres?: Postgres): Promise<void> {
  return round(built, { seed, postgres }, (stage, roll) => killAtRandom(built, stage, roll))
}

/** Consecutive numbers go through all steps, again and again. */
export function stepRound(built: Built, number: number, postgres?: Postgres): Promise<void> {
  let death = number * KILLS
  return round(built, { seed: 1000 + number, postgres }, (stage, roll) => {
    const step = crashSteps[death++ % crashSteps.length] as CrashStep
    return killAt(built, stage, step, 1 + roll.below(6))
  })
}
