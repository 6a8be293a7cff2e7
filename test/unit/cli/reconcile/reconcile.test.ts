// `reconcile` with the journal to itself, and through a real daemon, against the mock.
import { afterEach, describe, expect, test } from 'vitest'
import { reportOf, lookbackFrom, lookbackDays } from '../../../../src/cli/reconcile/report.ts'
import { compareAll, reconcile } from '../../../../src/cli/reconcile/reconcile.ts'
import type { ReconcileReport } from '../../../../src/cli/reconcile/report.ts'
import { reportText } from '../../../../src/cli/reconcile/text.ts'
import type { Clock } from '../../../../src/core/clock.ts'
import { ConnectorError } from '../../../../src/core/errors.ts'
import type { Compared } from '../../../../src/contracts/jobs.ts'
import type { Start } from '../../../../src/sources/shared.ts'
import { systemClock } from '../../../../src/platform/clock.ts'
import { codeIn } from '../context.ts'
import { DAY, dayText, openPastSetup, today } from '../past-setup.ts'

let setup: Awaited<ReturnType<typeof openPastSetup>>
afterEach(() => setup.close())

/** Waits a twentieth as long. */
const clock: Clock = { ...systemClock, sleep: (ms, signal) => systemClock.sleep(ms / 20, signal) }

const options = (more: object = {}) => ({ config: setup.config, from: dayText(3), json: false, ...more })

async function report(more: object = {}): Promise<{ code: number; report: ReconcileReport }> {
  const code = await reconcile(setup.context, options({ json: true, ...more }), clock)
  return { code, report: JSON.parse(setup.heard().stdout) as ReconcileReport }
}

describe.each(['without a daemon', 'through a daemon'])('%s', (how) => {
  const begin = async () => {
    if (how === 'through a daemon') await setup.daemon()
    setup.heard()
  }

  test('entries that were all read and delivered are balanced, day by day', async () => {
    setup = await openPastSetup()
    await setup.once()
    await begin()
    expect(await reconcile(setup.context, options(), clock)).toBe(0)
    const { stdout, stderr } = setup.heard()
    expect(stderr).toBe('')
    expect(stdout).toContain('BALANCED. Each of the 75 elements that the API shows is known here')
    expect(stdout).toContain(
      '- That the journal can still deliver what is PENDING: its contents were not read.\n',
    )
    expect(stdout).toMatch(new RegExp(`acme audit +${dayText(2)} +25 +25 +0 +0 +0 +0 +25 +0 +keys +even`))
    expect(stdout).toMatch(new RegExp(`archive +acme audit +${dayText(2)} +25 +0 +25 +0 +0 +0 +0 +0 +even`))
    expect(stdout).toMatch(/Name _+ {2}Date _+ {2}Signature _+\n$/)
    expect(stdout).toContain('the user of the key is unknown: the span has no fetch by this instance\n')
    expect(stdout).toContain('- acme audit: the user of the key is unknown. It is taken from this instance')
    expect(stdout).not.toContain('acme history.usage: which user')
  })

  test('an entry whose key is gone from the journal is found, with its id', async () => {
    setup = await openPastSetup()
    await setup.once()
    const at = (today() - 2 * DAY + 5 * 3_600_000) * 1000
    expect(setup.tamper(`DELETE FROM keys WHERE at = ${at}`)).toBe(1)
    await begin()
    const { code, report: found } = await report()
    expect(code).toBe(1)
    const lost = setup.mock.entries().find(({ atUs }) => atUs === at)
    expect(found.sources[0]?.unknown).toEqual([{ id: lost?.id, day: dayText(2) }])
    expect(found.read.map(({ unknown, result }) => [unknown, result])).toEqual([
      [0, 'even'],
      [1, 'missing'],
      [0, 'even'],
    ])
    expect(await reconcile(setup.context, options(), clock)).toBe(1)
    const { stdout } = setup.heard()
    expect(stdout).toContain('NOT BALANCED: 1 entry that the API shows is not here.\nTo fetch it: ')
    expect(stdout).toContain(
      `: auditferry backfill --workspace acme --source audit --from ${dayText(2)} --to ${dayText(1)}\n`,
    )
  })

  test('a delivery missing from the accounts is found, with its sink and day', async () => {
    setup = await openPastSetup()
    await setup.once()
    const day = today() / DAY - 1
    expect(setup.tamper(`UPDATE accounts SET accepted = accepted - 2 WHERE day = ${day}`)).toBe(1)
    await begin()
    const { code, report: found } = await report()
    expect(code).toBe(1)
    expect(found.sinks.filter(({ result }) => result !== 'even')).toMatchObject([
      { sink: 'archive', day: dayText(1), kept: 25, accepted: 23, missing: 2, result: 'missing' },
    ])
    expect(await reconcile(setup.context, options(), clock)).toBe(1)
    expect(setup.heard().stdout).toContain('NOT BALANCED: at archive 2 kept entries have no recorded outcome')
  })
})

test('without a daemon the command may use the whole rate limit', async () => {
  setup = await openPastSetup()
  await setup.once()
  setup.write({ limit: 5 })
  // As if that run was a minute ago: the comparison needs five requests.
  setup.tamper("DELETE FROM state WHERE name LIKE 'requests:%'")
  setup.heard()
  expect(await reconcile(setup.context, options(), clock)).toBe(0)
  // A comparison that waits for a permit would say so.
  expect(setup.heard().stderr).toBe('')
})

test('an unknown workspace is wrong usage, and the known ones are listed', async () => {
  setup = await openPastSetup()
  expect(await codeIn(setup.context, reconcile(setup.context, options({ workspace: 'nope' }), clock))).toBe(2)
  expect(setup.heard().stderr).toBe('error: there is no workspace nope; there are acme\n')
})

describe('days before the configured start', () => {
  const half = () => `${dayText(2)}T12:30:00Z`

  test('are no loss: they have their own sum, are not judged, and the report says how to add them', async () => {
    setup = await openPastSetup({ start: half() })
    await setup.once()
    setup.heard()
    const { code, report: found } = await report()
    expect(found.read.map((row) => [row.before_start, row.unknown, row.known, row.result])).toEqual([
      [25, 0, 0, 'early'],
      [13, 0, 12, 'even'],
      [0, 0, 25, 'even'],
    ])
    expect(found.sources[0]).toMatchObject({ start: `${dayText(2)}T12:30:00.000Z`, unknown: [] })
    expect(code).toBe(0)
    expect(await reconcile(setup.context, options(), clock)).toBe(0)
    const { stdout } = setup.heard()
    expect(stdout).toContain('BALANCED. Each of the 37 elements that the API shows is known here')
    expect(stdout).toMatch(
      new RegExp(`acme audit +${dayText(3)} +25 +0 +0 +0 +0 +25 +0 +0 +0 +keys +before start`),
    )
    expect(stdout).toContain(
      `\n38 entries of acme audit from before ${dayText(2)}T12:30:00.000Z, where live reading began (start), were not read. To add them: auditferry backfill --workspace acme --source audit --from ${dayText(3)} --to ${dayText(2)}T12:30:00.000Z\n`,
    )
    expect(await reconcile(setup.context, options({ to: dayText(2) }), clock)).toBe(1)
    expect(setup.heard().stdout).toContain(
      'NO RESULT: each day of the span was over before live reading began. Nothing was compared, so the exit code is 1',
    )
  })

  test('do not excuse missing entries after it', async () => {
    setup = await openPastSetup({ start: half() })
    await setup.once()
    setup.tamper(`DELETE FROM keys WHERE at = ${(today() - 2 * DAY + 15 * 3_600_000) * 1000}`)
    setup.heard()
    const { code, report: found } = await report()
    expect(code).toBe(1)
    expect(found.read[1]).toMatchObject({ before_start: 13, unknown: 1, result: 'missing' })
  })

  test('must be complete if a backfill read them', () => {
    const day = today() / DAY - 2
    const stream = {
      ...{
        stream: { workspace: 'acme', source: 'audit' } as const,
        unknown: [],
        gaps: 0,
        unread: [],
        user: 'u',
      },
      days: [{ day, fetched: 5, known: 3, changed: 0, filtered: 0, malformed: 0, early: 2, unknown: 0 }],
      startUs: (day + 1) * DAY * 1000,
    }
    const found = reportOf({
      ...{ version: '1', instance: undefined, journal: 'a.db', running: false, hosts: new Map() },
      ...{ lookback: new Map(), days: { fromDay: day, toDay: day + 1 }, nowMs: today(), keysSinceMs: 0 },
      ...{
        streams: [stream],
        accountReport: {
          kept: [{ stream: stream.stream, day, kept: 3, filtered: 0, quarantined: 0 }],
          rows: [],
        },
      },
    })
    expect(found.read[0]).toMatchObject({ before_start: 0, unknown: 2, result: 'missing' })
    expect(found.ok).toBe(false)
  })
})

test('a comparison stores nothing: a second one finds the same', async () => {
  setup = await openPastSetup()
  await setup.once()
  setup.tamper(`DELETE FROM keys WHERE at < ${(today() - DAY) * 1000}`)
  setup.heard()
  const first = await report()
  expect(first.code).toBe(1)
  expect(first.report.read.map(({ unknown }) => unknown)).toEqual([25, 25, 0])
  const { read, sinks, sources } = (await report()).report
  expect({ read, sinks, sources }).toEqual({
    ...{ read: first.report.read, sinks: first.report.sinks, sources: first.report.sources },
  })
})

test('if keys may be forgotten only counts are compared, and the report says so', async () => {
  setup = await openPastSetup()
  await setup.once()
  setup.tamper(`DELETE FROM keys WHERE at < ${(today() - 2 * DAY) * 1000}`)
  setup.write({ keepKeys: '1d' })
  setup.heard()
  const { code, report: found } = await report()
  expect(found.read[0]).toMatchObject({
    unknown: 25,
    known: 0,
    kept: 25,
    proven_by: 'counts',
    result: 'even',
  })
  expect(code).toBe(0)
})

test('unwanted types are filtered, not missing', async () => {
  setup = await openPastSetup({ types: '["auth:*"]' })
  await setup.once()
  setup.heard()
  const { code, report: found } = await report()
  expect(code).toBe(0)
  for (const { fetched, known, filtered, kept } of found.read) {
    expect(known + filtered).toBe(fetched)
    expect(known).toBe(kept)
  }
  expect(found.read.some(({ filtered }) => filtered > 0)).toBe(true)
})

test('today is shown and not judged, and a span of only today proves nothing', async () => {
  setup = await openPastSetup()
  await setup.once()
  setup.heard()
  const to = new Date(today() + DAY).toISOString()
  const { code, report: found } = await report({ to })
  expect(found.read.at(-1)?.result).toBe('moving')
  expect(code).toBe(0)
  const busy = found.read.map((row) => (row.result === 'moving' ? { ...row, fetched: 7, unknown: 7 } : row))
  const shown = reportText({ ...found, read: busy })
  expect(shown).toContain(
    'BALANCED. Each of the 75 elements that the API shows of days that are over is known',
  )
  expect(shown).toContain('(the 7 of the day that is not are shown, not judged)')
  expect(await reconcile(setup.context, options({ from: dayText(0), to }), clock)).toBe(1)
  expect(setup.heard().stdout).toContain('NO RESULT: no day of the span is over yet. Nothing was compared')
})

test('parts of days are rounded outwards, and the command says so', async () => {
  setup = await openPastSetup()
  await setup.once()
  setup.heard()
  expect(
    await reconcile(
      setup.context,
      options({ from: `${dayText(2)}T10:00:00Z`, to: `${dayText(1)}T10:00:00Z` }),
      clock,
    ),
  ).toBe(0)
  const { stdout, stderr } = setup.heard()
  expect(stderr).toContain(`comparing full UTC days: ${dayText(2)} to ${dayText(0)}`)
  expect(stdout).toContain('2 UTC days')
})

test('a refused key ends the comparison with the reason, and proves nothing', async () => {
  setup = await openPastSetup()
  await setup.once()
  setup.mock.setFault('unauthorized', 1)
  setup.heard()
  await expect(reconcile(setup.context, options(), clock)).rejects.toThrow('the API key was refused')
  expect(setup.heard().stdout).toBe('')
})

test.each([false, true])(
  'an interrupted comparison prints what it found as partial, and proves nothing (--json: %s)',
  async (json) => {
    setup = await openPastSetup()
    await setup.once()
    setup.heard()
    // One request to find the cursor, two pages, and one to check for the end.
    setup.mock.setFault('unauthorized', { nth: [setup.mock.requests.length + 4] })
    await expect(reconcile(setup.context, options({ json }), clock)).rejects.toThrow(
      'the API key was refused',
    )
    const { stdout } = setup.heard()
    if (json)
      expect(JSON.parse(stdout)).toMatchObject({
        partial: true,
        ok: false,
        read: [{ fetched: 25 }, {}, {}],
      })
    else {
      expect(stdout).toMatch(
        /^PARTIAL: the run was interrupted, .* there is no verdict, and nothing is proved\n/,
      )
      expect(stdout).toMatch(new RegExp(`acme audit +${dayText(2)} +25 +25 +0 +0 +0 +0 +0\\n`))
      expect(stdout).not.toContain('Signature')
    }
  },
)

/** `compare` answers; days, options and clock are the same each time. */
function compareWith(compare: () => Promise<Compared>, json = false, by: Clock = clock) {
  const comparing = { compare, endCompare: () => Promise.reject(new Error('it is gone')) }
  const days = { fromDay: 0, toDay: 4 }
  return compareAll(setup.context, comparing, { options: { ...options(), json }, days, clock: by })
}

const audit = { workspace: 'acme', source: 'audit' } as const
const comparedDay = {
  day: 0,
  fetched: 4,
  known: 3,
  changed: 0,
  filtered: 0,
  malformed: 0,
  early: 0,
  unknown: 1,
}
const comparedNow: Compared = {
  streams: [{ stream: audit, days: [comparedDay], unknown: [{ id: 'lost', day: 0 }], gaps: 0, unread: [] }],
  ...{ isDone: false, waitsFor: undefined, atUs: DAY * 1000, error: undefined },
}

test('a comparison stopped by a signal prints what it found', async () => {
  setup = await openPastSetup()
  const compare = async () => {
    setup.stop.abort()
    return comparedNow
  }
  expect(await compareWith(compare)).toBeUndefined()
  const { stdout, stderr } = setup.heard()
  expect(stdout).toContain('Not known here, the first ones\n\nacme audit  1970-01-01  lost\n')
  expect(stderr).toBe('auditferry: interrupted: no result, and nothing was changed\n')
})

test('a span from today without an end is refused with what the end would be, and `now` includes today', async () => {
  setup = await openPastSetup()
  await setup.once()
  setup.heard()
  expect(await codeIn(setup.context, reconcile(setup.context, options({ from: dayText(0) }), clock))).toBe(2)
  expect(setup.heard().stderr).toBe(
    `error: --from is not before --to, which defaults to the last midnight (${dayText(0)}): to include today, without a result, add --to ${dayText(-1)}, or --to now\n`,
  )
  const { code, report: found } = await report({ to: 'now' })
  expect(code).toBe(0)
  expect(found.read.at(-1)).toMatchObject({ day: dayText(0), result: 'moving' })
  expect(setup.heard().stderr).toBe('')
})

test('a daemon that stops during the comparison ends it with what to do next', async () => {
  setup = await openPastSetup()
  const compare = () => Promise.reject(new ConnectorError('aborted', 'Stopped'))
  await expect(compareWith(compare)).rejects.toThrow(
    /took a new configuration meanwhile; nothing was changed, start again$/,
  )
})

test('an unreadable API ends the comparison with the reason, and what it found is printed', async () => {
  setup = await openPastSetup()
  const error = { code: 'timeout', message: 'acme audit could not be read to the end' } as const
  const compare = async () => ({ ...comparedNow, isDone: true, error })
  await expect(compareWith(compare, true)).rejects.toMatchObject(error)
  expect(JSON.parse(setup.heard().stdout)).toMatchObject({ partial: true, ok: false, read: [{ fetched: 4 }] })
})

test('a progress line says how far the comparison is, and why it waits', async () => {
  setup = await openPastSetup()
  let now = 0
  const slow: Clock = { ...clock, elapsed: () => (now += 5_000) }
  const waiting: Compared = {
    ...{ ...comparedNow, waitsFor: 'rate_limit' },
    waitReason: 'live polling uses 45 of 60 requests/min',
  }
  const answers: Compared[] = [
    comparedNow,
    waiting,
    { ...comparedNow, error: { code: 'bad_reply', message: 'no JSON' } },
    { ...comparedNow, error: { code: 'bad_reply', message: 'no JSON' } },
    { ...comparedNow, isDone: true },
  ]
  const compare = async () => answers.shift() ?? expect.fail('asked on')
  expect(await compareWith(compare, false, slow)).toEqual(comparedNow.streams)
  const { stdout, stderr } = setup.heard()
  expect(stderr.split('\n')).toEqual([
    'acme audit: 25 %, 4 entries fetched. Waiting: live polling uses 45 of 60 requests/min.',
    'acme audit: 25 %, 4 entries fetched; trying again: no JSON',
    '',
  ])
  expect(stdout).toBe('')
})

describe('days of the history', () => {
  const today = 20_000
  const even = { fetched: 3, known: 3, changed: 0, filtered: 0, malformed: 0, early: 0, unknown: 0 }
  const lost = { ...even, known: 2, unknown: 1 }
  const changed = { ...even, known: 2, changed: 1 }
  const found = (days: readonly (typeof even)[], startUs?: number) => {
    const stream = { workspace: 'acme', source: 'history.usage' } as const
    const fromDay = today - days.length
    const kept = days.map((_, i) => ({ stream, day: fromDay + i, kept: 3, filtered: 0, quarantined: 0 }))
    return reportOf({
      ...{ version: '1', instance: undefined, journal: 'a.db', running: true, hosts: new Map() },
      ...{ nowMs: today * DAY + DAY / 2, keysSinceMs: 0, days: { fromDay, toDay: today } },
      lookback: lookbackDays(
        {
          workspaces: [
            { name: 'acme', history: { lookback: 2 * DAY, start: { kind: 'span', ms: 7 * DAY } } },
          ],
        },
        today * DAY + DAY / 2,
      ),
      streams: [
        {
          ...{ stream, unknown: [], gaps: 0, unread: [], user: undefined, startUs },
          days: days.map((day, i) => ({ day: fromDay + i, ...day })),
        },
      ],
      accountReport: { kept, rows: [] },
    })
  }
  const text = (ago: number) => new Date((today - ago) * DAY).toISOString().slice(0, 10)

  test('with changed entries are called changed, and are not even', () => {
    const report = found([even, changed, even, even])
    expect(report.read.map(({ result }) => result)).toEqual(['even', 'changed', 'even', 'even'])
    expect(report.ok).toBe(false)
    const shown = reportText(report)
    expect(shown).toContain('NOT BALANCED: 1 entry has changed since it was kept.\nTo fetch it: ')
    expect(shown).toContain(`--source history.usage --from ${text(3)} --to ${text(2)}\n`)
    expect(shown).not.toContain('arrives without a backfill:')
  })

  test('get a backfill suggested if they need one, and not if lookback reads them again', () => {
    const report = found([even, lost, even, even, lost, changed])
    const shown = reportText(report)
    expect(shown).toContain('1 entry has changed')
    expect(shown).toContain(`--source history.usage --from ${text(5)} --to ${text(4)}\n`)
    expect(shown).toContain(`Every missing or changed entry of acme history.usage from ${text(2)} on arrives`)
    expect(reportText(found([even, even, lost]))).not.toContain('auditferry backfill')
  })

  test('count as read again from the start that the journal recorded, whatever the configuration has now', () => {
    const days = [even, even, lost, even]
    const begun = (ago: number) => found(days, (today - ago) * DAY * 1000 + 1).sources[0]?.read_again_from
    expect(found(days).sources[0]?.read_again_from).toBe(text(2))
    expect([9, 2, 1].map(begun)).toEqual([text(2), text(2), text(1)])
    expect(begun(0)).toBeNull()
  })

  test('do not count as read again if they are before a possible start of reading, or are about to leave the lookback', () => {
    const now = today * DAY + 20 * 3_600_000
    const from = (start: Start, reread = 2 * DAY, startUs?: number) =>
      lookbackFrom(
        lookbackDays({ workspaces: [{ name: 'acme', history: { lookback: reread, start } }] }, now).get(
          'acme',
        ),
        startUs,
        now,
      )
    expect(from({ kind: 'span', ms: 7 * DAY })).toBe((today - 1) * DAY)
    expect(from({ kind: 'time', atUs: 0 }, 2 * DAY + DAY / 2)).toBe((today - 2) * DAY)
    // That day is always requested from its midnight on.
    expect(from({ kind: 'time', atUs: ((today - 2) * DAY + 1) * 1000 }, 9 * DAY)).toBe((today - 2) * DAY)
    expect(from({ kind: 'span', ms: DAY })).toBe((today - 1) * DAY)
    expect(from({ kind: 'latest' })).toBeUndefined()
    expect(from({ kind: 'latest' }, 9 * DAY, (today - 3) * DAY * 1000)).toBe((today - 3) * DAY)
    expect(from({ kind: 'earliest' }, 0)).toBeUndefined()
  })
})
