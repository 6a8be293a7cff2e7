// Invariant 7: which audit fetches are ours, and which are by another tool with our user.
import { describe, expect, it, vi } from 'vitest'
import { nothingAppended } from '../../../../src/contracts/source.ts'
import { AuditRange } from '../../../../src/sources/audit/range.ts'
import { classify, freshFetches, recordSent } from '../../../../src/sources/audit/cursor.ts'
import type { Fetches, Kind } from '../../../../src/sources/audit/cursor.ts'
import { entriesOf } from '../../../fakes/lines.ts'
import {
  AGENT,
  DAY,
  HOUR,
  INSTANCE,
  MINUTE,
  SECOND,
  START,
  driven,
  openHarness,
} from '../../app/audit-harness.ts'
import type { Harness } from '../../app/audit-harness.ts'

const by = {
  instance: INSTANCE,
  expectedUserAgent: (agent: string) => agent.startsWith('known-tool/'),
  sentTimes: { sent: [] },
}

interface Fetch {
  readonly at?: number
  readonly user?: string
  readonly ip?: string
  readonly agent?: string
  readonly type?: string
}

function meet(
  fetches: Fetches,
  { at = START, user = 'siem', ip = '203.0.113.5', agent = AGENT, type = 'api:audit_log_fetch' }: Fetch,
): Kind {
  const time = new Date(at).toISOString().slice(0, -1)
  const raw = JSON.stringify({ id: 'x', timestamp: time, type, user, ip, user_agent: agent })
  return classify(fetches, entriesOf([{ id: 'x', time, type, raw }]), 0, by)
}

describe('by user agent', () => {
  it('a fetch with our instance is our own, and reveals our user', () => {
    const fetches = freshFetches(START)
    expect(meet(fetches, {})).toBe('own')
    expect(fetches.user).toBe('siem')
  })

  it('another instance of this program counts as another tool', () => {
    const fetches = freshFetches(START)
    meet(fetches, {})
    expect(meet(fetches, { agent: 'auditferry/0.0.0 (instance another)' })).toBe('foreign')
  })

  it('an entry that is no audit fetch is never ours, whatever its user agent', () => {
    expect(meet(freshFetches(START), { type: 'auth:login' })).toBe('other')
  })

  it('a fetch of another user is no finding', () => {
    const fetches = freshFetches(START)
    meet(fetches, {})
    expect(meet(fetches, { user: 'backup', agent: 'curl/8' })).toBe('other')
  })

  it('a fetch of our user before we started is no finding, since other tools were usual', () => {
    const fetches = freshFetches(START)
    meet(fetches, {})
    expect(meet(fetches, { at: START - MINUTE, agent: 'curl/8' })).toBe('other')
    expect(meet(fetches, { at: START + MINUTE, agent: 'curl/8' })).toBe('foreign')
  })

  it('an expected user agent is no finding', () => {
    const fetches = freshFetches(START)
    meet(fetches, {})
    expect(meet(fetches, { agent: 'known-tool/3' })).toBe('other')
  })
})

describe('by time, without a recorded user agent', () => {
  const generic = { agent: 'api-client' }

  function sentEachMinute(count: number): Fetches {
    const fetches = freshFetches(START)
    for (let i = 0; i < count; i++) recordSent(fetches, START + i * MINUTE)
    return fetches
  }

  it('fetches at the times of our requests are ours', () => {
    const fetches = sentEachMinute(10)
    for (let i = 0; i < 10; i++)
      expect(meet(fetches, { ...generic, at: START + i * MINUTE + SECOND })).toBe('own')
    expect([fetches.user, fetches.byTimeIp]).toEqual(['siem', '203.0.113.5'])
  })

  it('fetches of our user at other times are foreign', () => {
    const fetches = sentEachMinute(10)
    for (let i = 0; i < 3; i++) meet(fetches, { ...generic, at: START + i * MINUTE })
    expect(meet(fetches, { ...generic, at: START + 30 * SECOND })).toBe('foreign')
  })

  it('a fetch at our time from another address is foreign', () => {
    const fetches = sentEachMinute(10)
    for (let i = 0; i < 3; i++) meet(fetches, { ...generic, at: START + i * MINUTE })
    expect(meet(fetches, { ...generic, at: START + 5 * MINUTE, ip: '198.51.100.9' })).toBe('foreign')
  })

  it('a fetch from our address before the oldest remembered request may be our own, so it is no finding', () => {
    const fetches = sentEachMinute(1_000)
    for (let i = 990; i < 993; i++) meet(fetches, { ...generic, at: START + i * MINUTE })
    const early = START + 5 * MINUTE + 30 * SECOND
    expect(meet(fetches, { ...generic, at: early })).toBe('other')
    expect(meet(fetches, { ...generic, at: early, ip: '198.51.100.9' })).toBe('foreign')
    expect(meet(fetches, { ...generic, at: START + 990.5 * MINUTE })).toBe('foreign')
  })

  it('once the user agent is recorded, own fetches from before are no findings', () => {
    const fetches = sentEachMinute(10)
    for (let i = 0; i < 3; i++) meet(fetches, { ...generic, at: START + i * MINUTE })
    expect(meet(fetches, { at: START + 5 * MINUTE })).toBe('own')
    expect(meet(fetches, { ...generic, at: START + MINUTE })).toBe('other')
    expect(meet(fetches, { ...generic, at: START + 6 * MINUTE })).toBe('foreign')
  })

  it('a fetch with our instance ends the guessing', () => {
    const fetches = sentEachMinute(10)
    for (let i = 0; i < 3; i++) meet(fetches, { ...generic, at: START + i * MINUTE, user: 'guessed' })
    expect(meet(fetches, {})).toBe('own')
    expect(fetches).toMatchObject({ user: 'siem', byTimeIp: null })
  })

  it('the number of remembered request times is limited', () => {
    expect(sentEachMinute(1_000).sent.length).toBeLessThanOrEqual(128)
  })

  it('an id or content of another type is harmless', () => {
    const raw =
      '{"id":"x","timestamp":"2026-11-17T10:00:00","type":"api:audit_log_fetch","user":{"a":1},"ip":null,"user_agent":7}'
    const entries = entriesOf([{ id: 'x', time: '2026-11-17T10:00:00', type: 'api:audit_log_fetch', raw }])
    expect(classify(freshFetches(START), entries, 0, by)).toBe('other')
  })
})

it('a fetch is recognised without parsing the rest of it, however large', () => {
  const raw = `{"user":"siem","user_agent":"${AGENT}","more":[${'{},'.repeat(100_000)}{}]}`
  const entries = entriesOf([{ id: 'x', time: '2026-11-21T10:00:00', type: 'api:audit_log_fetch', raw }])
  const parse = vi.spyOn(JSON, 'parse')
  expect(classify(freshFetches(START), entries, 0, by)).toBe('own')
  expect(parse).not.toHaveBeenCalled()
  parse.mockRestore()
})

describe('in the log', () => {
  async function polls(harness: Harness, count: number): Promise<void> {
    for (let i = 0; i < count; i++) await harness.live(harness.clock.now() + 5 * MINUTE)
  }

  const foreign = {
    type: 'api:audit_log_fetch',
    user: 'siem@acme.example',
    ip: '198.51.100.9',
    userAgent: 'curl/8',
  }

  it('a foreign fetch with our user is one finding, however often its page is read', async () => {
    const harness = await openHarness({
      switches: { self_audit: 'all' },
      source: { lookbackMs: 20 * MINUTE },
    })
    harness.add(3, START - MINUTE)
    await polls(harness, 3)
    const { id } = harness.mock.add(foreign)
    await polls(harness, 20)
    const findings = harness.journal.stats().lastFindings
    expect(findings.map(({ entryId, kind }) => [entryId, kind])).toEqual([[id, 'foreign_fetch']])
  })

  it.each(['sent', 'generic'] as const)(
    'a foreign fetch is one finding also if fetches are unwanted, and own fetches are none (user agent %s)',
    async (user_agent) => {
      const harness = await openHarness({
        types: ['*', '!api:audit_log_fetch'],
        switches: { self_audit: 'all', user_agent },
        source: { lookbackMs: 20 * HOUR },
      })
      harness.add(3, START - MINUTE)
      await polls(harness, 10)
      await harness.live(harness.clock.now() + 2 * MINUTE)
      const { id } = harness.mock.add(foreign)
      await harness.live(harness.clock.now() + 20 * HOUR)
      const findings = harness.journal.stats().lastFindings
      expect(findings.map(({ entryId, kind }) => [entryId, kind])).toEqual([[id, 'foreign_fetch']])
      expect((await harness.ids()).length).toBe(3)
    },
  )

  it('`expected_user_agents` silences known tools', async () => {
    const harness = await openHarness({
      switches: { self_audit: 'all' },
      source: { expectedUserAgent: (agent) => agent === 'curl/8' },
    })
    await polls(harness, 3)
    harness.mock.add(foreign)
    await polls(harness, 3)
    expect(harness.journal.stats().findings).toBe(0)
  })

  it.each(['sent', 'generic'] as const)(
    'own fetches are no findings, and are shipped like all entries (user agent %s)',
    async (user_agent) => {
      const harness = await openHarness({ switches: { self_audit: 'all', user_agent } })
      harness.add(3, START - MINUTE)
      await polls(harness, 30)
      expect(harness.journal.stats().findings).toBe(0)
      const own = harness.mock.entries().filter(({ origin }) => origin === 'self')
      expect(own.length).toBeGreaterThan(30)
      const kept = new Set(await harness.ids())
      // The next poll would find those of the last one.
      expect(own.slice(0, -4).every(({ id }) => kept.has(id))).toBe(true)
    },
  )

  it('without a recorded user agent a foreign fetch is found too', async () => {
    const harness = await openHarness({ switches: { self_audit: 'all', user_agent: 'generic' } })
    harness.add(3, START - MINUTE)
    await polls(harness, 10)
    await harness.live(harness.clock.now() + 2 * MINUTE)
    const { id } = harness.mock.add({ ...foreign, userAgent: 'api-client' })
    await polls(harness, 3)
    expect(harness.journal.stats().lastFindings.map(({ entryId }) => entryId)).toEqual([id])
  })

  it('without a recorded user agent the fetches of a backfill are no findings', async () => {
    const harness = await openHarness({ switches: { self_audit: 'all', user_agent: 'generic' } })
    harness.add(3, START - MINUTE)
    await polls(harness, 10)
    await harness.live(harness.clock.now() + 2 * MINUTE)
    const span = { fromUs: (START - DAY) * 1000, toUs: START * 1000 }
    const range = new AuditRange({ ...harness.options, ...span })
    let cursor: string | undefined
    for (let step = 0; step < 10 && !range.plan(cursor).caughtUp; step++) {
      const parts = range.read(cursor, new AbortController().signal)
      for (
        let next = await driven(harness.clock, parts.next());
        !next.done;
        next = await driven(harness.clock, parts.next(nothingAppended))
      )
        cursor = next.value.cursor ?? cursor
    }
    expect(range.plan(cursor).caughtUp).toBe(true)
    await polls(harness, 10)
    expect(harness.journal.stats().findings).toBe(0)
  })

  it('an own fetch read again shows how late entries appear', async () => {
    const harness = await openHarness({ switches: { self_audit: 'all' } })
    await polls(harness, 4)
    expect(harness.reporter.latenesses.length).toBeGreaterThan(2)
    expect(Math.max(...harness.reporter.latenesses)).toBeLessThanOrEqual(5 * MINUTE)
    expect(Math.min(...harness.reporter.latenesses)).toBeGreaterThanOrEqual(0)
  })

  it('without a recorded user agent reading does not keep itself going either', async () => {
    const harness = await openHarness({ switches: { self_audit: 'all', user_agent: 'generic' } })
    harness.add(3, START - MINUTE)
    await polls(harness, 6)
    harness.asked()
    await polls(harness, 10)
    expect(harness.asked().length).toBeLessThanOrEqual(40)
  })
})
