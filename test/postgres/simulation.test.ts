// The simulated seeds with the journal in PostgreSQL: replicas that stop or are cut off, and a lost database.
import { it } from 'vitest'
import { postgresSeeds } from '../rounds.ts'
import { runSeeds } from '../simulation/lots.ts'
import { noPostgres } from './server.ts'

const why = noPostgres()
if (why !== undefined) it.skip(`skipped: ${why}`, () => undefined)
else
  runSeeds({
    program: 'main.ts',
    title: 'whatever happened to the replicas and their database, every sink has all that the API showed',
    ...postgresSeeds,
    lot: 4,
    more: ['--postgres'],
  })
