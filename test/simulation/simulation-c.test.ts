// The third quarter of the simulated seeds; in files of their own, so that the cores share the work evenly.
import { simulateSeeds } from './seeds.ts'

simulateSeeds(2)
