// What `reconcile` may call proven: no more than the keys prove, and nothing if there are gaps.
import { expect, test } from 'vitest'
import type { ReconcileReport } from '../../../../src/cli/reconcile/report.ts'
import { reportOf } from '../../../../src/cli/reconcile/report.ts'
import { DAY } from '../past-setup.ts'

const stream = { workspace: 'acme', source: 'audit' } as const
const even = { fetched: 3, known: 3, changed: 0, filtered: 0, malformed: 0, early: 0, unknown: 0 }
const TODAY = 20_000

function report(days: readonly (typeof even)[], keysSinceMs: number, gaps = 0): ReconcileReport {
  const fromDay = TODAY - days.length
  return reportOf({
    ...{ version: '1', instance: undefined, journal: 'a.db', running: false, hosts: new Map() },
    ...{ nowMs: TODAY * DAY, keysSinceMs, days: { fromDay, toDay: TODAY }, lookback: new Map() },
    streams: [
      {
        ...{ stream, unknown: [], gaps, unread: [], user: undefined },
        days: days.map((day, i) => ({ day: fromDay + i, ...day })),
      },
    ],
    accountReport: {
      kept: days.map((_, i) => ({ stream, day: fromDay + i, kept: 3, filtered: 0, quarantined: 0 })),
      rows: [],
    },
  })
}

test('a comparison with gaps is not balanced, even if all days are even', () => {
  expect(report([even, even], 0).ok).toBe(true)
  expect(report([even, even], 0, 1).ok).toBe(false)
})

test('a day is proven by keys only if all its keys are kept, otherwise by counts', () => {
  const forgotten = { ...even, known: 0, unknown: 3 }
  const { read } = report([forgotten, forgotten, even], (TODAY - 2) * DAY)
  expect(read.map(({ proven_by, result }) => [proven_by, result])).toEqual([
    ['counts', 'even'],
    ['keys', 'missing'],
    ['keys', 'even'],
  ])
})
