// The built program with the audit log alone, killed at any moment: nothing lost, order kept, no line twice in a file.
import { afterAll, beforeAll, describe, test } from 'vitest'
import { roundsOf } from '../rounds.ts'
import { buildProgram } from './built.ts'
import type { Built } from './built.ts'
import { randomRound, stepRound } from './kill-rounds.ts'

/** A hundred deaths in all, four a round. */
const RANDOM_ROUNDS = 13
const STEP_ROUNDS = 12

let built: Built
beforeAll(async () => {
  built = await buildProgram()
})
afterAll(() => built.remove())

describe.concurrent('the built program, killed again and again, loses nothing and keeps its order', () => {
  const seeds = (from: number, count: number) => Array.from({ length: count }, (_, i) => from + i)

  test.for(roundsOf(seeds(1, RANDOM_ROUNDS), 1))('at random moments, seed %i', async (seed) => {
    await randomRound(built, seed)
  })

  test.for(roundsOf(seeds(0, STEP_ROUNDS), 1))('at each named step, round %i', async (number) => {
    await stepRound(built, number)
  })
})
