// Which messages have the same cause, and which do not.
import { expect, test } from 'vitest'
import { causeOf } from '../../../src/core/backoff.ts'

const same = (one: string, other: string) => causeOf(one) === causeOf(other)

test('messages that differ only in sizes, counts and times have the same cause', () => {
  expect(same('0.5 MiB are free', '12 MiB are free')).toBe(true)
  expect(same('12,345 entries wait', '7 entries wait')).toBe(true)
  expect(same('late since 2026-11-21T10:15:03.5Z', 'late since 2027-01-02T03:04:05Z')).toBe(true)
  expect(same('0.5 MiB are free', '0.5 MiB are owed')).toBe(false)
})

test('another status is another cause, a count that looks like one is not', () => {
  expect(same('the API answered 502', 'the API answered 503')).toBe(false)
  expect(same('the API answered 5021 times', 'the API answered 6021 times')).toBe(true)
  expect(same('502 left, unanswered 502', '502 left, unanswered 503')).toBe(true)
})
