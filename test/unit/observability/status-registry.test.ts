// The status registry in JSON, in metrics and in one sentence.
import { describe, expect, it } from 'vitest'
import { ConnectorError } from '../../../src/core/errors.ts'
import { fakeStats, openRegistrySetup, ack, startAt, testClock } from './registry-setup.ts'
import { Secret } from '../../../src/core/secret.ts'
import { openStatusRegistry } from '../../../src/observability/status-registry.ts'
import { openMetrics } from '../../../src/observability/metrics.ts'
import type { BackfillStatus } from '../../../src/observability/status.ts'
import { spanText } from '../../../src/observability/words.ts'

const refused = new ConnectorError('unreachable', 'receiver refused the connection')
const badKey = new ConnectorError('unauthorized', 'the API refused the key: put a valid one into the file.')

describe('/status', () => {
  it('has the shape of the contract, with null for what has not happened yet', () => {
    const { registry } = openRegistrySetup()
    expect(JSON.parse(JSON.stringify(registry.status()))).toEqual({
      version: '1.2.3',
      started_at: '2026-11-21T10:00:00.000Z',
      configured_at: '2026-11-21T10:00:00.000Z',
      reported_at: '2026-11-21T10:00:00.000Z',
      ok: true,
      summary: 'acme audit is starting',
      workspaces: [
        {
          name: 'acme',
          sources: [
            {
              name: 'audit',
              state: 'starting',
              last_success_at: null,
              caught_up_at: null,
              head_at: null,
              cursor_at: null,
              interval_seconds: 30,
              lag_seconds: 0,
              progress: null,
              new_entries: 0,
              filtered_entries: 0,
              gaps: 0,
              last_gap_at: null,
              findings: 0,
              error: null,
            },
          ],
        },
      ],
      sinks: [
        {
          name: 'archive',
          type: 'file',
          assurance: 'stored',
          state: 'starting',
          pending_entries: 0,
          lag_seconds: 0,
          last_success_at: null,
          accepted_entries: 0,
          filtered_entries: 0,
          dead_letters: 0,
          error: null,
        },
      ],
      journal: {
        entries: 0,
        bytes: 0,
        capacity_bytes: 2147483648,
        paused: false,
        lost: null,
        quarantined: 0,
        gaps: 0,
        findings: 0,
        unconfigured: [],
      },
      config_refused_at: null,
      config_refused_why: null,
      warnings: [],
      findings: [],
      backfills: [],
      replays: [],
      errors: [],
      history: { step_seconds: 30, read: [0], delivered: [0], pending: [0] },
    })
  })

  it.each([
    ['failing', 'archive cannot deliver: receiver refused the connection'],
    ['blocked', 'archive is blocked: receiver refused the connection'],
  ] as const)(
    'a sink that is %s and behind by less than a second is not shown as 0 s behind',
    (state, reported) => {
      const setup = openRegistrySetup()
      ack(setup)
      setup.owe(12, startAt)
      setup.clock.pass(200)
      setup.sink.state(state, refused)
      expect(setup.registry.status().summary).toBe(reported)
    },
  )

  it('a failing sink is behind by the age of its oldest pending entry, with the reason', () => {
    const setup = openRegistrySetup()
    ack(setup)
    setup.owe(12, startAt)
    setup.clock.pass(14_200)
    setup.sink.state('failing', refused)
    const { ok, summary, sinks } = setup.registry.status()
    expect(ok).toBe(false)
    expect(summary).toBe('archive is 14 s behind: receiver refused the connection')
    expect(sinks[0]).toMatchObject({ state: 'failing', pending_entries: 12, lag_seconds: 14.2 })
    expect(sinks[0]?.error).toEqual({
      code: 'unreachable',
      message: 'receiver refused the connection',
      since: '2026-11-21T10:00:14.200Z',
    })
  })

  it('a part that retries stays failing since the first time, until it succeeds', () => {
    const { clock, registry, sink } = openRegistrySetup()
    sink.state('failing', refused)
    clock.pass(5000)
    sink.state('sending')
    expect(registry.status().sinks[0]?.state).toBe('failing')
    sink.state('blocked', badKey)
    expect(registry.status().sinks[0]?.error).toMatchObject({
      code: 'unauthorized',
      since: '2026-11-21T10:00:00.000Z',
    })
    sink.state('sending')
    sink.success()
    expect(registry.status().sinks[0]).toMatchObject({ state: 'sending', error: null })
  })

  it('a source that waits for its next try, or fails again, fails since the first time', () => {
    const setup = openRegistrySetup()
    ack(setup)
    const state = () => setup.registry.status().workspaces[0]?.sources[0]
    setup.source.state('failing', refused)
    for (const next of ['idle', 'waiting', 'reading'] as const) {
      setup.source.state(next)
      expect(state()).toMatchObject({ state: 'failing', error: { code: 'unreachable' } })
    }
    setup.source.success()
    expect(state()).toMatchObject({ state: 'reading', error: null })
  })

  it('a rate limit that is waited out is no failure, and its reason stays visible', () => {
    const setup = openRegistrySetup()
    ack(setup)
    setup.source.state('failing', new ConnectorError('rate_limited', 'the API said 429'))
    setup.source.state('waiting')
    setup.source.state('reading')
    const { ok, workspaces } = setup.registry.status()
    expect(ok).toBe(true)
    expect(workspaces[0]?.sources[0]).toMatchObject({ state: 'waiting', error: { code: 'rate_limited' } })
  })

  it('the reason of a pause ends with the pause', () => {
    const setup = openRegistrySetup()
    ack(setup)
    setup.source.state('paused', new ConnectorError('journal_full', 'the journal is full'))
    setup.source.state('idle')
    expect(setup.registry.status()).toMatchObject({ ok: true, workspaces: [{ sources: [{ error: null }] }] })
  })

  it('a pause for the disk lasts over each try, since the first, until something is kept', () => {
    const setup = openRegistrySetup()
    ack(setup)
    setup.clock.pass(1_000)
    const source = () => setup.registry.status().workspaces[0]?.sources[0]
    for (const mib of [3, 2, 1]) {
      setup.source.state('paused', new ConnectorError('disk_full', `make room: ${mib} MiB are free`))
      setup.clock.pass(60_000)
      setup.source.state('reading')
      const error = {
        code: 'disk_full',
        message: `make room: ${mib} MiB are free`,
        since: '2026-11-21T10:00:01.000Z',
      }
      expect(source()).toMatchObject({ state: 'paused', error })
      expect(setup.registry.status().journal.paused).toBe(true)
    }
    const none = { late: 0, known: 0, filtered: 0, quarantined: 0, findings: 0, latestBehindUs: 0 }
    setup.source.appended({ ...none, added: 5 })
    expect(source()).toMatchObject({ state: 'reading', error: null })
    expect(setup.registry.status().journal.paused).toBe(false)
  })

  it('chunks kept of a failing read do not make it healthy, and a pause at journal.max_bytes ends an earlier failure', () => {
    const setup = openRegistrySetup()
    ack(setup)
    const source = () => setup.registry.status().workspaces[0]?.sources[0]
    setup.source.state('failing', refused)
    setup.clock.pass(1_000)
    const none = { late: 0, known: 0, filtered: 0, quarantined: 0, findings: 0, latestBehindUs: 0 }
    setup.source.appended({ ...none, added: 5 })
    expect(source()).toMatchObject({ state: 'failing', error: { since: '2026-11-21T10:00:00.000Z' } })
    setup.source.state('paused')
    expect(source()).toMatchObject({ state: 'paused', error: null })
  })

  it('a sink whose receiver is unreachable is failing before anything is sent, until it answers or a delivery ends', () => {
    const { registry, sink, clock } = openRegistrySetup()
    const shown = () => registry.status().sinks[0]
    sink.state('idle')
    sink.probed(new ConnectorError('unreachable', 'siem refused the connection'), 5_000)
    sink.state('collecting', undefined, 20_000)
    const error = { code: 'unreachable', message: 'siem refused the connection' }
    expect(shown()).toMatchObject({ state: 'failing', error })
    expect(shown()?.error?.next_try_at).toBe(new Date(clock.now() + 5_000).toISOString())
    expect(registry.status()).toMatchObject({
      ok: false,
      summary: expect.stringContaining('archive is failing: siem refused') as string,
      errors: [{ message: 'siem refused the connection' }],
    })
    sink.probed(new ConnectorError('not_found', 'no such bucket'))
    expect(shown()).toMatchObject({ state: 'blocked', error: { code: 'not_found' } })
    sink.probed()
    expect(shown()).toMatchObject({ state: 'collecting', error: null })
    sink.probed(new ConnectorError('unreachable', 'gone again'))
    // A finished delivery says more, whatever its outcome.
    sink.delivering()()
    expect([sink.tried(), shown()?.state]).toEqual([true, 'collecting'])
    sink.probed(new ConnectorError('unreachable', 'late word'))
    expect(shown()).toMatchObject({ state: 'collecting', error: null })
  })

  it('a collecting sink shows when its upload is due, and is no problem', () => {
    const { registry, sink, clock, owe } = openRegistrySetup()
    owe(3, clock.now())
    sink.state('collecting', undefined, 20_000)
    const [shown] = registry.status().sinks
    expect(shown).toMatchObject({ state: 'collecting', error: null })
    expect(shown?.next_upload_at).toBe(new Date(clock.now() + 20_000).toISOString())
    sink.state('sending')
    expect(registry.status().sinks[0]).not.toHaveProperty('next_upload_at')
  })

  it('a sink whose receiver refuses all by name has recovered', () => {
    const setup = openRegistrySetup()
    ack(setup)
    setup.sink.state('failing', refused)
    setup.sink.state('sending')
    setup.sink.acknowledged({ accepted: 0, deadLettered: 1, filtered: 0 })
    expect(setup.registry.status().sinks[0]).toMatchObject({ state: 'sending', error: null })
    setup.sink.state('blocked', badKey)
    setup.sink.state('idle')
    expect(setup.registry.status().ok).toBe(true)
  })

  it('a sink that accepts nothing is not caught up, and its trouble does not begin again with each dead letter', () => {
    const setup = openRegistrySetup()
    ack(setup)
    const archive = () => setup.registry.status().sinks[0]
    const { summary: calm } = setup.registry.status()
    setup.sink.state('blocked', badKey)
    for (let i = 0; i < 10; i++) {
      setup.clock.pass(4_200)
      setup.sink.acknowledged({ accepted: 0, deadLettered: 1, filtered: 0 })
    }
    const since = '2026-11-21T10:00:00.000Z'
    expect(archive()).toMatchObject({ error: null, rejecting: { since, entries: 10 } })
    expect(setup.registry.status().summary).toBe(
      'archive has accepted nothing for 42 s: its last 10 entries became dead letters (auditferry dead-letters list says why)',
    )
    setup.sink.state('blocked', badKey)
    expect(archive()?.error?.since).toBe(since)
    setup.sink.acknowledged({ accepted: 1, deadLettered: 1, filtered: 0 })
    setup.sink.success()
    expect(archive()).not.toHaveProperty('rejecting')
    expect(setup.registry.status().summary).toBe(calm)
  })

  it('a failing or blocked part shows when it retries, until that try begins', () => {
    const setup = openRegistrySetup()
    ack(setup)
    const errors = () => {
      const { workspaces, sinks } = setup.registry.status()
      return [workspaces[0]?.sources[0]?.error, sinks[0]?.error]
    }
    const since = '2026-11-21T10:00:00.000Z'
    setup.source.state('blocked', badKey, 42_000)
    setup.sink.state('failing', refused, 7_000)
    expect(errors()).toMatchObject([
      { since, next_try_at: '2026-11-21T10:00:42.000Z' },
      { since, next_try_at: '2026-11-21T10:00:07.000Z' },
    ])
    setup.clock.pass(42_000)
    setup.source.state('reading')
    setup.sink.state('sending')
    for (const error of errors()) expect(error).toEqual({ ...error, since, next_try_at: undefined })
    setup.source.state('blocked', badKey, 60_000)
    expect(errors()[0]).toMatchObject({ since, next_try_at: '2026-11-21T10:01:42.000Z' })
  })

  it('a waiting source shows whether anything was read since the start', () => {
    const setup = openRegistrySetup()
    const sentence = () => setup.registry.status().summary
    setup.source.state('idle')
    expect(sentence()).toBe('acme audit waits for its first read')
    setup.source.recalled({ readAt: startAt - 12_000, caughtUpAt: 0, gapAt: 0 })
    expect(sentence()).toBe('acme audit waits for its first read since the start, the last was 12 s ago')
    setup.source.success()
    expect(sentence()).toBe('acme audit waits for its next read')
  })

  it('a source that waits for its rate limit for longer than its interval is not caught up', () => {
    const setup = openRegistrySetup()
    ack(setup)
    const sentence = () => setup.registry.status().summary
    setup.source.state('failing', new ConnectorError('rate_limited', 'the API answered 429'))
    setup.source.state('waiting')
    setup.clock.pass(90_000)
    expect(sentence()).toBe('All caught up: last delivery 2 min ago')
    setup.clock.pass(90_000)
    expect(sentence()).toBe('acme audit waits for its rate limit: last read 3 min ago')
    setup.source.success()
    setup.source.caughtUp()
    expect(sentence()).toBe('All caught up: last delivery 3 min ago')
  })

  it('a canary that waits for its next prompt does not prevent caught up, and one that asks reads nothing', () => {
    const setup = openRegistrySetup()
    const canary = setup.registry.source({ workspace: 'acme', source: 'assistant' })
    ack(setup)
    const sentence = () => setup.registry.status().summary
    canary.state('idle')
    expect(sentence()).toMatch(/^All caught up: last delivery/)
    canary.state('reading')
    expect(sentence()).toBe("acme's canary is sending its prompt")
    canary.state('waiting')
    expect(sentence()).toBe("acme's canary is sending its prompt, waiting for its rate limit")
    canary.state('failing', new ConnectorError('timeout', 'The canary did not come back'))
    expect(sentence()).toContain('acme assistant has been failing for 0 s: The canary did not come back')
  })

  it('the values of an earlier process stay until this one has read', () => {
    const setup = openRegistrySetup()
    setup.clock.pass(600_000)
    setup.source.recalled({ readAt: startAt, caughtUpAt: startAt - 1000, gapAt: startAt - 2000 })
    setup.source.state('idle')
    const reported = () => setup.registry.status().workspaces[0]?.sources[0]
    expect(reported()).toMatchObject({
      last_success_at: '2026-11-21T10:00:00.000Z',
      caught_up_at: '2026-11-21T09:59:59.000Z',
      ...{ gaps: 0, last_gap_at: '2026-11-21T09:59:58.000Z' },
    })
    setup.source.gap(1)
    expect(reported()).toMatchObject({ gaps: 1, last_gap_at: '2026-11-21T10:10:00.000Z' })
    setup.source.success()
    expect(reported()?.last_success_at).toBe('2026-11-21T10:10:00.000Z')
  })

  it('after a start live reading counts up to when it had last read everything, not up to its last success, until it reports itself', () => {
    const stream = { workspace: 'acme', source: 'audit' } as const
    const { registry, source } = openRegistrySetup()
    expect(registry.reading(stream)?.readTo()).toBeUndefined()
    expect(registry.reading({ ...stream, source: 'history.usage' })).toBeUndefined()
    source.recalled({ readAt: startAt, caughtUpAt: 0, gapAt: 0 })
    expect(registry.reading(stream)?.readTo()).toBeUndefined()
    source.recalled({ readAt: startAt, caughtUpAt: startAt - 5_000, gapAt: 0 })
    expect(registry.reading(stream)?.readTo()).toBe((startAt - 5_000) * 1000)
    source.cursor(startAt * 1000 + 123_456)
    source.success()
    expect(registry.reading(stream)?.readTo()).toBe(startAt * 1000 + 123_456)
  })

  it('after a reload the process is as old as before, and nothing counts as caught up that was read before it', () => {
    const clock = testClock()
    const metrics = openMetrics({ version: '1.2.3', processMetrics: false })
    const startedAt = startAt - 3_600_000
    const registry = openStatusRegistry({
      clock,
      metrics,
      version: '1.2.3',
      startedAt,
      journalStats: () => fakeStats,
    })
    const source = registry.source({ workspace: 'acme', source: 'audit' }, 30_000)
    source.recalled({ readAt: startAt - 1, caughtUpAt: startAt - 1, gapAt: 0 })
    source.state('idle')
    expect(registry.status()).toMatchObject({
      started_at: '2026-11-21T09:00:00.000Z',
      configured_at: '2026-11-21T10:00:00.000Z',
      summary: 'acme audit waits for its first read since the reload, the last was 0 s ago',
    })
    source.caughtUp()
    expect(registry.status().summary).toBe('All caught up, nothing to deliver since the reload')
  })

  it('nothing counts as caught up that only an earlier process has read', () => {
    const setup = openRegistrySetup()
    const sentence = () => setup.registry.status().summary
    setup.source.recalled({ readAt: startAt - 1, caughtUpAt: startAt - 1, gapAt: 0 })
    expect(sentence()).toBe('acme audit is starting')
    setup.source.state('idle')
    expect(sentence()).toBe('acme audit waits for its first read since the start, the last was 0 s ago')
    setup.source.state('reading')
    expect(sentence()).toBe('acme audit is reading')
    setup.source.caughtUp()
    expect(sentence()).toBe('All caught up, nothing to deliver since the start')
    ack(setup)
    expect(sentence()).toBe('All caught up: last delivery 0 s ago')
  })

  it('a source that waits for its rate limiter shows that, and the end of a pause by a 429', () => {
    const setup = openRegistrySetup()
    const { clock, metrics } = setup
    const journalStats = () => setup.journal.stats
    let limited: object = { limited_until: new Date(startAt + 54_000).toISOString() }
    const rateLimiter = () => [{ area: 'audit', used: 3, limit: 45, ...limited }]
    const registry = openStatusRegistry({ clock, metrics, journalStats, version: '1', rateLimiter })
    const source = registry.source({ workspace: 'acme', source: 'audit' })
    source.state('waiting')
    expect(registry.status().summary).toBe(
      `acme audit is starting, waiting: the API answered 429, and no request is sent until ${new Date(startAt + 54_000).toISOString().slice(0, 19).replace('T', ' ')} UTC (54 s more)`,
    )
    limited = {}
    expect(registry.status().summary).toBe('acme audit is starting, waiting for its rate limit')
  })

  it('a refused configuration comes first, and what follows it is no new sentence', () => {
    const setup = openRegistrySetup()
    ack(setup)
    setup.registry.configRefused(new ConnectorError('config_invalid', 'a.yaml:1:1: nonsense'))
    expect(setup.registry.status().summary).toBe(
      'The changed configuration is invalid, the previous one stays in use: a.yaml:1:1: nonsense; all caught up: last delivery 0 s ago',
    )
    expect(setup.registry.status().config_refused_why).toBe('a.yaml:1:1: nonsense')
    setup.registry.configRefused(
      new ConnectorError('config_invalid', 'a.yaml:1:1: one.\na.yaml:2:1: two\nthree'),
    )
    expect(setup.registry.status().config_refused_why).toBe(
      'a.yaml:1:1: one. (and more: the log has all of it)',
    )
    setup.registry.configRefused(undefined)
    expect(setup.registry.status()).toMatchObject({ config_refused_at: null, config_refused_why: null })
  })

  it('a problem outside all parts is shown with its start until it is over, and leaves ok unchanged', () => {
    const setup = openRegistrySetup()
    ack(setup)
    const secret = { code: 'secret_unread', about: 'acme api_key' } as const
    const message = 'acme api_key cannot be read again, and a restart would fail: gone'
    setup.registry.warn(secret, message)
    setup.clock.pass(1000)
    setup.registry.warn(secret, message)
    const since = '2026-11-21T10:00:00.000Z'
    expect(setup.registry.status()).toMatchObject({
      ok: true,
      summary: `${message}; all caught up: last delivery 1 s ago`,
      warnings: [{ ...secret, message, since }],
    })
    setup.source.state('blocked', badKey)
    expect(setup.registry.status().summary).toMatch(
      /^acme audit has been blocked for .*; acme api_key cannot/,
    )
    setup.registry.warn(secret, undefined)
    expect(setup.registry.status().warnings).toEqual([])
  })

  it('a lost journal is shown before the configuration that is refused because of it', () => {
    const setup = openRegistrySetup()
    ack(setup)
    setup.registry.journalLost('The journal is lost: a.db is gone')
    setup.registry.configRefused(new ConnectorError('config_invalid', 'journal.path: gone'))
    expect(setup.registry.status().summary).toMatch(
      /^The journal is lost: .*; The changed configuration is invalid/,
    )
  })

  it.each([1, 2])('a refused configuration is shown beside %i failing parts', (count) => {
    const setup = openRegistrySetup()
    ack(setup)
    setup.registry.configRefused(new ConnectorError('config_invalid', 'a.yaml:1:1: nonsense'))
    setup.source.state('blocked', badKey)
    if (count > 1) setup.sink.state('blocked', badKey)
    expect(setup.registry.status().summary).toMatch(
      /^The changed configuration is invalid, the previous one stays in use; .*acme audit has been blocked/,
    )
  })

  it('a finding is named by its entry and its time, without a person’s name', () => {
    const { registry, journal } = openRegistrySetup()
    const stream = { workspace: 'acme', source: 'audit' } as const
    const found = { stream, kind: 'foreign_fetch', foundAt: startAt } as const
    journal.stats = {
      ...fakeStats,
      lastFindings: [
        { ...found, entryId: 'b', entryUs: (startAt - 1500) * 1000 },
        { ...found, entryId: 'a', entryUs: undefined },
      ],
    }
    const reported = { ...stream, kind: 'foreign_fetch', found_at: '2026-11-21T10:00:00.000Z' }
    expect(registry.status().findings).toEqual([
      { ...reported, entry_id: 'b', entry_at: '2026-11-21T09:59:58.500Z' },
      { ...reported, entry_id: 'a', entry_at: null },
    ])
  })

  it('a blocked source is named with its reason and since when', () => {
    const setup = openRegistrySetup()
    ack(setup)
    setup.source.state('blocked', badKey)
    setup.clock.pass(3 * 3_600_000)
    const { ok, summary } = setup.registry.status()
    expect(ok).toBe(false)
    expect(summary).toBe(
      'acme audit has been blocked for 3 h: the API refused the key: put a valid one into the file',
    )
  })

  it('a full journal is shown with the sink that is behind', () => {
    const setup = openRegistrySetup()
    ack(setup)
    setup.sink.state('failing', refused)
    setup.owe(12_345, startAt, { full: true })
    setup.clock.pass(7_200_000)
    setup.source.state('paused')
    const { ok, summary, journal } = setup.registry.status()
    expect([ok, journal.paused]).toEqual([false, true])
    expect(summary).toContain(
      'Reading is paused because the journal is full: archive has 12,345 pending entries',
    )
    expect(summary).toContain('the oldest for 2 h (receiver refused the connection)')
  })

  it('a full disk is shown as that', () => {
    const setup = openRegistrySetup()
    ack(setup)
    setup.source.state('paused', new ConnectorError('disk_full', 'no space left in /var/lib/auditferry'))
    expect(setup.registry.status()).toMatchObject({
      ok: false,
      summary: 'Reading is paused: no space left in /var/lib/auditferry',
    })
  })

  it('a journal that the next start would not find is shown before all else', () => {
    const setup = openRegistrySetup()
    ack(setup)
    setup.registry.journalLost('The journal is lost: a.db is gone')
    expect(setup.registry.status()).toMatchObject({
      ok: false,
      summary: 'The journal is lost: a.db is gone',
      journal: { lost: 'The journal is lost: a.db is gone' },
    })
    setup.registry.journalLost(undefined)
    expect(setup.registry.status()).toMatchObject({ ok: true, journal: { lost: null } })
  })

  it('an assurance that grows is shown with its current value', () => {
    const setup = openRegistrySetup()
    let assurance: 'received' | 'stored' = 'received'
    setup.registry.sink('siem', 'splunk_hec', () => assurance)
    const reported = () => setup.registry.status().sinks.at(-1)?.assurance
    expect(reported()).toBe('received')
    assurance = 'stored'
    expect(reported()).toBe('stored')
  })

  it('only a fully healthy daemon is called caught up', () => {
    const setup = openRegistrySetup()
    ack(setup)
    setup.clock.pass(14_000)
    expect(setup.registry.status()).toMatchObject({
      ok: true,
      summary: 'All caught up: last delivery 14 s ago',
    })
    setup.owe(1000, startAt - 600_000)
    expect(setup.registry.status().summary).toBe(
      'archive is 10 min behind and catching up, 1,000 entries pending',
    )
  })

  it('entries pending beyond their linger prevent caught up, even before they are worth an alarm', () => {
    const setup = openRegistrySetup()
    ack(setup)
    setup.registry.sink('bucket', 's3', () => 'stored', 300_000)
    const owe = (sink: string, seconds: number) =>
      (setup.journal.stats = {
        ...fakeStats,
        sinks: [
          { sink, position: 1, pendingEntries: 7, oldestPendingAt: startAt - seconds * 1000, deadLetters: 0 },
        ],
      })
    const sentence = () => setup.registry.status().summary
    owe('archive', 1)
    expect(sentence()).toBe('All caught up: last delivery 0 s ago')
    owe('archive', 2)
    expect(sentence()).toBe('7 entries in flight to archive, the oldest for 2 s')
    owe('bucket', 299)
    expect(sentence()).toBe('All caught up: last delivery 0 s ago')
    owe('bucket', 302)
    expect(sentence()).toBe('7 entries in flight to bucket, the oldest for 5 min')
    owe('bucket', 360)
    expect(sentence()).toBe('bucket is 6 min behind and catching up, 7 entries pending')
  })

  it('before the first delivery, entries that linger are named', () => {
    const setup = openRegistrySetup()
    ack(setup)
    const { registry, journal, metrics, clock } = setup
    const fresh = openStatusRegistry({ clock, metrics, journalStats: () => journal.stats, version: '1.2.3' })
    fresh.sink('bucket', 's3', () => 'stored', 300_000)
    journal.stats = {
      ...fakeStats,
      sinks: [{ sink: 'bucket', position: 1, pendingEntries: 48, oldestPendingAt: startAt, deadLetters: 0 }],
    }
    expect(fresh.status().summary).toBe('All caught up, not due for delivery yet: 48 entries')
    expect(registry.status().summary).toBe('All caught up: last delivery 0 s ago')
  })

  it('possible gaps and quarantined elements come first, even when all is well', () => {
    const setup = openRegistrySetup()
    ack(setup)
    const reported = (more: Partial<typeof fakeStats>) => {
      setup.journal.stats = { ...fakeStats, ...more }
      return setup.registry.status().summary
    }
    const calm = 'All caught up: last delivery 0 s ago'
    const then = calm.replace('All', 'all')
    expect(reported({ gaps: 1 })).toBe(`1 possible gap; ${then}`)
    expect(reported({ quarantined: 5 })).toBe(`5 quarantined; ${then}`)
    const sinks = [
      { sink: 'archive', position: 1, pendingEntries: 0, oldestPendingAt: undefined, deadLetters: 2 },
    ]
    const all = { gaps: 2, quarantined: 1_200, sinks }
    expect(reported(all)).toBe(`2 possible gaps, 1,200 quarantined; ${then}; 2 dead letters at archive`)
  })

  it('foreign fetches are shown for a day after the last was found, beside any other problem', () => {
    const setup = openRegistrySetup()
    ack(setup)
    const stream = { workspace: 'acme', source: 'audit' } as const
    const found = { stream, kind: 'foreign_fetch', foundAt: startAt } as const
    const lastFindings = [
      { ...found, entryId: 'b', entryUs: (startAt - 90_000) * 1000 },
      { ...found, entryId: 'a', entryUs: (startAt - 60_000) * 1000 },
    ]
    const reported = () => setup.registry.status().summary
    setup.journal.stats = { ...fakeStats, findings: 1, lastFindings: lastFindings.slice(1), quarantined: 5 }
    const calm = 'All caught up: last delivery 0 s ago'
    expect(reported()).toBe(
      `5 quarantined; ${calm.replace('All', 'all')}; 1 foreign fetch, the last 2026-11-21 09:59:00 UTC`,
    )
    setup.journal.stats = { ...fakeStats, findings: 12, lastFindings }
    expect(reported()).toBe(`${calm}; 12 foreign fetches, the last 2026-11-21 09:59:00 UTC`)
    setup.source.state('blocked', badKey)
    setup.clock.pass(24 * 3_600_000)
    expect(reported()).toMatch(
      /^acme audit has been blocked.*; 12 foreign fetches, the last 2026-11-21 09:59:00 UTC$/,
    )
    setup.clock.pass(3_600_000)
    expect(reported()).not.toMatch(/foreign/)
  })

  it('dead letters are shown even when all is well', () => {
    const setup = openRegistrySetup()
    ack(setup)
    const sinks = [
      { sink: 'archive', position: 1, pendingEntries: 0, oldestPendingAt: undefined, deadLetters: 1 },
    ]
    setup.journal.stats = { ...fakeStats, sinks }
    expect(setup.registry.status().summary).toBe(
      'All caught up: last delivery 0 s ago; 1 dead letter at archive',
    )
  })

  it('a source whose answer waits for memory is not caught up, and fails by that if it lasts: a restart would not help', () => {
    const setup = openRegistrySetup()
    ack(setup)
    setup.source.state('reading')
    const over = setup.source.waitsForMemory()
    setup.clock.pass(20_000)
    const source = () => setup.registry.status().workspaces[0]?.sources[0]
    const since = '2026-11-21T10:00:00.000Z'
    expect(source()).toMatchObject({ state: 'reading', error: null, waits_for_memory_since: since })
    expect(setup.registry.status().summary).toBe(
      'acme audit is reading, waiting for memory that other answers use',
    )
    setup.clock.pass(3_600_000)
    const message =
      /^nothing was read for 60 min because its answer waits for memory .* continues when one of those ends$/
    expect(source()).toMatchObject({
      state: 'failing',
      error: { code: 'timeout', message: expect.stringMatching(message) as string },
    })
    expect(setup.registry.status().ok).toBe(false)
    over()
    expect(source()).toMatchObject({ state: 'reading', error: null })
    expect(source()).not.toHaveProperty('waits_for_memory_since')
    setup.clock.pass(3_600_000)
    expect(source()?.error?.message).toContain('restart the daemon')
  })

  it('a source whose answer trickles for hours is reading, with since when, and no restart is suggested', () => {
    const setup = openRegistrySetup()
    ack(setup)
    setup.source.state('reading')
    const answer = setup.source.readsAnswer()
    const source = () => setup.registry.status().workspaces[0]?.sources[0]
    const since = '2026-11-21T10:00:00.000Z'
    for (let minute = 0; minute < 180; minute++) {
      expect(source()).toMatchObject({ state: 'reading', error: null, answer_comes_since: since })
      setup.clock.pass(60_000)
      answer.came()
    }
    expect(setup.registry.status()).toMatchObject({
      ok: true,
      summary: 'acme audit is reading, one answer has been arriving for 3 h',
    })
    answer.over()
    expect(source()).not.toHaveProperty('answer_comes_since')
    expect(setup.registry.status().summary).not.toContain('answer')
  })

  it('an answer that has stopped coming is no sign of life, nor is its end', () => {
    const setup = openRegistrySetup()
    ack(setup)
    setup.source.state('reading')
    const answer = setup.source.readsAnswer()
    setup.clock.pass(120_001)
    const message = () => setup.registry.status().workspaces[0]?.sources[0]?.error?.message
    expect(message()).toContain('restart the daemon')
    answer.over()
    expect(message()).toContain('restart the daemon')
  })

  it('an answer that comes for less than a minute is not mentioned', () => {
    const setup = openRegistrySetup()
    ack(setup)
    setup.source.state('reading')
    const { summary } = setup.registry.status()
    setup.source.readsAnswer()
    setup.clock.pass(59_999)
    expect(setup.registry.status().summary).toBe(summary.replace('0 s ago', '60 s ago'))
    setup.clock.pass(1)
    expect(setup.registry.status().summary).toContain('one answer has been arriving for 60 s')
  })

  it('a source that has silently died is shown as failing', () => {
    const setup = openRegistrySetup()
    ack(setup)
    setup.clock.pass(120_000)
    expect(setup.registry.status().ok).toBe(true)
    setup.clock.pass(1)
    const { ok, workspaces } = setup.registry.status()
    expect(ok).toBe(false)
    expect(workspaces[0]?.sources[0]).toMatchObject({ state: 'failing', error: { code: 'timeout' } })
    setup.source.success()
    expect(setup.registry.status().ok).toBe(true)
  })

  it('a clock that is corrected by a day does not make a source dead', () => {
    const setup = openRegistrySetup()
    ack(setup)
    const elapsed = setup.clock.elapsed()
    setup.clock.pass(86_400_000)
    setup.clock.elapsed = () => elapsed
    expect(setup.registry.status().ok).toBe(true)
  })

  it('lag is head minus cursor by the entries’ own times, and 0 when caught up', async () => {
    const { registry, source, metrics } = openRegistrySetup()
    const lag = () => registry.status().workspaces[0]?.sources[0]?.lag_seconds
    source.head(5_000_000_000_000_000)
    source.cursor(4_999_999_997_500_000)
    expect(lag()).toBe(2.5)
    source.caughtUp()
    expect(lag()).toBe(0)
    source.head(5_000_000_010_000_000)
    expect(lag()).toBe(12.5)
    expect(await metrics.render()).toContain(
      'auditferry_source_lag_seconds{workspace="acme",source="audit"} 12.5',
    )
    expect(registry.status().workspaces[0]?.sources[0]?.head_at).toBe('2128-06-11T08:53:30.000Z')
  })

  it('while reading is paused lag grows with the clock: from when the next read was due, or from where all was read', async () => {
    const setup = openRegistrySetup()
    const lag = () => setup.registry.status().workspaces[0]?.sources[0]?.lag_seconds
    ack(setup)
    setup.clock.pass(1_000)
    setup.source.state('paused')
    expect(lag()).toBe(0)
    setup.clock.pass(7_199_000)
    expect(lag()).toBe(7_200)
    expect(await setup.metrics.render()).toContain(
      'auditferry_source_lag_seconds{workspace="acme",source="audit"} 7200',
    )
    setup.source.state('reading')
    expect(lag()).toBe(0)
  })

  it('a pause in the middle of a backlog shows at least the known lag, also right after a restart', () => {
    const setup = openRegistrySetup()
    const lag = () => setup.registry.status().workspaces[0]?.sources[0]?.lag_seconds
    setup.source.recalled({ readAt: startAt - 60_000, caughtUpAt: startAt - 3_600_000, gapAt: 0 })
    setup.source.state('paused')
    expect(lag()).toBe(3_600)
    setup.source.cursor((startAt - 600_000) * 1000)
    expect(lag()).toBe(600)
    setup.source.head((startAt + 60_000) * 1000)
    expect(lag()).toBe(660)
  })

  it('a journal with room again does not show as full while its readers have not looked yet', () => {
    const setup = openRegistrySetup()
    ack(setup)
    setup.source.state('paused', new ConnectorError('journal_full', 'the journal is full'))
    expect(setup.registry.status()).toMatchObject({ ok: true, journal: { paused: false } })
  })

  it('a backlog shows how far it is read, from where it began to the head', () => {
    const { registry, source } = openRegistrySetup()
    const progress = () => registry.status().workspaces[0]?.sources[0]?.progress
    expect(progress()).toBeNull()
    source.head(5_000_000_100_000_000)
    source.cursor(5_000_000_000_000_000)
    expect(progress()).toBe(0)
    source.cursor(5_000_000_025_000_000)
    expect(progress()).toBe(0.25)
    source.cursor(5_000_000_100_000_000)
    source.caughtUp()
    expect(progress()).toBeNull()
    source.head(5_000_000_200_000_000)
    source.cursor(5_000_000_150_000_000)
    expect(progress()).toBe(0.5)
  })

  it('counts an hour of entries read and delivered, and pending ones', () => {
    const { registry, source, sink, clock, owe } = openRegistrySetup()
    const none = { filtered: 0, quarantined: 0, findings: 0, latestBehindUs: 0 }
    source.appended({ added: 5, late: 2, known: 9, ...none })
    clock.pass(30_000)
    sink.acknowledged({ accepted: 3, deadLettered: 1, filtered: 1 })
    owe(4, startAt)
    expect(registry.status().history).toEqual({
      step_seconds: 30,
      read: [7, 0],
      delivered: [0, 3],
      pending: [0, 4],
    })
  })

  it('shows how much was filtered: by the types of a source, and by a sink’s filter', () => {
    const { registry, source, sink } = openRegistrySetup()
    const none = { known: 0, late: 0, quarantined: 0, findings: 0, latestBehindUs: 0 }
    source.appended({ added: 5, filtered: 7, ...none })
    sink.acknowledged({ accepted: 2, deadLettered: 0, filtered: 3 })
    const { workspaces, sinks } = registry.status()
    expect(workspaces[0]?.sources[0]).toMatchObject({ new_entries: 5, filtered_entries: 7 })
    expect(sinks[0]).toMatchObject({ accepted_entries: 2, filtered_entries: 3 })
  })

  it('gauges follow the journal at each scrape', async () => {
    const setup = openRegistrySetup()
    setup.owe(7, startAt - 3000, { full: true, quarantined: 2, unconfigured: ['old'] })
    const text = await setup.metrics.render()
    for (const line of [
      'auditferry_journal_entries 7',
      'auditferry_journal_bytes 700',
      'auditferry_journal_paused 1',
      'auditferry_quarantined 2',
      'auditferry_sink_pending_entries{sink="archive"} 7',
      'auditferry_sink_lag_seconds{sink="archive"} 3',
    ])
      expect(text).toContain(`${line}\n`)
    expect(setup.registry.status().journal.unconfigured).toEqual(['old'])
  })

  it('a closed journal breaks neither page nor scrape: its last values count', async () => {
    const setup = openRegistrySetup()
    setup.owe(7, startAt)
    setup.registry.status()
    let closed = false
    const metrics = openMetrics({ version: '1', processMetrics: false })
    const journalStats = () => {
      if (closed) throw new Error('the database connection is not open')
      return setup.journal.stats
    }
    const rateLimiter = () => [{ area: 'audit', used: 3, limit: 60 }]
    const registry = openStatusRegistry({
      clock: setup.clock,
      metrics,
      journalStats,
      version: '1',
      rateLimiter,
    })
    registry.source({ workspace: 'acme', source: 'audit' })
    expect(registry.status().workspaces[0]?.rate_limits).toEqual([{ area: 'audit', used: 3, limit: 60 }])
    closed = true
    expect(registry.status().journal.entries).toBe(7)
    expect(await metrics.render()).toContain('auditferry_journal_entries 7')
  })

  it('many problems make one sentence of bounded length', () => {
    const { registry, sink } = openRegistrySetup()
    const names = ['b', 'c', 'd', 'e', 'f']
    const watches = names.map((name) => registry.sink(name, 'file', () => 'stored'))
    const long = new ConnectorError('server_error', 'x'.repeat(5000))
    for (const reporter of [sink, ...watches]) reporter.state('failing', long)
    const { summary } = registry.status()
    expect(summary).toMatch(/; and 3 more$/)
    expect(summary.length).toBeLessThan(2000)
  })
})

it.each([
  [0, '0 s'],
  [89, '89 s'],
  [90, '2 min'],
  [3600, '60 min'],
  [5400, '2 h'],
  [172_800, '2 days'],
])('%i seconds read as %s', (seconds, text) => {
  expect(spanText(seconds)).toBe(text)
})

it('the reason of a stalled backfill is shown without a secret of the configuration', () => {
  const { clock } = openRegistrySetup()
  const metrics = openMetrics({ version: '1.2.3', processMetrics: false })
  const backfill: BackfillStatus = {
    ...{ workspace: 'acme', source: 'audit', from: '2026-01-01', to: '2026-02-01', state: 'failing' },
    ...{ waits_for: 'rate_limit', wait_reason: null, progress: 0, read_entries: 0, new_entries: 0, gaps: 0 },
    error: { code: 'unreachable', message: 'proxy refused planted-secret' },
  }
  const registry = openStatusRegistry({
    ...{ clock, metrics, journalStats: () => fakeStats, version: '1.2.3' },
    secrets: () => [new Secret('planted-secret')],
    backfills: () => [backfill],
  })
  const error = { code: 'unreachable', message: 'proxy refused ***' }
  expect(registry.status().backfills).toEqual([{ ...backfill, error }])
})
