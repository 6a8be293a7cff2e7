// The stages in which a prompt of our own is looked for: one a source, one a sink.
import type { CanaryTrace } from '../model/watch.ts'
import type { Destination } from './reached.ts'
import type { TraceSource } from './traces.ts'

export const stageOf = {
  audit: 'audit',
  'history.usage': 'usage',
  'history.query': 'query',
} as const satisfies Record<TraceSource, CanaryTrace['stage']>

/** Where one that was answered is looked for. */
export function stagesOf(
  sources: readonly TraceSource[],
  sinks: readonly Destination[],
): readonly CanaryTrace[] {
  return [
    ...sources.map((source) => ({ stage: stageOf[source] })),
    ...sinks.map(({ name: sink }) => ({ stage: 'delivered' as const, sink })),
  ]
}
