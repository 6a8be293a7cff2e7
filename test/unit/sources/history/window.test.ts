// Which window comes next, by the cursor alone, and what its answer may change in the cursor before all of it is kept.
import { Readable } from 'node:stream'
import { expect, test } from 'vitest'
import { ConnectorError } from '../../../../src/core/errors.ts'
import type { PageChunk } from '../../../../src/contracts/source.ts'
import type { BodyLimits } from '../../../../src/sources/http/deadline.ts'
import { freshHistoryCursor, rangeReadOver } from '../../../../src/sources/history/cursor.ts'
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
import { DAY, HOUR, MINUTE, SECOND, START } from '../../app/audit-harness.ts'
import { eventsFrom, openHistoryHarness } from './harness.ts'

const TODAY = Math.floor(START / DAY) * DAY
const passed = (from: number, to: number) => ({ from, to, sinceAt: START, tries: 0, dueAt: START })

/** The window that follows `at` of a pass to `to`, if windows may be `ms` wide. */
function windowAt(
  at: number,
  to: number,
  ms: number,
  cursor: Partial<HistoryCursor> = {},
  kind: Task['kind'] = 'live',
) {
  const rangeRead = { ...rangeReadOver(TODAY - 9 * DAY, to, START), at }
  const task: Task = { kind, priority: 'live', rangeRead, width: { ...freshWidth(), ms } }
  return nextWindow({ ...freshHistoryCursor(START, START - 10 * DAY, 0), ...cursor }, task)
}

test('a skipped window hides nothing before it, and the window behind it is requested', () => {
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
])('a pass whose rest was skipped, %s, has nothing left to request', (_, to) => {
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
  'a window crosses no midnight except with whole days of the past: %s, %i ms behind one, %i ms wide at most',
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

test('a history of rows without a time that refuses a future end is still read', async () => {
  const harness = await openHistoryHarness({
    source: { version: 'v1', start: { kind: 'latest' }, lookbackMs: 0 },
    endsInPast: true,
  })
  harness.server.events = eventsFrom((at) => historyEvent(at, { timeless: true }), TODAY + HOUR, 6, HOUR)
  await harness.live(START + HOUR)
  expect(await harness.ids()).toHaveLength(6)
})

test('malformed elements alone bind no day to the version that it was read as', async () => {
  const start = { kind: 'latest' } as const
  const harness = await openHistoryHarness({ source: { version: 'v1', start } })
  harness.server.events = [{ ...historyEvent(START), v1: '[1]' }]
  await harness.live(START + HOUR)
  expect(harness.reporter.sum('quarantined')).toBe(1)
  harness.open({ version: 'v2', start })
  await harness.live(START + 2 * HOUR)
  expect(await harness.raws()).toEqual(harness.server.events.map(({ v2 }) => v2))
})

test('malformed elements alone are a non-empty answer: it is not requested once more', async () => {
  const harness = await openHistoryHarness({ source: { start: { kind: 'latest' }, lookbackMs: 0 } })
  harness.server.events = [{ ...historyEvent(START), v2: '{"utc_time":"2026-11-17 10:00:00"}' }]
  await harness.step()
  expect(harness.asked()).toHaveLength(1)
  expect(harness.state().unitSure).toBe(true)
})

test('an answer without content is an empty one', async () => {
  const harness = await openHistoryHarness({ source: { lookbackMs: 0 } })
  harness.through(() => Promise.resolve({ status: 204, headers: {}, body: Readable.from([]) }))
  await harness.once()
  expect(harness.reporter.codes.every((code) => code === '204')).toBe(true)
  expect([harness.reporter.caughtUps, harness.reporter.gaps]).toEqual([1, 0])
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

test('a cursor that moves before all of an answer is kept does not record a success', async () => {
  const text = 'x'.repeat(1_500_000)
  const start = { kind: 'time', atUs: TODAY * 1000 } as const
  const harness = await openHistoryHarness({ source: { start, lookbackMs: 0 } })
  await harness.step()
  harness.server.events = eventsFrom((at) => historyEvent(at, { fields: { text } }), START - HOUR, 6, SECOND)
  const { stream } = harness.source
  const read = async () => {
    const parts: PageChunk[] = []
    const reading = harness.source.read(await harness.journal.cursor(stream), new AbortController().signal)
    for (let next = await reading.next(); !next.done;) {
      parts.push(next.value)
      next = await reading.next(await harness.journal.append({ stream, ...next.value }))
    }
    expect(parts.length).toBeGreaterThan(2)
    return parts.filter(({ cursor }) => cursor !== undefined).map(({ underWay }) => underWay)
  }
  expect(await read()).toEqual([true, undefined])
  expect(await harness.ids()).toHaveLength(6)
  // As which version the day is read was recorded before.
  harness.clock.advance(START + HOUR)
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

test('a bug of ours says nothing about a window', () => {
  expect(isAboutWindow(new TypeError('no'), true)).toBe(false)
})

test.each([
  ['over a MiB', 1_200_000, 0],
  ['that took over 10 s', 10, 10_500],
])(
  'a day of the past %s is followed by a day alone, a light and quick one by more',
  async (_, chars, delayMs) => {
    const harness = await openHistoryHarness({
      source: { start: { kind: 'span', ms: 14 * DAY }, lookbackMs: 0 },
      fault: ({ from }) => (from < TODAY - 7 * DAY - SECOND ? { delayMs } : {}),
    })
    const text = 'x'.repeat(chars)
    harness.server.events = [
      ...eventsFrom((at) => historyEvent(at, { fields: { text } }), TODAY - 14 * DAY + HOUR, 7, DAY),
      ...eventsFrom(historyEvent, TODAY - 7 * DAY + HOUR, 8, DAY),
    ]
    await harness.once()
    const days = harness
      .asked()
      .filter(({ to }) => to <= TODAY + SECOND)
      .map(({ from, to }) => (to - from - 2 * SECOND) / DAY)
    expect(days).toEqual([1, 1, 1, 1, 1, 1, 1, 1, 2, 4])
  },
)

test.each(['v1', 'v2'] as const)('the limits of an entry apply to the history too (%s)', async (version) => {
  const limits = { maxDepth: 3, maxEntryBytes: 500 }
  const harness = await openHistoryHarness({
    source: { version, start: { kind: 'latest' }, lookbackMs: 0, ...limits },
  })
  harness.server.events = [
    historyEvent(START),
    historyEvent(START, { fields: { deep: [[[1]]] } }),
    historyEvent(START, { fields: { large: 'x'.repeat(500) } }),
  ]
  await harness.step()
  expect(await harness.raws()).toEqual([harness.server.events[0]?.[version]])
  expect(harness.reporter.sum('quarantined')).toBe(2)
})

test('malformed elements are kept beside events from before the start, which are not', async () => {
  const harness = await openHistoryHarness({ source: { start: { kind: 'latest' }, lookbackMs: 0 } })
  harness.server.events = [historyEvent(START - HOUR), { ...historyEvent(START), v2: '[1]' }]
  await harness.live(START + MINUTE)
  expect([(await harness.ids()).length, harness.reporter.sum('quarantined')]).toEqual([0, 1])
})

test('the newest of a window is the head, in any order of the answer', async () => {
  const harness = await openHistoryHarness()
  harness.server.events = eventsFrom(historyEvent, START - 3 * HOUR, 3, HOUR).toReversed()
  await harness.step()
  expect(harness.reporter.headUs).toBe((START - HOUR) * 1000)
})

test('an event is late if it is new and before the second up to which live reading had been, and nothing of the past is', () => {
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
  async (version, status, type, reported) => {
    const harness = await openHistoryHarness({ source: { version } })
    harness.through(() =>
      Promise.resolve({ status, headers: { 'content-type': type }, body: Readable.from([]) }),
    )
    expect((await harness.try())?.message.includes('set history.version: v1')).toBe(reported)
  },
)
