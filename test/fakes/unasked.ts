// The services behind a control socket that a test does not use: each call to one of them fails.
import type { ControlOptions } from '../../src/control/questions.ts'

export const unasked: Pick<ControlOptions, 'jobs' | 'comparing' | 'retry'> = {
  jobs: {} as ControlOptions['jobs'],
  comparing: {} as ControlOptions['comparing'],
  retry: async () => {
    throw new Error('Nobody here puts a dead letter back')
  },
}
