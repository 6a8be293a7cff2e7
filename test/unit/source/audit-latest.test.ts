// `start: latest` to the microsecond: what comes after the instant at which reading began is shipped, however soon.
import { expect, test } from 'vitest'
import { MINUTE, SECOND, START, openDesk } from './desk.ts'

const latest = { start: { kind: 'latest' } } as const

test('`latest`: an entry half a second after the newest of then is shipped', async () => {
  const desk = await openDesk({ source: latest })
  desk.add(5, START - SECOND)
  await desk.drain()
  const soon = desk.mock.add({ at: START - SECOND / 2, visibleAt: 0 }).id
  await desk.live(START + 10 * MINUTE)
  expect(await desk.ids()).toEqual([soon])
})

test.each(['on', 'off'] as const)(
  '`latest` on an empty log: an entry in the very second in which it was found empty is shipped (Date: %s)',
  async (date_header) => {
    const desk = await openDesk({ source: latest, switches: { date_header } })
    desk.clock.advance(START + 300)
    await desk.step()
    const soon = desk.mock.add({ at: START + 100, visibleAt: 0 }).id
    await desk.live(START + 10 * MINUTE)
    expect(await desk.ids()).toEqual([soon])
  },
)
