// What live reading cannot take from lookback and jobs: a tenth of the limit, two requests a minute at least, however the limit is shared.
import { expect, it, test } from 'vitest'
import type { Priority } from '../../../../src/contracts/source.ts'
import { RateLimiter } from '../../../../src/sources/http/rate-limiter.ts'
import type { RateLimiting } from '../../../../src/sources/http/permits.ts'
import { JointRateLimiter } from '../../../../src/sources/http/permits.ts'
import { VirtualClock, settled } from '../../../simulation/virtual-clock.ts'
import { MINUTE, SECOND, START } from '../../app/audit-harness.ts'

interface Sent {
  readonly at: number
  readonly priority: Priority
}

/** A rate limiter whose window is kept, as by the journal. */
function open(clock: VirtualClock, limit: number, kept: { text?: string | undefined } = {}) {
  const store = {
    load: async () => kept.text,
    save: async (text: string) => void (kept.text = text),
  }
  return new RateLimiter({ limit: () => limit, clock, random: () => 0.5, store })
}

/** Requests in a row, each answer takes a tenth of a second. */
async function ask(
  clock: VirtualClock,
  rateLimiter: Pick<RateLimiting, 'acquire'>,
  priority: Priority,
  sent: Sent[],
  stop: AbortSignal,
) {
  while (!stop.aborted) {
    const answered = await rateLimiter.acquire(priority, stop).catch(() => undefined)
    if (!answered) return
    sent.push({ at: clock.now(), priority })
    await clock.sleep(100)
    answered()
  }
}

async function pass(clock: VirtualClock, ms: number) {
  const until = clock.now() + ms
  do await settled()
  while (clock.advance(until))
}

/** The fewest and the most of any minute between the first two minutes and the end. */
function perMinute(sent: readonly Sent[], priority: Priority | undefined, from: number, to: number) {
  const times = sent
    .filter((one) => (priority ?? one.priority) === priority || priority === undefined)
    .map(({ at }) => at)
  const within = (at: number) => times.filter((time) => time >= at && time <= at + MINUTE).length
  const counts: number[] = []
  for (let at = from; at + MINUTE <= to; at += 500) counts.push(within(at))
  for (const at of times) if (at + MINUTE <= to) counts.push(within(at))
  return { fewest: Math.min(...counts), most: Math.max(...counts) }
}

test.each([
  [60, 6],
  [200, 20],
  [20, 2],
  [6, 2],
])(
  'of %i requests a minute, all of which live reading would use, a job and lookback make %i each, and no minute exceeds the limit',
  async (limit, least) => {
    const clock = new VirtualClock(START)
    const rateLimiter = open(clock, limit)
    const [sent, stop] = [[] as Sent[], new AbortController()]
    const asking = (['live', 'live', 'live', 'lookback', 'job'] as const).map((priority) =>
      ask(clock, rateLimiter, priority, sent, stop.signal),
    )
    await pass(clock, 12 * MINUTE)
    stop.abort()
    await Promise.all(asking)
    const [from, to] = [START + 2 * MINUTE, START + 12 * MINUTE]
    // A permit comes back a little later than its minute, so a rolling one may see one less now and then.
    for (const priority of ['lookback', 'job'] as const)
      expect(sent.filter((one) => one.priority === priority && one.at >= from).length).toBeGreaterThanOrEqual(
        least * 9.5,
      )
    expect(perMinute(sent, undefined, START, to).most).toBeLessThanOrEqual(limit)
    expect(sent.filter(({ priority }) => priority === 'live').length).toBeGreaterThanOrEqual(
      Math.floor(limit / 3) * 11,
    )
  },
)

it('with a limit below three times two, live reading, lookback and jobs take turns', async () => {
  const clock = new VirtualClock(START)
  const rateLimiter = open(clock, 60)
  await rateLimiter.load()
  for (let i = 0; i < 20; i++) await rateLimiter.limited(0)
  expect(rateLimiter.used.allowed).toBe(1)
  const [sent, stop] = [[] as Sent[], new AbortController()]
  const asking = (['live', 'live', 'lookback', 'job'] as const).map((priority) =>
    ask(clock, rateLimiter, priority, sent, stop.signal),
  )
  await pass(clock, 4.5 * MINUTE)
  stop.abort()
  await Promise.all(asking)
  expect(new Set(sent.slice(0, 4).map(({ priority }) => priority)).size).toBe(3)
})

it('a job also has its tenth of what a 429 left', async () => {
  const clock = new VirtualClock(START)
  const rateLimiter = open(clock, 60)
  await rateLimiter.load()
  await rateLimiter.limited(0)
  await rateLimiter.limited(0)
  const [sent, stop] = [[] as Sent[], new AbortController()]
  const asking = (['live', 'live', 'job'] as const).map((priority) =>
    ask(clock, rateLimiter, priority, sent, stop.signal),
  )
  await pass(clock, 4.5 * MINUTE)
  stop.abort()
  await Promise.all(asking)
  expect(rateLimiter.used.allowed).toBe(33)
  expect(sent.filter(({ priority }) => priority === 'job').length).toBeGreaterThanOrEqual(4 * 4)
})

it('a job has its tenth beside live reading of another workspace with the key, also while a rotated key still counts', async () => {
  const clock = new VirtualClock(START)
  const [old, fresh] = [open(clock, 60), open(clock, 60)]
  const both = new JointRateLimiter(() => [old, fresh], clock)
  const alone = new JointRateLimiter(() => [old], clock)
  const [sent, stop] = [[] as Sent[], new AbortController()]
  const asking = [
    ask(clock, alone, 'live', sent, stop.signal),
    ask(clock, alone, 'live', sent, stop.signal),
    ask(clock, both, 'job', sent, stop.signal),
  ]
  await pass(clock, 7 * MINUTE)
  stop.abort()
  await Promise.all(asking)
  expect(sent.filter(({ priority }) => priority === 'job').length).toBeGreaterThanOrEqual(6 * 6)
  expect(perMinute(sent, undefined, START, START + 7 * MINUTE).most).toBeLessThanOrEqual(60)
})

it('a job has its tenth after a restart, whatever of the window was written down', async () => {
  const clock = new VirtualClock(START)
  const kept: { text?: string } = {}
  for (let life = 0; life < 2; life++) {
    const rateLimiter = open(clock, 60, kept)
    const [sent, stop] = [[] as Sent[], new AbortController()]
    const asking = (['live', 'live', 'job'] as const).map((priority) =>
      ask(clock, rateLimiter, priority, sent, stop.signal),
    )
    await pass(clock, 5 * MINUTE + 10 * SECOND)
    // Killed: nothing is written at the end.
    stop.abort()
    await Promise.all(asking)
    expect(sent.filter(({ priority }) => priority === 'job').length).toBeGreaterThanOrEqual(4 * 6)
  }
})

it('returned permits are reserved for a priority whose request was announced, but not for long', async () => {
  const clock = new VirtualClock(START)
  const rateLimiter = open(clock, 10)
  const stop = new AbortController()
  const sent: Sent[] = []
  for (let i = 0; i < 10; i++) (await rateLimiter.acquire('live', stop.signal))()
  rateLimiter.announce('lookback')
  const asking = ask(clock, rateLimiter, 'live', sent, stop.signal)
  await pass(clock, MINUTE + SECOND)
  expect(rateLimiter.freeAt('lookback')).toBe(clock.now())
  expect(sent).toHaveLength(8)
  await pass(clock, 5 * SECOND)
  expect(sent).toHaveLength(10)
  stop.abort()
  await asking
})
