// Time is text first (invariant 8): zone-less is UTC, microseconds survive, text that is no timestamp is NaN.
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import {
  DAY_MS,
  dayStart,
  dayText,
  epochDay,
  epochSeconds,
  isoFromUs,
  isoMicros,
  parseInstant,
  parseInstantText,
  secondText,
} from '../../../src/core/time.ts'

const NOON_US = Date.UTC(2026, 0, 31, 12) * 1000

/** Whole microseconds as the API writes them. */
function stamp(us: number, digits = 6): string {
  const seconds = Math.floor(us / 1e6)
  const text = new Date(seconds * 1000).toISOString().slice(0, 19)
  const fraction = String(us - seconds * 1e6)
    .padStart(6, '0')
    .slice(0, digits)
  return digits === 0 ? text : `${text}.${fraction}`
}

it('every microsecond from 1600 to 2255 is read back exactly', () => {
  const least = Date.UTC(1600, 0, 1) * 1000
  fc.assert(
    fc.property(fc.integer({ min: least, max: 9e15 }), (us) => {
      expect(parseInstantText(stamp(us))).toBe(us)
    }),
  )
})

it('a timestamp without a zone is UTC, whatever zone the machine is in', () => {
  expect(parseInstantText('2026-01-31T12:00:00')).toBe(NOON_US)
  expect(parseInstantText('2026-01-31 12:00:00')).toBe(NOON_US)
})

it('a zone is respected in each of its spellings', () => {
  for (const zone of ['Z', 'z', '+00:00', '-0000', '+0000'])
    expect(parseInstantText(`2026-01-31T12:00:00${zone}`)).toBe(NOON_US)
  expect(parseInstantText('2026-01-31T14:30:00+02:30')).toBe(NOON_US)
  expect(parseInstantText('2026-01-31T09:30:00.000000-0230')).toBe(NOON_US)
})

it('fewer digits of a fraction are its first ones, more than six are cut', () => {
  expect(parseInstantText('2026-01-31T12:00:00.5')).toBe(NOON_US + 500_000)
  expect(parseInstantText('2026-01-31T12:00:00.000001999')).toBe(NOON_US + 1)
  expect(parseInstantText('2026-01-31T12:00:00.123Z')).toBe(NOON_US + 123_000)
})

it('a leap second belongs to the next minute, a leap day exists in its years only', () => {
  expect(parseInstantText('2016-12-31T23:59:60')).toBe(Date.UTC(2017, 0, 1) * 1000)
  expect(parseInstantText('2024-02-29T00:00:00')).toBe(Date.UTC(2024, 1, 29) * 1000)
  expect(parseInstantText('2000-02-29T00:00:00')).not.toBeNaN()
  for (const no of ['2026-02-29T00:00:00', '1900-02-29T00:00:00']) expect(parseInstantText(no)).toBeNaN()
})

it.each([
  '',
  'yesterday',
  '2026-01-31',
  '2026-01-31T12:00',
  '2026-01-31T12:00:0',
  '2026-01-31T12:00:00.',
  '2026-01-31T12:00:00,5',
  '2026-01-31T24:00:00',
  '2026-01-31T12:60:00',
  '2026-01-31T12:00:61',
  '2026-13-01T00:00:00',
  '2026-00-10T00:00:00',
  '2026-04-31T00:00:00',
  '2026-01-31T12:00:00 ',
  '2026-01-31T12:00:00Zz',
  '2026-01-31T12:00:00+2',
  '2026-01-31T12:00:00+02:3',
  '2026-01-31T12:00:00.5+aa:00',
  '2026/01/31T12:00:00',
  '-026-01-31T12:00:00',
  '2026-01-31X12:00:00',
  '1769860800',
])('%j is no timestamp', (text) => {
  expect(parseInstantText(text)).toBeNaN()
})

it('any text is a timestamp or none, and never throws', () => {
  fc.assert(
    fc.property(fc.string({ maxLength: 40 }), (text) => {
      expect(typeof parseInstantText(text)).toBe('number')
    }),
  )
})

it('a timestamp is parsed in place, whatever is around it', () => {
  const bytes = Buffer.from('99992026-01-31T12:00:00.5 7')
  expect(parseInstant(bytes, 4, 25)).toBe(NOON_US + 500_000)
  expect(parseInstant(bytes, 4, 23)).toBe(NOON_US)
})

it('two alternating days do not mix: the cached day is checked', () => {
  fc.assert(
    fc.property(fc.array(fc.integer({ min: 0, max: 3e15 }), { maxLength: 20 }), (times) => {
      for (const us of times) expect(parseInstantText(stamp(us, 6))).toBe(us)
    }),
  )
})

describe('written', () => {
  it('epoch seconds keep all six decimals', () => {
    expect(epochSeconds(NOON_US + 7)).toBe(`${NOON_US / 1e6}.000007`)
    expect(epochSeconds(1_999_999)).toBe('1.999999')
  })

  it('epoch seconds are exact from the year 0 to 9999, before 1970 too', () => {
    const exactly = (us: number) => {
      const size = BigInt(Math.abs(us))
      const decimals = String(size % 1_000_000n).padStart(6, '0')
      return `${us < 0 ? '-' : ''}${size / 1_000_000n}.${decimals}`
    }
    expect(epochSeconds(-500_000)).toBe('-0.500000')
    expect(epochSeconds(-1_500_000)).toBe('-1.500000')
    const least = parseInstantText('0000-01-01T00:00:00')
    const most = parseInstantText('9999-12-31T23:59:59.999999')
    const seconds = fc.integer({ min: Math.ceil(least / 1e6), max: Math.floor(most / 1e6) })
    const near = fc.tuple(seconds, fc.integer({ min: -999_999, max: 999_999 })).map(([s, us]) => s * 1e6 + us)
    const before = fc.integer({ min: -1e13, max: 1e13 })
    fc.assert(
      fc.property(fc.oneof(near, before), (us) => {
        expect(epochSeconds(us)).toBe(exactly(us))
      }),
      { numRuns: 2_000 },
    )
  })

  it('ISO text is cut to milliseconds, never rounded up', () => {
    expect(isoFromUs(NOON_US + 999_999)).toBe('2026-01-31T12:00:00.999Z')
  })
})

it('an instant written with six decimals is read back exactly, before 1970 too', () => {
  fc.assert(
    fc.property(fc.integer({ min: Date.UTC(1600, 0, 1) * 1000, max: 9e15 }), (us) => {
      const text = isoMicros(us)
      expect(text).toMatch(/\.\d{6}Z$/)
      expect(parseInstantText(text)).toBe(us)
    }),
  )
  expect(isoMicros(NOON_US + 0.75)).toBe('2026-01-31T12:00:00.000000Z')
})

it('a day holds its first microsecond and its last, before 1970 too', () => {
  fc.assert(
    fc.property(fc.integer({ min: -100_000, max: 100_000 }), (day) => {
      const at = day * DAY_MS
      expect([at * 1000, at * 1000 + 86_399_999_999].map(epochDay)).toEqual([day, day])
      expect([at, at + DAY_MS - 1].map(dayStart)).toEqual([at, at])
      expect(dayText(at + DAY_MS - 1)).toBe(secondText(at).slice(0, 10))
    }),
  )
})
