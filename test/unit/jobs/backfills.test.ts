// Backfills: complete and without duplicates, across restarts and cancels, within
// the limit and after live reading. Also comparisons, which store nothing.
import { expect, test } from 'vitest'
import { ConnectorError } from '../../../src/core/errors.ts'
import { noCounts } from '../../../src/contracts/jobs.ts'
import { StreamJobs } from '../../../src/jobs/jobs.ts'
import { backfillStatusOf } from '../../../src/observability/status.ts'
import { withMethods } from '../../fakes/with-methods.ts'
import { DAY, MINUTE, openHarness, stream, SECOND, START } from '../app/audit-harness.ts'
import {
  fillPast,
  idsIn,
  isDone,
  openLateHarness,
  pastOf,
  rangeOn,
  runUntil,
  SPAN,
  TODAY,
  comparingOn,
  compareAll,
} from './backfill-harness.ts'

const readTo = async () => undefined
const NOW = { fromUs: SPAN.fromUs, toUs: START * 1000 }

test('a backfill stores the whole span, each entry once, and leaves the live cursor alone', async () => {
  const harness = await openLateHarness({}, 4_000)
  await harness.drain()
  const cursor = await harness.journal.cursor(stream)
  const past = pastOf(harness)
  const [begun] = await past.backfill({}, SPAN)
  expect(begun).toMatchObject({ kind: 'backfill', stream, spans: [SPAN], endedAt: undefined })
  await runUntil(harness, past, isDone)
  const wanted = idsIn(harness, SPAN)
  const kept = await harness.ids()
  expect(kept.filter((id) => wanted.includes(id)).sort()).toEqual(wanted)
  expect(new Set(kept).size).toBe(kept.length)
  expect(await harness.journal.cursor(stream)).toBe(cursor)
  const [ended] = past.list()
  expect(ended?.counts).toEqual({
    ...{ ...noCounts, read: wanted.length, new: wanted.length },
  })
  expect(ended && backfillStatusOf(ended)).toMatchObject({
    state: 'done',
    progress: 1,
    new_entries: wanted.length,
  })
})

test('a backfill ends now, even if its span ends later', async () => {
  const harness = await openLateHarness({}, 10)
  const [begun] = await pastOf(harness).backfill({}, { ...SPAN, toUs: (START + DAY) * 1000 })
  expect(begun?.spans).toEqual([NOW])
})

test('known entries are not stored again, and count as known', async () => {
  const harness = await openHarness()
  fillPast(harness, 2_500)
  await harness.drain()
  const before = (await harness.ids()).length
  const past = pastOf(harness)
  await past.backfill({}, SPAN)
  await runUntil(harness, past, isDone)
  expect((await harness.ids()).length).toBe(before)
  const wanted = idsIn(harness, SPAN).length
  expect(past.list()[0]?.counts).toMatchObject({ read: wanted, new: 0, known: wanted })
})

test('a backfill continues after a restart where it was, without duplicates', async () => {
  const harness = await openLateHarness({ limit: 20, switches: { page_cap: 100 } }, 5_000)
  const first = pastOf(harness)
  await first.backfill({}, SPAN)
  await runUntil(harness, first, ([one]) => (one?.counts.read ?? 0) > 1_000)
  const asked = harness.asked().length
  expect(isDone(first.list())).toBe(false)
  const second = pastOf(harness)
  const [found] = await second.all('backfill')
  expect(found?.counts.read).toBeGreaterThan(1_000)
  expect(found?.atUs).toBeGreaterThan(SPAN.fromUs)
  expect(found?.atUs).toBe(first.list()[0]?.atUs)
  await runUntil(harness, second, isDone)
  const kept = await harness.ids()
  expect([...kept].sort()).toEqual(idsIn(harness, SPAN))
  // The second job read the rest, not everything again.
  expect(asked + harness.asked().length).toBeLessThan(kept.length / 100 + 5)
  expect(second.list()[0]?.counts).toMatchObject({ read: kept.length, new: kept.length })
})

test('a cancelled backfill stops within a page, keeps what it read, and does not come back after a restart', async () => {
  const harness = await openLateHarness({ limit: 20, switches: { page_cap: 100 } }, 5_000)
  const past = pastOf(harness)
  await past.backfill({}, SPAN)
  expect(await past.cancel('backfill', { workspace: 'other' })).toBe(0)
  let cancelled: Promise<number> | undefined
  let turns = 0
  await runUntil(harness, past, ([one]) => {
    if ((one?.counts.read ?? 0) > 100) cancelled ??= past.cancel('backfill', {})
    return cancelled !== undefined && ++turns > 20
  })
  expect(await cancelled).toBe(1)
  expect(past.list()).toEqual([])
  const kept = (await harness.ids()).length
  expect(kept).toBeGreaterThan(100)
  const next = pastOf(harness)
  expect(await next.all('backfill')).toEqual([])
  expect(kept).toBeLessThan(idsIn(harness, SPAN).length)
})

test('a backfill whose source was switched off before a restart is listed as waiting for the source, and can be cancelled', async () => {
  const harness = await openLateHarness({}, 500)
  await pastOf(harness).backfill({}, SPAN)
  const { journal, clock, log } = harness
  const off = new StreamJobs({ ...{ ranges: [], sinks: [], journal, clock, log }, random: () => 0.5, readTo })
  expect(await off.all('backfill')).toMatchObject([{ stream, endedAt: undefined, waitsFor: 'source' }])
  expect(off.list()).toEqual([])
  expect(await off.cancel('backfill', { source: 'history.usage' })).toBe(0)
  expect(await off.cancel('backfill', { source: 'audit' })).toBe(1)
  expect(await off.all('backfill')).toEqual([])
  expect(await pastOf(harness).all('backfill')).toEqual([])
})

test('entries found by a backfill count as new, also if the process dies right after a page of it', async () => {
  const harness = await openLateHarness({}, 4_000)
  let pages = 0
  const dying = withMethods(harness.journal, {
    append: async (part) => {
      const appended = await harness.journal.append(part)
      if (++pages === 2) throw new Error('killed')
      return appended
    },
  })
  const first = pastOf(harness, ['*'], dying)
  await first.backfill({}, SPAN)
  await expect(runUntil(harness, first, isDone)).rejects.toThrow('killed')
  const next = pastOf(harness)
  await runUntil(harness, next, isDone)
  const count = idsIn(harness, SPAN).length
  expect(next.list()[0]?.counts).toMatchObject({ read: count, new: count, known: 0 })
})

test('a disk too full to save the end of a backfill stops neither the backfill nor the process', async () => {
  const harness = await openLateHarness({}, 100)
  let refused = 0
  const full = withMethods(harness.journal, {
    state: withMethods(harness.journal.state, {
      put: async (name, value) => {
        if (++refused <= 3) throw new ConnectorError('disk_full', 'no room for a state entry')
        await harness.journal.state.put(name, value)
      },
    }),
  })
  const past = pastOf(harness, ['*'], full)
  await past.backfill({}, SPAN)
  await runUntil(harness, past, ([one]) => one?.error?.code === 'disk_full')
  expect(past.list()).toMatchObject([{ endedAt: undefined }])
  await runUntil(harness, past, isDone)
  expect(past.list()).toMatchObject([{ error: undefined }])
  const again = pastOf(harness)
  expect(await again.all('backfill')).toMatchObject([{ endedAt: expect.any(Number) as number }])
})

test('a page stored after the cancel does not bring the backfill back', async () => {
  const harness = await openLateHarness({}, 2_000)
  const landing = withMethods(harness.journal, {
    append: async (part) => {
      const appended = await harness.journal.append(part)
      await past.cancel('backfill', {})
      return appended
    },
  })
  const past = pastOf(harness, ['*'], landing)
  await past.backfill({}, SPAN)
  await runUntil(harness, past, (reported) => reported.length === 0)
  expect(await pastOf(harness).all('backfill')).toEqual([])
})

test('a backfill started while the previous one is cancelled stays', async () => {
  const harness = await openLateHarness({}, 10)
  let again = 0
  const journal = withMethods(harness.journal, {
    state: withMethods(harness.journal.state, {
      change: async (change) => {
        await harness.journal.state.change(change)
        if (change.drop.length > 0 && again++ < 3) await past.backfill({}, SPAN)
      },
    }),
  })
  const past = pastOf(harness, ['*'], journal)
  await past.backfill({}, SPAN)
  expect(await past.cancel('backfill', {})).toBe(1)
  expect(past.list()).toHaveLength(1)
})

test.each(['no JSON', 'null', '{"v":2}', '{"v":1}', '{"v":1,"origin":{}}'])(
  'a damaged state entry of a backfill, or one of another version, is ignored: %s',
  async (text) => {
    const harness = await openLateHarness({}, 10)
    await harness.journal.state.put(`backfill:${stream.workspace}:${stream.source}`, text)
    const past = pastOf(harness)
    expect(await past.all('backfill')).toEqual([])
    await past.backfill({}, SPAN)
    await runUntil(harness, past, isDone)
    expect(past.list()[0]?.counts.read).toBe(idsIn(harness, SPAN).length)
  },
)

test('a request for the same span joins the backfill; a request for another span is refused meanwhile', async () => {
  const harness = await openLateHarness({}, 10)
  const past = pastOf(harness)
  const [first] = await past.backfill({}, SPAN)
  expect(await past.backfill({}, SPAN)).toEqual([{ ...first, isJoined: true }])
  const span = `from ${new Date(SPAN.fromUs / 1000).toISOString()} to ${new Date(SPAN.toUs / 1000).toISOString()}`
  await expect(past.backfill({}, NOW)).rejects.toThrow(
    `is already running, for the span ${span}. Wait until it is done (auditferry backfill --status)`,
  )
  await expect(past.backfill({ source: 'history.usage' }, SPAN)).rejects.toThrow(
    'No source that is switched on',
  )
})

test('a joined backfill goes on even if the journal can store nothing just then', async () => {
  const harness = await openLateHarness({}, 10)
  let isFull = false
  const journal = withMethods(harness.journal, {
    state: withMethods(harness.journal.state, {
      change: async (change) => {
        if (isFull) throw new ConnectorError('disk_full', 'no room for a state entry')
        await harness.journal.state.change(change)
      },
    }),
  })
  const past = pastOf(harness, ['*'], journal)
  const [first] = await past.backfill({}, SPAN)
  isFull = true
  expect(await past.backfill({}, SPAN)).toEqual([{ ...first, isJoined: true }])
  await runUntil(harness, past, isDone)
})

test('a backfill of several sources has one span, whatever another command starts meanwhile', async () => {
  const harness = await openLateHarness({}, 10)
  const usage = { workspace: 'acme', source: 'history.usage' } as const
  const other = { fromUs: SPAN.fromUs, toUs: SPAN.fromUs + DAY * 1000 }
  let second: Promise<string> | undefined
  const journal = withMethods(harness.journal, {
    state: withMethods(harness.journal.state, {
      change: async (change) => {
        if (!second) {
          const asked = past.backfill({ source: usage.source }, other)
          second = asked.then(
            () => 'begun',
            (error: unknown) => String(error),
          )
          await second
        }
        await harness.journal.state.change(change)
      },
    }),
  })
  const ranges = [rangeOn(harness), { ...rangeOn(harness), stream: usage }]
  const past = new StreamJobs({
    ...{ ranges, sinks: [], journal, clock: harness.clock, log: harness.log, readTo },
    random: () => 0.5,
  })
  const begun = await past.backfill({}, SPAN)
  expect(begun).toMatchObject([
    { stream, spans: [SPAN] },
    { stream: usage, spans: [SPAN] },
  ])
  expect(await second).toMatch(/acme history.usage is already running/)
})

test('a finished backfill is still reported to its command if another one starts right after it', async () => {
  const harness = await openLateHarness({}, 10)
  const past = pastOf(harness)
  const [first] = await past.backfill({}, SPAN)
  await runUntil(harness, past, isDone)
  harness.clock.advance(harness.clock.now() + SECOND)
  await past.backfill({}, NOW)
  const all = await past.all('backfill')
  expect(all.find(({ startedAt }) => startedAt === first?.startedAt)).toMatchObject({
    ...{ spans: [SPAN], error: undefined },
  })
  expect(all.map(({ endedAt }) => endedAt === undefined)).toEqual([false, true])
  expect(past.list()).toMatchObject([{ spans: [NOW] }])
})

test('unwanted types are counted and not stored', async () => {
  const harness = await openLateHarness({}, 300)
  const past = pastOf(harness, ['auth:*'])
  await past.backfill({}, SPAN)
  await runUntil(harness, past, isDone)
  const kept = (await harness.ids()).length
  const { read, filtered, ...rest } = past.list()[0]?.counts ?? {}
  expect(rest).toMatchObject({ new: kept, known: 0 })
  expect((read ?? 0) - (filtered ?? 0)).toBe(kept)
  expect(filtered).toBeGreaterThan(0)
})

test('live reading comes first, and no minute has more requests than the limit', async () => {
  const limit = 10
  const harness = await openLateHarness(
    {
      limit,
      limits: { audit: limit },
      switches: { self_audit: 'off', page_cap: 50 },
      source: { intervalMs: MINUTE },
    },
    3_000,
  )
  const past = pastOf(harness)
  await past.backfill({}, SPAN)
  let added = 0
  await runUntil(
    harness,
    past,
    (reported) => {
      const due = Math.floor((harness.clock.now() - START) / (30 * SECOND))
      for (; added < due && added < 20; added++) harness.mock.add({ at: harness.clock.now(), visibleAt: 0 })
      return isDone(reported)
    },
    true,
  )
  expect(harness.reporter.codes.filter((code) => code === '429')).toEqual([])
  const times = harness.mock.requests.map(({ at }) => at)
  const fullest = Math.max(...times.map((at) => times.filter((one) => one >= at && one < at + MINUTE).length))
  expect(fullest).toBeLessThanOrEqual(limit)
  expect(fullest).toBeGreaterThan(limit / 2)
  const live = harness.mock.entries().filter(({ atUs }) => atUs > START * 1000)
  expect(live.length).toBe(20)
  // The mock showed each within the poll interval, whatever the backfill requested.
  for (const { atUs, shownAt = Infinity } of live) expect(shownAt - atUs / 1000).toBeLessThan(1.5 * MINUTE)
})

test('a backfill leaves four permits in ten to more urgent requests, even if they are not used', async () => {
  const limits = { limit: 10, limits: { audit: 10 } }
  const harness = await openLateHarness({ ...limits, switches: { page_cap: 50 } }, 2_000)
  const past = pastOf(harness)
  await past.backfill({}, SPAN)
  await runUntil(harness, past, isDone)
  const times = harness.mock.requests.map(({ at }) => at)
  const fullest = Math.max(...times.map((at) => times.filter((one) => one >= at && one < at + MINUTE).length))
  expect(times.length).toBeGreaterThan(12)
  expect(fullest).toBe(6)
})

test('a backfill waits for its share of the rate limit, or for the end of a 429', async () => {
  const harness = await openLateHarness({ limit: 10 }, 8_000)
  const past = pastOf(harness)
  await past.backfill({}, SPAN)
  await runUntil(harness, past, () => past.list()[0]?.waitsFor === 'rate_limit')
  expect(harness.rateLimiter.used).toMatchObject({ permits: 6, allowed: 10 })
  await harness.rateLimiter.limited(90_000)
  const from = harness.clock.now()
  await runUntil(harness, past, () => harness.clock.now() > from + MINUTE)
  expect(past.list()[0]).toMatchObject({ waitsFor: 'limit', error: undefined })
})

test('a backfill waits at half of the journal, and goes on when there is room', async () => {
  const harness = await openLateHarness({}, 3_000)
  let bytes = 0
  const journal = withMethods(harness.journal, {
    pressure: () => ({ ...harness.journal.pressure(), bytes, capacityBytes: 1000 }),
  })
  const past = pastOf(harness, ['*'], journal)
  bytes = 500
  await past.backfill({}, SPAN)
  await runUntil(harness, past, () => harness.clock.now() > START + 2 * MINUTE)
  expect(past.list()[0]).toMatchObject({ waitsFor: 'room', counts: { read: 0 } })
  bytes = 499
  const next = pastOf(harness, ['*'], journal)
  await runUntil(harness, next, isDone)
  expect(next.list()[0]?.counts.new).toBe(idsIn(harness, SPAN).length)
})

test('an answer larger than the free room also stops at half of the journal, and goes on when there is room', async () => {
  const late = { source: { start: { kind: 'latest' } }, switches: { huge_bytes: 24_000 } } as const
  const harness = await openHarness(late)
  for (let i = 0; i < 1_000; i++)
    harness.mock.add({ at: TODAY - DAY + i * 1000, visibleAt: 0, defect: 'huge' })
  let bytes = 0
  let most = 0
  let capacityBytes = 8e6
  const journal = withMethods(harness.journal, {
    pressure: () => ({ ...harness.journal.pressure(), bytes, capacityBytes }),
    append: async (part) => {
      if (part.entries.count > 0) most = Math.max(most, bytes)
      for (let i = 0; i < part.entries.count; i++) bytes += part.entries.raw(i).length
      return harness.journal.append(part)
    },
  })
  const past = pastOf(harness, ['*'], journal)
  await past.backfill({}, SPAN)
  await runUntil(harness, past, () => harness.clock.now() > START + 2 * MINUTE)
  expect(most).toBeLessThan(capacityBytes / 2)
  expect(past.list()[0]).toMatchObject({ endedAt: undefined, waitsFor: 'room', error: undefined })
  capacityBytes = 1e9
  await runUntil(harness, past, isDone)
  expect(past.list()[0]?.counts.new).toBe(1_000)
})

test('a backfill that could not be saved does not start', async () => {
  const harness = await openLateHarness({}, 10)
  let failing = true
  const journal = withMethods(harness.journal, {
    state: withMethods(harness.journal.state, {
      change: async (change) => {
        if (failing) throw new Error('no room')
        await harness.journal.state.change(change)
      },
    }),
  })
  const past = pastOf(harness, ['*'], journal)
  await expect(past.backfill({}, SPAN)).rejects.toThrow('no room')
  expect(past.list()).toEqual([])
  failing = false
  await past.backfill({}, SPAN)
  await runUntil(harness, past, isDone)
})

test('a refused key is reported and tried again, and the backfill goes on once the key works', async () => {
  const harness = await openLateHarness({}, 100)
  harness.mock.setFault('unauthorized', 1)
  const past = pastOf(harness)
  await past.backfill({}, SPAN)
  await runUntil(harness, past, ([one]) => one?.error !== undefined)
  const [failed] = past.list()
  expect(failed?.error?.code).toBe('unauthorized')
  expect(failed && backfillStatusOf(failed).state).toBe('failing')
  harness.mock.setFault('unauthorized', undefined)
  await runUntil(harness, past, isDone)
  expect(past.list()[0]).toMatchObject({ error: undefined })
})

test('a comparison counts known, filtered, malformed and unknown entries by day, and stores nothing', async () => {
  const harness = await openHarness()
  fillPast(harness, 2_000)
  harness.mock.add({ at: TODAY - DAY - 1000, visibleAt: 0, defect: 'no_id' })
  await harness.drain()
  const kept = (await harness.ids()).length
  // It is older than the cursor. Only lookback would find it, and this harness has none.
  const lost = harness.mock.add({ at: TODAY - 2 * DAY + 1000, visibleAt: 0 })
  const { days, unknown, gaps } = await compareAll(harness, comparingOn(harness))
  expect((await harness.ids()).length).toBe(kept)
  expect(unknown.map(({ id }) => id)).toEqual([lost.id])
  expect(gaps).toBe(0)
  expect(days.map(({ day }) => day * DAY)).toEqual([3, 2, 1].map((ago) => TODAY - ago * DAY))
  const sum = (name: 'fetched' | 'known' | 'malformed') => days.reduce((all, day) => all + day[name], 0)
  expect(sum('malformed')).toBe(1)
  expect(sum('fetched')).toBe(idsIn(harness, SPAN).length)
  expect(sum('known')).toBe(sum('fetched') - 2)
})
