// How far the sinks are with a canary's traces: by their positions in the journal, and by what they refused.
import type { Journal } from '../model/journal.ts'
import type { Round } from './round.ts'
import type { TraceSource } from './traces.ts'

/** Letters that are looked through at a time. */
const PAGE = 1_000

/** A sink and the source whose trace it is held to. */
export interface Destination {
  readonly name: string
  readonly source: TraceSource
}

export function undelivered({ delivered }: Round, sinks: readonly Destination[]): readonly Destination[] {
  return sinks.filter(({ name }) => delivered[name] === undefined)
}

/** The sinks that have the trace before them and have not answered for it. */
export function awaited(round: Round, sinks: readonly Destination[]) {
  return undelivered(round, sinks).flatMap(({ name, source }) => {
    const trace = round.traces[source]
    return trace && !round.parked.includes(name) ? [{ name, trace }] : []
  })
}

/** The sinks that have settled their trace by now; those that refused it for good are noted in the round. */
export async function settledBy(
  round: Round,
  sinks: readonly Destination[],
  journal: Pick<Journal, 'stats' | 'deadLetters'>,
): Promise<readonly string[]> {
  const waiting = awaited(round, sinks)
  if (waiting.length === 0) return []
  const positions = new Map(journal.stats().sinks.map((one) => [one.sink, one]))
  const settled: string[] = []
  for (const { name, trace } of waiting) {
    const position = positions.get(name)
    if (!position || position.position < trace.seq) continue
    if (position.deadLetters > 0 && (await isParked(journal, name, trace.id))) round.parked.push(name)
    else settled.push(name)
  }
  return settled
}

async function isParked(
  journal: Pick<Journal, 'deadLetters'>,
  sink: string,
  entryId: string,
): Promise<boolean> {
  for (let after = 0; ;) {
    const letters = await journal.deadLetters({ sink, after, limit: PAGE })
    if (letters.some((letter) => letter.entryId === entryId)) return true
    if (letters.length < PAGE) return false
    after = letters.at(-1)?.id ?? Infinity
  }
}
