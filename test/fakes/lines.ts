// Entries, chunk slices and framed lines for tests of formats and sinks.
import {
  COLUMNS,
  Entries,
  ID_END,
  ID_START,
  RAW_END,
  RAW_START,
  TIME_END,
  TIME_START,
  TYPE,
  VERSION,
} from '../../src/contracts/entries.ts'
import type { ChunkSlice } from '../../src/contracts/journal.ts'
import type { Format, Frame, Lines } from '../../src/contracts/sink.ts'
import { parseInstantText } from '../../src/core/time.ts'
import { ByteWriter } from '../../src/core/bytes.ts'

export interface MadeEntry {
  readonly id: string
  readonly time?: string
  readonly type?: string
  readonly version?: number
  /** default: JSON of id, timestamp and type */
  readonly raw?: string
}

const TIME = '2026-11-21T10:00:00.123456'

/** As the splitter lays them out: one slab, columns that point into it. */
export function entriesOf(made: readonly MadeEntry[]): Entries {
  const types = [...new Set(made.map(({ type }) => type ?? 'auth:login'))]
  const columns = new Uint32Array(made.length * COLUMNS)
  const parts: Buffer[] = []
  let length = 0
  const put = (text: string): [number, number] => {
    const bytes = Buffer.from(text)
    parts.push(bytes)
    length += bytes.length
    return [length - bytes.length, length]
  }
  const times = Float64Array.from(made, ({ time }) => parseInstantText(time ?? TIME))
  made.forEach(({ id, time = TIME, type = 'auth:login', version = 0, raw }, index) => {
    const at = index * COLUMNS
    const text = raw ?? JSON.stringify({ id, timestamp: time, type, user: 'zoë@example.com' })
    ;[columns[at + RAW_START], columns[at + RAW_END]] = put(text)
    ;[columns[at + ID_START], columns[at + ID_END]] = put(id)
    ;[columns[at + TIME_START], columns[at + TIME_END]] = put(time)
    columns[at + TYPE] = types.indexOf(type)
    columns[at + VERSION] = version
  })
  return new Entries(Buffer.concat(parts), made.length, columns, times, types)
}

export function runOf(made: readonly MadeEntry[], more: Partial<ChunkSlice> = {}): ChunkSlice {
  return {
    stream: { workspace: 'acme', source: 'audit' },
    firstSeq: 1,
    appendedAt: Date.UTC(2026, 10, 21, 10, 0, 1, 5),
    onlySink: undefined,
    replay: false,
    entries: entriesOf(made),
    ...more,
  }
}

/** `count` plain entries with ids `from`, `from + 1`, …, all different and of different lengths. */
export function someEntries(count: number, from = 1): MadeEntry[] {
  return Array.from({ length: count }, (_, i) => ({
    id: `00000000-0000-4000-8000-${String(from + i).padStart(12, '0')}`,
    type: ['auth:login', 'user:create_query', 'admin:add_users'][(from + i) % 3] ?? '',
  }))
}

export const rawFormat: Format = ({ entries }, index, out) => out.copy(entries.raw(index))

/** For lines that are not made from entries. */
export const noEntry: Lines['entry'] = (index) => {
  throw new Error(`Line ${index} has no entry in this test`)
}

export function linesOf(run: ChunkSlice, frame: Frame, format: Format = rawFormat): Lines {
  const out = new ByteWriter(256)
  const { count } = run.entries
  const ends = new Uint32Array(count)
  for (let i = 0; i < count; i++) {
    frame(run, i, out, format)
    ends[i] = out.length
  }
  return {
    count,
    bytes: Buffer.from(out.view()),
    ends,
    seqs: Float64Array.from({ length: count }, (_, i) => run.firstSeq + i),
    entry: (i) => ({
      stream: run.stream,
      id: run.entries.id(i),
      version: run.entries.version(i),
      timeUs: run.entries.at(i),
    }),
  }
}
