// The simulated seeds, each a whole life of the daemon with its faults and deaths.
import { seeds } from '../rounds.ts'
import { runSeeds } from './lots.ts'

runSeeds({
  program: 'main.ts',
  title: 'whatever went wrong, every sink has all that the API showed',
  ...seeds,
  lot: 20,
})
