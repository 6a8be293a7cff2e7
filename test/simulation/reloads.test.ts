// Seeds of reloads and deaths in the middle of jobs: few, since each goes through many lives.
import { runSeeds } from './lots.ts'

runSeeds({
  program: 'reloads-main.ts',
  title:
    'a backfill and replays end complete, with nothing twice and true counts, over deaths, reloads and renamings',
  first: 4,
  all: 60,
  lot: 28,
})
