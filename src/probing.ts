// One workspace's canary built from its piece of the configuration: what it asks with, where it is looked for, and how the readers show it what they read.
import { Canary } from './canary/canary.ts'
import { noticed } from './canary/noticed.ts'
import { isTraceSource, PROMPT_TYPE, type TraceSource, traceSources } from './canary/traces.ts'
import type { Destination } from './canary/deliveries.ts'
import type { SinkConfig, WorkspaceConfig } from './config/schema.ts'
import { sinkLingerMs } from './config/sink.ts'
import { globFilter, takesAll } from './model/globs.ts'
import type { Source, SourceName } from './model/source.ts'
import type { SourceWatch } from './model/watch.ts'
import type { Shared } from './outside.ts'
import { Assistant } from './source/assistant.ts'
import type { Client } from './source/client.ts'

/** Beside three times the slowest source's interval and the longest wait of a sink: a busy minute, a restart, a receiver's own pace. */
const SLACK_MS = 3_600_000

export interface Probe<Reader> {
  readonly canary: Canary
  /** the same readers, whose parts the canary sees */
  readonly readers: readonly Reader[]
}

/** Undefined where it is switched off, and in a single run: nobody waits there for what it made. */
export function openProbe<Reader extends { readonly source: Source; readonly intervalMs: number }>(
  shared: Shared,
  workspace: WorkspaceConfig,
  readers: readonly Reader[],
  clientOf: (source: SourceName, watch: SourceWatch) => Client,
): Probe<Reader> | undefined {
  if (shared.mode.once || workspace.canary?.enabled !== true) return undefined
  const { outside, journal, board, config } = shared
  const { clock, random } = outside
  const { name } = workspace
  const origin = { workspace: name, source: 'assistant' } as const
  // Its state is told by itself: it may rest far longer than its interval while it waits for traces.
  const watch = board.source(origin)
  const sources = tellable(readers.map((reader) => reader.source.origin.source))
  const sinks = config.sinks.flatMap((sink) => destinationOf(sink, sources, workspace))
  const readMs = slowestOf(readers, sources)
  const sendMs = Math.max(0, ...config.sinks.map(sinkLingerMs))
  const intervalMs = workspace.canary.interval
  const expected = Canary.traces(sources, sinks)
  const canary = new Canary({
    ...{
      workspace: name,
      intervalMs,
      boundMs: 3 * readMs + sendMs + SLACK_MS,
      sources,
      sinks,
      journal,
      watch,
      clock,
      random,
    },
    canary: board.canary(name, Math.max(intervalMs, readMs + sendMs), expected),
    log: outside.log.with(origin),
    ask: asking(shared, new Assistant({ client: clientOf('assistant', watch) })),
    ready: () => caughtUp(shared, name),
  })
  const show = (reader: Reader): Reader => {
    const { source } = reader.source.origin
    if (!isTraceSource(source)) return reader
    return { ...reader, source: noticed(reader.source, (...landed) => canary.notice(source, ...landed)) }
  }
  return { canary, readers: readers.map(show) }
}

function asking(
  { outside, instance }: Shared,
  assistant: Assistant,
): ConstructorParameters<typeof Canary>[0]['ask'] {
  return async ({ prompt, mark }, signal) => {
    const userAgent = `auditferry/${outside.version} (instance ${instance}; ${mark})`
    const answers = assistant.complete({ prompt, userAgent }, signal, async function* ({ serverAt, pieces }) {
      // Read to its end, and let go of: whether it is right is not ours to say.
      let characters = 0
      for await (const { length } of pieces) characters += length
      yield { serverAt, characters }
    })
    let serverAt: number | undefined
    for await (const told of answers) serverAt = told.serverAt
    return serverAt
  }
}

/** A usage event is told by its user, whom only the audit entry or the query event tells. */
function tellable(on: readonly SourceName[]): readonly TraceSource[] {
  const sources = traceSources.filter((source) => on.includes(source))
  return sources.length === 1 && sources[0] === 'history.usage' ? [] : sources
}

/** The first of the sources whose trace this sink takes. */
function destinationOf(
  sink: SinkConfig,
  sources: readonly TraceSource[],
  { audit }: WorkspaceConfig,
): readonly Destination[] {
  const wanted = globFilter(sink.types)(PROMPT_TYPE) && globFilter(audit?.types ?? ['*'])(PROMPT_TYPE)
  const source = sources.find(
    (one) => sink.sources.includes(one) && (one === 'audit' ? wanted : takesAll(sink.types)),
  )
  return source ? [{ name: sink.name, source }] : []
}

function slowestOf(
  readers: readonly { readonly source: Source; readonly intervalMs: number }[],
  sources: readonly SourceName[],
): number {
  const read = readers.filter(({ source }) => sources.includes(source.origin.source))
  return Math.max(0, ...read.map(({ intervalMs }) => intervalMs))
}

function caughtUp({ board }: Shared, workspace: string): boolean {
  const { sources = [] } = board.status().workspaces.find(({ name }) => name === workspace) ?? {}
  return sources.every(({ name, caught_up_at }) => name === 'assistant' || caught_up_at !== null)
}
