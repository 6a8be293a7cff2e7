// Which version a day is read as, when that changes, and what the server's clock has passed: to the day, and to the second.
import { describe, expect, test } from 'vitest'
import { warnOfClocks, recordServerClock, passedAt } from '../../../../src/sources/history/unit.ts'
import { freshHistoryCursor, rangeReadOver } from '../../../../src/sources/history/cursor.ts'
import type { HistoryCursor } from '../../../../src/sources/history/cursor.ts'
import type { HistoryOptions } from '../../../../src/sources/history/step.ts'
import {
  adoptBoundary,
  boundaryOf,
  recordVersion,
  versionAt,
} from '../../../../src/sources/history/version.ts'
import { LogLines } from '../../../fakes/sink-deps.ts'
import { DAY, HOUR, MINUTE, SECOND, START } from '../../app/audit-harness.ts'

const TODAY = Math.floor(START / DAY) * DAY
const day = (ago: number) => TODAY - ago * DAY

const cursorOf = (more: Partial<HistoryCursor> = {}): HistoryCursor => ({
  ...freshHistoryCursor(START, day(30), 0),
  ...{ todo: [], boundaryAt: day(10) },
  ...more,
})

const optionsOf = (v1Until: number | undefined, version: 'v1' | 'v2' = 'v2') =>
  ({
    ...{ version, v1Until, clock: { now: () => START } },
    stream: { workspace: 'acme', source: 'history.usage' },
  }) as unknown as HistoryOptions

describe('a boundary', () => {
  test('days before it are v1, days from it on v2; of v1 alone all are before it, of v2 alone none', () => {
    const cursor = cursorOf()
    expect([day(10) - 1, day(10)].map((at) => versionAt(cursor, at))).toEqual(['v1', 'v2'])
    expect(boundaryOf({ version: 'v2', v1Until: day(3) })).toBe(day(3))
    expect(boundaryOf({ version: 'v2', v1Until: undefined })).toBe(0)
    expect(boundaryOf({ version: 'v1', v1Until: day(3) })).toBeGreaterThan(START + 10_000 * DAY)
  })

  test('that does not move changes nothing', () => {
    const live = { ...rangeReadOver(TODAY, START, START), at: START - HOUR }
    const cursor = cursorOf({ live, lookback: rangeReadOver(day(1), TODAY, START), v1To: day(2) })
    const before = structuredClone(cursor)
    adoptBoundary(cursor, optionsOf(day(10)))
    expect(cursor).toEqual(before)
  })

  test.each([
    ['later', day(4), [day(10), day(4)]],
    ['earlier', day(20), [day(20), day(10)]],
    ['earlier than all', 0, [day(30), day(10)]],
    ['later than all', TODAY + 9 * DAY, [day(10), TODAY]],
  ] as const)('that moves %s has the days between read again, as far as they are read', (_, to, span) => {
    const later = rangeReadOver(day(2), TODAY, START)
    const cursor = cursorOf({ todo: [later] })
    adoptBoundary(cursor, optionsOf(to))
    expect(cursor.boundaryAt).toBe(to)
    expect(cursor.todo.map(({ from, to: end, at }) => [from, end, at])).toEqual(
      [
        [...span, span[0]],
        [day(2), TODAY, day(2)],
      ].toSorted((a, b) => (a[0] ?? 0) - (b[0] ?? 0)),
    )
  })

  test('that moves over no day that is read has none read again', () => {
    const ahead = cursorOf({ boundaryAt: TODAY })
    adoptBoundary(ahead, optionsOf(TODAY + DAY))
    const behind = cursorOf({ boundaryAt: day(40) })
    adoptBoundary(behind, optionsOf(day(30)))
    expect([ahead.todo, behind.todo]).toEqual([[], []])
  })

  test('that moves restarts passes under way: either may be behind days that change', () => {
    const live = { ...rangeReadOver(day(1), START, START - HOUR), at: TODAY }
    const cursor = cursorOf({ live, lookback: rangeReadOver(day(1), TODAY, START) })
    adoptBoundary(cursor, optionsOf(TODAY))
    expect(cursor.live).toEqual(rangeReadOver(day(1), START, START))
    expect(cursor.lookback).toBeNull()
    const idle = cursorOf()
    adoptBoundary(idle, optionsOf(TODAY))
    expect(idle.live).toBeNull()
  })

  test('blocks if a day would be delivered as both versions, to the day, and nothing changes', () => {
    const adopt = (more: Partial<HistoryCursor>, v1Until: number) => {
      const cursor = cursorOf(more)
      const before = structuredClone(cursor)
      try {
        adoptBoundary(cursor, optionsOf(v1Until))
      } catch (error) {
        expect(cursor).toEqual(before)
        return (error as Error).message
      }
      return 'taken'
    }
    expect(adopt({ v1To: day(5) }, day(5))).toBe('taken')
    expect(adopt({ v2From: day(5) }, day(5))).toBe('taken')
    expect(adopt({ v1To: day(5) }, day(6))).toMatch(
      /days up to 2026-11-11 were read as v1.* set version: v2 and v1_until: 2026-11-12 \(or a later day\) under/,
    )
    expect(adopt({ v2From: day(5) }, day(4))).toMatch(
      /days from 2026-11-12 on were read as v2.* set version: v2 under history/,
    )
    expect(adopt({ v1To: day(10), v2From: day(8) }, day(4))).toMatch(
      /set version: v2 and v1_until: 2026-11-09 under/,
    )
  })
})

test('records a version by its days, and reports a new one before it is kept', () => {
  const cursor = cursorOf()
  const noted = (from: number, to: number) => [recordVersion(cursor, from, to), cursor.v1To, cursor.v2From]
  expect(noted(day(15), day(14))).toEqual([true, day(14), null])
  expect(noted(day(15), day(14))).toEqual([false, day(14), null])
  expect(noted(day(14), day(14) + 1)).toEqual([true, day(13), null])
  expect(noted(day(20), day(19))).toEqual([false, day(13), null])
  expect(noted(day(10) - HOUR, day(10) + HOUR)).toEqual([true, day(10), null])
  expect(noted(day(5) + HOUR, day(5) + 2 * HOUR)).toEqual([true, day(10), day(5)])
  expect(noted(day(4), day(3))).toEqual([false, day(10), day(5)])
  expect(noted(day(10), day(9))).toEqual([true, day(10), day(10)])
})

describe('the server’s clock', () => {
  test('an end that has passed is two whole seconds behind the slower clock, and a minute more if that is not reported', () => {
    const cursor = cursorOf({ serverBehindMs: 5 * SECOND })
    expect(passedAt(cursor, START + 999)).toEqual([START - 7 * SECOND, START - 7 * SECOND - MINUTE])
    expect(passedAt(cursor, START + SECOND)[0]).toBe(START - 6 * SECOND)
  })

  test('is behind by what exceeds its whole second; ahead, or a month behind, is not believed', () => {
    const cursor = cursorOf()
    const noted = (serverAt: number | undefined) => [
      recordServerClock(cursor, serverAt, START),
      cursor.serverBehindMs,
    ]
    expect(noted(START - 5 * SECOND)).toEqual([4 * SECOND, 4 * SECOND])
    expect(noted(START - SECOND)).toEqual([0, 0])
    expect(noted(START + HOUR)).toEqual([-HOUR - SECOND, 0])
    const month = 30 * DAY + SECOND
    expect(noted(START - month + 1)).toEqual([30 * DAY - 1, 30 * DAY - 1])
    expect(noted(START - month)).toEqual([30 * DAY, 0])
    cursor.serverBehindMs = HOUR
    expect(noted(undefined)).toEqual([0, 0])
  })

  test('reports once that ours is a month ahead, and again after it was right', () => {
    const log = new LogLines()
    const cursor = cursorOf()
    const apart: unknown[] = []
    for (const behindMs of [30 * DAY - 1, 30 * DAY, 40 * DAY, 0, 30 * DAY]) {
      warnOfClocks(log, cursor, behindMs)
      apart.push([cursor.clocksApart, log.lines.length])
    }
    expect(apart).toEqual([
      [false, 0],
      [true, 1],
      [true, 1],
      [false, 1],
      [true, 2],
    ])
  })
})
