// Text as a JSON string: whatever it is, it parses to itself again.
import { assert, nat, property, string } from 'fast-check'
import { expect, it } from 'vitest'
import { quote, writeEscaped } from '../../../src/core/json.ts'
import { ByteWriter } from '../../../src/core/bytes.ts'

const any = string({ unit: 'binary', maxLength: 200 })

it('text quoted in place is a string of that text, and the bytes before it stay', () => {
  assert(
    property(any, any, nat(64), (before, text, capacityBytes) => {
      const out = new ByteWriter(capacityBytes)
      out.text(before)
      const from = out.length
      out.text(text)
      quote(out, from)
      expect(out.view().subarray(0, from).toString()).toBe(before)
      expect(JSON.parse(out.view().subarray(from).toString())).toBe(text)
    }),
    { numRuns: 1000 },
  )
})

it('a text of several pieces is escaped whole', () => {
  const text = '"\u0000\\ü'.repeat(40_000)
  const bytes = Buffer.from(text)
  const out = new ByteWriter()
  out.text('"')
  writeEscaped(out, bytes, 0, bytes.length)
  out.text('"')
  expect(JSON.parse(out.view().toString())).toBe(text)
})

it('a huge text of quotes alone is quoted without a copy of it', () => {
  const out = new ByteWriter()
  out.copy(Buffer.alloc(16_000_000, '"'))
  const { bytes } = out
  quote(out, 0)
  expect(out.bytes).toBe(bytes)
  expect(out.length).toBe(32_000_002)
})
