// What a sink wants of the journal: its own sources and types.
import type { SinkConfig } from './config/schema.ts'
import { globFilter, takesAll } from './model/globs.ts'
import type { Run } from './model/journal.ts'

/** The sink's own sources and types, also of what is sent again; what is addressed to one sink alone is nobody else's. */
export function wantedBy(config: SinkConfig): (run: Run, index: number) => boolean {
  const sources = new Set<string>(config.sources)
  const types = globFilter(config.types)
  const everything = takesAll(config.types)
  const known = new Map<string, boolean>()
  const typeWanted = (type: string): boolean => {
    let answer = known.get(type)
    if (answer === undefined) {
      answer = types(type)
      // Types come from outside: what is remembered of them stays bounded.
      if (known.size < 10_000) known.set(type, answer)
    }
    return answer
  }
  return (run, index) => {
    if (run.onlySink !== undefined && run.onlySink !== config.name) return false
    if (!sources.has(run.origin.source)) return false
    return everything || typeWanted(run.entries.type(index))
  }
}
