// How wide a window of the history may be: narrower for its size, its duration or repeated failures, and as wide as before once it was chance.
import { expect, test } from 'vitest'
import type { Width } from '../../../../src/sources/history/width.ts'
import {
  forgetFailures,
  freshWidth,
  isSurelyNoChance,
  recordFailure,
  widen,
} from '../../../../src/sources/history/width.ts'
import { DAY, HOUR, MINUTE, SECOND } from '../../app/audit-harness.ts'

/** On a line where all recent answers came. */
const onGoodLine = (): Width => ({ ...freshWidth(), came: 30 })

const over = (ms: number, to = 40 * DAY) => ({ from: to - ms, to })
const fail = (width: Width, to?: number) => recordFailure(width, over(width.ms, to), 'unknown', 0)

const read = (width: Width, ms = width.ms) => {
  widen(width, ms, false)
}

/** Fails at this width until a narrower one is requested; how often. */
function failUntilNarrower(width: Width): number {
  for (let times = 1; times < 100; times++) if (fail(width)) return times
  throw new Error('never narrower')
}

test('on a good line a second failure in a row narrows, on an unknown one the sixth, and on a flaky one the tenth', () => {
  expect(failUntilNarrower(onGoodLine())).toBe(2)
  expect(failUntilNarrower(freshWidth())).toBe(6)
  expect(failUntilNarrower({ ...freshWidth(), came: 10, lost: 20 })).toBe(10)
})

test('failures in a row count together: behind the first narrower one each failure narrows', () => {
  const width = freshWidth()
  failUntilNarrower(width)
  expect([failUntilNarrower(width), failUntilNarrower(width)]).toEqual([1, 1])
  expect(width.ms).toBe(DAY / 8)
})

test('an answer over a limit, or too slow to complete, narrows at once', () => {
  for (const cause of ['over_bound', 'slow'] as const) {
    const width = freshWidth()
    expect(recordFailure(width, over(DAY), cause, 0)).toBe(true)
    expect(width.ms).toBe(DAY / 2)
    read(width)
    expect(width.ms).toBe(DAY / 2)
  }
})

test('the width is as before at the first good answer of a narrower one', () => {
  const width = freshWidth()
  failUntilNarrower(width)
  failUntilNarrower(width)
  read(width)
  expect(width.ms).toBe(DAY)
  read(width)
  expect([width.ms, width.failedMs]).toEqual([DAY, null])
})

test('a width that fails repeatedly while narrower ones are read is avoided for eight good answers', () => {
  const width = onGoodLine()
  failUntilNarrower(width)
  read(width)
  while (!fail(width));
  expect(width.ms).toBe(DAY / 2)
  const widths = Array.from({ length: 8 }, () => {
    read(width)
    return width.ms
  })
  expect(widths).toEqual([...Array<number>(7).fill(DAY / 2), DAY])
  expect(fail(width)).toBe(true)
  expect(width.ms).toBe(DAY / 2)
})

test('a narrow width grows by doubling below one that is known to fail', () => {
  const width = onGoodLine()
  while (width.ms > DAY / 8) failUntilNarrower(width)
  read(width)
  while (!fail(width));
  expect(width.ms).toBe(DAY / 8)
  read(width)
  read(width)
  expect(width.ms).toBe(DAY / 2)
})

test('an answer that broke off shows how much came through: the next window has that width, at least a sixteenth', () => {
  for (const [seenMs, ms] of [
    [3 * HOUR, 3 * HOUR],
    [20 * HOUR, 12 * HOUR],
    [SECOND, 1.5 * HOUR],
    [0, 12 * HOUR],
  ] as const) {
    const width = freshWidth()
    while (!recordFailure(width, over(DAY), 'unknown', seenMs));
    expect(width.ms).toBe(ms)
  }
})

test('no window is narrower than a minute', () => {
  const width = freshWidth()
  while (width.ms > MINUTE) failUntilNarrower(width)
  failUntilNarrower(width)
  expect(width.ms).toBe(MINUTE)
})

test('the end of a day cuts a window and says nothing about the width', () => {
  const width = onGoodLine()
  failUntilNarrower(width)
  read(width)
  // A whole day may be requested again, and half of one is left.
  read(width, DAY / 2)
  expect([width.ms, width.failedMs]).toEqual([DAY, DAY])
  while (!fail(width));
  expect(width.ms).toBe(DAY / 2)
})

test('if the API failed at every width, all is as wide as before', () => {
  const width = freshWidth()
  while (width.ms > MINUTE) failUntilNarrower(width)
  forgetFailures(width)
  expect([width.ms, width.failedMs]).toEqual([DAY, null])
})

test('five failures beside good answers are not chance on a good line, far more may be on a flaky one', () => {
  expect(isSurelyNoChance(onGoodLine(), 4)).toBe(false)
  expect(isSurelyNoChance(onGoodLine(), 5)).toBe(true)
  const flaky = { ...freshWidth(), came: 13, lost: 26 }
  expect(isSurelyNoChance(flaky, 16)).toBe(false)
  expect(isSurelyNoChance(flaky, 18)).toBe(true)
})
