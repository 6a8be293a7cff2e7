// Invariant 5: no rolling minute as the server counts it has more requests than the limit, whatever is delayed, crashes or jumps.
import fc from 'fast-check'
import { expect, it } from 'vitest'
import type { Clock } from '../../../../src/core/clock.ts'
import type { Priority } from '../../../../src/contracts/source.ts'
import { RateLimiter } from '../../../../src/sources/http/rate-limiter.ts'
import type { RateLimitStore } from '../../../../src/sources/http/rate-limiter.ts'
import { VirtualClock, settled } from '../../../simulation/virtual-clock.ts'
import { driven, openHarness, START } from '../../app/audit-harness.ts'

const MINUTE = 60_000
const never = new AbortController().signal

class Notes implements RateLimitStore {
  text: string | undefined
  saves = 0
  load = async () => this.text
  save = async (state: string) => {
    this.text = state
    this.saves++
  }
}

/** A wall clock that can be set, over a time that only runs. */
class JumpyClock implements Clock {
  readonly time = new VirtualClock(START)
  offsetMs = 0
  now = () => this.time.now() + this.offsetMs
  elapsed = () => this.time.elapsed()
  sleep = (ms: number, signal?: AbortSignal) => this.time.sleep(ms, signal)
}

function open(limit: number, clock: Clock = new VirtualClock(START), store: RateLimitStore = new Notes()) {
  return new RateLimiter({ limit: () => limit, clock, random: () => 0.5, store })
}

/** Takes a permit as soon as there is one and returns it at once; when that was. */
async function pass(
  rateLimiter: RateLimiter,
  clock: Clock & { time?: VirtualClock },
  priority: Priority = 'live',
) {
  const time = clock.time ?? (clock as unknown as VirtualClock)
  const answered = await driven(time, rateLimiter.acquire(priority, never))
  answered()
  return time.elapsed()
}

/** The most arrivals within any minute; a server that counts both ends is the strictest there is. */
function busiest(arrivals: readonly number[]): number {
  const sorted = [...arrivals].sort((a, b) => a - b)
  let most = 0
  for (let from = 0, to = 0; to < sorted.length; to++) {
    while ((sorted[to] ?? 0) - (sorted[from] ?? 0) > MINUTE) from++
    most = Math.max(most, to - from + 1)
  }
  return most
}

it('a limiter grants its limit at once, and the next permit a minute after the first answer', async () => {
  const clock = new VirtualClock(START)
  const rateLimiter = open(3, clock)
  const times = [
    await pass(rateLimiter, clock),
    await pass(rateLimiter, clock),
    await pass(rateLimiter, clock),
  ]
  expect(times).toEqual([START, START, START])
  const fourth = await pass(rateLimiter, clock)
  expect(fourth).toBeGreaterThan(START + MINUTE)
  expect(fourth).toBeLessThan(START + MINUTE + 200)
})

it('a permit comes back a minute after its answer came, not after it was sent', async () => {
  const clock = new VirtualClock(START)
  const rateLimiter = open(1, clock)
  const answered = await rateLimiter.acquire('live', never)
  clock.advance(START + 40_000)
  answered()
  expect(await pass(rateLimiter, clock)).toBeGreaterThan(START + 40_000 + MINUTE)
})

it('an answer reported twice gives one permit back', async () => {
  const clock = new VirtualClock(START)
  const rateLimiter = open(2, clock)
  const answered = await rateLimiter.acquire('live', never)
  answered()
  answered()
  expect(rateLimiter.used.permits).toBe(1)
  clock.advance(START + 2 * MINUTE)
  expect(rateLimiter.used.permits).toBe(0)
})

it('no rolling minute as the server counts it has more than the limit, however long requests and answers take, over crashes and restarts', async () => {
  const request = fc.record({
    transitMs: fc.nat(4_000),
    latencyMs: fc.oneof(fc.nat(200), fc.nat(40_000)),
    pauseMs: fc.oneof(fc.constant(0), fc.nat(3_000)),
    priority: fc.constantFrom<Priority>('live', 'lookback', 'job'),
    end: fc.constantFrom('none', 'none', 'none', 'none', 'none', 'crash', 'close'),
    downMs: fc.nat(8_000),
  })
  await fc.assert(
    fc.asyncProperty(
      fc.integer({ min: 1, max: 12 }),
      fc.array(request, { minLength: 20, maxLength: 80 }),
      async (limit, requests) => {
        const clock = new VirtualClock(START)
        const store = new Notes()
        const arrivals: number[] = []
        let rateLimiter = open(limit, clock, store)
        const flights: Promise<void>[] = []
        let life = 0
        for (const { transitMs, latencyMs, pauseMs, priority, end, downMs } of requests) {
          const answered = await driven(clock, rateLimiter.acquire(priority, never))
          const born = life
          const flight = (async () => {
            await clock.sleep(transitMs)
            arrivals.push(clock.now())
            await clock.sleep(latencyMs)
            // A dead process gets no answer.
            if (born === life) answered()
          })()
          flights.push(flight)
          await driven(clock, clock.sleep(pauseMs))
          if (end === 'none') continue
          if (end === 'close') {
            await driven(clock, Promise.all(flights))
            await rateLimiter.close()
          }
          life++
          await driven(clock, clock.sleep(downMs))
          rateLimiter = open(limit, clock, store)
        }
        await driven(clock, Promise.all(flights))
        expect(busiest(arrivals)).toBeLessThanOrEqual(limit)
      },
    ),
    { numRuns: 150 },
  )
})

it('a restart forgets no permit: a request sent before a crash still counts, whatever of it was written down', async () => {
  const clock = new VirtualClock(START)
  const store = new Notes()
  const first = open(30, clock, store)
  for (let i = 0; i < 30; i++) await pass(first, clock)
  const second = open(30, clock, store)
  expect(await pass(second, clock)).toBeGreaterThan(START + MINUTE)
})

it('a request in progress at the crash may be counted later: its permit counts from the restart on', async () => {
  const clock = new VirtualClock(START)
  const store = new Notes()
  const first = open(6, clock, store)
  // Blocks of one: the second permit writes the state down while the first request is in progress.
  await first.acquire('live', never)
  await first.acquire('live', never)
  clock.advance(START + 30_000)
  const second = open(6, clock, store)
  for (let i = 0; i < 3; i++) await pass(second, clock)
  const times: number[] = []
  for (let i = 0; i < 3; i++) times.push(await pass(second, clock))
  for (const time of times.slice(1)) expect(time).toBeGreaterThan(START + 30_000 + MINUTE)
})

it('a clean restart gives back what was reserved and not used', async () => {
  const clock = new VirtualClock(START)
  const store = new Notes()
  const first = open(60, clock, store)
  await pass(first, clock)
  await first.close()
  const second = open(60, clock, store)
  await pass(second, clock)
  expect(second.used.permits).toBe(2)
})

it('a restart over an hour later begins with an empty minute', async () => {
  const clock = new VirtualClock(START)
  const store = new Notes()
  const first = open(5, clock, store)
  for (let i = 0; i < 5; i++) await pass(first, clock)
  await first.close()
  clock.advance(START + 3_600_000)
  const second = open(5, clock, store)
  expect(await pass(second, clock)).toBe(START + 3_600_000)
  expect(second.used.permits).toBe(1)
})

it('permits are written down in blocks, not one by one', async () => {
  const clock = new VirtualClock(START)
  const store = new Notes()
  const rateLimiter = open(60, clock, store)
  for (let i = 0; i < 60; i++) await pass(rateLimiter, clock)
  expect(store.saves).toBeLessThanOrEqual(6)
})

it('waiting requests go in the order of their priorities, and in order of arrival within one', async () => {
  const clock = new VirtualClock(START)
  const rateLimiter = open(1, clock)
  await pass(rateLimiter, clock)
  const order: string[] = []
  const ask = async (name: string, priority: Priority) => {
    const answered = await rateLimiter.acquire(priority, never)
    order.push(name)
    answered()
  }
  const all = [
    ask('job', 'job'),
    ask('lookback 1', 'lookback'),
    ask('live 1', 'live'),
    ask('lookback 2', 'lookback'),
    ask('live 2', 'live'),
  ]
  await driven(clock, Promise.all(all))
  expect(order).toEqual(['live 1', 'live 2', 'lookback 1', 'lookback 2', 'job'])
})

it('live reading gets a permit at once however long a lookback waits', async () => {
  const clock = new VirtualClock(START)
  const rateLimiter = open(8, clock)
  for (let i = 0; i < 6; i++) await pass(rateLimiter, clock, 'lookback')
  const lookback = rateLimiter.acquire('lookback', never)
  await settled()
  expect(await pass(rateLimiter, clock, 'live')).toBe(START)
  await driven(clock, lookback)
})

it('lookback leaves a quarter of the limit unused, a backfill two fifths', async () => {
  const clock = new VirtualClock(START)
  const rateLimiter = open(60, clock)
  let backfills = 0
  while (rateLimiter.freeAt('job') <= clock.now()) {
    await pass(rateLimiter, clock, 'job')
    backfills++
  }
  let lookbacks = backfills
  while (rateLimiter.freeAt('lookback') <= clock.now()) {
    await pass(rateLimiter, clock, 'lookback')
    lookbacks++
  }
  expect([backfills, lookbacks]).toEqual([36, 45])
  for (let i = 0; i < 15; i++) expect(await pass(rateLimiter, clock, 'live')).toBe(START)
})

it('without live reading, a backfill has all of it', async () => {
  const clock = new VirtualClock(START)
  const rateLimiter = new RateLimiter({
    limit: () => 60,
    clock,
    random: () => 0.5,
    store: new Notes(),
    jobsOnly: true,
  })
  for (let i = 0; i < 60; i++) expect(await pass(rateLimiter, clock, 'job')).toBe(START)
  expect(rateLimiter.freeAt('job')).toBeGreaterThan(clock.now())
})

it('a request that gives up leaves the queue, and the others go on', async () => {
  const clock = new VirtualClock(START)
  const rateLimiter = open(1, clock)
  await pass(rateLimiter, clock)
  const leaving = new AbortController()
  const gone = rateLimiter.acquire('live', leaving.signal)
  const stays = rateLimiter.acquire('lookback', never)
  await settled()
  leaving.abort()
  await expect(gone).rejects.toThrow()
  await driven(clock, stays)
  expect(rateLimiter.used.permits).toBe(1)
})

it('a 429 with Retry-After is respected: nothing leaves before it, and something at it', async () => {
  const clock = new VirtualClock(START)
  const rateLimiter = open(60, clock)
  await pass(rateLimiter, clock)
  await rateLimiter.limited(17_000)
  expect(rateLimiter.freeAt('live')).toBe(START + 17_000)
  expect(await pass(rateLimiter, clock)).toBe(START + 17_000)
})

it('a 429 without Retry-After waits past a full minute', async () => {
  const clock = new VirtualClock(START)
  const rateLimiter = open(60, clock)
  await pass(rateLimiter, clock)
  await rateLimiter.limited(undefined)
  const next = await pass(rateLimiter, clock)
  expect(next).toBeGreaterThan(START + MINUTE)
  expect(next).toBeLessThan(START + 66_000)
})

it('after a 429 the limit is lower, never below one, and grows back while no other comes', async () => {
  const clock = new VirtualClock(START)
  const rateLimiter = open(60, clock)
  await pass(rateLimiter, clock)
  await rateLimiter.limited(0)
  expect(rateLimiter.used.allowed).toBe(45)
  for (let i = 0; i < 30; i++) await rateLimiter.limited(0)
  expect(rateLimiter.used.allowed).toBe(1)
  clock.advance(START + 6 * MINUTE)
  expect(rateLimiter.used.allowed).toBeGreaterThan(1)
  clock.advance(START + 60 * MINUTE)
  expect(rateLimiter.used.allowed).toBe(60)
})

it('a 429 survives a restart: its wait and the limit after it', async () => {
  const clock = new VirtualClock(START)
  const store = new Notes()
  const first = open(60, clock, store)
  await pass(first, clock)
  await first.limited(120_000)
  await first.close()
  const second = open(60, clock, store)
  expect(await pass(second, clock)).toBe(START + 120_000)
  expect(second.used.allowed).toBe(45)
})

it('a lowered limit keeps growing back over restarts, however short each process lives', async () => {
  const clock = new VirtualClock(START)
  const store = new Notes()
  const first = open(60, clock, store)
  await pass(first, clock)
  await first.limited(0)
  await first.close()
  const allowed: number[] = []
  for (let minutes = 3; minutes <= 18; minutes += 3) {
    clock.advance(START + minutes * MINUTE)
    const next = open(60, clock, store)
    await next.load()
    allowed.push(next.used.allowed)
    await next.close()
  }
  expect(allowed).toEqual([45, 51, 51, 57, 60, 60])
})

it('a limit that was raised in the configuration applies from the next start on', async () => {
  const clock = new VirtualClock(START)
  const store = new Notes()
  const first = open(10, clock, store)
  await pass(first, clock)
  await first.close()
  const second = open(600, clock, store)
  await second.load()
  expect(second.used.allowed).toBe(600)
})

it('the limit that a 429 lowered applies after a restart, whatever the configuration says by then', async () => {
  const clock = new VirtualClock(START)
  const store = new Notes()
  const first = open(60, clock, store)
  await pass(first, clock)
  await first.limited(0)
  await first.close()
  const second = open(600, clock, store)
  await second.load()
  expect(second.used.allowed).toBe(45)
})

it('the wait of a 429 survives a process that is killed right after it', async () => {
  const clock = new VirtualClock(START)
  const store = new Notes()
  const first = open(60, clock, store)
  await pass(first, clock)
  await first.limited(200_000)
  const second = open(60, clock, store)
  expect(await pass(second, clock)).toBe(START + 200_000)
  expect(second.used.allowed).toBeLessThan(60)
})

it('a restart forgets no permit that is taken while a 429 is written down', async () => {
  const clock = new VirtualClock(START)
  const store = new Notes()
  const first = open(60, clock, store)
  await pass(first, clock)
  // A slow disk, and a Retry-After that lets all go on at once.
  let land = (): void => undefined
  store.save = async (state) => {
    await new Promise<void>((resolve) => (land = resolve))
    store.text = state
  }
  const reported = first.limited(0)
  await settled()
  let sent = 0
  for (let i = 0; i < 15; i++) void first.acquire('live', never).then(() => sent++)
  await settled()
  for (let i = 0; i < 5; i++) {
    land()
    await settled()
  }
  await reported
  expect(sent).toBe(15)
  const second = open(60, clock, { load: store.load, save: async () => undefined })
  await driven(clock, second.acquire('live', never))
  expect(second.used.permits).toBeGreaterThanOrEqual(1 + sent + 1)
})

it('a 429 that comes while permits are written down is written down behind them', async () => {
  const clock = new VirtualClock(START)
  const store = new Notes()
  const first = open(6, clock, store)
  const slow = { land: (): void => undefined }
  store.save = async (state) => {
    await new Promise<void>((resolve) => (slow.land = resolve))
    store.text = state
  }
  const entering = first.acquire('live', never)
  await settled()
  const reported = first.limited(200_000)
  for (let i = 0; i < 5; i++) {
    slow.land()
    await settled()
  }
  await Promise.all([entering, reported])
  const second = open(6, clock, { load: store.load, save: async () => undefined })
  expect(await pass(second, clock)).toBe(START + 200_000)
})

it('after a wall clock jump back no permit counts longer than its minute', async () => {
  const clock = new JumpyClock()
  const rateLimiter = open(6, clock)
  for (let i = 0; i < 6; i++) {
    await pass(rateLimiter, clock)
    clock.time.advance(START + (i + 1) * 5_000)
  }
  clock.offsetMs = -3_600_000
  const times: number[] = []
  for (let i = 0; i < 6; i++) times.push(await pass(rateLimiter, clock))
  expect(times.at(-1)).toBeLessThan(START + 25_000 + MINUTE + 500)
})

it('after a wall clock jump forward no permit comes back early', async () => {
  const clock = new JumpyClock()
  const rateLimiter = open(6, clock)
  const times: number[] = []
  for (let i = 0; i < 6; i++) times.push(await pass(rateLimiter, clock))
  clock.offsetMs = 3_600_000
  for (let i = 0; i < 6; i++) times.push(await pass(rateLimiter, clock))
  expect(busiest(times)).toBeLessThanOrEqual(6)
})

it('after a wall clock jump back over a restart no permit counts longer than its minute', async () => {
  const clock = new JumpyClock()
  const store = new Notes()
  const first = open(6, clock, store)
  for (let i = 0; i < 6; i++) await pass(first, clock)
  await first.limited(30_000)
  await first.close()
  clock.offsetMs = -86_400_000
  const second = open(6, clock, store)
  expect(await pass(second, clock)).toBeLessThan(START + MINUTE + 10_000)
})

it('a store that fails fails the request, and its permit comes back', async () => {
  const clock = new VirtualClock(START)
  const store = new Notes()
  const rateLimiter = open(1, clock, store)
  store.save = () => Promise.reject(new Error('the disk is full'))
  await expect(rateLimiter.acquire('live', never)).rejects.toThrow('the disk is full')
  store.save = async (state) => void (store.text = state)
  expect(await pass(rateLimiter, clock)).toBeLessThan(START + MINUTE + 200)
})

it('a backlog of 150 pages takes at most 1.05 times what the limit allows, and no minute exceeds it', async () => {
  const harness = await openHarness({
    limit: 60,
    limits: { audit: 60 },
    traffic: { backlog: 150_000, exotic: 0 },
    switches: { self_audit: 'off', latency: 20, transit: 30 },
    source: { activity: 'low', intervalMs: undefined },
  })
  // The limit allows 60 at once and 60 more in each minute after: the 150th page and the entry before the first in two minutes.
  await harness.step()
  await harness.drain(300)
  const asked = harness.asked()
  const tookMs = harness.clock.now() - START
  const allowedMs = Math.floor(150 / 60) * MINUTE
  expect(asked.length).toBeLessThanOrEqual(150 * 1.05)
  expect(asked.some(({ status }) => status === 429)).toBe(false)
  expect(busiest(asked.map(({ at }) => at))).toBeLessThanOrEqual(60)
  expect(harness.journal.stats().entries).toBe(150_000)
  expect(tookMs).toBeLessThanOrEqual(allowedMs * 1.05)
})

it('a request that has to wait reports it first, also if the window comes from before a restart', async () => {
  const store = new Notes()
  const clock = new VirtualClock(START)
  const before = open(1, clock, store)
  await pass(before, clock)
  await before.close()
  const reported: number[] = []
  const after = open(1, clock, store)
  await driven(
    clock,
    after.acquire('live', never, () => void reported.push(clock.now())),
  )
  expect(reported).toEqual([START])
  expect(clock.now()).toBeGreaterThanOrEqual(START + MINUTE)
})

it('a window that the store could not load is loaded by the next request', async () => {
  const store = new Notes()
  const clock = new VirtualClock(START)
  const before = open(1, clock, store)
  await pass(before, clock)
  await before.close()
  const { load } = store
  store.load = () => Promise.reject(new Error('no database'))
  const after = open(1, clock, store)
  await expect(after.acquire('live', never)).rejects.toThrow('no database')
  store.load = load
  expect(await pass(after, clock)).toBeGreaterThanOrEqual(START + MINUTE)
})
