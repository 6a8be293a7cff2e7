// One prompt and its traces so far, as stored across restarts.
import { z } from 'zod'
import type { DeadLetters, State, Totals } from '../contracts/journal.ts'
import type { CanaryTrace } from '../contracts/reporter.ts'
import { jsonOf } from '../core/json.ts'
import { traceSources } from './traces.ts'
import type { TraceSource } from './traces.ts'

const trace = z.object({
  /** epoch ms at which it was found */
  at: z.number(),
  /** the last sequence number of its part in the journal */
  seq: z.number(),
  /** of the entry */
  id: z.string(),
})

const round = z.object({
  nonce: z.string(),
  /** epoch ms, our clock */
  sentAt: z.number(),
  /** Absent: unknown whether the prompt has arrived. Times by the server's clock, µs. */
  answered: z.object({ tookMs: z.number(), fromUs: z.number(), toUs: z.number() }).optional(),
  traces: z.partialRecord(z.enum(traceSources), trace),
  /** epoch ms at which each sink had acknowledged its trace */
  delivered: z.record(z.string(), z.number()),
  /** sinks that refused it for good */
  parked: z.array(z.string()),
  /** all traces have arrived, or the missing ones were reported */
  over: z.boolean(),
})

const memory = z.object({
  user: z.string().optional(),
  round: round.optional(),
  /** the last finished round if it had missing traces: reported until a round is complete */
  missed: round.optional(),
  /** epoch ms; 0: never */
  wholeAt: z.number(),
})

export type Round = z.output<typeof round>
export type CanaryMemory = z.output<typeof memory>

// The canary's state as a state entry in the journal: loaded once, written on change.

export class CanaryStore {
  readonly #state: State
  readonly #workspace: string
  #saved = ''

  constructor(state: State, workspace: string) {
    this.#state = state.scope('canary')
    this.#workspace = workspace
  }

  async load(): Promise<CanaryMemory> {
    this.#saved = (await this.#state.get(this.#workspace)) ?? ''
    // A state entry of another format or version is ignored.
    return jsonOf(memory, this.#saved) ?? { wholeAt: 0 }
  }

  async save(memory: CanaryMemory): Promise<void> {
    const text = JSON.stringify(memory)
    if (text === this.#saved) return
    await this.#state.put(this.#workspace, text)
    this.#saved = text
  }
}

// Progress of the sinks with a canary's traces: by their positions in the journal, and by their
// dead letters.

/** Dead letters examined per step. */
const PAGE = 1_000

/** A sink and the source of the trace that it must receive. */
export interface Destination {
  readonly name: string
  readonly source: TraceSource
}

export function undelivered({ delivered }: Round, sinks: readonly Destination[]): readonly Destination[] {
  return sinks.filter(({ name }) => delivered[name] === undefined)
}

/** The sinks at which the trace is pending. */
export function awaited(round: Round, sinks: readonly Destination[]) {
  return undelivered(round, sinks).flatMap(({ name, source }) => {
    const trace = round.traces[source]
    return trace && !round.parked.includes(name) ? [{ name, trace }] : []
  })
}

/**
 * The sinks that have acknowledged their trace by now; those that rejected it for good are recorded
 * in the round.
 */
export async function acknowledgedBy(
  round: Round,
  sinks: readonly Destination[],
  journal: DeadLetters & Totals,
): Promise<readonly string[]> {
  const waiting = awaited(round, sinks)
  if (waiting.length === 0) return []
  const positions = new Map(journal.stats().sinks.map((one) => [one.sink, one]))
  const acknowledged: string[] = []
  for (const { name, trace } of waiting) {
    const position = positions.get(name)
    if (!position || position.position < trace.seq) continue
    if (position.deadLetters > 0 && (await isDeadLetter(journal, name, trace.id))) round.parked.push(name)
    else acknowledged.push(name)
  }
  return acknowledged
}

async function isDeadLetter(journal: DeadLetters, sink: string, entryId: string): Promise<boolean> {
  for (let after = 0; ;) {
    const letters = await journal.deadLetters({ sink, after, limit: PAGE })
    if (letters.some((letter) => letter.entryId === entryId)) return true
    if (letters.length < PAGE) return false
    after = letters.at(-1)?.id ?? Infinity
  }
}

// Where our own prompt is looked for: one place per source, one per sink.

export const stageOf = {
  audit: 'audit',
  'history.usage': 'usage',
  'history.query': 'query',
} as const satisfies Record<TraceSource, CanaryTrace['stage']>

/** The places for an answered prompt. */
export function stagesOf(
  sources: readonly TraceSource[],
  sinks: readonly Destination[],
): readonly CanaryTrace[] {
  return [
    ...sources.map((source) => ({ stage: stageOf[source] })),
    ...sinks.map(({ name: sink }) => ({ stage: 'delivered' as const, sink })),
  ]
}
