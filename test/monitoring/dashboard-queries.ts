// The queries of the dashboard as Prometheus gets them from Grafana: variables filled in.
import { readFileSync } from 'node:fs'

interface Query {
  readonly title: string
  readonly expr: string
  /** It shows something optional: a canary that is switched off, shards of a database. */
  readonly mayBeEmpty: boolean
}

interface Panel {
  readonly id: number
  readonly type: string
  readonly title: string
  readonly description?: string
  readonly datasource?: object
  readonly gridPos: { readonly x: number; readonly y: number; readonly w: number; readonly h: number }
  readonly targets?: readonly { readonly expr: string }[]
}

interface Dashboard {
  readonly panels: readonly Panel[]
  readonly templating: { readonly list: readonly { readonly name: string; readonly type: string }[] }
  readonly annotations: { readonly list: readonly { readonly name: string; readonly expr?: string }[] }
}

const DASHBOARD = 'monitoring/dashboard.json'

export const readDashboard = (): Dashboard => JSON.parse(readFileSync(DASHBOARD, 'utf8')) as Dashboard

/** `everything` for each variable; the interval suits a scrape a second. */
const filled = (expr: string): string =>
  expr.replaceAll('$__rate_interval', '10s').replaceAll(/\$(job|workspace|sink)\b/g, '.*')

export function dashboardQueries(): readonly Query[] {
  const { panels, annotations } = readDashboard()
  const ofPanels = panels.flatMap(({ title, targets = [] }) => targets.map(({ expr }) => ({ title, expr })))
  const ofAnnotations = annotations.list.flatMap(({ name, expr }) =>
    expr === undefined ? [] : [{ title: name, expr }],
  )
  return [
    ...ofPanels.map((query) => ({ ...query, mayBeEmpty: /auditferry_(canary|shard)_/.test(query.expr) })),
    ...ofAnnotations.map((query) => ({ ...query, mayBeEmpty: true })),
  ].map((query) => ({ ...query, expr: filled(query.expr) }))
}
