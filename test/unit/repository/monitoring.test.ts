// Rules, dashboard and runbooks agree with each other and with the metrics.
import { existsSync, readdirSync, readFileSync } from 'node:fs'
import { describe, expect, test } from 'vitest'
import { parse } from 'yaml'
import { openStatusRegistry } from '../../../src/observability/status-registry.ts'
import { openMetrics } from '../../../src/observability/metrics.ts'
import { dashboardQueries, readDashboard } from '../../monitoring/dashboard-queries.ts'
import { promtool, promtoolMissing } from '../../monitoring/programs.ts'
import { fakeStats, testClock } from '../observability/registry-setup.ts'

interface Rule {
  readonly alert?: string
  readonly record?: string
  readonly expr: string
  readonly labels?: Readonly<Record<string, string>>
  readonly annotations?: Readonly<Record<string, string>>
}

interface Expectation {
  readonly alertname: string
  readonly exp_alerts?: readonly unknown[]
}

const read = (path: string): string => readFileSync(path, 'utf8')
const { groups } = parse(read('monitoring/rules.yaml')) as { groups: { rules: Rule[] }[] }
const rules = groups.flatMap((group) => group.rules)
const alerts = rules.flatMap((rule) => (rule.alert === undefined ? [] : [{ ...rule, name: rule.alert }]))
const recorded = rules.flatMap(({ record }) => record ?? [])
const expectations = ['rules.test.yaml', 'weekend.test.yaml', 'replicas.test.yaml'].flatMap((file) => {
  const { tests } = parse(read(`monitoring/${file}`)) as { tests: { alert_rule_test?: Expectation[] }[] }
  return tests.flatMap((each) => each.alert_rule_test ?? [])
})
const queries = dashboardQueries()

/** Of a daemon with one source and one sink, which is a replica too. */
async function exposed(): Promise<string> {
  const metrics = openMetrics({ version: '1.2.3' })
  const registry = openStatusRegistry({
    clock: testClock(),
    metrics,
    journalStats: () => fakeStats,
    version: '1.2.3',
  })
  metrics.shards().held.set({ shard: 1 }, 1)
  registry.source({ workspace: 'acme', source: 'audit' }, 30_000)
  registry.sink('archive', 'file', () => 'stored')
  return metrics.render()
}

/** Words of an expression that can only be names of series. */
const seriesIn = (expr: string): string[] =>
  expr.match(/[a-z_:]*(?:auditferry|process|nodejs)_[a-z0-9_:]+/g) ?? []

describe('the alerts', () => {
  test('exist, each with its own name', () => {
    expect(alerts.length).toBeGreaterThan(15)
    expect(new Set(alerts.map(({ name }) => name)).size).toBe(alerts.length)
  })

  test.each(alerts)(
    '$name has its severity and a summary, and links to its page',
    ({ name, labels, annotations }) => {
      expect(name).toMatch(/^Auditferry([A-Z][a-z]+)+$/)
      expect(['critical', 'warning']).toContain(labels?.['severity'])
      expect(annotations?.['summary']).toMatch(/\S/)
      expect(annotations?.['description']).toMatch(/\.$/)
      expect(annotations?.['runbook_url']).toBe(`docs/runbooks/${name}.md`)
    },
  )

  test.each(alerts)('$name is proven to fire and not to fire', ({ name }) => {
    const own = expectations.filter(({ alertname }) => alertname === name)
    expect(own.some(({ exp_alerts: raised = [] }) => raised.length > 0)).toBe(true)
    // Before it should and after it should no longer.
    expect(own.filter(({ exp_alerts: raised = [] }) => raised.length === 0).length).toBeGreaterThan(1)
  })

  test('a number from 60 on is in seconds, and a whole minute', () => {
    for (const { expr } of rules)
      for (const [number] of expr.replaceAll(/"[^"]*"|\[[^\]]*\]/g, '').matchAll(/\b\d+(?:\.\d+)?\b/g))
        expect(Number(number) < 60 || Number(number) % 60 === 0, `${number} in ${expr}`).toBe(true)
  })
})

describe('the runbooks', () => {
  const pages = readdirSync('docs/runbooks').filter((name) => name !== 'README.md')

  test('exist for each alert, and for nothing else', () => {
    expect(pages.sort()).toEqual(alerts.map(({ name }) => `${name}.md`).sort())
  })

  test.each(pages)('%s has every section, and names things that exist', async (page) => {
    const text = read(`docs/runbooks/${page}`)
    expect(text.startsWith(`# ${page.replace('.md', '')}\n`)).toBe(true)
    expect(text.match(/^## .*/gm)).toEqual(['## At risk', '## Look', '## Do', '## Resolves'])
    const there = `${await exposed()}${recorded.join('\n')}${read('docs/operations/metrics.md')}`
    for (const series of seriesIn(text)) expect(there, series).toContain(series)
    for (const [other] of text.matchAll(/Auditferry[A-Z]\w+/g)) expect(pages).toContain(`${other}.md`)
  })

  test('log lines that they quote are lines of the program', () => {
    const sources = readdirSync('src', { recursive: true, encoding: 'utf8' }).filter((name) =>
      name.endsWith('.ts'),
    )
    const program = sources.map((name) => read(`src/${name}`)).join('\n')
    const quoted = pages.flatMap((page) => [
      ...read(`docs/runbooks/${page}`).matchAll(/^- .*(?:[Ll]og.*?: |, )`([A-Z][^`]{20,})`/gm),
    ])
    expect(quoted.length).toBeGreaterThan(8)
    for (const [, line = ''] of quoted) expect(program).toContain(line)
  })

  test('the index has each, with its severity', () => {
    const index = read('docs/runbooks/README.md')
    for (const { name, labels } of alerts)
      expect(index).toMatch(
        new RegExp(`\\| \\[${name}\\]\\(${name}\\.md\\) +\\| ${labels?.['severity'] ?? '?'} +\\|`),
      )
  })
})

describe('the dashboard', () => {
  const dashboard = readDashboard()
  const panels = dashboard.panels.filter(({ type }) => type !== 'row')

  test('has the required rows and variables', () => {
    const rows = dashboard.panels.filter(({ type }) => type === 'row').map(({ title }) => title)
    expect(rows).toEqual(['Overview', 'Sources', 'Sinks', 'Journal', 'Shards', 'Canary', 'Process'])
    expect(dashboard.templating.list.map(({ name }) => name)).toEqual([
      'datasource',
      'job',
      'workspace',
      'sink',
    ])
  })

  test('each panel has an id and a position of its own, a description, and uses the chosen data source', () => {
    expect(new Set(dashboard.panels.map(({ id }) => id)).size).toBe(dashboard.panels.length)
    const cells = dashboard.panels.flatMap(({ gridPos: { x, y, w, h } }) => {
      expect(x + w).toBeLessThanOrEqual(24)
      return Array.from({ length: w * h }, (_, cell) => `${x + (cell % w)} ${y + Math.floor(cell / w)}`)
    })
    expect(new Set(cells).size).toBe(cells.length)
    for (const { title, description, datasource } of panels) {
      expect(description, title).toMatch(/\.$/)
      expect(datasource, title).toEqual({ type: 'prometheus', uid: '${datasource}' })
    }
  })

  test('the chart carries the same rules and the same dashboard', () => {
    for (const file of ['rules.yaml', 'dashboard.json'])
      if (existsSync('helm/auditferry/files'))
        expect(read(`helm/auditferry/files/${file}`) === read(`monitoring/${file}`), file).toBe(true)
  })
})

test('rules and dashboard use only series that are exposed, recorded or in metrics.md', async () => {
  const known = new Set([
    ...((await exposed()).match(/^\w+(?=[{ ])/gm) ?? []),
    ...recorded,
    ...Array.from(read('docs/operations/metrics.md').matchAll(/^\| `(\w+)` /gm), ([, name = '']) => name),
  ])
  for (const expr of [...rules, ...queries].map((each) => each.expr))
    for (const series of seriesIn(expr)) expect([...known], expr).toContain(series)
})

test('rules and dashboard select and group by closed labels only', () => {
  const closed =
    'job instance pod workspace source sink shard state outcome code reason kind stage le alertname alertstate'.split(
      ' ',
    )
  for (const expr of [...rules, ...queries].map((each) => each.expr)) {
    for (const [, list = ''] of expr.matchAll(/\b(?:by|without|on|group_left) \(([^)]*)\)/g))
      for (const label of list.split(',').map((each) => each.trim()))
        if (label !== '') expect(closed, expr).toContain(label)
    for (const [, label = ''] of expr.matchAll(/[{,] *(\w+) *(?:=~|!~|!=|=)/g))
      expect(closed, expr).toContain(label)
  }
})

test.skipIf(promtoolMissing)('the metrics of the first scrape pass the lint of promtool', async () => {
  expect(promtool(['check', 'metrics'], await exposed())).toBe('')
})
