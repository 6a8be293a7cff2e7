// What live reading cannot take from lookback and jobs: a tenth of the limit, two requests a minute at least, in whatever way the limit is shared.
import { expect, it, test } from 'vitest'
import type { Lane } from '../../../../src/contracts/source.ts'
import { Budget } from '../../../../src/sources/http/rate-limiter.ts'
import type { Budgeting } from '../../../../src/sources/http/permits.ts'
import { JointBudget } from '../../../../src/sources/http/permits.ts'
import { VirtualClock, settled } from '../../../simulation/virtual-clock.ts'
import { MINUTE, SECOND, START } from '../../app/desk.ts'

interface Sent {
  readonly at: number
  readonly lane: Lane
}

/** A limiter whose window is kept, as by the journal. */
function open(clock: VirtualClock, limit: number, kept: { text?: string | undefined } = {}) {
  const store = {
    load: async () => kept.text,
    save: async (text: string) => void (kept.text = text),
  }
  return new Budget({ limit: () => limit, clock, random: () => 0.5, store })
}

/** Asks again and again, each answer takes a tenth of a second. */
async function ask(
  clock: VirtualClock,
  budget: Pick<Budgeting, 'enter'>,
  lane: Lane,
  sent: Sent[],
  stop: AbortSignal,
) {
  while (!stop.aborted) {
    const answered = await budget.enter(lane, stop).catch(() => undefined)
    if (!answered) return
    sent.push({ at: clock.now(), lane })
    await clock.sleep(100)
    answered()
  }
}

async function pass(clock: VirtualClock, ms: number) {
  const until = clock.now() + ms
  do await settled()
  while (clock.advance(until))
}

/** The fewest and the most that a minute held, whichever it is, between the first two minutes and the end. */
function perMinute(sent: readonly Sent[], lane: Lane | undefined, from: number, to: number) {
  const times = sent.filter((one) => (lane ?? one.lane) === lane || lane === undefined).map(({ at }) => at)
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
  'of %i requests a minute, all of which live reading would use, a job and lookback make %i each, and no minute holds more than the limit',
  async (limit, least) => {
    const clock = new VirtualClock(START)
    const budget = open(clock, limit)
    const [sent, stop] = [[] as Sent[], new AbortController()]
    const asking = (['live', 'live', 'live', 'sweep', 'past'] as const).map((lane) =>
      ask(clock, budget, lane, sent, stop.signal),
    )
    await pass(clock, 12 * MINUTE)
    stop.abort()
    await Promise.all(asking)
    const [from, to] = [START + 2 * MINUTE, START + 12 * MINUTE]
    // A permit comes back a little later than its minute, so a rolling one may see one less now and then.
    for (const lane of ['sweep', 'past'] as const)
      expect(sent.filter((one) => one.lane === lane && one.at >= from).length).toBeGreaterThanOrEqual(
        least * 9.5,
      )
    expect(perMinute(sent, undefined, START, to).most).toBeLessThanOrEqual(limit)
    expect(sent.filter(({ lane }) => lane === 'live').length).toBeGreaterThanOrEqual(
      Math.floor(limit / 3) * 11,
    )
  },
)

it('where fewer are left than three times two, live reading, lookback and jobs have turns', async () => {
  const clock = new VirtualClock(START)
  const budget = open(clock, 60)
  await budget.load()
  for (let i = 0; i < 20; i++) await budget.limited(0)
  expect(budget.used.allowed).toBe(1)
  const [sent, stop] = [[] as Sent[], new AbortController()]
  const asking = (['live', 'live', 'sweep', 'past'] as const).map((lane) =>
    ask(clock, budget, lane, sent, stop.signal),
  )
  await pass(clock, 4.5 * MINUTE)
  stop.abort()
  await Promise.all(asking)
  expect(new Set(sent.slice(0, 4).map(({ lane }) => lane)).size).toBe(3)
})

it('a job has its tenth of what a 429 left too', async () => {
  const clock = new VirtualClock(START)
  const budget = open(clock, 60)
  await budget.load()
  await budget.limited(0)
  await budget.limited(0)
  const [sent, stop] = [[] as Sent[], new AbortController()]
  const asking = (['live', 'live', 'past'] as const).map((lane) =>
    ask(clock, budget, lane, sent, stop.signal),
  )
  await pass(clock, 4.5 * MINUTE)
  stop.abort()
  await Promise.all(asking)
  expect(budget.used.allowed).toBe(33)
  expect(sent.filter(({ lane }) => lane === 'past').length).toBeGreaterThanOrEqual(4 * 4)
})

it('a job has its tenth beside live reading of another workspace with the key, also while a rotated key still counts', async () => {
  const clock = new VirtualClock(START)
  const [old, fresh] = [open(clock, 60), open(clock, 60)]
  const both = new JointBudget(() => [old, fresh], clock)
  const alone = new JointBudget(() => [old], clock)
  const [sent, stop] = [[] as Sent[], new AbortController()]
  const asking = [
    ask(clock, alone, 'live', sent, stop.signal),
    ask(clock, alone, 'live', sent, stop.signal),
    ask(clock, both, 'past', sent, stop.signal),
  ]
  await pass(clock, 7 * MINUTE)
  stop.abort()
  await Promise.all(asking)
  expect(sent.filter(({ lane }) => lane === 'past').length).toBeGreaterThanOrEqual(6 * 6)
  expect(perMinute(sent, undefined, START, START + 7 * MINUTE).most).toBeLessThanOrEqual(60)
})

it('a job has its tenth behind a restart, whatever of the window was written down', async () => {
  const clock = new VirtualClock(START)
  const kept: { text?: string } = {}
  for (let life = 0; life < 2; life++) {
    const budget = open(clock, 60, kept)
    const [sent, stop] = [[] as Sent[], new AbortController()]
    const asking = (['live', 'live', 'past'] as const).map((lane) =>
      ask(clock, budget, lane, sent, stop.signal),
    )
    await pass(clock, 5 * MINUTE + 10 * SECOND)
    // Killed: nothing is written at the end.
    stop.abort()
    await Promise.all(asking)
    expect(sent.filter(({ lane }) => lane === 'past').length).toBeGreaterThanOrEqual(4 * 6)
  }
})

it('of what comes back the minimum is kept for a lane whose request was announced, but not for long', async () => {
  const clock = new VirtualClock(START)
  const budget = open(clock, 10)
  const stop = new AbortController()
  const sent: Sent[] = []
  for (let i = 0; i < 10; i++) (await budget.enter('live', stop.signal))()
  budget.announce('sweep')
  const asking = ask(clock, budget, 'live', sent, stop.signal)
  await pass(clock, MINUTE + SECOND)
  expect(budget.freeAt('sweep')).toBe(clock.now())
  expect(sent).toHaveLength(8)
  await pass(clock, 5 * SECOND)
  expect(sent).toHaveLength(10)
  stop.abort()
  await asking
})
