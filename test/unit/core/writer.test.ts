// The writer of lines: a large value is held once (invariant 4).
import { expect, it } from 'vitest'
import { ByteWriter } from '../../../src/core/bytes.ts'

const HUGE = Buffer.alloc(16_000_000, 'x')

it('the end of a huge line is added without a copy of it', () => {
  const out = new ByteWriter()
  out.copy(HUGE)
  const { bytes } = out
  out.text('","replay":true}')
  out.byte(10)
  expect(out.bytes).toBe(bytes)
})

it('of a huge line only its bytes count, and later writes make no copy', () => {
  const out = new ByteWriter()
  const before = process.memoryUsage.rss()
  out.copy(HUGE)
  const { bytes } = out
  out.copy(HUGE)
  expect(process.memoryUsage.rss() - before).toBeLessThan(2 * HUGE.length + 10e6)
  expect(out.bytes).toBe(bytes)
  expect(out.view().equals(Buffer.concat([HUGE, HUGE]))).toBe(true)
})

it('clearing the writer frees the memory of a huge line without garbage collection', () => {
  const out = new ByteWriter()
  out.copy(HUGE)
  const before = process.memoryUsage.rss()
  out.clear(1024)
  expect(before - process.memoryUsage.rss()).toBeGreaterThan(HUGE.length - 2e6)
  out.text('small')
  expect(out.view().toString()).toBe('small')
})
