// A permit for a key that rotates while a request waits for it.
import { expect, test } from 'vitest'
import { Secret, SecretLook } from '../../../../src/core/secret.ts'
import { RateLimiter } from '../../../../src/sources/http/rate-limiter.ts'
import { JointRateLimiter, takePermit } from '../../../../src/sources/http/permits.ts'
import { SourceNotes } from '../../../fakes/reporters.ts'
import { settled, VirtualClock } from '../../../simulation/virtual-clock.ts'

/** One key in its file, a rate limiter for each of its values, and the first waits out a 429 of an hour. */
async function setup() {
  const clock = new VirtualClock(0)
  const store = { load: async () => undefined, save: async () => undefined }
  const [first, second] = [1, 2].map(
    () => new RateLimiter({ limit: () => 1, clock, random: () => 0.5, store }),
  ) as [RateLimiter, RateLimiter]
  const file = { text: 'old' }
  const secret = new Secret('old', () => file.text)
  const look = new SecretLook([secret], clock)
  const currentKey = () => {
    look.look()
    return secret.reveal()
  }
  const rateLimiter = new JointRateLimiter(() => [secret.reveal() === 'old' ? first : second], clock)
  const place = (signal: AbortSignal, mayRotate = true) =>
    takePermit({ rateLimiter, clock, reporter: new SourceNotes(), currentKey, mayRotate }, 'live', signal)
  await first.limited(3_600_000)
  const pass = async (ms: number) => {
    const until = clock.now() + ms
    do await settled()
    while (clock.advance(until))
  }
  return { clock, first, second, file, place, pass }
}

const never = new AbortController().signal

test('a request that waits out a 429 of its key gets a permit of the next key as soon as there is one, and none of the first', async () => {
  const { clock, first, second, file, place, pass } = await setup()
  const leave = await second.acquire('live', never)
  let at = Infinity
  const placed = place(never).then(({ key }) => {
    at = clock.now()
    return key
  })
  await pass(10_000)
  leave()
  file.text = 'new'
  await pass(59_000)
  expect(at).toBe(Infinity)
  await pass(2_000)
  expect(at).toBeLessThan(71_000)
  expect(await placed).toBe('new')
  expect([first.used.permits, second.used.permits]).toEqual([0, 1])
})

test('a key that cannot change is not checked for changes', async () => {
  const { file, place, pass } = await setup()
  const stop = new AbortController()
  const placed = place(stop.signal, false)
  file.text = 'new'
  await pass(120_000)
  stop.abort(new Error('told to stop'))
  await expect(placed).rejects.toThrow('told to stop')
})

test('a request that stops waiting gets the reason, and nothing watches on', async () => {
  const { clock, first, place, pass } = await setup()
  const stop = new AbortController()
  const placed = place(stop.signal)
  await pass(5_000)
  stop.abort(new Error('told to stop'))
  await expect(placed).rejects.toThrow('told to stop')
  await settled()
  expect(clock.advance(clock.now() + 10_000_000)).toBe(false)
  expect(first.used.permits).toBe(0)
})
