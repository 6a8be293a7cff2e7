// The queue of a rate limiter: no request is overtaken, one that leaves leaves nothing behind, and stored permits are neither lost nor taken twice.
import { expect, test } from 'vitest'
import { RateLimiter } from '../../../../src/sources/http/rate-limiter.ts'
import type { RateLimitStore } from '../../../../src/sources/http/rate-limiter.ts'
import { VirtualClock, settled } from '../../../simulation/virtual-clock.ts'
import { driven, MINUTE, SECOND, START } from '../../app/audit-harness.ts'

const never = new AbortController().signal

/** A store whose writes land when the test says so. */
function slowStore(text?: string) {
  const state = { text, landing: [] as (() => void)[] }
  const store: RateLimitStore = {
    load: async () => state.text,
    save: async (saved) => {
      await new Promise<void>((resolve) => state.landing.push(resolve))
      state.text = saved
    },
  }
  const land = async () => {
    for (const resolve of state.landing.splice(0)) resolve()
    await settled()
  }
  return { state, store, land }
}

function open(limit: number, given: { clock?: VirtualClock; store?: RateLimitStore; random?: number } = {}) {
  const { clock = new VirtualClock(START), random = 0.5 } = given
  const store = given.store ?? { load: async () => undefined, save: async () => undefined }
  return { clock, rateLimiter: new RateLimiter({ limit: () => limit, clock, random: () => random, store }) }
}

/** Uses a permit up. */
async function spend(rateLimiter: RateLimiter, places: number) {
  for (let i = 0; i < places; i++) (await rateLimiter.acquire('live', never))()
}

const written = (more: object) =>
  JSON.stringify({ savedAt: START, answered: [], ahead: 0, blockedMs: 0, ...more })

test('within one priority the last to ask is the last to go, however many wait', async () => {
  const { clock, rateLimiter } = open(1)
  await spend(rateLimiter, 1)
  const order: number[] = []
  const all = [1, 2, 3, 4].map(async (nth) => {
    const answered = await rateLimiter.acquire('live', never)
    order.push(nth)
    answered()
  })
  await driven(clock, Promise.all(all))
  expect(order).toEqual([1, 2, 3, 4])
})

test('no request overtakes waiting ones, even if a permit came free this moment', async () => {
  const { clock, rateLimiter } = open(1)
  await spend(rateLimiter, 1)
  const order: string[] = []
  const live = rateLimiter.acquire('live', never).then((answered) => {
    order.push('live')
    answered()
  })
  await settled()
  clock.advance(START + 2 * MINUTE)
  const past = rateLimiter.acquire('job', never).then(() => order.push('job'))
  await driven(clock, Promise.all([live, past]))
  expect(order).toEqual(['live', 'job'])
})

test('a request that stops after it was admitted removes no other from the queue', async () => {
  const { clock, rateLimiter } = open(1)
  await spend(rateLimiter, 1)
  const stopping = new AbortController()
  const first = rateLimiter.acquire('live', stopping.signal)
  const second = rateLimiter.acquire('live', never)
  const answered = await driven(clock, first)
  stopping.abort()
  answered()
  await driven(clock, second)
  expect(rateLimiter.used.permits).toBe(1)
})

test('a request that gets a permit at once does not report a wait', async () => {
  const { rateLimiter } = open(2)
  let reported = 0
  await rateLimiter.acquire('live', never, () => (reported += 1))
  expect(reported).toBe(0)
})

test('a request under an aborted signal neither waits nor takes a permit', async () => {
  const { clock, rateLimiter } = open(1)
  await spend(rateLimiter, 1)
  const entering = expect(rateLimiter.acquire('live', AbortSignal.abort())).rejects.toThrow()
  await settled()
  expect(clock.advance(Infinity)).toBe(false)
  await entering
})

test('a request that stops while its permit is written down does not go, and its permit comes back in its time', async () => {
  const { store, land } = slowStore()
  const { clock, rateLimiter } = open(1, { store })
  const stopping = new AbortController()
  const entering = expect(rateLimiter.acquire('live', stopping.signal)).rejects.toThrow()
  await settled()
  stopping.abort()
  await land()
  await entering
  clock.advance(START + 2 * MINUTE)
  expect(rateLimiter.used.permits).toBe(0)
})

test('when the last waiting request left, no timer is left', async () => {
  const { clock, rateLimiter } = open(1)
  await spend(rateLimiter, 1)
  const leaving = new AbortController()
  const entering = expect(rateLimiter.acquire('live', leaving.signal)).rejects.toThrow()
  await settled()
  leaving.abort()
  await entering
  await settled()
  expect(clock.advance(Infinity)).toBe(false)
})

test('a limiter of one request a minute admits any priority', async () => {
  for (const priority of ['live', 'lookback', 'job'] as const) {
    const { rateLimiter } = open(1)
    expect(rateLimiter.waitMs(priority)).toBe(0)
  }
})

test('once loaded, a free permit is taken before the call returns', async () => {
  const { rateLimiter } = open(2)
  await rateLimiter.load()
  void rateLimiter.acquire('live', never)
  expect(rateLimiter.used.permits).toBe(1)
})

test('the stored window is loaded once, however often it is requested', async () => {
  const { store } = slowStore(written({ answered: [[SECOND, 2]] }))
  const { rateLimiter } = open(10, { store })
  await Promise.all([rateLimiter.load(), rateLimiter.load()])
  await rateLimiter.load()
  expect(rateLimiter.used.permits).toBe(2)
})

test('the used permits are counted now, not at the last request', async () => {
  const { clock, rateLimiter } = open(2)
  await spend(rateLimiter, 2)
  clock.advance(START + 2 * MINUTE)
  expect(rateLimiter.used.permits).toBe(0)
})

test('the time until a permit comes free is in whole milliseconds, and never too early', async () => {
  const clock = new VirtualClock(START)
  const rateLimiter = open(1, { clock }).rateLimiter
  await spend(rateLimiter, 1)
  let atMs = START
  clock.elapsed = () => atMs
  atMs = START + 0.25
  const freeAt = rateLimiter.freeAt('live')
  expect(Number.isInteger(freeAt)).toBe(true)
  expect(freeAt - START).toBeGreaterThanOrEqual(rateLimiter.waitMs('live'))
})

test('a shorter Retry-After does not end the wait of a longer one', async () => {
  const { clock, rateLimiter } = open(10)
  await rateLimiter.limited(2 * MINUTE)
  await rateLimiter.limited(SECOND)
  expect(rateLimiter.waitMs('live')).toBe(2 * MINUTE)
  expect(clock.now()).toBe(START)
})

test('clients that got a 429 together do not come back together', async () => {
  const waits = []
  for (const random of [0, 0.5, 0.999]) {
    const { rateLimiter } = open(10, { random })
    await rateLimiter.limited(undefined)
    waits.push(rateLimiter.waitMs('live'))
  }
  expect(waits).toEqual([61_000, 63_000, 64_996])
})

test('the pause of a 429 is reported when the store has it, not before', async () => {
  const { state, store, land } = slowStore()
  const { rateLimiter } = open(10, { store })
  await rateLimiter.load()
  let reported = false
  const reports = rateLimiter.limited(2 * MINUTE).then(() => (reported = true))
  await settled()
  expect(reported).toBe(false)
  await land()
  await reports
  expect(JSON.parse(state.text ?? '{}')).toMatchObject({ blockedMs: 2 * MINUTE })
})

test('a 429 that comes before the store was read is respected, and the stored window is not lost', async () => {
  const known = written({ answered: [[SECOND, 3]], blockedMs: SECOND, lowered: [8, 0] })
  const { state, store, land } = slowStore(known)
  const { rateLimiter } = open(10, { store })
  const reports = rateLimiter.limited(2 * MINUTE)
  await settled()
  await land()
  await reports
  expect(rateLimiter.waitMs('live')).toBe(2 * MINUTE)
  expect(rateLimiter.used).toEqual({ permits: 3, live: 0, allowed: 6, limit: 10 })
  expect(JSON.parse(state.text ?? '{}')).toMatchObject({ answered: [[SECOND, 3]], blockedMs: 2 * MINUTE })
})

test('a limiter that was not used, or could not be read, leaves the store unchanged', async () => {
  const known = written({ answered: [[SECOND, 3]] })
  let reads = 0
  const state = { text: known }
  const save = async (text: string) => void (state.text = text)
  const unused = open(10, { store: { load: async () => known, save } }).rateLimiter
  await unused.close()
  expect(state.text).toBe(known)
  const load = () => (reads++, Promise.reject(new Error('the disk is gone')))
  const unread = open(10, { store: { load, save } }).rateLimiter
  await expect(unread.load()).rejects.toThrow('the disk is gone')
  await unread.close()
  expect([reads, state.text]).toEqual([1, known])
})

test('a limiter that is closed while its store is read does not overwrite what it has not seen yet', async () => {
  const known = written({ answered: [[SECOND, 3]] })
  const state = { text: known, read: (): void => undefined }
  const store: RateLimitStore = {
    load: async () => {
      await new Promise<void>((resolve) => (state.read = resolve))
      return known
    },
    save: async (text) => void (state.text = text),
  }
  const { rateLimiter } = open(10, { store })
  const loading = rateLimiter.load()
  await rateLimiter.close()
  state.read()
  await loading
  expect(state.text).toBe(known)
})

test('the exact window is written after a write in progress, and closing waits for both', async () => {
  const { state, store, land } = slowStore()
  const { clock, rateLimiter } = open(60, { store })
  const entering = rateLimiter.acquire('live', never)
  await settled()
  let closed = false
  const closing = rateLimiter.close().then(() => (closed = true))
  await settled()
  expect(state.landing).toHaveLength(1)
  await land()
  expect(state.landing).toHaveLength(1)
  expect(closed).toBe(false)
  await land()
  await Promise.all([entering, closing])
  expect(JSON.parse(state.text ?? '{}')).toMatchObject({ savedAt: clock.now(), ahead: 1 })
})
