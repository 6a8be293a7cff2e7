// `mock` as a command: what it prints about its options before it serves.
import { expect, test } from 'vitest'
import { mock } from '../../../src/cli/mock.ts'
import { openContext } from './context.ts'

test.each([
  [['no_id=0.5', 'history_late=1', 'error_500=0.1'], 3, 'history_late, no_id'],
  [['error_500=0.1'], 3, undefined],
  [['no_id=0.5'], 0, undefined],
])(
  'with faults %j and a backlog of %i it says which faults do not affect the backlog',
  async (fault, backlog, reported) => {
    const { context, stop, heard } = openContext()
    stop.abort()
    const rest = {
      port: 0,
      host: '127.0.0.1',
      seed: 1,
      entriesPerHour: 0,
      switch: [],
      key: [],
      control: false,
    }
    expect(await mock(context, { ...rest, fault, backlog })).toBe(0)
    const warning =
      reported === undefined
        ? ''
        : `mock API: of --backlog nothing has ${reported}: these strike entries and events of the traffic alone (--entries-per-hour)\n`
    expect(heard().stderr).toBe(`${warning}mock API: making its past\n`)
  },
)
