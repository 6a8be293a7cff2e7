// Invariant 7: a backfill beside live reading does not mistake its own requests for a foreign tool.
import { expect, test } from 'vitest'
import { isDone, openLateHarness, pastOf, runUntil, SPAN } from './backfill-harness.ts'
import type { Harness } from '../app/audit-harness.ts'
import { MINUTE, stream } from '../app/audit-harness.ts'

const switches = { page_cap: 100, self_audit: 'all', user_agent: 'generic' } as const

async function polls(harness: Harness, count: number): Promise<void> {
  harness.cursor = await harness.journal.cursor(stream)
  for (let i = 0; i < count; i++) await harness.live(harness.clock.now() + 5 * MINUTE)
}

test.each([
  ['also across a restart', true],
  ['without a restart', false],
])(
  'without a recorded user agent the requests of a backfill are no foreign fetches, %s',
  async (_, restarts) => {
    const harness = await openLateHarness({ limit: 20, switches }, 5_000)
    await polls(harness, 10)
    const first = pastOf(harness)
    await first.backfill({}, SPAN)
    if (restarts) {
      await runUntil(harness, first, ([one]) => (one?.counts.read ?? 0) > 1_000)
      harness.options.sentTimes.sent.length = 0
    }
    await runUntil(harness, restarts ? pastOf(harness) : first, isDone)
    await polls(harness, 3)
    expect(harness.journal.stats().findings).toBe(0)
    const stranger = harness.mock.add({
      type: 'api:audit_log_fetch',
      user: 'siem@acme.example',
      ip: '198.51.100.9',
      userAgent: 'api-client',
    })
    await polls(harness, 3)
    expect(harness.journal.stats().lastFindings.map(({ entryId }) => entryId)).toEqual([stranger.id])
  },
)
