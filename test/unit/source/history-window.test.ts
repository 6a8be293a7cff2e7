// Which window comes next, by the cursor alone, and what its answer may say of the cursor before all of it is kept.
import { expect, test } from 'vitest'
import { ConnectorError } from '../../../src/model/errors.ts'
import type { Part } from '../../../src/model/source.ts'
import { freshCursor, walkOver } from '../../../src/source/history-cursor.ts'
import type { HistoryCursor } from '../../../src/source/history-cursor.ts'
import type { Task } from '../../../src/source/history-step.ts'
import { isAboutWindow, nextWindow } from '../../../src/source/history-window.ts'
import { historyEvent } from '../../fakes/history-server.ts'
import { DAY, HOUR, MINUTE, SECOND, START } from './desk.ts'
import { eventsFrom, openHistoryDesk } from './history-desk.ts'

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
  const task: Task = { kind, lane: 'live', walk, width: { ms, failedMs: null, good: 0 } }
  return nextWindow({ ...freshCursor(START, START, 0), ...cursor }, task)
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
  ['backfill', 0, 3.5 * DAY, 3 * DAY],
  ['backfill', 0, DAY, DAY],
  ['backfill', 0, DAY - MINUTE, DAY - MINUTE],
  ['backfill', 20 * HOUR, 3 * DAY, 4 * HOUR],
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
  await desk.step()
  expect(desk.watch.sum('quarantined')).toBe(1)
  desk.open({ version: 'v2', start })
  await desk.live(START + HOUR)
  expect(await desk.raws()).toEqual(desk.server.events.map(({ v2 }) => v2))
})

test('what is malformed alone is an answer that showed something: it is not asked for once more', async () => {
  const desk = await openHistoryDesk({ source: { start: { kind: 'latest' }, rereadMs: 0 } })
  desk.server.events = [{ ...historyEvent(START), v2: '[1]' }]
  await desk.step()
  expect(desk.asked()).toHaveLength(1)
  expect(desk.state().unitSure).toBe(true)
})

test('a cursor that moves before all of an answer is kept does not say that the read went well', async () => {
  const text = 'x'.repeat(1_500_000)
  const start = { kind: 'time', atUs: TODAY * 1000 } as const
  const desk = await openHistoryDesk({ source: { start, rereadMs: 0 } })
  await desk.step()
  desk.server.events = eventsFrom((at) => historyEvent(at, { fields: { text } }), START - HOUR, 6, SECOND)
  const { origin } = desk.source
  const read = async () => {
    const parts: Part[] = []
    const reading = desk.source.read(await desk.journal.cursor(origin), new AbortController().signal)
    for (let next = await reading.next(); !next.done;) {
      parts.push(next.value)
      next = await reading.next(await desk.journal.append({ origin, ...next.value }))
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
