// Putting dead letters back: only those that their sink still wants. What it does not want would be settled as filtered, and be gone.
import type { SinkConfig } from './config/schema.ts'
import { columnsOf, Entries } from './model/entries.ts'
import type { Journal, Run } from './model/journal.ts'
import type { DeadLetter, DeadLetterQuery, LeftLetters, Retried } from './model/set-aside.ts'
import { deniedBy } from './ship/deny.ts'
import { wantedBy } from './wanted.ts'

type Letters = Pick<Journal, 'deadLetters' | 'deadLetterRaw' | 'retryDeadLetters'>
type Why = LeftLetters['why'] | undefined

/** `sinks` as they are in force: those that will take what is put back. */
export async function retryWanted(
  journal: Letters,
  sinks: readonly SinkConfig[],
  query: DeadLetterQuery,
): Promise<Retried> {
  const judges = new Map(sinks.map((sink) => [sink.name, judgeOf(journal, sink)]))
  const wanted: number[] = []
  const left = new Map<string, LeftLetters>()
  for (const letter of await journal.deadLetters(query)) {
    const { id, sink } = letter
    const judge = judges.get(sink)
    const why = judge ? await judge(letter) : 'not_configured'
    if (why === undefined) wanted.push(id)
    else left.set(`${sink} ${why}`, { sink, why, count: (left.get(`${sink} ${why}`)?.count ?? 0) + 1 })
  }
  const count = wanted.length > 0 ? await journal.retryDeadLetters({ ids: wanted }) : 0
  return { count, left: [...left.values()] }
}

/** Asks what the sink's shipper will ask, in its order. The bytes are read only where something is denied. */
function judgeOf(journal: Letters, config: SinkConfig): (letter: DeadLetter) => Promise<Why> {
  const wanted = wantedBy(config)
  const denied = Object.keys(config.deny ?? {}).length > 0 ? deniedBy(config.deny ?? {}) : undefined
  return async (letter) => {
    if (!config.sources.some((source) => source === letter.origin.source)) return 'sources'
    if (!wanted(runOf(letter, new Uint8Array()), 0)) return 'types'
    const raw = denied ? await journal.deadLetterRaw(letter.id) : undefined
    return raw && denied?.(runOf(letter, raw), 0) ? 'deny' : undefined
  }
}

/** The letter as it will stand in the journal, as far as anybody asks who judges it. */
function runOf({ origin, seq, type, sink }: DeadLetter, raw: Uint8Array): Run {
  const places = { raw: [0, raw.length], id: [0, 0], time: [0, 0], type: 0 } as const
  const columns = Uint32Array.from(columnsOf(places))
  const entries = new Entries(raw, 1, columns, new Float64Array(1), [type])
  return { origin, firstSeq: seq, appendedAt: 0, onlySink: sink, replay: false, entries }
}
