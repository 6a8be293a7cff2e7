// Why a job waits for the rate limit, in plain words, with the setting that leaves it more.
import { expect, test } from 'vitest'
import { slowText } from '../../../src/config/lint.ts'
import type { WorkspaceConfig } from '../../../src/config/workspace.ts'
import { Secret } from '../../../src/core/secret.ts'

const SECOND = 1_000

function workspaces(...intervals: (number | undefined)[]): WorkspaceConfig[] {
  return intervals.map((interval, i) => ({
    ...{ name: `w${i}`, base_url: 'https://a.example.com', api_key: new Secret('k') },
    audit: { interval, lookback: 0 },
    rate_limits: { audit: 60 },
  })) as unknown as WorkspaceConfig[]
}

function text(all: readonly WorkspaceConfig[], use: { permits: number; live: number; allowed?: number }) {
  const [first] = all
  return slowText('audit', first ?? expect.fail(), all, { allowed: 60, limit: 60, ...use })
}

test('polls that use much are reported with their interval', () => {
  expect(text(workspaces(4 * SECOND), { permits: 51, live: 45 })).toBe(
    'live polling uses 45 of 60 requests/min. Increase audit.interval to leave more',
  )
})

test('all workspaces that poll with a shared key are named', () => {
  expect(text(workspaces(6 * SECOND, 6 * SECOND), { permits: 60, live: 60 })).toBe(
    'live polling uses 60 of 60 requests/min. Increase audit.interval of w0, w1 (one key) to leave more',
  )
})

test('a backlog is reported as such, not as too short an interval', () => {
  for (const interval of [undefined, 60 * SECOND])
    expect(text(workspaces(interval), { permits: 60, live: 54 })).toBe(
      'live reading uses 54 of 60 requests/min to read a backlog. Jobs get at least 6 until that is read',
    )
})

test('if live reading uses little, no change is suggested', () => {
  const quiet = workspaces(60 * SECOND)
  expect(text(quiet, { permits: 38, live: 2 })).toBe(
    '38 of 60 requests/min are used, the rest is kept for live polling',
  )
  expect(text(quiet, { permits: 60, live: 0 })).toBe('all 60 requests/min are used')
})

test('a limit lowered by a 429 is reported as lowered', () => {
  expect(text(workspaces(4 * SECOND), { permits: 45, live: 39, allowed: 45 })).toBe(
    'live polling uses 39 of 45 requests/min (60 before the API answered 429). Increase audit.interval to leave more',
  )
})
