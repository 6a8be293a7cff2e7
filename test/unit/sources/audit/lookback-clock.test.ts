// Lookback with a temporarily wrong clock: it misses no late entry
// for good, and reads nothing whose keys are gone (invariant 6).
import { expect, it } from 'vitest'
import type { Clock } from '../../../../src/core/clock.ts'
import { DAY, HOUR, MINUTE, SECOND, START, openHarness } from '../../app/audit-harness.ts'
import type { Harness } from '../../app/audit-harness.ts'

/** The time that a search asks for, epoch ms; none for other requests. */
const searchedFrom = ({ endpoint, target }: ReturnType<Harness['asked']>[number]): number[] =>
  endpoint === 'search' ? [Number(new URL(target, 'http://x').searchParams.get('time')) * 1000] : []

/** Only the source's own clock is off, by `offset.ms`. */
async function openOff() {
  const offset = { ms: 0 }
  const clock: Clock = {
    now: () => harness.clock.now() + offset.ms,
    elapsed: () => harness.clock.elapsed(),
    sleep: (ms, signal) => harness.clock.sleep(ms, signal),
  }
  const harness: Harness = await openHarness({ source: { lookbackMs: DAY, clock } })
  /** A look every ten minutes. */
  const live = async (until: number) => {
    while (harness.clock.now() < until) {
      for (let steps = 0; steps < 4; steps++) await harness.step()
      const nextAt = harness.clock.now() + 10 * MINUTE
      while (harness.clock.advance(nextAt));
      harness.add(1)
    }
  }
  return { harness, offset, live }
}

it('an entry that became visible while the clock was ahead is found once the clock is right', async () => {
  const { harness, offset, live } = await openOff()
  harness.add(20, START - SECOND)
  await live(START + HOUR)
  offset.ms = 20 * DAY
  const late = harness.mock.add({ at: START + 30 * MINUTE, visibleAt: START + 4 * HOUR }).id
  await live(START + 40 * HOUR)
  offset.ms = 0
  await live(START + 42 * HOUR)
  const ids = await harness.ids()
  expect(ids.filter((id) => id === late)).toHaveLength(1)
  harness.asked()
  await live(START + 52 * HOUR)
  expect(
    harness
      .asked()
      .flatMap(searchedFrom)
      .every((at) => at > START + 17 * HOUR),
  ).toBe(true)
})

it('a slow clock does not make lookback read where no keys are kept', async () => {
  const { harness, offset, live } = await openOff()
  harness.add(20, START - SECOND)
  await live(START + HOUR)
  offset.ms = -300 * DAY
  harness.asked()
  await live(START + 2 * HOUR)
  const searched = harness.asked().flatMap(searchedFrom)
  expect(searched.length).toBeGreaterThan(0)
  expect(Math.min(...searched)).toBeGreaterThan(START - 35 * DAY)
})

it('a `Date` two days ahead leaves no span without lookback', async () => {
  const harness: Harness = await openHarness({
    source: { lookbackMs: DAY },
    wrap: (send) => async (request, signal) => {
      const reply = await send(request, signal)
      const date = new Date(harness.clock.now() + 2 * DAY).toUTCString()
      return { ...reply, headers: { ...reply.headers, date } }
    },
  })
  harness.add(20, START - SECOND)
  await harness.live(START + HOUR)
  harness.add(20)
  const { id } = harness.mock.add({ at: START + 30 * MINUTE, visibleAt: START + 4 * HOUR })
  await harness.live(START + 20 * HOUR)
  expect(await harness.ids()).toContain(id)
})
