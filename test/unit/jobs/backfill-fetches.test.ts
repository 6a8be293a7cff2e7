// Reading writes (invariant 7), and a backfill reads beside the live reader: what it asks for is no stranger's.
import { expect, test } from 'vitest'
import { isDone, openLateDesk, pastOf, runUntil, SPAN } from './backfill-desk.ts'
import type { Desk } from '../app/desk.ts'
import { MINUTE, stream } from '../app/desk.ts'

const switches = { page_cap: 100, self_audit: 'all', user_agent: 'generic' } as const

async function polls(desk: Desk, count: number): Promise<void> {
  desk.cursor = await desk.journal.cursor(stream)
  for (let i = 0; i < count; i++) await desk.live(desk.clock.now() + 5 * MINUTE)
}

test.each([
  ['over a restart too', true],
  ['in one go', false],
])(
  'where the user agent is not recorded the requests of a backfill are no foreign fetches, %s',
  async (_, restarts) => {
    const desk = await openLateDesk({ limit: 20, switches }, 5_000)
    await polls(desk, 10)
    const first = pastOf(desk)
    await first.backfill({}, SPAN)
    if (restarts) {
      await runUntil(desk, first, ([one]) => (one?.counts.read ?? 0) > 1_000)
      desk.options.sentTimes.sent.length = 0
    }
    await runUntil(desk, restarts ? pastOf(desk) : first, isDone)
    await polls(desk, 3)
    expect(desk.journal.stats().findings).toBe(0)
    const stranger = desk.mock.add({
      type: 'api:audit_log_fetch',
      user: 'siem@acme.example',
      ip: '198.51.100.9',
      userAgent: 'api-client',
    })
    await polls(desk, 3)
    expect((await desk.journal.findings(10)).map(({ entryId }) => entryId)).toEqual([stranger.id])
  },
)
