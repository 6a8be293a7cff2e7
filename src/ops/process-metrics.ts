// What the process tells of itself: watched once, however many configurations take over in it. What watches it has no end of its own.
import { collectDefaultMetrics, type Metric, Registry } from 'prom-client'

/** prom-client's own, which are gauges and yet end in _total. */
const misnamed = ['handles', 'requests', 'resources'].map((what) => `nodejs_active_${what}_total`)

let watched: readonly Metric[] | undefined

export function processMetrics(): readonly Metric[] {
  watched ??= watch()
  return watched
}

function watch(): readonly Metric[] {
  const register = new Registry()
  // 100 ms instead of 10: an idle daemon should not wake a hundred times a second to look at itself.
  collectDefaultMetrics({ register, eventLoopMonitoringPrecision: 100 })
  for (const name of misnamed) register.removeSingleMetric(name)
  return register.getMetricsAsArray().flatMap(({ name }) => register.getSingleMetric(name) ?? [])
}
