// The first half of the simulated seeds; in a file of its own, so that two cores share the work.
import { simulateSeeds } from './seeds.ts'

simulateSeeds(0)
