// Bytes that are held as they come in, in pieces of any size.
import fc from 'fast-check'
import { expect, test } from 'vitest'
import { Pieces } from '../../../src/core/bytes.ts'

test('the bytes of any pieces come out in their order', () => {
  const sizes = fc.oneof(fc.integer({ min: 0, max: 40 }), fc.integer({ min: 4_000, max: 70_000 }))
  fc.assert(
    fc.property(fc.array(sizes, { maxLength: 60 }), (lengths) => {
      const pieces = new Pieces()
      const all = lengths.map((length, i) => Buffer.alloc(length, i + 1))
      for (const piece of all) pieces.add(piece)
      const whole = Buffer.concat(all)
      expect(pieces.length).toBe(whole.length)
      expect(pieces.toBuffer().equals(whole)).toBe(true)
    }),
    { numRuns: 100 },
  )
})

test('single bytes are held in few buffers, large pieces as they came', () => {
  const pieces = new Pieces()
  const large = Buffer.alloc(10_000, 'L')
  for (let i = 0; i < 100_000; i++) pieces.add(Buffer.from('x'))
  pieces.add(large)
  pieces.add(Buffer.from('end'))
  expect(pieces.parts.length).toBeLessThan(10)
  expect(pieces.parts.includes(large)).toBe(true)
})
