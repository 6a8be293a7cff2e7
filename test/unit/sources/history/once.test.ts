// The history as a job that runs every hour: each run reads what is new, and what its schedule has due again since the run before.
import { expect, test } from 'vitest'
import { historyEvent } from '../../../fakes/history-server.ts'
import type { HistoryEvent } from '../../../fakes/history-server.ts'
import { DAY, driven, HOUR, MINUTE, START } from '../../app/audit-harness.ts'
import { eventsFrom, openHistoryHarness } from './harness.ts'

const TODAY = Math.floor(START / DAY) * DAY
const HOURS = 80
const start = { kind: 'span', ms: 2 * DAY } as const

/** Events of each hour, some that become visible hours later, and some whose feedback comes later. */
function changing(): { events: HistoryEvent[]; change: (now: number) => void } {
  const events = [
    ...eventsFrom(historyEvent, TODAY - DAY, HOURS + 34, HOUR),
    ...[3, 9, 20, 40].map((hours) => {
      const at = TODAY - 5 * HOUR + hours * HOUR
      return { ...historyEvent(at), visibleAt: at + 14 * HOUR }
    }),
  ]
  const changes = [2, 12, 30].map((index) => ({ index, at: TODAY - DAY + index * HOUR + 26 * HOUR }))
  return {
    events,
    change(now) {
      for (const { index, at } of changes) {
        const event = events[index]
        if (event && now >= at && !event.v2.includes('later'))
          events[index] = { ...event, v2: event.v2.replace('{}', '{"feedback":"later"}') }
      }
    },
  }
}

async function readBy(mode: 'daemon' | 'hourly runs') {
  const harness = await openHistoryHarness({ source: { start } })
  const { events, change } = changing()
  harness.server.events = events
  for (let hour = 0; hour < HOURS; hour++) {
    const until = START + hour * HOUR
    if (mode === 'daemon') await harness.live(until)
    else {
      if (harness.clock.now() < until)
        await driven(harness.clock, harness.clock.sleep(until - harness.clock.now()))
      harness.open({ start, once: true })
      await harness.once()
    }
    change(until)
  }
  // One moment more for what was due right before.
  return { raws: new Set(await harness.raws()), asked: harness.asked().length }
}

test('an hourly job finds the late and the changed events that the daemon finds', async () => {
  const daemon = await readBy('daemon')
  const job = await readBy('hourly runs')
  const idsOf = (raws: Set<string>) =>
    [...raws].map((raw) => raw.replace(/7d3f[^"]*/, '')).toSorted((a, b) => (a < b ? -1 : 1))
  expect([...daemon.raws].filter((raw) => raw.includes('later'))).toHaveLength(3)
  expect(idsOf(job.raws)).toEqual(idsOf(daemon.raws))
  // Its own poll an hour, a second one to see that it is empty, and the lookback.
  expect(job.asked).toBeLessThan(3 * HOURS)
})

test('a run right after another one reads the open day once more, and nothing else', async () => {
  const harness = await openHistoryHarness({ source: { start, once: true } })
  harness.server.events = eventsFrom(historyEvent, START - 2 * DAY, 48, HOUR)
  await harness.once()
  harness.server.events.push(historyEvent(START + MINUTE))
  harness.clock.advance(START + 2 * MINUTE)
  harness.asked()
  harness.open({ start, once: true })
  expect(harness.source.plan(harness.cursor).caughtUp).toBe(false)
  await harness.once()
  expect(await harness.ids()).toHaveLength(49)
  expect(harness.asked()).toHaveLength(1)
})

test('a run that ended before its lookback leaves it to the next one', async () => {
  const harness = await openHistoryHarness({ source: { start, once: true } })
  harness.server.events = eventsFrom(historyEvent, START - 2 * DAY, 48, HOUR)
  await harness.once()
  harness.clock.advance(START + 7 * HOUR)
  harness.open({ start, once: true })
  await harness.step()
  harness.asked()
  harness.open({ start, once: true })
  await harness.once()
  const days = harness.asked().map(({ from }) => Math.round((from - TODAY) / DAY))
  expect(new Set(days)).toEqual(new Set([0, -1, -2]))
})
