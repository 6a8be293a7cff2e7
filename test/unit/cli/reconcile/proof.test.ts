// What `reconcile` may call proven: no more than keys prove, nothing where the walk has gaps, and no walk counted twice or without an end.
import { expect, test } from 'vitest'
import type { ReconcileReport } from '../../../../src/cli/reconcile/report.ts'
import { reportOf } from '../../../../src/cli/reconcile/report.ts'
import { compareStream } from '../../../../src/cli/reconcile/compare.ts'
import { ConnectorError } from '../../../../src/core/errors.ts'
import type { Compared } from '../../../../src/contracts/jobs.ts'
import { VirtualClock } from '../../../simulation/virtual-clock.ts'
import { driven, START } from '../../app/desk.ts'
import { DAY } from '../past-stand.ts'

const stream = { workspace: 'acme', source: 'audit' } as const
const even = { fetched: 3, known: 3, changed: 0, filtered: 0, malformed: 0, unknown: 0 }
const TODAY = 20_000

function report(days: readonly (typeof even)[], keysSinceMs: number, gaps = 0): ReconcileReport {
  const fromDay = TODAY - days.length
  return reportOf({
    ...{ version: '1', instance: undefined, journal: 'a.db', running: false, hosts: new Map() },
    ...{ nowMs: TODAY * DAY, keysSinceMs, days: { fromDay, toDay: TODAY }, reread: new Map() },
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

test('a walk that has gaps is not balanced, however even all is that it met', () => {
  expect(report([even, even], 0).ok).toBe(true)
  expect(report([even, even], 0, 1).ok).toBe(false)
})

test('the day before the first of which all keys are kept is proven by counts, and that one by keys', () => {
  const forgotten = { ...even, known: 0, unknown: 3 }
  const { read } = report([forgotten, forgotten, even], (TODAY - 2) * DAY)
  expect(read.map(({ proven_by, result }) => [proven_by, result])).toEqual([
    ['counts', 'even'],
    ['keys', 'missing'],
    ['keys', 'even'],
  ])
})

const step: Compared = {
  ...{ days: [], unknown: [], gaps: 0, unread: [], anew: false, place: 'p', done: false, waitMs: 0 },
  ...{ waitsFor: undefined, atUs: undefined, error: undefined, user: undefined },
}

/** StreamCounts with these answers; how often it asked. */
function compareWith(compare: (nth: number) => Compared) {
  const clock = new VirtualClock(START)
  const context = { stderr: () => undefined, signal: new AbortController().signal }
  const asked = { times: 0 }
  const comparing = {
    compare: async () => {
      if (asked.times > 1_000) throw new Error('this walk has no end')
      return compare(++asked.times)
    },
  }
  const span = { fromUs: 0, toUs: DAY * 1000 }
  return {
    asked,
    walked: driven(clock, compareStream({ job: 'this', stream, comparing, span, clock, context })),
  }
}

test('a walk that begins again is counted once: what it told before is void', async () => {
  const told = { days: [{ day: 0, ...even }], unknown: [{ id: 'a', day: 0 }], gaps: 1 }
  const { walked } = compareWith((nth) => ({ ...step, ...told, anew: nth === 3, done: nth === 4 }))
  expect(await walked).toMatchObject({
    days: [{ day: 0, fetched: 6, known: 6 }],
    unknown: [{ id: 'a' }, { id: 'a' }],
    gaps: 2,
  })
})

test.each([
  ['does not answer', 8, new ConnectorError('server_error', 'the API answered 500')],
  ['answers badly', 32, { code: 'bad_reply', message: 'no JSON' } as const],
])('an API that %s for as long as that ends the walk with its words', async (_how, most, ill) => {
  const { asked, walked } = compareWith(() => {
    if (ill instanceof ConnectorError) throw ill
    return { ...step, error: ill }
  })
  await expect(walked).rejects.toMatchObject({
    code: ill.code,
    message: `acme audit could not be read to the end: ${ill.message}`,
  })
  expect(asked.times).toBe(most)
})
