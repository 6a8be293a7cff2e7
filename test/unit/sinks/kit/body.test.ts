// Request bodies: lines one after the other, compressed or not.
import { expect, test } from 'vitest'
import { Bodies, lineFrame } from '../../../../src/sinks/kit/body.ts'
import { linesOf, runOf, someEntries } from '../../../fakes/lines.ts'

const lines = linesOf(runOf(someEntries(3)), lineFrame)

test('without compression the lines are not copied', async () => {
  const { bytes, headers } = await new Bodies(undefined).of(lines)
  expect([bytes.buffer, bytes.length, headers]).toEqual([lines.bytes.buffer, lines.bytes.length, {}])
})

test('a batch is compressed once, whether in advance or at each of its tries; after a failure again', async () => {
  let calls = 0
  const bodies = new Bodies(async (bytes) => {
    if (++calls === 1) throw new Error('no memory')
    return bytes.slice(0, 5)
  })
  bodies.warm(lines)
  await expect(bodies.of(lines)).rejects.toThrow('no memory')
  bodies.warm(lines)
  const first = await bodies.of(lines)
  expect(await bodies.of(lines)).toBe(first)
  expect(first).toMatchObject({ plainBytes: lines.bytes.length, headers: { 'content-encoding': 'gzip' } })
  expect([first.bytes.length, calls]).toEqual([5, 2])
})
