// Request bodies: JSON arrays, NDJSON with actions, envelopes one after the other.
import { expect, test } from 'vitest'
import type { Frame } from '../../../../src/contracts/sink.ts'
import { Bodies, bodyOf, lineFrame } from '../../../../src/sinks/kit/body.ts'
import { linesOf, runOf, someEntries } from '../../../fakes/lines.ts'

const bare: Frame = (slice, index, out, format) => format(slice, index, out)
const slice = runOf(someEntries(3))
const raws = [0, 1, 2].map((index) => Buffer.from(slice.entries.raw(index)).toString())
const texts = (bytes: Uint8Array) => Buffer.from(bytes).toString()

test('a JSON array', () => {
  const shape = { prefix: '[', separator: ',', suffix: ']' }
  expect(texts(bodyOf(linesOf(slice, bare), shape))).toBe(`[${raws.join(',')}]`)
  expect(texts(bodyOf(linesOf(runOf([]), bare), shape))).toBe('[]')
})

test('NDJSON with an action before each line, which names the entry', () => {
  const lines = linesOf(slice, lineFrame)
  const body = bodyOf(lines, {
    before: (lines, index, out) => out.text(`{"create":{"_id":"${lines.entry(index).id}"}}\n`),
  })
  const pairs = raws.map((raw, index) => `{"create":{"_id":"${slice.entries.id(index)}"}}\n${raw}\n`)
  expect(texts(body)).toBe(pairs.join(''))
})

test('lines alone are not copied', () => {
  const lines = linesOf(slice, lineFrame)
  const body = bodyOf(lines, {})
  expect(texts(body)).toBe(raws.map((raw) => `${raw}\n`).join(''))
  expect(body.buffer).toBe(lines.bytes.buffer)
})

test('a batch is compressed once, whether in advance or at each of its tries; after a failure again', async () => {
  let calls = 0
  const bodies = new Bodies(async (bytes) => {
    if (++calls === 1) throw new Error('no memory')
    return bytes.slice(0, 5)
  })
  const lines = linesOf(slice, lineFrame)
  bodies.warm(lines)
  await expect(bodies.of(lines)).rejects.toThrow('no memory')
  bodies.warm(lines)
  const first = await bodies.of(lines)
  expect(await bodies.of(lines)).toBe(first)
  expect(first).toMatchObject({ plainBytes: lines.bytes.length, headers: { 'content-encoding': 'gzip' } })
  expect([first.bytes.length, calls]).toEqual([5, 2])
  expect(await new Bodies(undefined).of(lines)).toMatchObject({
    headers: {},
    bytes: { length: lines.bytes.length },
  })
})
