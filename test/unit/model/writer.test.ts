// The writer of lines: what is large is held once (law 4).
import { expect, it } from 'vitest'
import { ByteWriter } from '../../../src/model/writer.ts'

it('what ends a huge line stands behind it without a copy of it', () => {
  const out = new ByteWriter()
  out.copy(Buffer.alloc(10_000_000, 'x'))
  const { bytes } = out
  out.text('","replay":true}')
  out.byte(10)
  expect(out.bytes).toBe(bytes)
  expect(bytes.length).toBeLessThan(1.02 * out.length)
})
