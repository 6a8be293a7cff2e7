// What `reconcile` may call proven: no more than keys prove, nothing where the walk has gaps, and no walk counted twice or without an end.
import { expect, test } from 'vitest'
import type { ReconcileReport } from '../../../../src/cli/reconcile/report.ts'
import { reportOf } from '../../../../src/cli/reconcile/report.ts'
import { surveyAll } from '../../../../src/cli/reconcile/walk.ts'
import { ConnectorError } from '../../../../src/core/errors.ts'
import type { Surveyed } from '../../../../src/contracts/jobs.ts'
import { VirtualClock } from '../../../simulation/virtual-clock.ts'
import { driven, START } from '../../app/desk.ts'
import { DAY } from '../past-stand.ts'

const origin = { workspace: 'acme', source: 'audit' } as const
const even = { fetched: 3, known: 3, changed: 0, filtered: 0, malformed: 0, unknown: 0 }
const TODAY = 20_000

function report(days: readonly (typeof even)[], keysSinceMs: number, gaps = 0): ReconcileReport {
  const fromDay = TODAY - days.length
  return reportOf({
    ...{ version: '1', instance: undefined, journal: 'a.db', running: false, hosts: new Map() },
    ...{ nowMs: TODAY * DAY, keysSinceMs, days: { fromDay, toDay: TODAY }, reread: new Map() },
    walked: [
      {
        ...{ origin, unknown: [], gaps, unread: [], user: undefined },
        days: days.map((day, i) => ({ day: fromDay + i, ...day })),
      },
    ],
    balance: {
      kept: days.map((_, i) => ({ origin, day: fromDay + i, kept: 3, filtered: 0, quarantined: 0 })),
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

const step: Surveyed = {
  ...{ days: [], unknown: [], gaps: 0, unread: [], anew: false, place: 'p', done: false, waitMs: 0 },
  ...{ waitsFor: undefined, atUs: undefined, fault: undefined, user: undefined },
}

/** Walked with these answers; how often it asked. */
function walk(survey: (nth: number) => Surveyed) {
  const clock = new VirtualClock(START)
  const world = { stderr: () => undefined, signal: new AbortController().signal }
  const asked = { times: 0 }
  const surveys = {
    survey: async () => {
      if (asked.times > 1_000) throw new Error('this walk has no end')
      return survey(++asked.times)
    },
  }
  const span = { fromUs: 0, toUs: DAY * 1000 }
  return { asked, walked: driven(clock, surveyAll({ walk: 'this', origin, surveys, span, clock, world })) }
}

test('a walk that begins again is counted once: what it told before is void', async () => {
  const told = { days: [{ day: 0, ...even }], unknown: [{ id: 'a', day: 0 }], gaps: 1 }
  const { walked } = walk((nth) => ({ ...step, ...told, anew: nth === 3, done: nth === 4 }))
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
  const { asked, walked } = walk(() => {
    if (ill instanceof ConnectorError) throw ill
    return { ...step, fault: ill }
  })
  await expect(walked).rejects.toMatchObject({
    code: ill.code,
    message: `acme audit could not be walked to the end: ${ill.message}`,
  })
  expect(asked.times).toBe(most)
})
