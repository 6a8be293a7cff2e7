// `mock` as a command: what it says of its options before it serves.
import { expect, test } from 'vitest'
import { mock } from '../../../src/cli/mock.ts'
import { openWorld } from './world.ts'

test.each([
  [['no_id=0.5', 'history_late=1', 'error_500=0.1'], 3, 'history_late, no_id'],
  [['error_500=0.1'], 3, undefined],
  [['no_id=0.5'], 0, undefined],
])(
  'with faults %j and a backlog of %i it tells which of them strike nothing of that',
  async (fault, backlog, reported) => {
    const { context, stop, heard } = openWorld()
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
    const note =
      reported === undefined
        ? ''
        : `mock API: of --backlog nothing has ${reported}: these strike entries and events of the traffic alone (--entries-per-hour)\n`
    expect(heard().stderr).toBe(`${note}mock API: making its past\n`)
  },
)
