// The history’s reader before the mock, in each of its modes.
import { expect, test } from 'vitest'
import { openMock } from '../../../../src/mock/mock.ts'
import type { MockOptions } from '../../../../src/mock/mock.ts'
import { DAY, HOUR, MINUTE, START } from '../../app/audit-harness.ts'
import { openHistoryHarness } from './harness.ts'

const cases: [string, MockOptions['switches'], 'v1' | 'v2'][] = [
  [
    'times in milliseconds, both ends exclusive',
    { history_unit: 'ms', history_start: 'exclusive', history_end: 'exclusive' },
    'v2',
  ],
  [
    'end_time required, 201, both ends inclusive',
    { history_end_time: 'required', history_status: '201', history_end: 'inclusive' },
    'v2',
  ],
  ['a future end is refused', { history_future_end: 'refused' }, 'v2'],
  ['events that show hours later', { history_visible_after: 5 * HOUR }, 'v2'],
  ['v1', { history_end: 'inclusive' }, 'v1'],
  ['v1 without times', { history_v1_time: 'off' }, 'v1'],
]

test.each(cases)(
  'each event of the mock is read, and none twice: %s',
  async (_, switches, version) => {
    const harness = await openHistoryHarness({
      source: { version, start: { kind: 'span', ms: 2 * DAY }, intervalMs: HOUR },
    })
    const mock = openMock({
      clock: harness.clock,
      workspaces: [{ name: 'acme', keys: [{ key: 'acme-key' }] }],
      traffic: { entriesPerHour: 40, since: START - DAY },
      limits: { audit: 0, history: 0, vault: 0, assistant: 0 },
      switches: { self_audit: 'off', ...switches },
    })
    harness.through(mock.transport)
    const end = START + 20 * HOUR
    await harness.live(end)
    const shown = mock
      .history('acme')
      .filter(
        ({ kind, atUs, visibleAt }) => kind === 'usage' && Math.max(atUs / 1000, visibleAt) < end - 7 * HOUR,
      )
    expect(shown.length).toBeGreaterThan(50)
    const ids = await harness.ids()
    const known = new Set(ids)
    // Rows without a time are distinguished by their day too.
    const times = await harness.times()
    expect(new Set(ids.map((id, i) => `${id} ${times[i]}`)).size).toBe(ids.length)
    if (version === 'v2') expect(shown.filter(({ id }) => !known.has(id))).toEqual([])
    else expect(ids.length).toBeGreaterThanOrEqual(shown.length)
    const all = mock.history('acme').filter(({ kind, atUs }) => kind === 'usage' && atUs / 1000 <= end)
    expect(ids.length).toBeLessThanOrEqual(all.length)
  },
  15 * MINUTE,
)
