// When a prompt may be sent: the sources' own records decide, and a source that cannot read does not prevent it.
import { expect, test } from 'vitest'
import type { Cursor, Plan, Source, SourceName } from '../../../src/contracts/source.ts'
import type { SourceState } from '../../../src/contracts/reporter.ts'
import { isReady } from '../../../src/app/workspace.ts'
import { VirtualClock } from '../../simulation/virtual-clock.ts'
import { HOUR, MINUTE, START } from '../app/audit-harness.ts'

interface Given {
  /** what the journal keeps; undefined: nothing */
  readonly plan: Plan | undefined
  readonly state?: SourceState
}

async function ready(given: Partial<Record<SourceName, Given>>, intervalMs = 15 * MINUTE): Promise<boolean> {
  const plans = new Map<Cursor, Plan>()
  const clock = new VirtualClock(START)
  const nothing: Plan = { dueAt: START, priority: 'live', caughtUp: false }
  const readers = (Object.keys(given) as SourceName[]).map((name) => {
    const source: Source = {
      stream: { workspace: 'acme', source: name },
      plan: (cursor) => (cursor === undefined ? nothing : (plans.get(cursor) ?? expect.fail())),
      read: () => expect.fail('nothing is read'),
    }
    return { source, intervalMs }
  })
  for (const [name, { plan }] of Object.entries(given)) if (plan) plans.set(name, plan)
  const journal = {
    cursor: ({ source }: { source: SourceName }) => Promise.resolve(given[source]?.plan ? source : undefined),
  }
  return isReady(readers, journal, clock, ({ source }) => given[source]?.state ?? 'starting')
}

const done: Plan = { dueAt: START + MINUTE, priority: 'live', caughtUp: true }
const behind: Plan = { dueAt: START, priority: 'job', caughtUp: false }

test('reads before a restart count: nothing has to be read again before a prompt is sent', async () => {
  expect(await ready({ audit: { plan: done }, 'history.usage': { plan: done } })).toBe(true)
})

test('a source with a backlog, or that has read nothing yet, or was away for long, is waited for', async () => {
  expect(await ready({ audit: { plan: done }, 'history.usage': { plan: behind } })).toBe(false)
  expect(await ready({ audit: { plan: undefined } })).toBe(false)
  expect(await ready({ audit: { plan: { ...done, dueAt: START - HOUR } } })).toBe(false)
  expect(await ready({ audit: { plan: { ...done, dueAt: START - 10 * MINUTE } } })).toBe(true)
})

test.each([
  [15 * MINUTE, 15 * MINUTE],
  [1_000, MINUTE],
])('a source that is read every %i ms counts as read until it is %i ms overdue', async (intervalMs, ms) => {
  const overdue = (byMs: number) => ready({ audit: { plan: { ...done, dueAt: START - byMs } } }, intervalMs)
  expect([await overdue(ms), await overdue(ms + 1)]).toEqual([true, false])
})

test.each(['blocked', 'failing'] as const)(
  'a source that is %s does not keep a prompt from being sent',
  async (state) => {
    const held = { plan: undefined, state }
    expect(await ready({ audit: { plan: done }, 'history.usage': held })).toBe(true)
    expect(await ready({ audit: { plan: behind }, 'history.usage': held })).toBe(false)
  },
)
