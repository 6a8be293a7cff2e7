// What the other side's clock and hints are worth.
import { expect, test } from 'vitest'
import { serverTimeMs } from '../../../src/core/backoff.ts'

test.each([
  ['Sat, 21 Nov 2026 10:00:00 GMT', Date.UTC(2026, 10, 21, 10)],
  ['Thu, 01 Jan 1970 00:00:00 GMT', undefined],
  ['Fri, 01 Jan 2255 00:00:00 GMT', undefined],
  ['Fri, 01 Jan 9999 00:00:00 GMT', undefined],
  ['soon', undefined],
])('a Date of %s is %s', (date, at) => {
  expect(serverTimeMs({ date })).toBe(at)
})
