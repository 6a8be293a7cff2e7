// Sources that wait because their key was refused, and the first success that wakes them.
import { expect, test } from 'vitest'
import { KeyWaits } from '../../../src/core/key-waits.ts'
import { settled, VirtualClock } from '../../simulation/virtual-clock.ts'

const never = new AbortController().signal

/** Three sources of which two have one key now. */
function open() {
  const clock = new VirtualClock(0)
  const keys = ['a', 'a', 'b']
  const waits = new KeyWaits(clock)
  const [first, second, third] = keys.map((_, i) => waits.of(() => keys[i] ?? ''))
  const over: string[] = []
  const wait = (name: string, part = first, signal = never) =>
    void part?.sleep(60_000, signal).then(() => over.push(name))
  return { clock, keys, first, second, third, over, wait }
}

test('the success of one wakes those that wait with the same key, and no others', async () => {
  const { first, second, third, over, wait } = open()
  wait('second', second)
  wait('third', third)
  first?.accepted()
  await settled()
  expect(over).toEqual(['second'])
})

test('the key of a source counts when another succeeds, not when it began to wait', async () => {
  const { keys, first, third, over, wait } = open()
  wait('third', third)
  keys[2] = 'a'
  first?.accepted()
  await settled()
  expect(over).toEqual(['third'])
})

test('otherwise a wait ends with its time, or with the signal', async () => {
  const { clock, second, over, wait } = open()
  const stop = new AbortController()
  wait('stopped', second, stop.signal)
  wait('waited', second)
  stop.abort()
  await settled()
  expect(over).toEqual(['stopped'])
  clock.advance(60_000)
  await settled()
  expect(over).toEqual(['stopped', 'waited'])
})
