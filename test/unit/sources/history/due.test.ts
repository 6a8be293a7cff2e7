// What of the history comes next, by the cursor alone: clocks that were set back, days that take long, two versions, windows that failed.
import { expect, test } from 'vitest'
import { freshHistoryCursor, stepTo, rangeReadOver } from '../../../../src/sources/history/cursor.ts'
import type { HistoryCursor } from '../../../../src/sources/history/cursor.ts'
import {
  beginLive,
  endRangeRead,
  nextDue,
  taskOf,
  troubleDueAt,
} from '../../../../src/sources/history/due.ts'
import type { HistoryOptions, Task } from '../../../../src/sources/history/step.ts'
import { adoptBoundary } from '../../../../src/sources/history/version.ts'
import { SourceNotes } from '../../../fakes/reporters.ts'
import { DAY, HOUR, MINUTE, START } from '../../app/audit-harness.ts'
import { openHistoryHarness } from './harness.ts'

const TODAY = Math.floor(START / DAY) * DAY

/** All is read, each trailing day just now; the next poll is far. */
function openCursor(more: Partial<HistoryCursor> = {}) {
  const read = [3, 2, 1].map((day) => [String(TODAY - day * DAY), [START, 0]] as const)
  const cursor: HistoryCursor = {
    ...freshHistoryCursor(START, START - 30 * DAY, 0),
    ...{ todo: [], polledTo: START, dueAt: START + 40 * HOUR, rereads: Object.fromEntries(read) },
    ...more,
  }
  const options = {
    ...{
      clock: { now: () => START },
      client: { freeAt: () => 0, announce: () => 0 },
      reporter: new SourceNotes(),
    },
    ...{ intervalMs: 40 * HOUR, lookbackMs: 2 * DAY, once: false, version: 'v2', v1Until: undefined },
  } as unknown as HistoryOptions
  return { cursor, options }
}

test('an open day in the future, by a clock that was set back since, is today', () => {
  const { cursor } = openCursor({ openDay: TODAY + 5 * DAY })
  expect(beginLive(cursor, START)).toMatchObject({ from: TODAY, to: START })
  expect([cursor.openDay, cursor.todo]).toEqual([TODAY, []])
})

test('a day that was read in the future, by a clock that was set back since, is read again at once', () => {
  const { cursor, options } = openCursor()
  expect(nextDue(options, cursor)[1]).toBeGreaterThan(START)
  cursor.rereads[String(TODAY - DAY)] = [START + 5 * DAY, 0]
  expect(nextDue(options, cursor)).toEqual(['lookback', START])
  expect(taskOf(options, cursor, 'lookback')?.rangeRead.from).toBe(TODAY - DAY)
})

test.each([
  [30 * MINUTE, 5 * HOUR],
  [10 * HOUR, DAY],
])('a day that takes %i ms to read is read again less often, once a day at least', (tookMs, waitMs) => {
  const { cursor, options } = openCursor()
  for (const day of Object.keys(cursor.rereads)) cursor.rereads[day] = [START, tookMs]
  const [kind, dueAt] = nextDue(options, cursor)
  expect([kind, dueAt - START]).toEqual(['lookback', Math.max(waitMs, (START - TODAY) / 2)])
})

test.each([
  ['a moment', 10_000, 6 * HOUR - 10_000],
  ['hours, while the journal was full or the API away', 12 * HOUR, MINUTE],
])('the open day is due an interval after its last read began: one that took %s', (_, tookMs, waitMs) => {
  const { cursor, options } = openCursor()
  const rangeRead = rangeReadOver(TODAY, START - tookMs, START - tookMs)
  cursor.live = rangeRead
  endRangeRead({ ...options, intervalMs: 6 * HOUR }, cursor, {
    kind: 'live',
    priority: 'live',
    rangeRead,
    width: cursor.widths.live,
  })
  expect(cursor.dueAt - START).toBe(waitMs)
})

test('an unreadable window across the change of version is read up to it', () => {
  const trouble = { sinceAt: START, tries: 0, dueAt: START }
  const boundaryAt = TODAY - 5 * DAY
  const across = { from: boundaryAt - 6 * HOUR, to: boundaryAt + 6 * HOUR, ...trouble }
  const { cursor, options } = openCursor({ boundaryAt, troubles: [across] })
  expect(taskOf(options, cursor, 'trouble')?.rangeRead).toMatchObject({ from: across.from, to: boundaryAt })
  cursor.boundaryAt = 0
  expect(taskOf(options, cursor, 'trouble')?.rangeRead.to).toBe(across.to)
})

test('an unreadable window waits six hours at most, whatever a clock that was ahead has written', () => {
  const trouble = { from: TODAY, to: TODAY + MINUTE, sinceAt: START, tries: 3 }
  const { cursor } = openCursor({ troubles: [{ ...trouble, dueAt: START + 10 * DAY }] })
  expect(troubleDueAt(cursor, START)).toBeLessThanOrEqual(START + 6 * HOUR)
})

test('a day of which only the end was read does not count as read again', () => {
  const { cursor, options } = openCursor({ rereads: {} })
  const rangeRead = rangeReadOver(TODAY - DAY - HOUR, TODAY, START)
  const task: Task = { kind: 'todo', priority: 'job', rangeRead, width: cursor.widths.backfill }
  endRangeRead(options, cursor, task)
  expect(Object.keys(cursor.rereads)).toEqual([String(TODAY - DAY)])
})

test('another version restarts its lookback', () => {
  const { cursor, options } = openCursor({ lookback: rangeReadOver(TODAY - DAY, TODAY, START) })
  adoptBoundary(cursor, { ...options, version: 'v1' })
  expect(cursor.lookback).toBeNull()
})

test('a step forward forgets the failures of the window before', () => {
  const rangeRead = { ...rangeReadOver(TODAY, START, START), failures: 2, proofs: 3, elsewhere: 4 }
  stepTo(rangeRead, TODAY + HOUR)
  expect(rangeRead).toMatchObject({ at: TODAY + HOUR, failures: 0, proofs: 0, elsewhere: 0 })
})

test('a server’s clock more than 30 days behind is not believed, one a day behind is', async () => {
  for (const [days, behindMs] of [
    [40, 0],
    [1, DAY],
  ] as const) {
    const harness = await openHistoryHarness()
    harness.server.options.dateAt = () => harness.clock.now() - days * DAY
    await harness.try()
    expect(Math.abs(harness.state().serverBehindMs - behindMs)).toBeLessThan(5_000)
  }
})

test('an empty answer is checked in the other unit once an hour', async () => {
  const harness = await openHistoryHarness({ source: { start: { kind: 'latest' }, lookbackMs: 0 } })
  await harness.step()
  expect(harness.asked()).toHaveLength(2)
  expect(harness.state().unitDoubtAt).toBe(harness.clock.now() + HOUR)
  await harness.live(START + 50 * MINUTE)
  expect(harness.asked()).toHaveLength(3)
})

test('a window that is refused in both units proves neither', async () => {
  const harness = await openHistoryHarness({
    source: { start: { kind: 'span', ms: 20 * DAY }, lookbackMs: 0 },
    fault: ({ from }) => (from < START - 5 * DAY ? { status: 400 } : undefined),
  })
  for (let steps = 0; steps < 40 && harness.reporter.gaps === 0; steps++) {
    await harness.try()
    harness.clock.advance(harness.clock.now() + 1_000)
  }
  expect(harness.reporter.gaps).toBe(1)
  expect([harness.state().unit, harness.state().unitSure]).toEqual(['s', false])
})
