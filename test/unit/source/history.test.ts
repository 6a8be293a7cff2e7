import { expect, test } from 'vitest'
import { historyEvent } from '../../fakes/history-server.ts'
import { DAY, HOUR, MINUTE, SECOND, START } from './desk.ts'
import { eventsFrom, openHistoryDesk } from './history-desk.ts'

const TODAY = Math.floor(START / DAY) * DAY

test('a first read begins with the open day, then goes through the past oldest first', async () => {
  const desk = await openHistoryDesk()
  desk.server.events = [historyEvent(START - HOUR)]
  await desk.step()
  expect(desk.asked()).toMatchObject([
    { version: 'v2', kind: 'usage', from: TODAY - SECOND, to: START + SECOND },
  ])
  expect(desk.source.plan(desk.cursor)).toMatchObject({ lane: 'backfill', caughtUp: false })
  await desk.step()
  expect(desk.asked()[0]).toMatchObject({ from: TODAY - 7 * DAY - SECOND, to: TODAY - 6 * DAY + SECOND })
})

test('all that lies between the start and now is shipped, byte for byte, and nothing before', async () => {
  const desk = await openHistoryDesk()
  const before = eventsFrom(historyEvent, START - 7 * DAY - 3 * HOUR, 3, HOUR)
  const wanted = eventsFrom(historyEvent, START - 7 * DAY, 400, 25 * MINUTE)
  desk.server.events = [...before, ...wanted]
  await desk.once()
  expect((await desk.raws()).sort()).toEqual(wanted.map(({ v2 }) => v2).sort())
})

test.each([
  [true, true],
  [true, false],
  [false, true],
  [false, false],
])(
  'nothing at an edge is lost or doubled (start inclusive %s, end inclusive %s)',
  async (startInclusive, endInclusive) => {
    const desk = await openHistoryDesk({ startInclusive, endInclusive })
    desk.server.events = eventsFrom(historyEvent, TODAY - 7 * DAY + DAY, 6 * 24, HOUR)
    await desk.once()
    expect((await desk.ids()).length).toBe(6 * 24)
    expect(new Set(await desk.ids()).size).toBe(6 * 24)
  },
)
