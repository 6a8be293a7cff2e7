// Backfills of the history and walks over it that keep nothing: whole, nothing twice, in whatever windows the API can be read.
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
import { DAY, driven, HOUR, MINUTE, SECOND, START } from '../app/desk.ts'
import { eventsFrom, openHistoryDesk } from '../sources/history/desk.ts'
import type { HistoryDesk, HistoryDeskOptions } from '../sources/history/desk.ts'
import { isDone, runUntil, TODAY, compareAll } from './backfill-desk.ts'
import { ARCHIVE, replay, REQUEST } from './replay-desk.ts'

const stream = { workspace: 'acme', source: 'history.usage' } as const
/** Ten whole days, a month before live reading began. */
const FROM = TODAY - 30 * DAY
const TO = TODAY - 20 * DAY
const SPAN: JobSpan = { fromUs: FROM * 1000, toUs: TO * 1000 }
const random = () => 0.5
const readTo = async () => undefined
const idOf = ({ v2 }: HistoryEvent) => (JSON.parse(v2) as { unique_usage_id: string }).unique_usage_id

function pastOf(
  desk: HistoryDesk,
  more: Partial<Pick<HistoryOptions, 'version'>> = {},
  journal: Journal = desk.journal,
) {
  const { clock, log } = desk
  return new StreamJobs({
    ...{ ranges: [desk.range(more)], sinks: [], journal, clock, log },
    ...{ random, readTo },
  })
}

function comparingOn(desk: HistoryDesk, more: Partial<Pick<HistoryOptions, 'version'>> = {}) {
  const { journal, clock } = desk
  return new Comparisons({ ranges: [desk.range(more)], journal, clock, random: () => 0.5 })
}

const HISTORY = { ...REQUEST, stream, spans: [SPAN] }

function replaysOf(
  desk: HistoryDesk,
  more: Partial<Pick<HistoryOptions, 'version'>> = {},
  journal: Journal = desk.journal,
): StreamJobs {
  const { clock, log } = desk
  const options = { sinks: [ARCHIVE], journal, clock, log, random: () => 0.5 }
  return new StreamJobs({ ...options, ranges: [desk.range(more)], readTo: async () => undefined })
}

/** Begun and run to its end. */
async function sentAgain(desk: HistoryDesk, replays: StreamJobs): Promise<void> {
  await replay(replays, HISTORY)
  await runUntil(desk, replays, isDone)
}

/** Events every `stepMs` from a day before the span to a day after it, its ends among them. */
const around = (stepMs: number, make: (at: number) => HistoryEvent = historyEvent) =>
  eventsFrom(make, FROM - DAY, (12 * DAY) / stepMs, stepMs)

const within = (events: readonly HistoryEvent[]) => events.filter(({ at }) => at >= FROM && at < TO)

async function filled(desk: HistoryDesk, past = pastOf(desk), withLive = false) {
  await past.backfill({}, SPAN)
  await runUntil(desk, past, isDone, withLive)
  return past.list()[0] ?? expect.fail()
}

const walked = (desk: HistoryDesk, surveys = comparingOn(desk)) => compareAll(desk, surveys, SPAN)

const sums = ({ days }: Awaited<ReturnType<typeof compareAll>>) => ({
  days: days.length,
  fetched: days.reduce((sum, { fetched }) => sum + fetched, 0),
  known: days.reduce((sum, { known }) => sum + known, 0),
  changed: days.reduce((sum, { changed }) => sum + changed, 0),
  unknown: days.reduce((sum, { unknown }) => sum + unknown, 0),
  malformed: days.reduce((sum, { malformed }) => sum + malformed, 0),
})

const ends: [string, HistoryDeskOptions][] = [
  ['the end excluded', {}],
  ['both ends included', { startInclusive: true, endInclusive: true }],
  ['both ends excluded', { startInclusive: false, endInclusive: false }],
  ['times in milliseconds', { unit: 'ms' }],
  ['milliseconds, the other unit answers nothing', { unit: 'ms', otherUnit: 'empty' }],
]

test('a window of a backfill that shows nothing once by mistake is not taken for empty', async () => {
  let mistakes = 0
  const desk = await openHistoryDesk({
    source: { start: { kind: 'span', ms: 2 * DAY } },
    fault: ({ from }) => (from < TO && mistakes++ === 0 ? { body: '{"events":[]}' } : undefined),
  })
  desk.server.events = around(2 * HOUR)
  await desk.once()
  const ended = await filled(desk)
  expect(mistakes).toBeGreaterThan(1)
  expect(ended.counts).toMatchObject({ new: within(desk.server.events).length })
})

test('as long as no unit is proven, a window of a backfill that shows nothing twice is asked for once in the other one', async () => {
  const desk = await openHistoryDesk({ otherUnit: 'empty' })
  await filled(desk)
  const tries = Map.groupBy(desk.asked(), ({ from }) => from)
  expect(new Set([...tries.values()].map(({ length }) => length))).toEqual(new Set([3]))
})

test.each(ends)(
  'a span that was never read is read whole, nothing twice, the live cursor where it was: %s',
  async (_, api) => {
    const desk = await openHistoryDesk({ ...api, source: { start: { kind: 'span', ms: 2 * DAY } } })
    desk.server.events = around(2 * HOUR)
    await desk.once()
    const cursor = await desk.journal.cursor(stream)
    const ended = await filled(desk)
    const wanted = within(desk.server.events).map(idOf)
    const kept = await desk.ids()
    expect(kept.toSorted()).toEqual(wanted.toSorted())
    expect(ended).toMatchObject({ unread: [], error: undefined })
    expect(ended.counts).toMatchObject({ new: wanted.length, quarantined: 0, gaps: 0 })
    expect(await desk.journal.cursor(stream)).toBe(cursor)
    expect(sums(await walked(desk))).toEqual({
      ...{ days: 10, fetched: wanted.length, known: wanted.length },
      ...{ changed: 0, unknown: 0, malformed: 0 },
    })
  },
)

test('what live reading has is not kept again; what changed since is a new version', async () => {
  const desk = await openHistoryDesk({ source: { start: { kind: 'span', ms: 40 * DAY }, lookbackMs: 0 } })
  desk.server.events = around(6 * HOUR)
  await desk.once()
  const before = await desk.ids()
  const [one, ...rest] = within(desk.server.events)
  const first = one ?? expect.fail()
  const changed = historyEvent(first.at, { id: idOf(first), fields: { feedback: 'helpful' } })
  const late = historyEvent(FROM + 5 * HOUR + SECOND)
  desk.server.events = [changed, late, ...rest]
  const found = await walked(desk)
  expect(sums(found)).toMatchObject({ fetched: 41, known: 39, changed: 1, unknown: 1 })
  expect(found.unknown.map(({ id }) => id)).toEqual([idOf(late)])
  const { counts } = await filled(desk)
  // At the edges of windows some are read twice.
  expect(counts).toMatchObject({ read: counts.known + 2, new: 2 })
  const after = await desk.ids()
  expect(after.slice(before.length).toSorted()).toEqual([idOf(first), idOf(late)].toSorted())
  expect(sums(await walked(desk))).toMatchObject({ fetched: 41, known: 41, changed: 0, unknown: 0 })
})

test('a backfill goes on after a restart where it stood', async () => {
  const desk = await openHistoryDesk({ limit: 3, source: { start: { kind: 'span', ms: 2 * DAY } } })
  const step = HOUR / 4
  desk.server.events = around(step, (at) => historyEvent(at, { fields: { pad: 'x'.repeat(12_000) } }))
  const first = pastOf(desk)
  await first.backfill({}, SPAN)
  await runUntil(desk, first, ([one]) => (one?.counts.read ?? 0) > 300)
  expect(isDone(first.list())).toBe(false)
  const asked = desk.asked().length
  const second = pastOf(desk)
  const [found] = await second.all('backfill')
  expect(found?.atUs).toBe(first.list()[0]?.atUs)
  await runUntil(desk, second, isDone)
  const wanted = within(desk.server.events).map(idOf)
  expect((await desk.ids()).toSorted()).toEqual(wanted.toSorted())
  expect(second.list()[0]?.counts).toMatchObject({ new: wanted.length })
  // A day each, and not all of it again.
  expect(asked + desk.asked().length).toBeLessThanOrEqual(13)
})

test('how far a backfill is, is told by where its next window begins, and at its end by the end of the span', async () => {
  const desk = await openHistoryDesk({ limit: 3, source: { start: { kind: 'span', ms: 2 * DAY } } })
  desk.server.events = around(HOUR)
  const past = pastOf(desk)
  await past.backfill({}, SPAN)
  const told = new Set<number | undefined>()
  await runUntil(desk, past, ([one]) => {
    told.add(one?.atUs)
    return one?.endedAt !== undefined
  })
  const [before, ...after] = [...told]
  const begins = desk.asked().map(({ from }) => (from + SECOND) * 1000)
  expect([before, after.at(-1)]).toEqual([undefined, SPAN.toUs])
  expect(after.length).toBeGreaterThan(1)
  for (const atUs of after.slice(0, -1)) expect(begins).toContain(atUs)
})

test('a crash at any moment of a backfill loses nothing, sends nothing twice, and what it found is told as new', async () => {
  for (const dies of [1, 2, 3, 4, 5, 8, 9, 10, 11]) {
    const desk = await openHistoryDesk({ source: { start: { kind: 'span', ms: 2 * DAY } } })
    desk.server.events = around(HOUR, (at) => historyEvent(at, { fields: { pad: 'x'.repeat(60_000) } }))
    let calls = 0
    const dying = new Proxy(desk.journal, {
      get(target, name: keyof Journal) {
        const own = Reflect.get(target, name) as unknown
        if (typeof own !== 'function') return own
        if (name !== 'append' && name !== 'putNote') return own.bind(target) as unknown
        return async (...given: unknown[]) => {
          const answer: unknown = await (own as (...all: unknown[]) => unknown).apply(target, given)
          if (++calls === dies) throw new Error('died here')
          return answer
        }
      },
    })
    const first = pastOf(desk, {}, dying)
    const stop = new AbortController()
    await first.backfill({}, SPAN)
    await expect(driven(desk.clock, first.run(stop.signal))).rejects.toThrow('died here')
    const second = pastOf(desk)
    await second.all('backfill')
    await runUntil(desk, second, isDone)
    const wanted = within(desk.server.events).map(idOf)
    expect(second.list()[0]?.counts).toMatchObject({ new: wanted.length })
    expect((await desk.ids()).toSorted()).toEqual(wanted.toSorted())
    await desk.close()
  }
})

test.each([
  ['rows with times', false],
  ['rows without times', true],
])('version 1, equal rows among them, is whole and the same to live reading: %s', async (_, timeless) => {
  const v1 = { version: 'v1' } as const
  const desk = await openHistoryDesk({ source: { ...v1, start: { kind: 'span', ms: 25 * DAY } } })
  const make = (at: number) => historyEvent(at, { timeless, id: String((at / HOUR) % 4) })
  desk.server.events = [...around(3 * HOUR, make), ...around(3 * HOUR, make)]
  await desk.once()
  const half = (await desk.ids()).length
  expect(half).toBeGreaterThan(50)
  const { counts } = await filled(desk, pastOf(desk, v1))
  const rows = within(desk.server.events).length
  // Rows of the days that live reading has are known to be these.
  expect(counts.new + counts.known).toBeGreaterThanOrEqual(rows)
  expect(counts.known).toBeGreaterThan(50)
  const ids = await desk.ids()
  const times = await desk.times()
  expect(new Set(ids.map((id, i) => `${id} ${times[i]}`)).size).toBe(ids.length)
  const found = await walked(desk, comparingOn(desk, v1))
  expect(sums(found)).toMatchObject({ days: 10, fetched: rows, known: rows, unknown: 0 })
  expect(times.filter((at) => at >= SPAN.fromUs && at < SPAN.toUs)).toHaveLength(rows)
})

test('rows without times that come late in a walk do not count what was told before them twice', async () => {
  const v1 = { version: 'v1' } as const
  const desk = await openHistoryDesk({
    source: { ...v1, start: { kind: 'span', ms: 2 * DAY } },
    // Long windows fail: parts of days are read before the row without a time is met.
    fault: ({ from, to }) => (to - from > 7 * HOUR && to - from < DAY - MINUTE ? { status: 500 } : undefined),
  })
  const timed = around(HOUR)
  desk.server.events = [...timed, historyEvent(TO - 3 * HOUR, { timeless: true })]
  const rows = within(desk.server.events).length
  const surveys = comparingOn(desk, v1)
  expect(sums(await walked(desk, surveys))).toMatchObject({ days: 10, fetched: rows, unknown: rows })
  const { counts } = await filled(desk, pastOf(desk, v1))
  expect(counts.new).toBe(rows)
  expect(sums(await walked(desk, surveys))).toMatchObject({
    days: 10,
    fetched: rows,
    known: rows,
    unknown: 0,
  })
})

const BAD = FROM + 3 * DAY + 10 * HOUR + 7 * MINUTE
const holdsBad = ({ from, to }: HistoryRequest) => from <= BAD && to > BAD

test('a window that stays unreadable is told by its minute, and the rest of its day is read', async () => {
  const desk = await openHistoryDesk({
    source: { start: { kind: 'span', ms: 2 * DAY } },
    fault: (request) => (holdsBad(request) ? { status: 500 } : undefined),
  })
  desk.server.events = around(10 * MINUTE)
  const { counts, unread, error } = await filled(desk)
  const wanted = within(desk.server.events).map(idOf)
  expect(new Set(await desk.ids())).toEqual(new Set(wanted))
  expect(counts).toMatchObject({ new: wanted.length, gaps: unread.length })
  expect(error).toBeUndefined()
  expect(unread.every(({ why }) => why === 'unreadable')).toBe(true)
  const [first, last] = [unread[0] ?? expect.fail(), unread.at(-1) ?? expect.fail()]
  expect(first.fromUs).toBeGreaterThanOrEqual((BAD - 5 * MINUTE) * 1000)
  expect(first.fromUs).toBeLessThanOrEqual(BAD * 1000)
  expect(last.toUs).toBeLessThanOrEqual((BAD + 5 * MINUTE) * 1000)
  desk.asked()
  const found = await walked(desk)
  expect(found.unread).toEqual(unread)
  expect(desk.asked().filter(holdsBad).length).toBeLessThan(40)
  expect(sums(found)).toMatchObject({ fetched: wanted.length, known: wanted.length, unknown: 0 })
})

test('when a backfill last met a gap is kept with the part that met it, and is no time of a read', async () => {
  const desk = await openHistoryDesk({
    source: { start: { kind: 'span', ms: 2 * DAY } },
    fault: (request) => (holdsBad(request) ? { status: 500 } : undefined),
  })
  const { journal, clock, log } = desk
  const recalls: Recalled[] = []
  const told = { ...silentReporter, recalled: (last: Recalled) => void recalls.push(last) }
  const range = { ...desk.range(), reads: openReadTimes(stream, told, { journal, clock }) }
  await filled(
    desk,
    new StreamJobs({ ...{ ranges: [range], sinks: [], journal, clock, log }, ...{ random, readTo } }),
  )
  await openReadTimes(stream, told, { journal, clock }).recall()
  expect(recalls).toMatchObject([{ readAt: 0, caughtUpAt: 0 }])
  expect(recalls[0]?.gapAt).toBeGreaterThan(START)
})

test('a window that was passed and can be read in the end is no gap', async () => {
  let failing = true
  const desk = await openHistoryDesk({
    source: { start: { kind: 'span', ms: 2 * DAY } },
    fault: (request) => {
      if (request.from > BAD + 3 * DAY) failing = false
      return failing && holdsBad(request) ? { status: 500 } : undefined
    },
  })
  desk.server.events = around(MINUTE * 7)
  const { counts, unread } = await filled(desk)
  expect(unread).toEqual([])
  expect(counts.gaps).toBe(0)
  expect((await desk.ids()).length).toBe(within(desk.server.events).length)
})

test('days that the API refuses are told as one stretch, and what follows is read', async () => {
  const reach = FROM + 4 * DAY
  const desk = await openHistoryDesk({
    source: { start: { kind: 'span', ms: 2 * DAY } },
    fault: ({ from }) => (from < reach - MINUTE ? { status: 400 } : undefined),
  })
  desk.server.events = around(2 * HOUR)
  const { unread, counts } = await filled(desk)
  expect(unread).toEqual([{ fromUs: SPAN.fromUs, toUs: reach * 1000, why: 'refused' }])
  expect(counts.gaps).toBe(1)
  const wanted = within(desk.server.events).filter(({ at }) => at >= reach)
  expect(await desk.ids()).toHaveLength(wanted.length)
  const found = await walked(desk)
  expect(found.unread).toEqual(unread)
  expect(sums(found)).toMatchObject({ fetched: wanted.length, known: wanted.length })
})

test('answers that break off are counted once, however often they are asked for', async () => {
  let asked = 0
  const desk = await openHistoryDesk({
    source: { start: { kind: 'span', ms: 2 * DAY } },
    fault: () => (++asked % 2 === 1 ? { cutBytes: 5_000_000 } : undefined),
  })
  desk.server.events = around(HOUR / 2, (at) => historyEvent(at, { fields: { pad: 'x'.repeat(150_000) } }))
  const wanted = within(desk.server.events).length
  expect(sums(await walked(desk))).toMatchObject({ fetched: wanted, unknown: wanted })
  const { counts } = await filled(desk)
  expect(counts.new).toBe(wanted)
  expect(await desk.ids()).toHaveLength(wanted)
})

test('an element that an answer shows twice is fetched once', async () => {
  const desk = await openHistoryDesk({ source: { start: { kind: 'span', ms: 2 * DAY } } })
  const events = around(2 * HOUR)
  desk.server.events = events.flatMap((event) => [event, event])
  await filled(desk)
  const wanted = within(events).length
  expect(await desk.ids()).toHaveLength(wanted)
  expect(sums(await walked(desk))).toMatchObject({ fetched: wanted, known: wanted })
})

test('days that were read as one version are not read as the other, by whomever they were read', async () => {
  const desk = await openHistoryDesk({ source: { version: 'v1', start: { kind: 'span', ms: 2 * DAY } } })
  desk.server.events = [...around(2 * HOUR), historyEvent(START - HOUR)]
  await desk.once()
  const past = pastOf(desk, { version: 'v1' })
  await filled(desk, past)
  const kept = (await desk.ids()).length
  // A backfill's days, and live reading's.
  for (const span of [SPAN, { fromUs: TODAY * 1000, toUs: START * 1000 }]) {
    const other = pastOf(desk, { version: 'v2' })
    await other.backfill({}, span)
    await runUntil(desk, other, ([one]) => one?.error !== undefined)
    const { error } = other.list()[0] ?? expect.fail()
    expect(error?.code).toBe('misconfigured')
    expect(error?.message).toMatch(/days from 2026-\d\d-\d\d to 2026-\d\d-\d\d were read as v1/)
    await expect(compareAll(desk, comparingOn(desk, { version: 'v2' }), span)).rejects.toThrow(
      'were read as v1',
    )
    await other.cancel('backfill', {})
  }
  expect(await desk.ids()).toHaveLength(kept)
  // Days between that nobody read are free.
  const free = pastOf(desk, { version: 'v2' })
  await free.backfill({}, { fromUs: TO * 1000, toUs: (TO + DAY) * 1000 })
  await runUntil(desk, free, isDone)
  expect(await desk.ids()).toHaveLength(kept + 12)
})

test('days of which a backfill kept nothing are free for the other version: before what it kept, and between two', async () => {
  const desk = await openHistoryDesk({ source: { version: 'v1', start: { kind: 'span', ms: 2 * DAY } } })
  await desk.once()
  const middle = FROM + 5 * DAY
  const event = historyEvent(middle + HOUR)
  desk.server.events = [event, historyEvent(TO + 5 * DAY + HOUR)]
  const ran = async (version: 'v1' | 'v2', from: number, to: number) => {
    const past = pastOf(desk, { version })
    await past.backfill({}, { fromUs: from * 1000, toUs: to * 1000 })
    await runUntil(desk, past, (told) => isDone(told) || told[0]?.error !== undefined)
    const { error } = past.list()[0] ?? expect.fail()
    if (error) await past.cancel('backfill', {})
    return error?.message
  }
  expect(await ran('v1', FROM, TO)).toBeUndefined()
  expect(await ran('v1', TO + 4 * DAY, TO + 6 * DAY)).toBeUndefined()
  const kept = await desk.ids()
  expect(kept).toHaveLength(2)
  const late = [FROM + HOUR, TO + 2 * DAY].map((at) => historyEvent(at))
  desk.server.events = [...desk.server.events, ...late]
  expect(await ran('v2', FROM, middle)).toBeUndefined()
  expect(await ran('v2', TO, TO + 4 * DAY)).toBeUndefined()
  expect((await desk.ids()).toSorted()).toEqual([...kept, ...late.map(idOf)].toSorted())
  const refused = await ran('v2', FROM, TO)
  const day = new Date(middle).toISOString().slice(0, 10)
  expect(refused).toContain(`days from ${day} to ${day} were read as v1`)
  expect(refused).toContain('or leave these days out')
  expect(refused).not.toContain('--cancel')
  expect(await ran('v1', FROM, middle)).toContain('were read as v2')
})

test.each([
  ['one stretch', JSON.stringify({ v1: [FROM, TO], v2: null })],
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
])('what is noted of the versions of the past is held against a backfill: %s', async (_, note) => {
  const desk = await openHistoryDesk()
  await desk.journal.putNote('versions:acme:history.usage', note)
  const past = pastOf(desk)
  await past.backfill({}, { fromUs: (TO - DAY) * 1000, toUs: TO * 1000 })
  await runUntil(desk, past, ([one]) => one?.error !== undefined)
  expect(past.list()[0]?.error?.message).toContain('were read as v1')
})

test('what one answer shows twice is sent once by a replay', async () => {
  const desk = await openHistoryDesk({ source: { start: { kind: 'span', ms: 2 * DAY } } })
  const events = around(2 * HOUR)
  desk.server.events = events.flatMap((event) => [event, event])
  const replays = replaysOf(desk)
  await sentAgain(desk, replays)
  const wanted = within(events).map(idOf)
  expect((await desk.ids()).toSorted()).toEqual(wanted.toSorted())
  expect(replays.list()[0]?.counts).toMatchObject({ read: wanted.length, sent: wanted.length })
})

test('rows alike to the byte are sent by a replay each', async () => {
  const v1 = { version: 'v1' } as const
  const desk = await openHistoryDesk({ source: { ...v1, start: { kind: 'span', ms: 2 * DAY } } })
  const row = historyEvent(FROM + HOUR, { timeless: true })
  desk.server.events = [row, row]
  const replays = replaysOf(desk, v1)
  await sentAgain(desk, replays)
  expect(new Set(await desk.ids()).size).toBe(2)
})

/** Of 3 MB each, so that an answer that breaks off behind the first has one group. */
const largeEvent = (at: number) => historyEvent(at, { fields: { pad: 'x'.repeat(3_000_000) } })

test('the only group of an answer that breaks off does not come again with the next', async () => {
  let asked = 0
  const desk = await openHistoryDesk({
    source: { start: { kind: 'span', ms: 2 * DAY } },
    fault: () => (++asked === 1 ? { cutBytes: 5_000_000 } : undefined),
  })
  desk.server.events = [1, 2].map((hour) => largeEvent(FROM + hour * HOUR))
  const replays = replaysOf(desk)
  await sentAgain(desk, replays)
  expect(asked).toBeGreaterThan(1)
  expect(await desk.ids()).toEqual(desk.server.events.map(idOf))
})

test('a span whose answer broke off has nothing remembered of the pages of the next one, once they are whole', async () => {
  let asked = 0
  const desk = await openHistoryDesk({
    source: { start: { kind: 'span', ms: 2 * DAY } },
    fault: () => (++asked === 1 ? { cutBytes: 5_000_000 } : undefined),
  })
  desk.server.events = [largeEvent(FROM + HOUR), largeEvent(FROM + 2 * HOUR), historyEvent(FROM + 5 * DAY)]
  const remembered: number[] = []
  const journal = withMethods(desk.journal, {
    resend: async (again) => {
      const [order, page] = again.notes.put
      if (page) remembered.push((JSON.parse(order?.value ?? '') as { span: number }).span)
      await desk.journal.resend(again)
    },
  })
  const day = (days: number) => ({
    fromUs: (FROM + days * DAY) * 1000,
    toUs: (FROM + (days + 1) * DAY) * 1000,
  })
  const replays = replaysOf(desk, {}, journal)
  await replay(replays, { ...HISTORY, spans: [day(0), day(5)] })
  await runUntil(desk, replays, isDone)
  expect(replays.list()).toMatchObject([{ counts: { sent: 3 } }])
  expect(new Set(remembered)).toEqual(new Set([0]))
})

test('live reading goes on at its interval while a backfill takes what it leaves', async () => {
  const desk = await openHistoryDesk({ limit: 5, source: { start: { kind: 'span', ms: DAY } } })
  await desk.once()
  desk.asked()
  desk.server.events = around(HOUR / 4, (at) => historyEvent(at, { fields: { pad: 'x'.repeat(12_000) } }))
  const past = pastOf(desk)
  await filled(desk, past, true)
  const asked = desk.asked()
  const live = asked.filter(({ from }) => from > TODAY - DAY)
  const minutes = (desk.clock.now() - START) / MINUTE
  expect(minutes).toBeGreaterThan(2)
  expect(live.length).toBeGreaterThanOrEqual(Math.floor(minutes / 15))
  for (let from = START; from < desk.clock.now(); from += MINUTE)
    expect(asked.filter(({ at }) => at >= from && at < from + MINUTE).length).toBeLessThanOrEqual(5)
})

test('rows without times that come late in a replay do not send the days before them again', async () => {
  const v1 = { version: 'v1' } as const
  const desk = await openHistoryDesk({ source: { ...v1, start: { kind: 'span', ms: 2 * DAY } } })
  desk.server.events = [...around(HOUR), historyEvent(TO - 3 * HOUR, { timeless: true })]
  const replays = replaysOf(desk, v1)
  await sentAgain(desk, replays)
  const rows = within(desk.server.events).length
  expect(await desk.ids()).toHaveLength(rows)
  expect(replays.list()[0]?.counts).toMatchObject({ read: rows, sent: rows, gaps: 0 })
  expect(await desk.journal.note('versions:acme:history.usage')).toBeUndefined()
})

test('parts of a day that failed as a whole do not come again with the day, when a row without a time asks for it', async () => {
  const v1 = { version: 'v1' } as const
  let inDays = false
  const desk = await openHistoryDesk({
    source: { ...v1, start: { kind: 'span', ms: 2 * DAY } },
    fault: ({ from, to }) => {
      inDays ||= from >= TO - 2 * DAY && from % DAY === 0 && to % DAY === 0
      return !inDays && to > TO - 2 * DAY && to - from > 7 * HOUR ? { status: 500 } : undefined
    },
  })
  desk.server.events = [...around(HOUR), historyEvent(TO - 3 * HOUR, { timeless: true })]
  const replays = replaysOf(desk, v1)
  await sentAgain(desk, replays)
  const rows = within(desk.server.events).length
  expect(replays.list()[0]?.counts).toMatchObject({ read: rows, sent: rows })
  expect(await desk.ids()).toHaveLength(rows)
})

test('a replay counts what has changed since it was read as not known: other sinks have it as it was', async () => {
  const desk = await openHistoryDesk({ source: { start: { kind: 'span', ms: 40 * DAY }, lookbackMs: 0 } })
  desk.server.events = around(6 * HOUR)
  await desk.once()
  const [one, ...rest] = within(desk.server.events)
  const first = one ?? expect.fail()
  const changed = historyEvent(first.at, { id: idOf(first), fields: { feedback: 'helpful' } })
  desk.server.events = [changed, ...rest]
  const replays = replaysOf(desk)
  await sentAgain(desk, replays)
  expect(replays.list()[0]?.counts).toMatchObject({ sent: 40, unknown: 1 })
})

test.each([
  ['in one go', Infinity],
  ['over a restart in each turn', 1],
  ['over a restart in every second turn', 2],
])(
  'a replay of the history from the API sends each event once, and what it could not read is a gap: %s',
  async (_, turns) => {
    let asked = 0
    const desk = await openHistoryDesk({
      startInclusive: true,
      endInclusive: true,
      source: { start: { kind: 'span', ms: 2 * DAY } },
      fault: (request) => {
        if (holdsBad(request)) return { status: 500 }
        return ++asked % 3 === 0 ? { cutBytes: 5_000_000 } : undefined
      },
    })
    desk.server.events = around(HOUR / 2, (at) => historyEvent(at, { fields: { pad: 'x'.repeat(120_000) } }))
    let replays = replaysOf(desk)
    await replay(replays, HISTORY)
    let stop = new AbortController()
    let running = replays.run(stop.signal)
    for (let turn = 1; replays.list()[0]?.endedAt === undefined; turn++) {
      if (turn > 20_000) throw new Error('no end')
      await settled()
      desk.clock.advance(desk.clock.now() + SECOND)
      if (turn % turns !== 0) continue
      stop.abort()
      await driven(desk.clock, running)
      stop = new AbortController()
      replays = replaysOf(desk)
      running = replays.run(stop.signal)
      await settled()
    }
    stop.abort()
    await driven(desk.clock, running)
    const wanted = within(desk.server.events).map(idOf)
    const sent = await desk.ids()
    expect(new Set(sent)).toEqual(new Set(wanted))
    expect(sent).toHaveLength(wanted.length)
    const { counts, error } = replays.list()[0] ?? expect.fail()
    expect(counts).toMatchObject({ sent: wanted.length, unknown: wanted.length })
    expect(counts.gaps).toBeGreaterThan(0)
    expect(error).toBeUndefined()
  },
)
