// Live samples: only what the receiver took, only while somebody looks, and never more than was asked for.
import { expect, test } from 'vitest'
import type { Delivery } from '../../../src/model/sink.ts'
import { systemClock } from '../../../src/ops/clock.ts'
import { Taps } from '../../../src/ops/taps.ts'
import { FakeSink, taken } from '../../fakes/sink.ts'

const never = new AbortController().signal

function delivery(...texts: string[]): Delivery {
  const bytes = Buffer.from(texts.map((text) => `${text}\n`).join(''))
  let end = 0
  const ends = Uint32Array.from(texts, (text) => (end += text.length + 1))
  const lines = { count: texts.length, bytes, ends, seqs: Float64Array.from(texts, (_, i) => i + 1) }
  return { lines, detail: '', doubtful: false }
}

const shown = (lines: readonly Uint8Array[]) => lines.map((line) => Buffer.from(line).toString())

test('what the receiver did not take is not shown', async () => {
  const taps = new Taps(systemClock)
  const fake = new FakeSink('siem')
  const sink = taps.sink(fake)
  fake.answer = () => ({ settled: 1, refused: [] })
  const looking = taps.next('siem', 10, 50)
  await sink.deliver(delivery('first', 'second'), never)
  expect(shown(await looking)).toEqual(['first\n'])
})

test('nobody looks: nothing is kept; somebody does: at most so many lines, at once', async () => {
  const taps = new Taps(systemClock)
  const fake = new FakeSink('siem')
  const sink = taps.sink(fake)
  fake.answer = taken
  await sink.deliver(delivery('before'), never)
  const looking = taps.next('siem', 2, 60_000)
  await sink.deliver(delivery('one', 'two', 'three'), never)
  expect(shown(await looking)).toEqual(['one\n', 'two\n'])
})

test('a sink that is not open to it is refused, with what to set', async () => {
  await expect(new Taps(systemClock).next('siem', 1, 0)).rejects.toMatchObject({
    code: 'misconfigured',
    message: expect.stringContaining('tap: true') as string,
  })
})
