// The sweep under a clock that is wrong for a while: nothing late is missed for good, and nothing is read again that is no longer known (invariant 6).
import { expect, it } from 'vitest'
import type { Clock } from '../../../../src/core/clock.ts'
import { DAY, HOUR, MINUTE, SECOND, START, openDesk } from '../../app/desk.ts'
import type { Desk } from '../../app/desk.ts'

/** The instant that a search asks for, epoch ms; of other requests none. */
const searchedFrom = ({ endpoint, target }: ReturnType<Desk['asked']>[number]): number[] =>
  endpoint === 'search' ? [Number(new URL(target, 'http://x').searchParams.get('time')) * 1000] : []

/** The source's own clock is off by `offset.ms`: the server's and the journal's are right. */
async function openOff() {
  const offset = { ms: 0 }
  const clock: Clock = {
    now: () => desk.clock.now() + offset.ms,
    elapsed: () => desk.clock.elapsed(),
    sleep: (ms, signal) => desk.clock.sleep(ms, signal),
  }
  const desk: Desk = await openDesk({ source: { lookbackMs: DAY, clock } })
  /** A look every ten minutes. */
  const live = async (until: number) => {
    while (desk.clock.now() < until) {
      for (let steps = 0; steps < 4; steps++) await desk.step()
      const nextAt = desk.clock.now() + 10 * MINUTE
      while (desk.clock.advance(nextAt));
      desk.add(1)
    }
  }
  return { desk, offset, live }
}

it('what became visible while the clock was ahead is found once it is set right', async () => {
  const { desk, offset, live } = await openOff()
  desk.add(20, START - SECOND)
  await live(START + HOUR)
  offset.ms = 20 * DAY
  const late = desk.mock.add({ at: START + 30 * MINUTE, visibleAt: START + 4 * HOUR }).id
  await live(START + 40 * HOUR)
  offset.ms = 0
  await live(START + 42 * HOUR)
  const ids = await desk.ids()
  expect(ids.filter((id) => id === late)).toHaveLength(1)
  desk.asked()
  await live(START + 52 * HOUR)
  expect(
    desk
      .asked()
      .flatMap(searchedFrom)
      .every((at) => at > START + 17 * HOUR),
  ).toBe(true)
})

it('a clock that is slow leads no sweep to where no keys are kept', async () => {
  const { desk, offset, live } = await openOff()
  desk.add(20, START - SECOND)
  await live(START + HOUR)
  offset.ms = -300 * DAY
  desk.asked()
  await live(START + 2 * HOUR)
  const searched = desk.asked().flatMap(searchedFrom)
  expect(searched.length).toBeGreaterThan(0)
  expect(Math.min(...searched)).toBeGreaterThan(START - 35 * DAY)
})

it('a `Date` that is two days ahead leaves nothing unswept', async () => {
  const desk: Desk = await openDesk({
    source: { lookbackMs: DAY },
    wrap: (send) => async (request, signal) => {
      const reply = await send(request, signal)
      const date = new Date(desk.clock.now() + 2 * DAY).toUTCString()
      return { ...reply, headers: { ...reply.headers, date } }
    },
  })
  desk.add(20, START - SECOND)
  await desk.live(START + HOUR)
  desk.add(20)
  const { id } = desk.mock.add({ at: START + 30 * MINUTE, visibleAt: START + 4 * HOUR })
  await desk.live(START + 20 * HOUR)
  expect(await desk.ids()).toContain(id)
})
