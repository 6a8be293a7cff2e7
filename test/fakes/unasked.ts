// Those behind a control socket whom a test does not ask: whoever asks one of them all the same is answered by a failure.
import type { ControlOptions } from '../../src/control/questions.ts'

export const unasked: Pick<ControlOptions, 'backfills' | 'replays' | 'surveys' | 'retry'> = {
  backfills: {} as ControlOptions['backfills'],
  replays: {} as ControlOptions['replays'],
  surveys: {} as ControlOptions['surveys'],
  retry: async () => {
    throw new Error('Nobody here puts a dead letter back')
  },
}
