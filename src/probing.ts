// One workspace's canary built from its piece of the configuration: what it asks with, where it is looked for, and how the readers show it what they read.
import { Canary } from './canary/canary.ts'
import { noticed } from './canary/noticed.ts'
import { stagesOf } from './canary/stages.ts'
import { isTraceSource, PROMPT_TYPE, type TraceSource, traceSources } from './canary/traces.ts'
import type { Destination } from './canary/reached.ts'
import type { SinkConfig, WorkspaceConfig } from './config/schema.ts'
import { sinkLingerMs } from './config/sink.ts'
import { globFilter, takesAll } from './model/globs.ts'
import type { Clock } from './model/clock.ts'
import type { Journal } from './model/journal.ts'
import type { KeyWait } from './model/key-waits.ts'
import type { Source, SourceName } from './model/source.ts'
import { MINUTE_MS } from './model/time.ts'
import type { SourceState, SourceWatch } from './model/watch.ts'
import type { Shared } from './parts.ts'
import { Assistant } from './source/assistant/assistant.ts'
import type { Client } from './source/client/client.ts'

/** Beside three times the slowest source's interval and the longest wait of a sink: a busy minute, a restart, a receiver's own pace. */
const SLACK_MS = 3_600_000

export interface CanaryProbe<Reader> {
  readonly canary: Canary
  /** the same readers, whose parts the canary sees */
  readonly readers: readonly Reader[]
}

/** The workspace's access to its API. */
interface Asking {
  client(source: SourceName, watch: SourceWatch): Client
  readonly keyWait: KeyWait
}

interface Looked {
  readonly source: Source
  readonly intervalMs: number
}

/** Undefined where it is switched off, and in a single run: nobody waits there for what it made. */
export function openProbe<Reader extends Looked>(
  shared: Shared,
  workspace: WorkspaceConfig,
  readers: readonly Reader[],
  access: Asking,
): CanaryProbe<Reader> | undefined {
  if (shared.mode.once || workspace.canary?.enabled !== true) return undefined
  const { outside, journal, board, config } = shared
  const { clock, random } = outside
  const { name } = workspace
  const origin = { workspace: name, source: 'assistant' } as const
  // Its state is told by itself: it may rest far longer than its interval while it waits for traces.
  const watch = board.source(origin)
  const sources = tellable(readers.map((reader) => reader.source.origin.source))
  const sinks = config.sinks.flatMap((sink) => destinationOf(sink, sources, workspace))
  const looked = readers.filter(({ source }) =>
    (sources as readonly SourceName[]).includes(source.origin.source),
  )
  const readMs = Math.max(0, ...looked.map(({ intervalMs }) => intervalMs))
  const sendMs = Math.max(0, ...config.sinks.map(sinkLingerMs))
  const intervalMs = workspace.canary.interval
  const expected = stagesOf(sources, sinks)
  const canary = new Canary({
    workspace: name,
    intervalMs,
    boundMs: 3 * readMs + sendMs + SLACK_MS,
    sources,
    sinks,
    journal,
    watch,
    clock,
    random,
    keyWait: access.keyWait,
    canary: board.canary(name, Math.max(intervalMs, readMs + sendMs), expected),
    log: outside.log.with(origin),
    ask: asking(shared, new Assistant({ client: access.client('assistant', watch) })),
    ready: () => isReady(looked, journal, clock, (source) => stateIn(shared, name, source)),
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
    for await (const answer of answers) serverAt = answer.serverAt
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

/**
 * Whether what is asked now would be seen soon: each of `readers` that can read has read all that was there, by what it
 * remembers over restarts. One that is held or fails keeps nobody waiting: its trace is missing, and told as that.
 * @internal by itself for tests
 */
export async function isReady(
  readers: readonly Looked[],
  journal: Pick<Journal, 'cursor'>,
  clock: Clock,
  stateOf: (source: SourceName) => SourceState | undefined,
): Promise<boolean> {
  for (const { source, intervalMs } of readers) {
    const state = stateOf(source.origin.source)
    if (state === 'held' || state === 'failing') continue
    const { caughtUp, dueAt } = source.plan(await journal.cursor(source.origin))
    // Overdue, as after a long absence: what it had read all of is no longer all.
    if (!caughtUp || clock.now() - dueAt > Math.max(intervalMs, MINUTE_MS)) return false
  }
  return true
}

function stateIn({ board }: Shared, workspace: string, source: SourceName): SourceState | undefined {
  const { sources = [] } = board.status().workspaces.find(({ name }) => name === workspace) ?? {}
  return sources.find(({ name }) => name === source)?.state
}
