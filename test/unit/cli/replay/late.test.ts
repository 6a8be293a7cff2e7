// Whether a replay assumes that live reading lags: only a complete
// read by this process, under this configuration, says it does not.
import { expect, test } from 'vitest'
import { lateDays } from '../../../../src/cli/replay/kept.ts'
import type { SourceStatus } from '../../../../src/observability/status.ts'

const stream = { workspace: 'acme', source: 'audit' } as const
const CONFIGURED = '2026-11-17T10:00:00.000Z'

test.each([
  ['2026-11-17T10:00:01.000Z', 0],
  [CONFIGURED, 0],
  ['2026-11-17T09:59:59.999Z', 1],
  [null, 1],
])(
  'a day is late unless live reading caught up under this configuration: last caught up at %s',
  (at, late) => {
    const live = { name: 'audit', lag_seconds: 0, caught_up_at: at } as SourceStatus
    const report = {
      configured_at: CONFIGURED,
      workspaces: [{ name: 'acme', sources: [live], rateLimiter: [] }],
    }
    const day = { stream, day: 20_000, kept: 5, stored: 0, via: 'api' } as const
    expect(lateDays([day], report)).toHaveLength(late)
  },
)
