// One workspace's canary as the board knows it: what its conductor told, as metrics. Its state is that of a source, as it asks the API.
import type { CanaryTrace, CanaryWatch } from '../model/watch.ts'
import type { CanaryMetrics } from './metrics.ts'

/** `expected`: each place in which one is looked for, `request` not among them. */
export function openBoardCanary(
  workspace: string,
  intervalMs: number,
  expected: readonly CanaryTrace[],
  metrics: CanaryMetrics,
): CanaryWatch {
  const labels = ({ stage, sink }: CanaryTrace) => ({
    workspace,
    stage,
    ...(sink === undefined ? {} : { sink }),
  })
  const idOf = ({ stage, sink }: CanaryTrace) => `${stage} ${sink ?? ''}`
  metrics.interval.set({ workspace }, intervalMs / 1000)
  metrics.lastSuccess.set({ workspace }, 0)
  const missing = (traces: readonly CanaryTrace[]) => {
    const gone = new Set(traces.map(idOf))
    for (const trace of expected) metrics.missing.set(labels(trace), gone.has(idOf(trace)) ? 1 : 0)
  }
  missing([])
  return {
    seen: (trace, ms) => metrics.seconds.set(labels(trace), ms / 1000),
    missing,
    whole: (at) => metrics.lastSuccess.set({ workspace }, at / 1000),
  }
}
