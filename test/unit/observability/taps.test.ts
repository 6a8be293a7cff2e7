// Live samples: only what the receiver took, only while a tap is open, and never more than was asked for.
import { expect, test } from 'vitest'
import type { Delivery, ObjectSink, OpenObject, Sink } from '../../../src/contracts/sink.ts'
import { systemClock } from '../../../src/platform/clock.ts'
import { observedSink } from '../../../src/observability/observed-sink.ts'
import { Taps } from '../../../src/observability/taps.ts'
import { noEntry } from '../../fakes/lines.ts'
import { FakeSink, taken } from '../../fakes/sink.ts'
import { settled, VirtualClock } from '../../simulation/virtual-clock.ts'

const never = new AbortController().signal

function delivery(...texts: string[]): Delivery {
  const bytes = Buffer.from(texts.map((text) => `${text}\n`).join(''))
  let end = 0
  const ends = Uint32Array.from(texts, (text) => (end += text.length + 1))
  const seqs = Float64Array.from(texts, (_, i) => i + 1)
  const lines = { count: texts.length, bytes, ends, seqs, entry: noEntry }
  return { lines, detail: '', possibleDuplicate: false }
}

/** With state of its own, which only a method bound to it reaches. */
class Kept implements OpenObject {
  readonly #written: Uint8Array[] = []

  async write(lines: Uint8Array): Promise<void> {
    this.#written.push(lines.slice())
  }

  end(): Promise<never> {
    return Promise.reject(new Error(Buffer.concat(this.#written).toString()))
  }

  async discard(): Promise<void> {
    this.#written.length = 0
  }
}

function openTap() {
  const clock = new VirtualClock(0)
  const taps = new Taps(clock)
  const sink = { name: 'archive', objects: {}, open: async () => new Kept() } as unknown as ObjectSink
  return { clock, taps, sink: observedSink(sink, [taps.observer('archive')]) }
}

const shown = (lines: readonly Uint8Array[]) => lines.map((line) => Buffer.from(line).toString())

test('lines that the receiver did not take are not shown', async () => {
  const taps = new Taps(systemClock)
  const fake = new FakeSink('siem')
  const sink: Sink = observedSink(fake, [taps.observer('siem')])
  fake.answer = () => ({ acknowledged: 1, rejected: [] })
  const looking = taps.next('siem', 10, 50)
  await sink.deliver(delivery('first', 'second'), never)
  expect(shown(await looking)).toEqual(['first\n'])
})

test('without a tap nothing is kept; with one at most so many lines, at once', async () => {
  const taps = new Taps(systemClock)
  const fake = new FakeSink('siem')
  const sink: Sink = observedSink(fake, [taps.observer('siem')])
  fake.answer = taken
  await sink.deliver(delivery('before'), never)
  const looking = taps.next('siem', 2, 60_000)
  await sink.deliver(delivery('one', 'two', 'three'), never)
  expect(shown(await looking)).toEqual(['one\n', 'two\n'])
})

test('a sink without tap: true refuses, and names the setting', async () => {
  await expect(new Taps(systemClock).next('siem', 1, 0)).rejects.toMatchObject({
    code: 'misconfigured',
    message: expect.stringContaining('tap: true') as string,
  })
})

test('an object is sampled line by line while it is written, and is otherwise unchanged', async () => {
  const { taps, sink } = openTap()
  const looking = taps.next('archive', 2, 1_000)
  const object = await sink.open(0)
  await object.write(Buffer.from('one\ntwo\nthree\n'))
  expect(shown(await looking)).toEqual(['one\n', 'two\n'])
  await expect(object.end({} as never)).rejects.toThrow('one\ntwo\nthree\n')
  await object.discard()
  await expect(object.end({} as never)).rejects.toThrow(/^$/)
})

test('a tap returns what came by the time its clock runs out', async () => {
  const { clock, taps, sink } = openTap()
  const looking = taps.next('archive', 2, 1_000)
  await (await sink.open(0)).write(Buffer.from('one\n'))
  await settled()
  clock.advance(1_000)
  expect(shown(await looking)).toEqual(['one\n'])
})

test('a stop waits for no tap', async () => {
  const { taps } = openTap()
  const looking = taps.next('archive', 2, 60_000)
  taps.close()
  expect(await looking).toEqual([])
})
