// Builds page chunks for journal tests: entries with an id, time and body that the test chooses.
import { COLUMNS, Entries } from '../../src/contracts/entries.ts'
import type { Append, Batch } from '../../src/contracts/journal.ts'
import type { Log } from '../../src/core/log.ts'
import type { Stream } from '../../src/contracts/source.ts'

export const audit: Stream = { workspace: 'acme', source: 'audit' }
export const usage: Stream = { workspace: 'acme', source: 'history.usage' }

/** 2026-01-31T00:00:00Z */
export const START_US = 1_769_817_600_000_000
export const DAY_MS = 86_400_000

export interface EntrySpec {
  readonly id: string
  /** µs */
  readonly at?: number
  /** the text in the entry; by default `at` in UTC */
  readonly time?: string
  readonly type?: string
  readonly body?: string
}

export function uuid(n: number): string {
  return `00000000-0000-4000-8000-${n.toString(16).padStart(12, '0')}`
}

export function spec(n: number, rest: Partial<EntrySpec> = {}): EntrySpec {
  return { id: uuid(n), at: START_US + n * 1_000_000, ...rest }
}

/** Builds entries in the layout of a page body: separated by commas. */
export function entriesOf(specs: readonly EntrySpec[]): Entries {
  const types = [...new Set(specs.map(({ type = 'user:create_query' }) => type))]
  const columns = new Uint32Array(specs.length * COLUMNS)
  let text = '['
  specs.forEach(({ id, at = START_US, time: given, type = 'user:create_query', body = '' }, i) => {
    const time = given ?? new Date(at / 1000).toISOString()
    const raw = JSON.stringify({ id, timestamp: time, type, body })
    const start = text.length
    const idStart = start + raw.indexOf(id)
    const timeStart = start + raw.indexOf(time)
    text += `${raw},`
    columns.set(
      [
        ...[start, start + raw.length, idStart, idStart + id.length],
        ...[timeStart, timeStart + time.length, types.indexOf(type), 0],
      ],
      i * COLUMNS,
    )
  })
  const times = Float64Array.from(specs, ({ at = START_US }) => at)
  return new Entries(Buffer.from(text, 'latin1'), specs.length, columns, times, types)
}

export function part(specs: readonly EntrySpec[], rest: Partial<Append> = {}): Append {
  return {
    ...{ stream: audit, entries: entriesOf(specs), quarantined: [], findings: [] },
    ...{ headUs: undefined, cursor: undefined, gaps: 0, ...rest },
  }
}

export const plenty = { maxEntries: 1000, maxBytes: 2 ** 20 }

export function idsOf(batch: Batch | undefined): string[] {
  return (batch?.slices ?? []).flatMap(({ entries }) =>
    Array.from({ length: entries.count }, (_, i) => entries.id(i)),
  )
}

export function rawsOf(batch: Batch | undefined): string[] {
  return (batch?.slices ?? []).flatMap(({ entries }) =>
    Array.from({ length: entries.count }, (_, i) => Buffer.from(entries.raw(i)).toString()),
  )
}

export function acknowledgement(first: number, through: number) {
  return { first, through, rejected: [] }
}

export class TestClock {
  nowMs = START_US / 1000
  now = () => this.nowMs
  elapsed = () => this.nowMs
  sleep = async () => {}
}

export function logOf(sentences: string[] = []): Log {
  const say = (sentence: string) => void sentences.push(sentence)
  const log: Log = { debug: say, info: say, warn: say, error: say, with: () => log }
  return log
}
