// Alerts and dashboard against the real thing: daemons, Prometheus and Alertmanager as processes, a minute of the rules' time in a second.
import { existsSync, mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { until } from '../integration/receivers/ports.ts'
import { dashboardQueries } from './dashboard-queries.ts'
import { openSetup } from './faulty-daemons.ts'
import type { Setup } from './faulty-daemons.ts'
import { monitoringMissing, promtool, promtoolMissing } from './programs.ts'
import { scaledRules } from './scaled-rules.ts'
import { openPrometheus } from './prometheus.ts'
import type { Alert, Prometheus } from './prometheus.ts'
import { systemClock } from '../../src/platform/clock.ts'

const PATIENCE_MS = 45_000
const CALM_SECONDS = 4

/** The alerts that their faults must raise; no other may come. */
const expected: readonly Readonly<Record<string, string>>[] = [
  { alertname: 'AuditferryKeyRefused', workspace: 'acme', source: 'audit' },
  { alertname: 'AuditferrySourceStalled', workspace: 'acme', source: 'audit' },
  { alertname: 'AuditferrySourceFailing', workspace: 'beta', source: 'audit' },
  { alertname: 'AuditferrySourceStalled', workspace: 'beta', source: 'audit' },
  { alertname: 'AuditferryGapFound', workspace: 'gamma', source: 'audit' },
  { alertname: 'AuditferryForeignFetch', workspace: 'gamma', source: 'audit' },
  { alertname: 'AuditferryQuarantineGrowing', workspace: 'gamma', source: 'audit' },
  { alertname: 'AuditferryConfigReloadFailed', job: 'reading' },
  { alertname: 'AuditferrySinkFailing', sink: 'siem' },
  { alertname: 'AuditferryDeliveryDelayed', sink: 'siem' },
  { alertname: 'AuditferryDeadLettersGrowing', sink: 'relay' },
  { alertname: 'AuditferryJournalNearFull', job: 'delivering' },
  { alertname: 'AuditferryJournalPaused', job: 'delivering' },
]

const isOf = (labels: Readonly<Record<string, string>>) => (alert: Alert) =>
  Object.entries(labels).every(([name, value]) => alert.labels[name] === value)

const reported = (alerts: readonly Alert[]) =>
  alerts.map(({ status, labels }) => `${status} ${JSON.stringify(labels)}`).join('\n')

describe.skipIf(monitoringMissing)('alerts of a real daemon', () => {
  let folder = ''
  let setup: Setup
  let prometheus: Prometheus
  const closing: (() => Promise<void>)[] = []

  beforeAll(async () => {
    folder = mkdtempSync(join(tmpdir(), 'auditferry-monitoring-'))
    setup = await openSetup(folder)
    closing.push(() => setup.close())
    await setup.inOrder()
    prometheus = await openPrometheus(
      join(folder, 'tower'),
      scaledRules(readFileSync('monitoring/rules.yaml', 'utf8')),
      setup.targets,
    )
    closing.push(() => prometheus.close())
  }, 60_000)

  afterAll(async () => {
    for (const close of closing.reverse()) await close()
    rmSync(folder, { recursive: true, force: true })
  })

  const arrives = (status: Alert['status'], labels: Readonly<Record<string, string>>) =>
    until(
      `${status} ${JSON.stringify(labels)}`,
      () => prometheus.arrived.some((alert) => alert.status === status && isOf(labels)(alert)),
      PATIENCE_MS,
    ).catch((error: unknown) => {
      throw new Error(`${String(error)}; there came:\n${reported(prometheus.arrived)}`)
    })

  test('a healthy daemon raises nothing, and every rule can be evaluated', async () => {
    await until('some seconds of it', async () => {
      const [seen] = await prometheus.query('min(count_over_time(auditferry_build_info[5m]))')
      return Number(seen?.value[1]) > CALM_SECONDS
    })
    expect(await prometheus.query('count_over_time(ALERTS{alertstate="firing"}[5m])')).toEqual([])
    const rules = await prometheus.rules()
    expect(rules.length).toBeGreaterThan(20)
    for (const rule of rules) expect(rule, rule.lastError).toMatchObject({ health: 'ok' })
  })

  test('each fault arrives at the receiver as an alert of its own, and nothing else does', async () => {
    await setup.spoil()
    // Fixed sooner, the source would be read again before it counts as stalled.
    await Promise.all(expected.slice(0, 2).map((labels) => arrives('firing', labels)))
    setup.mendKey()
    await Promise.all(expected.map((labels) => arrives('firing', labels)))
    const others = prometheus.arrived.filter((alert) => !expected.some((labels) => isOf(labels)(alert)))
    expect(reported(others)).toBe('')
  }, 60_000)

  test('an alert has its severity and a link to its page, and no content of an entry', () => {
    for (const { labels, annotations } of prometheus.arrived) {
      expect(labels['severity']).toMatch(/^(critical|warning)$/)
      expect(existsSync(annotations['runbook_url'] ?? '')).toBe(true)
      expect(annotations['summary']).not.toMatch(/%!|error|<no value>/)
      expect(JSON.stringify([labels, annotations])).not.toMatch(/@|xxxx|the-next-key|the-first-key/)
    }
  })

  test.skipIf(promtoolMissing)('what the daemons expose then passes the lint of promtool', async () => {
    for (const text of await setup.metrics()) expect(promtool(['check', 'metrics'], text)).toBe('')
  })

  test('every query of the dashboard is answered, and with something where there is something', async () => {
    for (const { title, expr, mayBeEmpty } of dashboardQueries()) {
      let samples = await prometheus.query(expr)
      // A failing sink retries less and less often, every half a minute in the end: a rate over seconds is 0 in between.
      for (let look = 0; !mayBeEmpty && samples.length === 0 && look < 40; look++) {
        await systemClock.sleep(1_000)
        samples = await prometheus.query(expr)
      }
      if (!mayBeEmpty) expect(samples.length, `${title}: ${expr}`).toBeGreaterThan(0)
    }
  }, 60_000)

  test('a fixed fault is resolved, and a daemon that is gone is reported by its job', async () => {
    setup.mendConfig()
    await setup.leave()
    await arrives('resolved', { alertname: 'AuditferryKeyRefused', workspace: 'acme' })
    await arrives('resolved', { alertname: 'AuditferryConfigReloadFailed', job: 'reading' })
    await arrives('firing', { alertname: 'AuditferryTargetAbsent', job: 'delivering' })
    expect(await prometheus.query('ALERTS{workspace="acme", alertstate="firing"}')).toEqual([])
  }, 60_000)
})
