// Those behind a control socket whom a test does not ask: whoever asks one of them all the same is answered by a failure.
import type { ControlOptions } from '../../src/control/questions.ts'

export const unasked: Pick<ControlOptions, 'jobs' | 'comparing' | 'retry'> = {
  jobs: {} as ControlOptions['jobs'],
  comparing: {} as ControlOptions['comparing'],
  retry: async () => {
    throw new Error('Nobody here puts a dead letter back')
  },
}
