// Several shards in one status and in the metrics of one process.
import { describe, expect, it } from 'vitest'
import { ConnectorError } from '../../../src/core/errors.ts'
import { endedCounters, mergedMetrics, openMetrics } from '../../../src/observability/metrics.ts'
import { mergedStatus } from '../../../src/observability/shard-status.ts'
import type { ShardPart } from '../../../src/observability/shard-status.ts'
import { noStats, openStatusRegistry } from '../../../src/observability/status-registry.ts'
import type { ShardStatus, StatusReport } from '../../../src/observability/status.ts'
import { ack, openRegistrySetup, startAt, testClock } from './registry-setup.ts'

const iso = (ms: number) => new Date(startAt + ms).toISOString()

const process = () => {
  const metrics = openMetrics({ version: '1.2.3', processMetrics: false })
  const registry = openStatusRegistry({
    ...{ clock: testClock(), metrics, version: '1.2.3', journalStats: () => noStats },
  })
  return { metrics, registry }
}

const facts = { workspaces: ['globex', 'acme'], lingers: () => 0, fault: undefined }

const part = (
  shard: number,
  report: StatusReport | undefined,
  more: Partial<ShardStatus> = {},
): ShardPart => ({
  status: {
    ...{ shard, holder: 'me', epoch: 1, since: iso(0), takeovers: 0, here: true, reported_at: iso(0) },
    ...more,
  },
  report,
})

const named = (report: StatusReport, name: string): StatusReport => ({
  ...report,
  workspaces: report.workspaces.map((each) => ({ ...each, name })),
})

describe('the status of all shards', () => {
  it('has every workspace in the order of the configuration, and each sink once: its worst state, largest lag and sums', () => {
    const [one, two] = [openRegistrySetup(), openRegistrySetup()]
    ack(one)
    ack(two)
    one.owe(3, startAt - 5_000)
    two.owe(4, startAt - 60_000, { quarantined: 2, gaps: 1 })
    one.sink.acknowledged({ accepted: 10, deadLettered: 0, filtered: 1 })
    two.sink.state('failing', new ConnectorError('timeout', 'no answer'))
    const own = process().registry.status()
    const { ok, summary, workspaces, sinks, journal, shards } = mergedStatus(
      own,
      [
        part(1, one.registry.status()),
        part(2, named(two.registry.status(), 'globex'), { holder: 'other', here: false }),
      ],
      facts,
    )
    expect(workspaces.map(({ name, replica }) => ({ name, replica }))).toEqual([
      { name: 'globex', replica: 'other' },
      { name: 'acme', replica: undefined },
    ])
    expect(sinks).toMatchObject([
      {
        ...{ name: 'archive', state: 'failing', pending_entries: 7, lag_seconds: 60 },
        ...{ accepted_entries: 10, filtered_entries: 1 },
        error: { code: 'timeout' },
      },
    ])
    expect(journal).toMatchObject({
      entries: 7,
      bytes: 700,
      capacity_bytes: 2 ** 32,
      quarantined: 2,
      gaps: 1,
    })
    expect(shards?.map(({ shard, here }) => ({ shard, here }))).toEqual([
      { shard: 1, here: true },
      { shard: 2, here: false },
    ])
    expect(ok).toBe(false)
    expect(summary).toContain('archive')
  })

  it('is good if all parts are; not while the database is away, or a shard has been silent for half a minute', () => {
    const one = openRegistrySetup()
    ack(one)
    const own = process().registry.status()
    const good = part(1, one.registry.status())
    expect(mergedStatus(own, [good], facts)).toMatchObject({
      ...{ ok: true, summary: one.registry.status().summary },
    })
    expect(mergedStatus(own, [good], { ...facts, fault: 'PostgreSQL at db is not available' })).toMatchObject(
      {
        ...{ ok: false, summary: expect.stringMatching(/^PostgreSQL at db is not available; /) as string },
      },
    )
    const lost = part(1, one.registry.status(), { here: false, holder: null })
    expect(
      mergedStatus(own, [lost], { ...facts, fault: 'PostgreSQL at db is not available' }).summary,
    ).toMatch(/^PostgreSQL at db is not available; .*reads and delivers nothing/)
    const away = { here: false, holder: null, reported_at: iso(-29_000) }
    expect(mergedStatus(own, [good, part(2, undefined, away)], facts).ok).toBe(true)
    const silent = part(2, undefined, { ...away, reported_at: iso(-31_000) })
    expect(mergedStatus(own, [good, silent], facts)).toMatchObject({
      ok: false,
      summary: expect.stringContaining('Nothing new of shard 2 for 31 s: no replica works on it') as string,
    })
  })

  it('adds the last hours from their ends, and shows the newest errors, each warning once', () => {
    const [one, two] = [openRegistrySetup(), openRegistrySetup()]
    const warned = { code: 'secret_unread', about: 'siem token' } as const
    for (const { registry } of [one, two]) registry.warn(warned, 'gone')
    one.source.state('failing', new ConnectorError('timeout', 'older'))
    const history = (...read: number[]) => ({ step_seconds: 30, read, delivered: read, pending: read })
    const merged = mergedStatus(
      process().registry.status(),
      [
        part(1, { ...one.registry.status(), history: history(1, 2, 3) }),
        part(2, { ...two.registry.status(), history: history(10) }),
      ],
      facts,
    )
    expect(merged.history.read).toEqual([1, 2, 13])
    expect(merged.warnings).toHaveLength(1)
    expect(merged.errors.map(({ message }) => message)).toEqual(['older'])
  })
})

describe('the metrics of all shards', () => {
  const line = (text: string, name: string) =>
    text.split('\n').filter((each) => each.startsWith(`auditferry_${name}`))

  it('are sums, except where a sum means nothing: states, times, lags, facts about the process', async () => {
    const [one, two] = [openRegistrySetup(), openRegistrySetup()]
    ack(one)
    ack(two)
    one.owe(3, startAt - 5_000)
    two.owe(4, startAt - 60_000)
    one.sink.certificateEnds(2_000)
    one.sink.acknowledged({ accepted: 10, deadLettered: 0, filtered: 0 })
    two.sink.acknowledged({ accepted: 5, deadLettered: 0, filtered: 0 })
    one.sink.delivered(500, 10)
    two.sink.delivered(500, 5)
    const text = await mergedMetrics(process().metrics, [one.metrics, two.metrics], [])
    expect(line(text, 'sink_entries_total{sink="archive",outcome="accepted"}')).toEqual([
      'auditferry_sink_entries_total{sink="archive",outcome="accepted"} 15',
    ])
    expect(line(text, 'delivery_seconds_count')).toEqual([
      'auditferry_delivery_seconds_count{sink="archive"} 15',
    ])
    expect(line(text, 'sink_pending_entries')).toEqual(['auditferry_sink_pending_entries{sink="archive"} 7'])
    expect(line(text, 'sink_lag_seconds')).toEqual(['auditferry_sink_lag_seconds{sink="archive"} 60'])
    expect(line(text, 'sink_state{sink="archive",state="idle"}')[0]).toMatch(/ 1$/)
    expect(line(text, 'build_info')[0]).toMatch(/ 1$/)
    expect(line(text, 'config_last_reload_successful')).toEqual([
      'auditferry_config_last_reload_successful 1',
    ])
    // Only the first has seen one.
    expect(line(text, 'sink_certificate_expiry')).toEqual([
      'auditferry_sink_certificate_expiry_timestamp_seconds{sink="archive"} 2',
    ])
    expect(line(text, 'journal_capacity_bytes')).toEqual([`auditferry_journal_capacity_bytes ${2 ** 32}`])
  })

  it('keep the counters of a shard that was freed, and none of its gauges', async () => {
    const one = openRegistrySetup()
    one.sink.acknowledged({ accepted: 10, deadLettered: 0, filtered: 0 })
    one.owe(3, startAt)
    let ended = await endedCounters([], one.metrics)
    const again = openRegistrySetup()
    again.sink.acknowledged({ accepted: 1, deadLettered: 0, filtered: 0 })
    ended = await endedCounters(ended, again.metrics)
    const text = await mergedMetrics(process().metrics, [], [ended])
    expect(line(text, 'sink_entries_total{sink="archive",outcome="accepted"}')[0]).toMatch(/ 11$/)
    expect(line(text, 'sink_pending_entries')).toEqual([])
  })
})
