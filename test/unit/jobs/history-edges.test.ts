// History windows overlap so that no event is missed. An event in
// an overlap belongs to one window, which counts it and sends it.
import { expect, test } from 'vitest'
import { Comparisons } from '../../../src/jobs/compare.ts'
import { StreamJobs } from '../../../src/jobs/jobs.ts'
import { historyEvent } from '../../fakes/history-server.ts'
import { DAY, HOUR, SECOND } from '../app/audit-harness.ts'
import { eventsFrom, openHistoryHarness } from '../sources/history/harness.ts'
import { isDone, runUntil, TODAY, compareAll } from './backfill-harness.ts'
import { ARCHIVE, replay, REQUEST } from './replay-harness.ts'

const stream = { workspace: 'acme', source: 'history.usage' } as const
const FROM = TODAY - 30 * DAY
const TO = TODAY - 20 * DAY
const SPAN = { fromUs: FROM * 1000, toUs: TO * 1000 }

test.each([-500, -1, 0, 500, 999])(
  'an event %d ms from the edge of a window is counted once by a comparison, and sent once by a replay',
  async (ms) => {
    const harness = await openHistoryHarness({ source: { start: { kind: 'span', ms: 2 * DAY } } })
    harness.server.events = eventsFrom(historyEvent, FROM - DAY + ms, 12 * 24, HOUR)
    const within = harness.server.events.filter(({ at }) => at >= FROM && at < TO)
    const { journal, clock, log } = harness
    const common = { ranges: [harness.range()], journal, clock, log, random: () => 0.5 }
    const { days } = await compareAll(harness, new Comparisons(common), SPAN)
    expect(days.reduce((sum, { fetched }) => sum + fetched, 0)).toBe(within.length)
    const replays = new StreamJobs({ ...common, sinks: [ARCHIVE], readTo: async () => undefined })
    await replay(replays, { ...REQUEST, stream, spans: [SPAN] })
    await runUntil(harness, replays, isDone)
    expect((await harness.times()).toSorted((a, b) => a - b)).toEqual(
      // The API writes whole seconds.
      within.map(({ at }) => Math.floor(at / SECOND) * SECOND * 1000),
    )
  },
)
