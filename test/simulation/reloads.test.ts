// Seeds of reloads and deaths in the midst of what reads the past again: few, since each goes through many lives.
import { runSeeds } from './lots.ts'

runSeeds({
  program: 'reloads-main.ts',
  title:
    'a backfill and replays come to their ends, whole, nothing twice and truly told, over deaths, reloads and renamings',
  first: 4,
  all: 60,
  lot: 28,
})
