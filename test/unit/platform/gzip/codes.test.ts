// Huffman's codes: none begins with another, none is longer than allowed, and none could be shorter where nothing is cut.
import fc from 'fast-check'
import { expect, test } from 'vitest'
import { codeLengths, assignCodes } from '../../../../src/platform/gzip/codes.ts'

const LONGEST = 15

const anyCounts = fc
  .array(fc.oneof(fc.constant(0), fc.nat(3), fc.nat(25_000)), { minLength: 2, maxLength: 286 })
  .map((counts) => Uint32Array.from(counts))

/** The share of the code space that the codes use: 1 if no bit is unused. */
const taken = (lengths: Uint8Array) => lengths.reduce((sum, bits) => sum + (bits > 0 ? 2 ** -bits : 0), 0)

const cost = (counts: Uint32Array, lengths: Uint8Array) =>
  counts.reduce((sum, count, symbol) => sum + count * (lengths[symbol] ?? 0), 0)

test('symbols that occur have a code, others have none', () => {
  fc.assert(
    fc.property(anyCounts, (counts) => {
      const lengths = codeLengths(counts, LONGEST)
      for (const [symbol, count] of counts.entries()) expect((lengths[symbol] ?? 0) > 0).toBe(count > 0)
    }),
  )
})

test('the codes leave no space unused and exceed it nowhere, as every decoder requires', () => {
  fc.assert(
    fc.property(anyCounts, (counts) => {
      fc.pre(counts.filter((count) => count > 0).length > 1)
      for (const longest of [9, LONGEST]) expect(taken(codeLengths(counts, longest))).toBe(1)
    }),
  )
})

test('a symbol that occurs alone takes one bit', () => {
  expect([...codeLengths(Uint32Array.of(0, 0, 7), LONGEST)]).toEqual([0, 0, 1])
  expect([...codeLengths(Uint32Array.of(0, 0, 0), LONGEST)]).toEqual([0, 0, 0])
})

test('counts that double make one longer code each, up to the longest allowed', () => {
  const doubling = Uint32Array.from({ length: 22 }, (_, symbol) => 2 ** symbol)
  expect(Math.max(...codeLengths(doubling, 30))).toBe(21)
  const lengths = codeLengths(doubling, LONGEST)
  expect(Math.max(...lengths)).toBe(LONGEST)
  expect(taken(lengths)).toBe(1)
  expect(cost(doubling, lengths)).toBeLessThan(1.01 * cost(doubling, codeLengths(doubling, 30)))
})

test('no other lengths cost less if none is cut: as long as the sum of all joins of two', () => {
  fc.assert(
    fc.property(anyCounts, (counts) => {
      const left = [...counts].filter((count) => count > 0)
      fc.pre(left.length > 1)
      let least = 0
      while (left.length > 1) {
        left.sort((a, b) => a - b)
        const joined = (left.shift() ?? 0) + (left.shift() ?? 0)
        least += joined
        left.push(joined)
      }
      expect(cost(counts, codeLengths(counts, 40))).toBe(least)
    }),
    { numRuns: 40 },
  )
})

test('no code begins with another', () => {
  fc.assert(
    fc.property(anyCounts, (counts) => {
      const lengths = codeLengths(counts, LONGEST)
      const codes = new Uint32Array(counts.length)
      assignCodes(lengths, codes)
      const written = [...codes]
        .filter((code) => code > 0)
        .map((code) => firstBitFirst(code & 0xffff, code >> 16))
        .sort()
      for (const [place, code] of written.entries())
        expect(written[place + 1]?.startsWith(code)).not.toBe(true)
      expect(written).toHaveLength(counts.filter((count) => count > 0).length)
    }),
  )
})

test('the codes are those that RFC 1951 gives as its example', () => {
  const codes = new Uint32Array(8)
  assignCodes(Uint8Array.of(3, 3, 3, 3, 3, 2, 4, 4), codes)
  expect([...codes].map((code) => firstBitFirst(code & 0xffff, code >> 16))).toEqual([
    ...['010', '011', '100', '101', '110', '00', '1110', '1111'],
  ])
})

const firstBitFirst = (code: number, bits: number) =>
  Array.from({ length: bits }, (_, bit) => (code >> bit) & 1).join('')
