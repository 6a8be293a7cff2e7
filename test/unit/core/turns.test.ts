// Long work yields to others after a while, and checks for a stop there.
import { expect, it } from 'vitest'
import { turns } from '../../../src/core/abort.ts'
import { VirtualClock } from '../../simulation/virtual-clock.ts'
import { driven } from '../app/audit-harness.ts'

function setup() {
  const clock = new VirtualClock(0)
  let slept = 0
  const sleep: VirtualClock['sleep'] = (ms, signal) => {
    slept++
    return VirtualClock.prototype.sleep.call(clock, ms, signal)
  }
  const stop = new AbortController()
  const othersTurn = turns({ now: () => clock.now(), elapsed: () => clock.elapsed(), sleep }, 20, stop.signal)
  const worked = (ms: number) => {
    clock.advance(clock.now() + ms)
    return driven(clock, Promise.resolve(othersTurn()))
  }
  return { stop, worked, slept: () => slept }
}

it('others get a turn after 20 ms of work, and no sooner', async () => {
  const { worked, slept } = setup()
  await worked(19)
  expect(slept()).toBe(0)
  await worked(1)
  expect(slept()).toBe(1)
  await worked(19)
  expect(slept()).toBe(1)
})

it('a stop during another turn ends the work', async () => {
  const { worked, stop } = setup()
  stop.abort()
  await worked(5)
  await expect(worked(20)).rejects.toMatchObject({ code: 'aborted' })
})
