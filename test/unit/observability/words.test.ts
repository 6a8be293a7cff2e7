// Whole numbers and plurals as people read them.
import fc from 'fast-check'
import { expect, test } from 'vitest'
import { countText, numberText } from '../../../src/observability/words.ts'

test('a whole number is written as Intl writes it for English, and no table of Intl is loaded for it', () => {
  fc.assert(
    fc.property(fc.maxSafeNat(), (count) => {
      expect(numberText(count)).toBe(count.toLocaleString('en-US'))
    }),
  )
})

test('one of a thing is written in the singular', () => {
  expect([0, 1, 2, 1_234_567].map((count) => countText(count, 'entries'))).toEqual([
    '0 entries',
    '1 entry',
    '2 entries',
    '1,234,567 entries',
  ])
})
