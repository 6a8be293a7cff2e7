// Backfills of the history, and comparisons, which store
// nothing: complete and without duplicates, for any window size.
import { expect, test } from 'vitest'
import { openReadTimes } from '../../../src/ingest/read-times.ts'
import type { Journal } from '../../../src/contracts/journal.ts'
import type { JobSpan } from '../../../src/contracts/jobs.ts'
import { silentReporter } from '../../../src/contracts/reporter.ts'
import type { Recalled } from '../../../src/contracts/reporter.ts'
import { Comparisons } from '../../../src/jobs/compare.ts'
import { StreamJobs } from '../../../src/jobs/jobs.ts'
import type { HistoryOptions } from '../../../src/sources/history/history.ts'
import { historyEvent } from '../../fakes/history-server.ts'
import type { HistoryEvent, HistoryRequest } from '../../fakes/history-server.ts'
import { withMethods } from '../../fakes/with-methods.ts'
import { settled } from '../../simulation/virtual-clock.ts'
import { DAY, driven, HOUR, MINUTE, SECOND, START } from '../app/audit-harness.ts'
import { eventsFrom, openHistoryHarness } from '../sources/history/harness.ts'
import type { HistoryHarness, HistoryHarnessOptions } from '../sources/history/harness.ts'
import { isDone, runUntil, TODAY, compareAll } from './backfill-harness.ts'
import { ARCHIVE, replay, REQUEST } from './replay-harness.ts'

const stream = { workspace: 'acme', source: 'history.usage' } as const
/** Ten whole days, a month before live reading started. */
const FROM = TODAY - 30 * DAY
const TO = TODAY - 20 * DAY
const SPAN: JobSpan = { fromUs: FROM * 1000, toUs: TO * 1000 }
const random = () => 0.5
const readTo = async () => undefined
const idOf = ({ v2 }: HistoryEvent) => (JSON.parse(v2) as { unique_usage_id: string }).unique_usage_id

function pastOf(
  harness: HistoryHarness,
  more: Partial<Pick<HistoryOptions, 'version'>> = {},
  journal: Journal = harness.journal,
) {
  const { clock, log } = harness
  return new StreamJobs({
    ...{ ranges: [harness.range(more)], sinks: [], journal, clock, log },
    ...{ random, readTo },
  })
}

function comparingOn(harness: HistoryHarness, more: Partial<Pick<HistoryOptions, 'version'>> = {}) {
  const { journal, clock } = harness
  return new Comparisons({ ranges: [harness.range(more)], journal, clock, random: () => 0.5 })
}

const HISTORY = { ...REQUEST, stream, spans: [SPAN] }

function replaysOf(
  harness: HistoryHarness,
  more: Partial<Pick<HistoryOptions, 'version'>> = {},
  journal: Journal = harness.journal,
): StreamJobs {
  const { clock, log } = harness
  const options = { sinks: [ARCHIVE], journal, clock, log, random: () => 0.5 }
  return new StreamJobs({ ...options, ranges: [harness.range(more)], readTo: async () => undefined })
}

/** Runs from start to end. */
async function sentAgain(harness: HistoryHarness, replays: StreamJobs): Promise<void> {
  await replay(replays, HISTORY)
  await runUntil(harness, replays, isDone)
}

/** Events every `stepMs` from a day before the span to a day after it, including both ends. */
const around = (stepMs: number, make: (at: number) => HistoryEvent = historyEvent) =>
  eventsFrom(make, FROM - DAY, (12 * DAY) / stepMs, stepMs)

const within = (events: readonly HistoryEvent[]) => events.filter(({ at }) => at >= FROM && at < TO)

async function filled(harness: HistoryHarness, past = pastOf(harness), withLive = false) {
  await past.backfill({}, SPAN)
  await runUntil(harness, past, isDone, withLive)
  return past.list()[0] ?? expect.fail()
}

const compared = (harness: HistoryHarness, comparisons = comparingOn(harness)) =>
  compareAll(harness, comparisons, SPAN)

const sums = ({ days }: Awaited<ReturnType<typeof compareAll>>) => ({
  days: days.length,
  fetched: days.reduce((sum, { fetched }) => sum + fetched, 0),
  known: days.reduce((sum, { known }) => sum + known, 0),
  changed: days.reduce((sum, { changed }) => sum + changed, 0),
  unknown: days.reduce((sum, { unknown }) => sum + unknown, 0),
  malformed: days.reduce((sum, { malformed }) => sum + malformed, 0),
})

const ends: [string, HistoryHarnessOptions][] = [
  ['the end excluded', {}],
  ['both ends included', { startInclusive: true, endInclusive: true }],
  ['both ends excluded', { startInclusive: false, endInclusive: false }],
  ['times in milliseconds', { unit: 'ms' }],
  ['milliseconds, the other unit answers nothing', { unit: 'ms', otherUnit: 'empty' }],
]

test('a window that is empty once by mistake is read again', async () => {
  let mistakes = 0
  const harness = await openHistoryHarness({
    source: { start: { kind: 'span', ms: 2 * DAY } },
    fault: ({ from }) => (from < TO && mistakes++ === 0 ? { body: '{"events":[]}' } : undefined),
  })
  harness.server.events = around(2 * HOUR)
  await harness.once()
  const ended = await filled(harness)
  expect(mistakes).toBeGreaterThan(1)
  expect(ended.counts).toMatchObject({ new: within(harness.server.events).length })
})

test('until the time unit is proven, a window that is empty twice is requested once in the other unit', async () => {
  const harness = await openHistoryHarness({ otherUnit: 'empty' })
  await filled(harness)
  const tries = Map.groupBy(harness.asked(), ({ from }) => from)
  expect(new Set([...tries.values()].map(({ length }) => length))).toEqual(new Set([3]))
})

test.each(ends)(
  'a backfill stores the whole span, each event once, and leaves the live cursor alone: %s',
  async (_, api) => {
    const harness = await openHistoryHarness({ ...api, source: { start: { kind: 'span', ms: 2 * DAY } } })
    harness.server.events = around(2 * HOUR)
    await harness.once()
    const cursor = await harness.journal.cursor(stream)
    const ended = await filled(harness)
    const wanted = within(harness.server.events).map(idOf)
    const kept = await harness.ids()
    expect(kept.toSorted()).toEqual(wanted.toSorted())
    expect(ended).toMatchObject({ unread: [], error: undefined })
    expect(ended.counts).toMatchObject({ new: wanted.length, quarantined: 0, gaps: 0 })
    expect(await harness.journal.cursor(stream)).toBe(cursor)
    expect(sums(await compared(harness))).toEqual({
      ...{ days: 10, fetched: wanted.length, known: wanted.length },
      ...{ changed: 0, unknown: 0, malformed: 0 },
    })
  },
)

test('known events are not stored again; a changed event is a new version', async () => {
  const harness = await openHistoryHarness({
    source: { start: { kind: 'span', ms: 40 * DAY }, lookbackMs: 0 },
  })
  harness.server.events = around(6 * HOUR)
  await harness.once()
  const before = await harness.ids()
  const [one, ...rest] = within(harness.server.events)
  const first = one ?? expect.fail()
  const changed = historyEvent(first.at, { id: idOf(first), fields: { feedback: 'helpful' } })
  const late = historyEvent(FROM + 5 * HOUR + SECOND)
  harness.server.events = [changed, late, ...rest]
  const found = await compared(harness)
  expect(sums(found)).toMatchObject({ fetched: 41, known: 39, changed: 1, unknown: 1 })
  expect(found.unknown.map(({ id }) => id)).toEqual([idOf(late)])
  const { counts } = await filled(harness)
  // Events at the edges of windows are read twice.
  expect(counts).toMatchObject({ read: counts.known + 2, new: 2 })
  const after = await harness.ids()
  expect(after.slice(before.length).toSorted()).toEqual([idOf(first), idOf(late)].toSorted())
  expect(sums(await compared(harness))).toMatchObject({ fetched: 41, known: 41, changed: 0, unknown: 0 })
})

test('a backfill continues after a restart where it was', async () => {
  const harness = await openHistoryHarness({ limit: 3, source: { start: { kind: 'span', ms: 2 * DAY } } })
  const step = HOUR / 4
  harness.server.events = around(step, (at) => historyEvent(at, { fields: { pad: 'x'.repeat(12_000) } }))
  const first = pastOf(harness)
  await first.backfill({}, SPAN)
  await runUntil(harness, first, ([one]) => (one?.counts.read ?? 0) > 300)
  expect(isDone(first.list())).toBe(false)
  const asked = harness.asked().length
  const second = pastOf(harness)
  const [found] = await second.all('backfill')
  expect(found?.atUs).toBe(first.list()[0]?.atUs)
  await runUntil(harness, second, isDone)
  const wanted = within(harness.server.events).map(idOf)
  expect((await harness.ids()).toSorted()).toEqual(wanted.toSorted())
  expect(second.list()[0]?.counts).toMatchObject({ new: wanted.length })
  // About one request per day, so not everything again.
  expect(asked + harness.asked().length).toBeLessThanOrEqual(13)
})

test('the progress of a backfill is the start of its next window, and at its end the end of the span', async () => {
  const harness = await openHistoryHarness({ limit: 3, source: { start: { kind: 'span', ms: 2 * DAY } } })
  harness.server.events = around(HOUR)
  const past = pastOf(harness)
  await past.backfill({}, SPAN)
  const reported = new Set<number | undefined>()
  await runUntil(harness, past, ([one]) => {
    reported.add(one?.atUs)
    return one?.endedAt !== undefined
  })
  const [before, ...after] = [...reported]
  const begins = harness.asked().map(({ from }) => (from + SECOND) * 1000)
  expect([before, after.at(-1)]).toEqual([undefined, SPAN.toUs])
  expect(after.length).toBeGreaterThan(1)
  for (const atUs of after.slice(0, -1)) expect(begins).toContain(atUs)
})

test('after a crash at any moment a backfill loses nothing, has no duplicates, and counts its entries as new', async () => {
  for (const dies of [1, 2, 3, 4, 5, 8, 9, 10, 11]) {
    const harness = await openHistoryHarness({ source: { start: { kind: 'span', ms: 2 * DAY } } })
    harness.server.events = around(HOUR, (at) => historyEvent(at, { fields: { pad: 'x'.repeat(60_000) } }))
    let calls = 0
    const dyingAfter = async <T>(landed: Promise<T>) => {
      const answer = await landed
      if (++calls === dies) throw new Error('died here')
      return answer
    }
    const { journal } = harness
    const dying = withMethods(journal, {
      append: (part) => dyingAfter(journal.append(part)),
      state: withMethods(journal.state, {
        put: (name, value) => dyingAfter(journal.state.put(name, value)),
      }),
    })
    const first = pastOf(harness, {}, dying)
    const stop = new AbortController()
    await first.backfill({}, SPAN)
    await expect(driven(harness.clock, first.run(stop.signal))).rejects.toThrow('died here')
    const second = pastOf(harness)
    await second.all('backfill')
    await runUntil(harness, second, isDone)
    const wanted = within(harness.server.events).map(idOf)
    expect(second.list()[0]?.counts).toMatchObject({ new: wanted.length })
    expect((await harness.ids()).toSorted()).toEqual(wanted.toSorted())
    await harness.close()
  }
})

test.each([
  ['rows with times', false],
  ['rows without times', true],
])('version 1 rows, equal ones included, are complete and match live reading: %s', async (_, timeless) => {
  const v1 = { version: 'v1' } as const
  const harness = await openHistoryHarness({ source: { ...v1, start: { kind: 'span', ms: 25 * DAY } } })
  const make = (at: number) => historyEvent(at, { timeless, id: String((at / HOUR) % 4) })
  harness.server.events = [...around(3 * HOUR, make), ...around(3 * HOUR, make)]
  await harness.once()
  const half = (await harness.ids()).length
  expect(half).toBeGreaterThan(50)
  const { counts } = await filled(harness, pastOf(harness, v1))
  const rows = within(harness.server.events).length
  // Rows of days that live reading has are known.
  expect(counts.new + counts.known).toBeGreaterThanOrEqual(rows)
  expect(counts.known).toBeGreaterThan(50)
  const ids = await harness.ids()
  const times = await harness.times()
  expect(new Set(ids.map((id, i) => `${id} ${times[i]}`)).size).toBe(ids.length)
  const found = await compared(harness, comparingOn(harness, v1))
  expect(sums(found)).toMatchObject({ days: 10, fetched: rows, known: rows, unknown: 0 })
  expect(times.filter((at) => at >= SPAN.fromUs && at < SPAN.toUs)).toHaveLength(rows)
})

test('a row without a time that shows up late does not make a comparison count earlier rows twice', async () => {
  const v1 = { version: 'v1' } as const
  const harness = await openHistoryHarness({
    source: { ...v1, start: { kind: 'span', ms: 2 * DAY } },
    // Long windows fail, so parts of days are read before the row without a time.
    fault: ({ from, to }) => (to - from > 7 * HOUR && to - from < DAY - MINUTE ? { status: 500 } : undefined),
  })
  const timed = around(HOUR)
  harness.server.events = [...timed, historyEvent(TO - 3 * HOUR, { timeless: true })]
  const rows = within(harness.server.events).length
  const comparisons = comparingOn(harness, v1)
  expect(sums(await compared(harness, comparisons))).toMatchObject({ days: 10, fetched: rows, unknown: rows })
  const { counts } = await filled(harness, pastOf(harness, v1))
  expect(counts.new).toBe(rows)
  expect(sums(await compared(harness, comparisons))).toMatchObject({
    days: 10,
    fetched: rows,
    known: rows,
    unknown: 0,
  })
})

const BAD = FROM + 3 * DAY + 10 * HOUR + 7 * MINUTE
const holdsBad = ({ from, to }: HistoryRequest) => from <= BAD && to > BAD

test('an unreadable window is narrowed to its minutes, and the rest of its day is read', async () => {
  const harness = await openHistoryHarness({
    source: { start: { kind: 'span', ms: 2 * DAY } },
    fault: (request) => (holdsBad(request) ? { status: 500 } : undefined),
  })
  harness.server.events = around(10 * MINUTE)
  const { counts, unread, error } = await filled(harness)
  const wanted = within(harness.server.events).map(idOf)
  expect(new Set(await harness.ids())).toEqual(new Set(wanted))
  expect(counts).toMatchObject({ new: wanted.length, gaps: unread.length })
  expect(error).toBeUndefined()
  expect(unread.every(({ why }) => why === 'unreadable')).toBe(true)
  const [first, last] = [unread[0] ?? expect.fail(), unread.at(-1) ?? expect.fail()]
  expect(first.fromUs).toBeGreaterThanOrEqual((BAD - 5 * MINUTE) * 1000)
  expect(first.fromUs).toBeLessThanOrEqual(BAD * 1000)
  expect(last.toUs).toBeLessThanOrEqual((BAD + 5 * MINUTE) * 1000)
  harness.asked()
  const found = await compared(harness)
  expect(found.unread).toEqual(unread)
  expect(harness.asked().filter(holdsBad).length).toBeLessThan(40)
  expect(sums(found)).toMatchObject({ fetched: wanted.length, known: wanted.length, unknown: 0 })
})

test('the time of the last gap is saved with the page that met it, and does not count as a read', async () => {
  const harness = await openHistoryHarness({
    source: { start: { kind: 'span', ms: 2 * DAY } },
    fault: (request) => (holdsBad(request) ? { status: 500 } : undefined),
  })
  const { journal, clock, log } = harness
  const recalls: Recalled[] = []
  const reported = { ...silentReporter, recalled: (last: Recalled) => void recalls.push(last) }
  const range = {
    ...harness.range(),
    reads: openReadTimes(stream, reported, { state: journal.state, clock }),
  }
  await filled(
    harness,
    new StreamJobs({ ...{ ranges: [range], sinks: [], journal, clock, log }, ...{ random, readTo } }),
  )
  await openReadTimes(stream, reported, { state: journal.state, clock }).recall()
  expect(recalls).toMatchObject([{ readAt: 0, caughtUpAt: 0 }])
  expect(recalls[0]?.gapAt).toBeGreaterThan(START)
})

test('a window that was skipped and can be read later is no gap', async () => {
  let failing = true
  const harness = await openHistoryHarness({
    source: { start: { kind: 'span', ms: 2 * DAY } },
    fault: (request) => {
      if (request.from > BAD + 3 * DAY) failing = false
      return failing && holdsBad(request) ? { status: 500 } : undefined
    },
  })
  harness.server.events = around(MINUTE * 7)
  const { counts, unread } = await filled(harness)
  expect(unread).toEqual([])
  expect(counts.gaps).toBe(0)
  expect((await harness.ids()).length).toBe(within(harness.server.events).length)
})

test('a day that has just ended is read a minute later, if the server refuses its end as future', async () => {
  const harness = await openHistoryHarness({ startAt: TODAY, endsInPast: true })
  harness.server.events = eventsFrom(historyEvent, TODAY - 20 * HOUR, 20, HOUR)
  const past = pastOf(harness)
  await past.backfill({}, { fromUs: (TODAY - DAY) * 1000, toUs: TODAY * 1000 })
  await runUntil(harness, past, isDone)
  expect(past.list()[0]).toMatchObject({ unread: [], counts: { gaps: 0 } })
  expect(await harness.ids()).toHaveLength(20)
})

test('refused days are reported as one range, and later days are read', async () => {
  const reach = FROM + 4 * DAY
  const harness = await openHistoryHarness({
    source: { start: { kind: 'span', ms: 2 * DAY } },
    fault: ({ from }) => (from < reach - MINUTE ? { status: 400 } : undefined),
  })
  harness.server.events = around(2 * HOUR)
  const { unread, counts } = await filled(harness)
  expect(unread).toEqual([{ fromUs: SPAN.fromUs, toUs: reach * 1000, why: 'refused' }])
  expect(counts.gaps).toBe(1)
  const wanted = within(harness.server.events).filter(({ at }) => at >= reach)
  expect(await harness.ids()).toHaveLength(wanted.length)
  const found = await compared(harness)
  expect(found.unread).toEqual(unread)
  expect(sums(found)).toMatchObject({ fetched: wanted.length, known: wanted.length })
})

test('events of an interrupted answer are counted once, however often it is requested', async () => {
  let asked = 0
  const harness = await openHistoryHarness({
    source: { start: { kind: 'span', ms: 2 * DAY } },
    fault: () => (++asked % 2 === 1 ? { cutBytes: 5_000_000 } : undefined),
  })
  harness.server.events = around(HOUR / 2, (at) => historyEvent(at, { fields: { pad: 'x'.repeat(150_000) } }))
  const wanted = within(harness.server.events).length
  expect(sums(await compared(harness))).toMatchObject({ fetched: wanted, unknown: wanted })
  const { counts } = await filled(harness)
  expect(counts.new).toBe(wanted)
  expect(await harness.ids()).toHaveLength(wanted)
})

test('an event that appears twice in one answer is counted once', async () => {
  const harness = await openHistoryHarness({ source: { start: { kind: 'span', ms: 2 * DAY } } })
  const events = around(2 * HOUR)
  harness.server.events = events.flatMap((event) => [event, event])
  await filled(harness)
  const wanted = within(events).length
  expect(await harness.ids()).toHaveLength(wanted)
  expect(sums(await compared(harness))).toMatchObject({ fetched: wanted, known: wanted })
})

test('days read in one version are not read in the other, neither after a backfill nor after live reading', async () => {
  const harness = await openHistoryHarness({
    source: { version: 'v1', start: { kind: 'span', ms: 2 * DAY } },
  })
  harness.server.events = [...around(2 * HOUR), historyEvent(START - HOUR)]
  await harness.once()
  const past = pastOf(harness, { version: 'v1' })
  await filled(harness, past)
  const kept = (await harness.ids()).length
  // The days of a backfill, then those of live reading.
  for (const span of [SPAN, { fromUs: TODAY * 1000, toUs: START * 1000 }]) {
    const other = pastOf(harness, { version: 'v2' })
    await other.backfill({}, span)
    await runUntil(harness, other, ([one]) => one?.error !== undefined)
    const { error } = other.list()[0] ?? expect.fail()
    expect(error?.code).toBe('misconfigured')
    expect(error?.message).toMatch(/days from 2026-\d\d-\d\d to 2026-\d\d-\d\d were read as v1/)
    await expect(compareAll(harness, comparingOn(harness, { version: 'v2' }), span)).rejects.toThrow(
      'were read as v1',
    )
    await other.cancel('backfill', {})
  }
  expect(await harness.ids()).toHaveLength(kept)
  // Days in between that were never read are free.
  const free = pastOf(harness, { version: 'v2' })
  await free.backfill({}, { fromUs: TO * 1000, toUs: (TO + DAY) * 1000 })
  await runUntil(harness, free, isDone)
  expect(await harness.ids()).toHaveLength(kept + 12)
})

test('days of which a backfill stored nothing may be read in the other version: before its events, and between two backfills', async () => {
  const harness = await openHistoryHarness({
    source: { version: 'v1', start: { kind: 'span', ms: 2 * DAY } },
  })
  await harness.once()
  const middle = FROM + 5 * DAY
  const event = historyEvent(middle + HOUR)
  harness.server.events = [event, historyEvent(TO + 5 * DAY + HOUR)]
  const ran = async (version: 'v1' | 'v2', from: number, to: number) => {
    const past = pastOf(harness, { version })
    await past.backfill({}, { fromUs: from * 1000, toUs: to * 1000 })
    await runUntil(harness, past, (reported) => isDone(reported) || reported[0]?.error !== undefined)
    const { error } = past.list()[0] ?? expect.fail()
    if (error) await past.cancel('backfill', {})
    return error?.message
  }
  expect(await ran('v1', FROM, TO)).toBeUndefined()
  expect(await ran('v1', TO + 4 * DAY, TO + 6 * DAY)).toBeUndefined()
  const kept = await harness.ids()
  expect(kept).toHaveLength(2)
  const late = [FROM + HOUR, TO + 2 * DAY].map((at) => historyEvent(at))
  harness.server.events = [...harness.server.events, ...late]
  expect(await ran('v2', FROM, middle)).toBeUndefined()
  expect(await ran('v2', TO, TO + 4 * DAY)).toBeUndefined()
  expect((await harness.ids()).toSorted()).toEqual([...kept, ...late.map(idOf)].toSorted())
  const refused = await ran('v2', FROM, TO)
  const day = new Date(middle).toISOString().slice(0, 10)
  expect(refused).toContain(`days from ${day} to ${day} were read as v1`)
  expect(refused).toContain('or leave these days out')
  expect(refused).not.toContain('--cancel')
  expect(await ran('v1', FROM, middle)).toContain('were read as v2')
})

test.each([
  ['one range', JSON.stringify({ v1: [FROM, TO], v2: null })],
  [
    'several',
    JSON.stringify({
      v1: [
        [FROM, FROM + DAY],
        [TO - DAY, TO],
      ],
      v2: [],
    }),
  ],
])('saved versions of past days apply to a new backfill: %s', async (_, versions) => {
  const harness = await openHistoryHarness()
  await harness.journal.state.put('versions:acme:history.usage', versions)
  const past = pastOf(harness)
  await past.backfill({}, { fromUs: (TO - DAY) * 1000, toUs: TO * 1000 })
  await runUntil(harness, past, ([one]) => one?.error !== undefined)
  expect(past.list()[0]?.error?.message).toContain('were read as v1')
})

test('a replay sends an event once if one answer shows it twice', async () => {
  const harness = await openHistoryHarness({ source: { start: { kind: 'span', ms: 2 * DAY } } })
  const events = around(2 * HOUR)
  harness.server.events = events.flatMap((event) => [event, event])
  const replays = replaysOf(harness)
  await sentAgain(harness, replays)
  const wanted = within(events).map(idOf)
  expect((await harness.ids()).toSorted()).toEqual(wanted.toSorted())
  expect(replays.list()[0]?.counts).toMatchObject({ read: wanted.length, sent: wanted.length })
})

test('a replay sends byte-identical rows each', async () => {
  const v1 = { version: 'v1' } as const
  const harness = await openHistoryHarness({ source: { ...v1, start: { kind: 'span', ms: 2 * DAY } } })
  const row = historyEvent(FROM + HOUR, { timeless: true })
  harness.server.events = [row, row]
  const replays = replaysOf(harness, v1)
  await sentAgain(harness, replays)
  expect(new Set(await harness.ids()).size).toBe(2)
})

/** 3 MB each, so that an answer cut after the first event has one page chunk. */
const largeEvent = (at: number) => historyEvent(at, { fields: { pad: 'x'.repeat(3_000_000) } })

test('the only page chunk of an interrupted answer is not sent again with the next answer', async () => {
  let asked = 0
  const harness = await openHistoryHarness({
    source: { start: { kind: 'span', ms: 2 * DAY } },
    fault: () => (++asked === 1 ? { cutBytes: 5_000_000 } : undefined),
  })
  harness.server.events = [1, 2].map((hour) => largeEvent(FROM + hour * HOUR))
  const replays = replaysOf(harness)
  await sentAgain(harness, replays)
  expect(asked).toBeGreaterThan(1)
  expect(await harness.ids()).toEqual(harness.server.events.map(idOf))
})

test('a replay remembers nothing of an interrupted answer once it reads the next span', async () => {
  let asked = 0
  const harness = await openHistoryHarness({
    source: { start: { kind: 'span', ms: 2 * DAY } },
    fault: () => (++asked === 1 ? { cutBytes: 5_000_000 } : undefined),
  })
  harness.server.events = [largeEvent(FROM + HOUR), largeEvent(FROM + 2 * HOUR), historyEvent(FROM + 5 * DAY)]
  const remembered: number[] = []
  const journal = withMethods(harness.journal, {
    resend: async (again) => {
      const [job, page] = again.state.put
      if (page) remembered.push((JSON.parse(job?.value ?? '') as { span: number }).span)
      await harness.journal.resend(again)
    },
  })
  const day = (days: number) => ({
    fromUs: (FROM + days * DAY) * 1000,
    toUs: (FROM + (days + 1) * DAY) * 1000,
  })
  const replays = replaysOf(harness, {}, journal)
  await replay(replays, { ...HISTORY, spans: [day(0), day(5)] })
  await runUntil(harness, replays, isDone)
  expect(replays.list()).toMatchObject([{ counts: { sent: 3 } }])
  expect(new Set(remembered)).toEqual(new Set([0]))
})

test('live reading keeps its interval while a backfill uses the remaining requests', async () => {
  const harness = await openHistoryHarness({ limit: 5, source: { start: { kind: 'span', ms: DAY } } })
  await harness.once()
  harness.asked()
  harness.server.events = around(HOUR / 4, (at) => historyEvent(at, { fields: { pad: 'x'.repeat(12_000) } }))
  const past = pastOf(harness)
  await filled(harness, past, true)
  const asked = harness.asked()
  const live = asked.filter(({ from }) => from > TODAY - DAY)
  const minutes = (harness.clock.now() - START) / MINUTE
  expect(minutes).toBeGreaterThan(2)
  expect(live.length).toBeGreaterThanOrEqual(Math.floor(minutes / 15))
  for (let from = START; from < harness.clock.now(); from += MINUTE)
    expect(asked.filter(({ at }) => at >= from && at < from + MINUTE).length).toBeLessThanOrEqual(5)
})

test('a row without a time that shows up late does not make a replay send earlier days again', async () => {
  const v1 = { version: 'v1' } as const
  const harness = await openHistoryHarness({ source: { ...v1, start: { kind: 'span', ms: 2 * DAY } } })
  harness.server.events = [...around(HOUR), historyEvent(TO - 3 * HOUR, { timeless: true })]
  const replays = replaysOf(harness, v1)
  await sentAgain(harness, replays)
  const rows = within(harness.server.events).length
  expect(await harness.ids()).toHaveLength(rows)
  expect(replays.list()[0]?.counts).toMatchObject({ read: rows, sent: rows, gaps: 0 })
  expect(await harness.journal.state.get('versions:acme:history.usage')).toBeUndefined()
})

test('a replay does not send parts of a day again when a row without a time makes it read the whole day', async () => {
  const v1 = { version: 'v1' } as const
  let inDays = false
  const harness = await openHistoryHarness({
    source: { ...v1, start: { kind: 'span', ms: 2 * DAY } },
    fault: ({ from, to }) => {
      inDays ||= from >= TO - 2 * DAY && from % DAY === 0 && to % DAY === 0
      return !inDays && to > TO - 2 * DAY && to - from > 7 * HOUR ? { status: 500 } : undefined
    },
  })
  harness.server.events = [...around(HOUR), historyEvent(TO - 3 * HOUR, { timeless: true })]
  const replays = replaysOf(harness, v1)
  await sentAgain(harness, replays)
  const rows = within(harness.server.events).length
  expect(replays.list()[0]?.counts).toMatchObject({ read: rows, sent: rows })
  expect(await harness.ids()).toHaveLength(rows)
})

test('a replay counts an event that changed since it was read as unknown, since other sinks have its old version', async () => {
  const harness = await openHistoryHarness({
    source: { start: { kind: 'span', ms: 40 * DAY }, lookbackMs: 0 },
  })
  harness.server.events = around(6 * HOUR)
  await harness.once()
  const [one, ...rest] = within(harness.server.events)
  const first = one ?? expect.fail()
  const changed = historyEvent(first.at, { id: idOf(first), fields: { feedback: 'helpful' } })
  harness.server.events = [changed, ...rest]
  const replays = replaysOf(harness)
  await sentAgain(harness, replays)
  expect(replays.list()[0]?.counts).toMatchObject({ sent: 40, unknown: 1 })
})

test.each([
  ['without a restart', Infinity],
  ['with a restart in each step', 1],
  ['with a restart in every second step', 2],
])(
  'a replay of the history from the API sends each event once and counts unreadable windows as gaps: %s',
  async (_, turns) => {
    let asked = 0
    const harness = await openHistoryHarness({
      startInclusive: true,
      endInclusive: true,
      source: { start: { kind: 'span', ms: 2 * DAY } },
      fault: (request) => {
        if (holdsBad(request)) return { status: 500 }
        return ++asked % 3 === 0 ? { cutBytes: 5_000_000 } : undefined
      },
    })
    harness.server.events = around(HOUR / 2, (at) =>
      historyEvent(at, { fields: { pad: 'x'.repeat(120_000) } }),
    )
    let replays = replaysOf(harness)
    await replay(replays, HISTORY)
    let stop = new AbortController()
    let running = replays.run(stop.signal)
    for (let turn = 1; replays.list()[0]?.endedAt === undefined; turn++) {
      if (turn > 20_000) throw new Error('no end')
      await settled()
      harness.clock.advance(harness.clock.now() + SECOND)
      if (turn % turns !== 0) continue
      stop.abort()
      await driven(harness.clock, running)
      stop = new AbortController()
      replays = replaysOf(harness)
      running = replays.run(stop.signal)
      await settled()
    }
    stop.abort()
    await driven(harness.clock, running)
    const wanted = within(harness.server.events).map(idOf)
    const sent = await harness.ids()
    expect(new Set(sent)).toEqual(new Set(wanted))
    expect(sent).toHaveLength(wanted.length)
    const { counts, error } = replays.list()[0] ?? expect.fail()
    expect(counts).toMatchObject({ sent: wanted.length, unknown: wanted.length })
    expect(counts.gaps).toBeGreaterThan(0)
    expect(error).toBeUndefined()
  },
)
