// A request that several rate limiters count has a permit of each of them, or of none.
import { expect, it } from 'vitest'
import { RateLimiter } from '../../../../src/sources/http/rate-limiter.ts'
import { JointRateLimiter } from '../../../../src/sources/http/permits.ts'
import { settled, VirtualClock } from '../../../simulation/virtual-clock.ts'
import { driven, MINUTE, START } from '../../app/audit-harness.ts'

const never = new AbortController().signal

it('if one of several limiters cannot write its permits down, those of the others come back as for any answer', async () => {
  const clock = new VirtualClock(START)
  const full = new Error('no room')
  const open = (save: () => Promise<void>) =>
    new RateLimiter({
      limit: () => 10,
      clock,
      random: () => 0.5,
      store: { load: async () => undefined, save },
    })
  const [good, bad, late] = [
    open(async () => undefined),
    open(() => Promise.reject(full)),
    // Reported after the one that failed.
    open(() => clock.sleep(100)),
  ]
  const joint = new JointRateLimiter(() => [good, bad, late], clock)
  await expect(driven(clock, joint.acquire('live', never))).rejects.toBe(full)
  clock.advance(START + 2 * MINUTE)
  expect([good, bad, late].map(({ used }) => used.permits)).toEqual([0, 0, 0])
})

/** As a restart finds it. */
const kept = (clock: VirtualClock, blockedMs: number) => {
  const state = JSON.stringify({ savedAt: START, answered: [], ahead: 0, blockedMs })
  const store = { load: async () => state, save: async () => undefined }
  return new RateLimiter({ limit: () => 10, clock, random: () => 0.5, store })
}

it('while one of several limiters has no permit, none of the others is held, also right after a start', async () => {
  const clock = new VirtualClock(START)
  const [blocked, free] = [kept(clock, MINUTE), kept(clock, 0)]
  const entering = new JointRateLimiter(() => [free, blocked], clock).acquire('live', never)
  await settled()
  expect(free.used.permits).toBe(0)
  await driven(clock, entering)
  expect([clock.now() - START, free.used.permits, blocked.used.permits]).toEqual([MINUTE, 1, 1])
})

it('a 429 of one of several limiters is reported for all', async () => {
  const clock = new VirtualClock(START)
  const [blocked, free] = [kept(clock, MINUTE), kept(clock, 0)]
  await Promise.all([blocked.load(), free.load()])
  const all = new JointRateLimiter(() => [free, blocked], clock)
  expect(all.limitedUntil).toBe(START + MINUTE)
  expect(new JointRateLimiter(() => [free], clock).limitedUntil).toBeUndefined()
  clock.advance(START + MINUTE)
  expect(all.limitedUntil).toBeUndefined()
})
