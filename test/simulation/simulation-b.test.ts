// The second half of the simulated seeds.
import { simulateSeeds } from './seeds.ts'

simulateSeeds(1)
