// The kill suite of the audit log with its journal in PostgreSQL: each life waits until the lease of
// the one before has ended.
import { afterAll, beforeAll, describe, it, test } from 'vitest'
import { buildProgram } from '../e2e/built.ts'
import type { Built } from '../e2e/built.ts'
import { randomRound, stepRound } from '../e2e/kill-rounds.ts'
import { migrate } from '../../src/journal/postgres/schema.ts'
import { roundsOf } from '../rounds.ts'
import { noPostgres, startPostgres } from './server.ts'
import type { PostgresServer } from './server.ts'

/** All steps twice, at different moments. */
const STEP_ROUNDS = 5
const RANDOM_ROUNDS = 2
const ROLE = 'killed'
const PATIENCE_MS = 300_000

const why = noPostgres()
if (why !== undefined) it.skip(`skipped: ${why}`, () => undefined)

let built: Built
let server: PostgresServer

beforeAll(async () => {
  if (why !== undefined) return
  built = await buildProgram()
  server = await startPostgres()
  await server.query(`CREATE ROLE ${ROLE} LOGIN`)
}, PATIENCE_MS)

afterAll(async () => {
  if (why !== undefined) return
  await server.stop()
  built.remove()
}, PATIENCE_MS)

async function journal(schema: string) {
  await migrate({ settings: { url: server.url() }, schema, runtimeRole: ROLE })
  return { url: server.url(ROLE), schema, shards: 1, lease: '3s' }
}

describe
  .skipIf(why !== undefined)
  .concurrent(
    'the built program on PostgreSQL, killed again and again, loses nothing and keeps its order',
    { timeout: PATIENCE_MS },
    () => {
      const numbers = (count: number) => Array.from({ length: count }, (_, i) => i)

      test.for(roundsOf(numbers(STEP_ROUNDS), 1))('at each named step, round %i', async (number) => {
        await stepRound(built, number, await journal(`steps_${number}`))
      })

      test.for(roundsOf(numbers(RANDOM_ROUNDS), 0))('at random moments, seed %i', async (seed) => {
        await randomRound(built, seed, await journal(`random_${seed}`))
      })
    },
  )
