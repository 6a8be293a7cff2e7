// Every metric of the contract exists from the start, well formed, and event data cannot add one.
import perfHooks from 'node:perf_hooks'
import { describe, expect, it, vi } from 'vitest'
import { errorCodes } from '../../../src/core/errors.ts'
import { canaryStages, sinkStates, sourceStates } from '../../../src/contracts/reporter.ts'
import { codeLabel, expectedCodes, openMetrics, reasonLabel } from '../../../src/observability/metrics.ts'
import { openStatusRegistry } from '../../../src/observability/status-registry.ts'
import { type BackfillStatus, warningCodes } from '../../../src/observability/status.ts'
import { fakeStats, openRegistrySetup, ack, startAt, testClock } from './registry-setup.ts'

interface Family {
  help?: string
  type?: string
  samples: { name: string; labels: Record<string, string>; value: number }[]
}

/** Reads the text format as strictly as promtool's lint where it matters. */
function parse(text: string): Map<string, Family> {
  expect(text.endsWith('\n')).toBe(true)
  const families = new Map<string, Family>()
  const of = (name: string) => {
    const family = families.get(name) ?? { samples: [] }
    families.set(name, family)
    return family
  }
  for (const line of text.split('\n')) {
    if (line === '') continue
    const [, kind, name = '', rest = ''] = /^# (HELP|TYPE) (\S+) (.+)$/.exec(line) ?? []
    if (kind === 'HELP') of(name).help = rest
    else if (kind === 'TYPE') of(name).type = rest
    else {
      const [, sample = '', labelText = '', value] =
        /^([a-z_0-9]+)(?:\{(.*)\})? (\S+)$/.exec(line) ?? expect.unreachable(line)
      const base = families.has(sample) ? sample : sample.replace(/_(bucket|sum|count)$/, '')
      const labels = Object.fromEntries(
        [...labelText.matchAll(/([a-z_]+)="([^"]*)"/g)].map(([, key = '', text = '']) => [key, text]),
      )
      of(base).samples.push({ name: sample, labels, value: Number(value) })
    }
  }
  return families
}

function open() {
  const metrics = openMetrics({ version: '1.2.3', processMetrics: false })
  const registry = openStatusRegistry({
    clock: testClock(),
    metrics,
    journalStats: () => fakeStats,
    version: '1.2.3',
  })
  const source = registry.source({ workspace: 'acme', source: 'audit' })
  const sink = registry.sink('archive', 'file', () => 'stored')
  const places = [{ stage: 'audit' }, { stage: 'delivered', sink: 'archive' }] as const
  const canary = registry.canary('acme', 3_600_000, places)
  canary.seen({ stage: 'request' }, 1_500)
  return { metrics, source, sink, canary, families: async () => parse(await metrics.render()) }
}

const contract = [
  'source_state',
  'source_interval_seconds',
  'source_last_success_timestamp_seconds',
  'source_caught_up_timestamp_seconds',
  'source_head_timestamp_seconds',
  'source_cursor_timestamp_seconds',
  'source_lag_seconds',
  'source_requests_total',
  'source_request_duration_seconds',
  'source_entries_total',
  'source_rate_limit_wait_seconds_total',
  'source_gaps_total',
  'source_own_fetches_total',
  'source_own_fetch_lateness_seconds',
  'source_findings_total',
  'journal_entries',
  'journal_bytes',
  'journal_capacity_bytes',
  'journal_paused',
  'quarantined',
  'warnings',
  'sink_state',
  'sink_linger_seconds',
  'sink_pending_entries',
  'sink_lag_seconds',
  'sink_entries_total',
  'sink_retries_total',
  'sink_last_success_timestamp_seconds',
  'sink_request_duration_seconds',
  'sink_dead_letters',
  'sink_certificate_expiry_timestamp_seconds',
  'delivery_seconds',
  'canary_seconds',
  'canary_missing',
  'canary_interval_seconds',
  'canary_last_success_timestamp_seconds',
  'backfill_under_way',
  'backfill_read_entries',
  'backfill_gaps',
  'replay_under_way',
  'replay_read_entries',
  'replay_gaps',
  'build_info',
  'config_last_reload_successful',
  'config_last_reload_success_timestamp_seconds',
].map((name) => `auditferry_${name}`)

const closedLabels: Record<string, readonly string[]> = {
  workspace: ['acme'],
  source: ['audit'],
  sink: ['archive'],
  outcome: ['new', 'known', 'late', 'quarantined', 'filtered', 'accepted', 'dead_lettered'],
  kind: ['foreign_fetch'],
  stage: canaryStages,
  state: [...new Set([...sourceStates, ...sinkStates])],
  version: ['1.2.3'],
  node: [process.version],
}

it('a warning is counted by its code, and no more once it is fixed', async () => {
  const { registry, metrics } = openRegistrySetup()
  const counted = async () =>
    (await metrics.render())
      .match(/^auditferry_warnings\{.*$/gm)
      ?.map((line) => line.slice(19))
      .toSorted()
  const codes = (secrets: number) => [
    '{code="clock_apart"} 0',
    '{code="file_cut"} 0',
    '{code="file_removed"} 0',
    '{code="file_unread"} 0',
    `{code="secret_unread"} ${secrets}`,
  ]
  expect(await counted()).toEqual(codes(0))
  for (const about of ['acme api_key', 'siem token']) registry.warn({ code: 'secret_unread', about }, 'gone')
  expect(await counted()).toEqual(codes(2))
  registry.warn({ code: 'secret_unread', about: 'siem token' }, undefined)
  expect(await counted()).toEqual(codes(1))
})

describe('the metrics', () => {
  it('all exist before anything has happened, each with help, type and a series', async () => {
    const families = await open().families()
    expect([...families.keys()].toSorted()).toEqual(contract.toSorted())
    for (const [name, family] of families) {
      expect(family.help, name).toBeTruthy()
      expect(family.samples.length, name).toBeGreaterThan(0)
    }
  })

  it('progress of jobs has a source label, replays of several sinks together', async () => {
    const one: Omit<BackfillStatus, 'new_entries'> = {
      ...{ workspace: 'acme', source: 'audit', from: '2026-01-01', to: '2026-02-01', state: 'running' },
      ...{ progress: 0, waits_for: null, wait_reason: null, error: null, read_entries: 70, gaps: 1 },
    }
    const metrics = openMetrics({ version: '1.2.3', processMetrics: false })
    const registry = openStatusRegistry({
      ...{ clock: testClock(), metrics, journalStats: () => fakeStats, version: '1.2.3' },
      backfills: () => [{ ...one, state: 'done', new_entries: 5 }],
      replays: () => [
        { ...one, sink: 'archive', sent_entries: 70 },
        { ...one, sink: 'siem', sent_entries: 3, state: 'waiting', read_entries: 3, gaps: 0 },
      ],
    })
    registry.source({ workspace: 'acme', source: 'audit' })
    registry.source({ workspace: 'other', source: 'audit' })
    const families = parse(await metrics.render())
    const reported = (name: string) => families.get(`auditferry_${name}`)?.samples.map(({ value }) => value)
    expect(['backfill', 'replay'].map((what) => reported(`${what}_under_way`))).toEqual([
      [0, 0],
      [2, 0],
    ])
    expect(['backfill', 'replay'].map((what) => reported(`${what}_read_entries`))).toEqual([
      [70, 0],
      [73, 0],
    ])
    expect(['backfill', 'replay'].map((what) => reported(`${what}_gaps`))).toEqual([
      [1, 0],
      [1, 0],
    ])
  })

  it('a canary has stage and sink labels: how long it took, and where it is missing', async () => {
    const { canary, families } = open()
    canary.seen({ stage: 'delivered', sink: 'archive' }, 90_000)
    canary.missing([{ stage: 'audit' }])
    canary.complete(1_700_000_000_000)
    const reported = async (name: string) =>
      (await families())
        .get(`auditferry_canary_${name}`)
        ?.samples.map(({ labels, value }) => [...Object.values(labels), value])
    expect(await reported('seconds')).toEqual([
      ['acme', 'request', 1.5],
      ['acme', 'delivered', 'archive', 90],
    ])
    expect(await reported('missing')).toEqual([
      ['acme', 'audit', 1],
      ['acme', 'delivered', 'archive', 0],
    ])
    canary.missing([])
    expect((await reported('missing'))?.map((sample) => sample.at(-1))).toEqual([0, 0])
    expect(await reported('interval_seconds')).toEqual([['acme', 3600]])
    expect(await reported('last_success_timestamp_seconds')).toEqual([['acme', 1_700_000_000]])
  })

  it('series that may be counted later exist at zero: their first increase shows', async () => {
    const families = await open().families()
    const values = (name: string, label: string) =>
      families.get(`auditferry_${name}`)?.samples.map(({ labels, value }) => [labels[label], value])
    expect(values('source_requests_total', 'code')).toEqual(expectedCodes.map((code) => [code, 0]))
    for (const reason of ['unreachable', 'unauthorized', 'misconfigured', 'refused', 'disk_full'])
      expect(values('sink_retries_total', 'reason')).toContainEqual([reason, 0])
  })

  it('one state of a part is 1, also where it has silently died', async () => {
    const setup = openRegistrySetup()
    const shown = async () => {
      const families = parse(await setup.metrics.render())
      return ['source', 'sink'].map((part) => {
        const samples = families.get(`auditferry_${part}_state`)?.samples ?? []
        expect(samples.map(({ labels }) => labels['state'])).toEqual(
          part === 'source' ? sourceStates : sinkStates,
        )
        return samples.filter(({ value }) => value !== 0).map(({ labels, value }) => [labels['state'], value])
      })
    }
    expect(await shown()).toEqual([[['starting', 1]], [['starting', 1]]])
    ack(setup)
    expect(await shown()).toEqual([[['idle', 1]], [['idle', 1]]])
    setup.clock.pass(10 * 60_000)
    expect(await shown()).toEqual([[['failing', 1]], [['idle', 1]]])
  })

  it('the longest normal pause of a part is in seconds', async () => {
    const metrics = openMetrics({ version: '1.2.3', processMetrics: false })
    const registry = openStatusRegistry({
      clock: testClock(),
      metrics,
      journalStats: () => fakeStats,
      version: '1.2.3',
    })
    registry.source({ workspace: 'acme', source: 'audit' }, 900_000)
    registry.sink('bucket', 's3', () => 'stored', 300_000)
    const text = await metrics.render()
    expect(text).toContain('auditferry_source_interval_seconds{workspace="acme",source="audit"} 900\n')
    expect(text).toContain('auditferry_sink_linger_seconds{sink="bucket"} 300\n')
  })

  it('counters end in _total and nothing else does', async () => {
    for (const [name, { type }] of await open().families())
      expect(name.endsWith('_total'), name).toBe(type === 'counter')
  })

  it('timestamps are 0 until the first time, except the start itself', async () => {
    for (const [name, { samples }] of await open().families())
      if (name.includes('timestamp'))
        expect(samples.map(({ value }) => value)).toEqual([name.includes('_config_') ? startAt / 1000 : 0])
  })

  it('labels come from closed sets, whatever the other side sends', async () => {
    const { source, sink, families } = open()
    for (const code of ['200', '418', '799', '0', '{"id":"x"}', 'unreachable', '__proto__'])
      source.request(code, 5)
    for (const reason of ['server_error', 'a receiver’s own words', 'constructor']) sink.retry(reason)
    for (const [, { samples }] of await families())
      for (const { labels } of samples)
        for (const [key, value] of Object.entries(labels)) {
          if (key === 'le') expect(value).toMatch(/^(\d+(\.\d+)?|\+Inf)$/)
          else if (key === 'code')
            expect([...expectedCodes, ...warningCodes, '4xx', 'other']).toContain(value)
          else if (key === 'reason') expect(['other', ...errorCodes]).toContain(value)
          else expect(closedLabels[key], key).toContain(value)
        }
  })

  it('a code is itself, its hundred or other', () => {
    expect(['200', '503', '418', '599', '600', '20', '', 'timeout', 'toString'].map(codeLabel)).toEqual([
      '200',
      '503',
      '4xx',
      '5xx',
      'other',
      'other',
      'other',
      'timeout',
      'other',
    ])
    expect(reasonLabel('429')).toBe('other')
  })

  it('a sample that represents many entries counts as many', async () => {
    const { sink, families } = open()
    sink.delivered(1500, 1000)
    sink.delivered(400, 2)
    sink.delivered(900_000_000, 1)
    const samples = (await families()).get('auditferry_delivery_seconds')?.samples ?? []
    const bucket = (le: string) => samples.find(({ labels }) => labels['le'] === le)?.value
    expect([bucket('1'), bucket('5'), bucket('604800'), bucket('+Inf')]).toEqual([2, 1002, 1002, 1003])
    expect(samples.find(({ name }) => name.endsWith('_count'))?.value).toBe(1003)
    expect(samples.find(({ name }) => name.endsWith('_sum'))?.value).toBeCloseTo(1500 + 0.8 + 900_000)
  })

  it('outcomes are disjoint: each entry counts once', async () => {
    const { source, sink, families } = open()
    const counts = {
      added: 5,
      late: 2,
      known: 7,
      filtered: 1,
      quarantined: 3,
      findings: 1,
      latestBehindUs: 9,
    }
    source.appended(counts)
    sink.acknowledged({ accepted: 4, deadLettered: 2, filtered: 1 })
    const byOutcome = async (name: string) => {
      const counted: Record<string, number> = {}
      for (const { labels, value } of (await families()).get(name)?.samples ?? [])
        counted[labels['outcome'] ?? ''] = value
      return counted
    }
    expect(await byOutcome('auditferry_source_entries_total')).toEqual({
      new: 5,
      late: 2,
      known: 7,
      filtered: 1,
      quarantined: 3,
    })
    expect(await byOutcome('auditferry_sink_entries_total')).toEqual({
      accepted: 4,
      dead_lettered: 2,
      filtered: 1,
    })
  })

  it('the process has its metrics under the usual names', async () => {
    const text = await openMetrics({ version: '1.2.3' }).render()
    expect(text).toContain('process_cpu_seconds_total')
    expect(text).toContain('nodejs_eventloop_lag_seconds')
    expect(text).toContain(`auditferry_build_info{version="1.2.3",node="${process.version}"} 1`)
  })

  it('a reload does not register the process twice', async () => {
    openMetrics({ version: '1.2.3' })
    const watched = vi.spyOn(perfHooks, 'monitorEventLoopDelay')
    const text = await openMetrics({ version: '1.2.3' }).render()
    expect(watched).not.toHaveBeenCalled()
    expect(text).toContain('nodejs_gc_duration_seconds')
    expect(text).not.toContain('nodejs_active_handles_total')
  })

  it('a failed reload shows', async () => {
    const { metrics, families } = open()
    const value = async () =>
      (await families()).get('auditferry_config_last_reload_successful')?.samples[0]?.value
    expect(await value()).toBe(1)
    metrics.configReloaded(false)
    expect(await value()).toBe(0)
  })
})

it('a scrape yields to others between one metric and the next', async () => {
  const metrics = openMetrics({ version: '1.2.3', processMetrics: false })
  let turns = 0
  let over = false
  const turn = () => {
    turns++
    if (!over) setImmediate(turn)
  }
  turn()
  const text = await metrics.render()
  over = true
  expect(turns).toBeGreaterThanOrEqual(text.match(/^# TYPE /gm)?.length ?? Infinity)
})
