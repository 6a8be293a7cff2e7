// Live samples of a sink's lines: whoever looks waits by the clock, and no longer than the daemon lives.
import { expect, test } from 'vitest'
import type { ObjectGroup, ObjectSink, OpenObject } from '../../../src/model/sink.ts'
import { Taps } from '../../../src/ops/taps.ts'
import { settled, VirtualClock } from '../../simulation/virtual-clock.ts'

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
  return { clock, taps, sink: taps.sink(sink) }
}

const group = {} as ObjectGroup
const { signal } = new AbortController()
const textOf = (lines: readonly Uint8Array[]) => lines.map((line) => Buffer.from(line).toString())

test('an object is sampled line by line while it is written, and is the same object otherwise', async () => {
  const { taps, sink } = openTap()
  const looking = taps.next('archive', 2, 1_000)
  const object = await sink.open(0, group, signal)
  await object.write(Buffer.from('one\ntwo\nthree\n'))
  expect(textOf(await looking)).toEqual(['one\n', 'two\n'])
  await expect(object.end({} as never)).rejects.toThrow('one\ntwo\nthree\n')
  await object.discard()
  await expect(object.end({} as never)).rejects.toThrow(/^$/)
})

test('whoever looks gets what came when the time is over by the clock', async () => {
  const { clock, taps, sink } = openTap()
  const looking = taps.next('archive', 2, 1_000)
  await (await sink.open(0, group, signal)).write(Buffer.from('one\n'))
  await settled()
  clock.advance(1_000)
  expect(textOf(await looking)).toEqual(['one\n'])
})

test('a stop waits for nobody who looks', async () => {
  const { taps } = openTap()
  const looking = taps.next('archive', 2, 60_000)
  taps.close()
  expect(await looking).toEqual([])
})
