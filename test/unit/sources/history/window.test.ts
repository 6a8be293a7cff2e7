// Which window comes next, by the cursor alone, and what its answer may say of the cursor before all of it is kept.
import { Readable } from 'node:stream'
import { expect, test } from 'vitest'
import { ConnectorError } from '../../../../src/core/errors.ts'
import type { PageChunk } from '../../../../src/contracts/source.ts'
import type { BodyLimits } from '../../../../src/sources/http/deadline.ts'
import { freshHistoryCursor, walkOver } from '../../../../src/sources/history/cursor.ts'
import type { HistoryCursor } from '../../../../src/sources/history/cursor.ts'
import type { HistoryOptions, Task } from '../../../../src/sources/history/step.ts'
import { freshWidth } from '../../../../src/sources/history/width.ts'
import {
  headUsOf,
  isAboutWindow,
  nextWindow,
  readWindow,
  windowOver,
} from '../../../../src/sources/history/window.ts'
import { historyEvent } from '../../../fakes/history-server.ts'
import { DAY, HOUR, MINUTE, SECOND, START } from '../../app/desk.ts'
import { eventsFrom, openHistoryDesk } from './desk.ts'

const TODAY = Math.floor(START / DAY) * DAY
const passed = (from: number, to: number) => ({ from, to, sinceAt: START, tries: 0, dueAt: START })

/** The window that follows `at` of a walk to `to`, where windows may be `ms` wide. */
function windowAt(
  at: number,
  to: number,
  ms: number,
  cursor: Partial<HistoryCursor> = {},
  kind: Task['kind'] = 'live',
) {
  const walk = { ...walkOver(TODAY - 9 * DAY, to, START), at }
  const task: Task = { kind, priority: 'live', walk, width: { ...freshWidth(), ms } }
  return nextWindow({ ...freshHistoryCursor(START, START - 10 * DAY, 0), ...cursor }, task)
}

test('what was passed hides nothing before it, and what follows it is asked for', () => {
  const troubles = [passed(TODAY + 5 * HOUR, TODAY + 6 * HOUR)]
  expect(windowAt(TODAY, START, DAY, { troubles })).toMatchObject({ from: TODAY, to: TODAY + 5 * HOUR })
  expect(windowAt(TODAY + 5 * HOUR, START, DAY, { troubles })).toMatchObject({
    from: TODAY + 6 * HOUR,
    to: START,
  })
})

test.each([
  ['to its end', START],
  ['beyond its end', START + HOUR],
])('of a walk whose rest was passed, %s, there is nothing left to ask for', (_, to) => {
  expect(windowAt(TODAY + HOUR, START, DAY, { troubles: [passed(TODAY + HOUR, to)] })).toBeUndefined()
})

test.each([
  ['live', 0, DAY, DAY],
  ['live', 0, 3 * DAY, DAY],
  ['live', 0, 6 * HOUR, 6 * HOUR],
  ['live', 20 * HOUR, 6 * HOUR, 4 * HOUR],
  ['live', 20 * HOUR, DAY, 4 * HOUR],
  ['todo', 0, 3.5 * DAY, 3 * DAY],
  ['todo', 0, DAY, DAY],
  ['todo', 0, DAY - MINUTE, DAY - MINUTE],
  ['todo', 20 * HOUR, 3 * DAY, 4 * HOUR],
] as const)(
  'a window crosses no midnight but of whole days of the past: %s, %i ms behind one, %i ms wide at most',
  (kind, behind, wide, ms) => {
    const at = TODAY - 8 * DAY + behind
    expect(windowAt(at, TODAY, wide, {}, kind)).toMatchObject({ from: at, to: at + ms })
  },
)

test('rows without a time make UTC days of the windows of v1: the open one up to now, and none of those of v2', () => {
  const timeless = { timeless: true, boundaryAt: TODAY + DAY }
  const at = TODAY + 3 * HOUR
  expect(windowAt(at, START, HOUR, timeless)).toMatchObject({ from: TODAY, to: START, isDay: true })
  const before = { from: TODAY - DAY, to: TODAY, version: 'v1', isDay: true }
  expect(windowAt(at - DAY, START, HOUR, timeless)).toMatchObject(before)
  const v2 = { from: at, to: at + HOUR, version: 'v2', isDay: false }
  expect(windowAt(at, START, HOUR, { timeless: true })).toMatchObject(v2)
})

test('a history of rows without a time that refuses an end still to come is read all the same', async () => {
  const desk = await openHistoryDesk({
    source: { version: 'v1', start: { kind: 'latest' }, rereadMs: 0 },
    endsInPast: true,
  })
  desk.server.events = eventsFrom((at) => historyEvent(at, { timeless: true }), TODAY + HOUR, 6, HOUR)
  await desk.live(START + HOUR)
  expect(await desk.ids()).toHaveLength(6)
})

test('what is malformed alone binds no day to the version that it was read as', async () => {
  const start = { kind: 'latest' } as const
  const desk = await openHistoryDesk({ source: { version: 'v1', start } })
  desk.server.events = [{ ...historyEvent(START), v1: '[1]' }]
  await desk.live(START + HOUR)
  expect(desk.reporter.sum('quarantined')).toBe(1)
  desk.open({ version: 'v2', start })
  await desk.live(START + 2 * HOUR)
  expect(await desk.raws()).toEqual(desk.server.events.map(({ v2 }) => v2))
})

test('what is malformed alone is an answer that showed something: it is not asked for once more', async () => {
  const desk = await openHistoryDesk({ source: { start: { kind: 'latest' }, rereadMs: 0 } })
  desk.server.events = [{ ...historyEvent(START), v2: '{"utc_time":"2026-11-17 10:00:00"}' }]
  await desk.step()
  expect(desk.asked()).toHaveLength(1)
  expect(desk.state().unitSure).toBe(true)
})

test('an answer without content is one that shows nothing', async () => {
  const desk = await openHistoryDesk({ source: { rereadMs: 0 } })
  desk.through(() => Promise.resolve({ status: 204, headers: {}, body: Readable.from([]) }))
  await desk.once()
  expect(desk.reporter.codes.every((code) => code === '204')).toBe(true)
  expect([desk.reporter.caughtUps, desk.reporter.gaps]).toEqual([1, 0])
})

test('a window that can be halved is given up for its size or its time; one that cannot may be as large and as slow as it is', async () => {
  const limitsOver = async (ms: number) => {
    let limits: BodyLimits | undefined
    const send = async function* (request: { limits: BodyLimits }) {
      limits = request.limits
    }
    const options = { client: { send }, clock: { elapsed: () => 0 } } as unknown as HistoryOptions
    const cursor = freshHistoryCursor(START, START, 0)
    const window = windowOver(cursor, TODAY, TODAY + ms)
    const signal = new AbortController().signal
    await readWindow({ options, cursor, signal }, window, 'live', undefined).next()
    return limits
  }
  const [minute, more] = [await limitsOver(MINUTE), await limitsOver(MINUTE + SECOND)]
  expect([more?.capBytes, more?.longestMs]).toEqual([2 * 2 ** 30, 10 * MINUTE])
  expect(minute).toEqual({ ...more, capBytes: 64 * 2 ** 30, longestMs: undefined })
  expect(minute?.minBytesPerSecond).toBeGreaterThan(0)
})

test('a cursor that moves before all of an answer is kept does not say that the read went well', async () => {
  const text = 'x'.repeat(1_500_000)
  const start = { kind: 'time', atUs: TODAY * 1000 } as const
  const desk = await openHistoryDesk({ source: { start, rereadMs: 0 } })
  await desk.step()
  desk.server.events = eventsFrom((at) => historyEvent(at, { fields: { text } }), START - HOUR, 6, SECOND)
  const { stream } = desk.source
  const read = async () => {
    const parts: PageChunk[] = []
    const reading = desk.source.read(await desk.journal.cursor(stream), new AbortController().signal)
    for (let next = await reading.next(); !next.done;) {
      parts.push(next.value)
      next = await reading.next(await desk.journal.append({ stream, ...next.value }))
    }
    expect(parts.length).toBeGreaterThan(2)
    return parts.filter(({ cursor }) => cursor !== undefined).map(({ underWay }) => underWay)
  }
  expect(await read()).toEqual([true, undefined])
  expect(await desk.ids()).toHaveLength(6)
  // As which version the day is read was said before.
  desk.clock.advance(START + HOUR)
  expect(await read()).toEqual([undefined])
})

test.each([
  ['too_large', true, true],
  ['timeout', true, true],
  ['server_error', true, true],
  ['bad_reply', true, false],
  ['unreachable', true, false],
  ['rate_limited', false, false],
  ['journal_full', false, false],
] as const)(
  'that another window may be read is believed of %s in mid-answer: %s, before the answer: %s',
  (code, answered, before) => {
    const error = new ConnectorError(code, 'no')
    expect([isAboutWindow(error, true), isAboutWindow(error, false)]).toEqual([answered, before])
  },
)

test('a mistake of ours says nothing about a window', () => {
  expect(isAboutWindow(new TypeError('no'), true)).toBe(false)
})

test.each([
  ['over a MiB', 1_200_000, 0],
  ['that took over 10 s', 10, 10_500],
])(
  'a day of the past %s is followed by a day alone, what is light and quick by more',
  async (_, chars, delayMs) => {
    const desk = await openHistoryDesk({
      source: { start: { kind: 'span', ms: 14 * DAY }, rereadMs: 0 },
      fault: ({ from }) => (from < TODAY - 7 * DAY - SECOND ? { delayMs } : {}),
    })
    const text = 'x'.repeat(chars)
    desk.server.events = [
      ...eventsFrom((at) => historyEvent(at, { fields: { text } }), TODAY - 14 * DAY + HOUR, 7, DAY),
      ...eventsFrom(historyEvent, TODAY - 7 * DAY + HOUR, 8, DAY),
    ]
    await desk.once()
    const days = desk
      .asked()
      .filter(({ to }) => to <= TODAY + SECOND)
      .map(({ from, to }) => (to - from - 2 * SECOND) / DAY)
    expect(days).toEqual([1, 1, 1, 1, 1, 1, 1, 1, 2, 4])
  },
)

test.each(['v1', 'v2'] as const)('the limits of an entry hold for the history too (%s)', async (version) => {
  const limits = { maxDepth: 3, maxEntryBytes: 500 }
  const desk = await openHistoryDesk({
    source: { version, start: { kind: 'latest' }, rereadMs: 0, ...limits },
  })
  desk.server.events = [
    historyEvent(START),
    historyEvent(START, { fields: { deep: [[[1]]] } }),
    historyEvent(START, { fields: { large: 'x'.repeat(500) } }),
  ]
  await desk.step()
  expect(await desk.raws()).toEqual([desk.server.events[0]?.[version]])
  expect(desk.reporter.sum('quarantined')).toBe(2)
})

test('what is malformed is kept beside events of before the start, which are not', async () => {
  const desk = await openHistoryDesk({ source: { start: { kind: 'latest' }, rereadMs: 0 } })
  desk.server.events = [historyEvent(START - HOUR), { ...historyEvent(START), v2: '[1]' }]
  await desk.live(START + MINUTE)
  expect([(await desk.ids()).length, desk.reporter.sum('quarantined')]).toEqual([0, 1])
})

test('the newest of a window leads, in whatever order it comes', async () => {
  const desk = await openHistoryDesk()
  desk.server.events = eventsFrom(historyEvent, START - 3 * HOUR, 3, HOUR).toReversed()
  await desk.step()
  expect(desk.reporter.headUs).toBe((START - HOUR) * 1000)
})

test('late is what is new before the second up to which live reading had been, and nothing of the past', () => {
  const read = { ...freshHistoryCursor(START, START, 0), polledTo: START + 1_999 }
  expect([headUsOf('live', read), headUsOf('lookback', read)]).toEqual(Array(2).fill((START + SECOND) * 1000))
  expect([headUsOf('todo', read), headUsOf('trouble', read)]).toEqual([undefined, undefined])
  expect(headUsOf('live', freshHistoryCursor(START, START, 0))).toBeUndefined()
})

test.each([
  ['v2', 404, 'application/json', true],
  ['v2', 404, 'text/html', true],
  ['v2', 403, 'application/json', true],
  ['v2', 401, 'application/json', false],
  ['v1', 404, 'application/json', false],
  ['v1', 403, 'application/json', false],
] as const)(
  '%s that answers %i in %s names the way back to version 1: %s',
  async (version, status, type, told) => {
    const desk = await openHistoryDesk({ source: { version } })
    desk.through(() =>
      Promise.resolve({ status, headers: { 'content-type': type }, body: Readable.from([]) }),
    )
    expect((await desk.try())?.message.includes('set history.version: v1')).toBe(told)
  },
)
