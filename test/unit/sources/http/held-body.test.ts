// A body that is held up to a limit, and what is kept of a larger one.
import { createHash } from 'node:crypto'
import fc from 'fast-check'
import { expect, test } from 'vitest'
import { BodySample, bufferBody } from '../../../../src/sources/http/groups.ts'

/** Counts the chunks that were read. */
function bodyOf(sizes: readonly number[]) {
  const bytes = Buffer.from(sizes.flatMap((size, i) => Array<number>(size).fill(65 + (i % 26))))
  const asked = { count: 0 }
  async function* body() {
    let at = 0
    for (const size of sizes) {
      asked.count++
      yield bytes.subarray(at, (at += size))
    }
  }
  return { bytes, asked, body: body() }
}

const chunks = fc.array(fc.integer({ min: 1, max: 9 }), { maxLength: 8 })
/** of the limit, from the body's own length */
const around = fc.constantFrom(-20, -2, -1, 0, 1, 20)

test('a body up to the limit is held whole, and a larger one is not read behind the limit', async () => {
  await fc.assert(
    fc.asyncProperty(chunks, around, async (sizes, beyond) => {
      const { bytes, asked, body } = bodyOf(sizes)
      const most = Math.max(0, bytes.length + beyond)
      const held = await bufferBody({ body }, most)
      expect(held && Buffer.from(held)).toEqual(bytes.length <= most ? bytes : undefined)
      const before = sizes.slice(0, Math.max(0, asked.count - 1)).reduce((sum, size) => sum + size, 0)
      expect(before).toBeLessThanOrEqual(most)
    }),
  )
})

test('a sample sees every byte, held or not', async () => {
  await fc.assert(
    fc.asyncProperty(chunks, around, async (sizes, beyond) => {
      const { bytes, body } = bodyOf(sizes)
      const most = Math.max(0, bytes.length + beyond)
      const sample = new BodySample()
      const held = await bufferBody({ body }, most, sample)
      expect(held === undefined).toBe(bytes.length > most)
      const sha256 = createHash('sha256').update(bytes).digest('hex')
      expect(sample.quarantined('too_large')).toEqual({
        ...{ reason: 'too_large', bytes, totalBytes: bytes.length, sha256 },
      })
    }),
  )
})

test('of a body of more than a MiB the first MiB is kept', () => {
  const sample = new BodySample()
  for (let i = 0; i < 3; i++) sample.add(Buffer.alloc(700_000, i))
  const { bytes, totalBytes } = sample.quarantined('unreadable_page')
  expect([bytes.length, bytes.at(-1), totalBytes]).toEqual([2 ** 20, 1, 2_100_000])
})
