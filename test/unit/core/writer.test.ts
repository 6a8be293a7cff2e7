// The writer of lines: what is large is held once (invariant 4).
import { expect, it } from 'vitest'
import { ByteWriter } from '../../../src/core/bytes.ts'

const HUGE = Buffer.alloc(16_000_000, 'x')

it('what ends a huge line stands behind it without a copy of it', () => {
  const out = new ByteWriter()
  out.copy(HUGE)
  const { bytes } = out
  out.text('","replay":true}')
  out.byte(10)
  expect(out.bytes).toBe(bytes)
})

it('of a huge line nothing counts but what is written of it, and what is written later makes no copy', () => {
  const out = new ByteWriter()
  const before = process.memoryUsage.rss()
  out.copy(HUGE)
  const { bytes } = out
  out.copy(HUGE)
  expect(process.memoryUsage.rss() - before).toBeLessThan(2 * HUGE.length + 10e6)
  expect(out.bytes).toBe(bytes)
  expect(out.view().equals(Buffer.concat([HUGE, HUGE]))).toBe(true)
})

it('when it begins anew, a huge line has given its memory back, whether or not anything is collected', () => {
  const out = new ByteWriter()
  out.copy(HUGE)
  const before = process.memoryUsage.rss()
  out.clear(1024)
  expect(before - process.memoryUsage.rss()).toBeGreaterThan(HUGE.length - 2e6)
  out.text('small')
  expect(out.view().toString()).toBe('small')
})
