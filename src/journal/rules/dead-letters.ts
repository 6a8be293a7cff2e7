// Converts dead letters back to entries to put them back: grouped by sink and stream, up to a chunk
// each.
import {
  COLUMNS,
  Entries,
  TRANSACTION_BYTES,
  TRANSACTION_ENTRIES,
  columnsOf,
} from '../../contracts/entries.ts'
import type { DeadLetter } from '../../contracts/records.ts'
import type { Stream } from '../../contracts/source.ts'

/** A dead letter as stored, without its bytes. */
export interface DeadLetterRow {
  id: number
  sink: string
  seq: number
  /** the stream's number in this store */
  source: number
  entry_id: Buffer
  time: Buffer
  at: number
  type: string
  version: number
  code: string
  reason: string
  dead_lettered_at: number
  bytes: number
  replay: number
}

/** A dead letter for operators. */
export const deadLetterOf = (row: DeadLetterRow, stream: Stream): DeadLetter => ({
  ...{ id: row.id, sink: row.sink, seq: row.seq, stream },
  ...{ entryId: row.entry_id.toString(), time: row.time.toString(), type: row.type },
  ...{ code: row.code, reason: row.reason, deadLetteredAt: row.dead_lettered_at, bytes: row.bytes },
})

/** Dead letters of one sink and stream, up to one chunk. */
interface DeadLetterBundle {
  readonly sink: string
  readonly source: number
  readonly replay: boolean
  readonly rows: DeadLetterRow[]
  bytes: number
}

export function bundlesOf(rows: readonly DeadLetterRow[]): DeadLetterBundle[] {
  const open = new Map<string, DeadLetterBundle>()
  const bundles: DeadLetterBundle[] = []
  for (const row of rows) {
    const key = `${row.source} ${row.sink} ${row.replay}`
    let last = open.get(key)
    const full =
      last !== undefined &&
      (last.rows.length >= TRANSACTION_ENTRIES || last.bytes + row.bytes > TRANSACTION_BYTES)
    if (last === undefined || full) {
      last = { sink: row.sink, source: row.source, replay: row.replay === 1, rows: [], bytes: 0 }
      open.set(key, last)
      bundles.push(last)
    }
    last.rows.push(row)
    last.bytes += row.bytes
  }
  return bundles
}

/** The raw bytes in sequence, each followed by the entry's id and time as text. */
export function entriesOf(
  rows: readonly DeadLetterRow[],
  rawOf: (id: number) => Buffer | undefined,
): Entries {
  const pieces: Buffer[] = []
  const columns = new Uint32Array(rows.length * COLUMNS)
  const types = [...new Set(rows.map(({ type }) => type))]
  let length = 0
  rows.forEach((row, i) => {
    const body = rawOf(row.id) ?? Buffer.alloc(0)
    const rawEnd = length + body.length
    const idEnd = rawEnd + row.entry_id.length
    const timeEnd = idEnd + row.time.length
    const places = {
      raw: [length, rawEnd],
      id: [rawEnd, idEnd],
      time: [idEnd, timeEnd],
      type: types.indexOf(row.type),
      version: row.version,
    } as const
    columns.set(columnsOf(places), i * COLUMNS)
    pieces.push(body, row.entry_id, row.time)
    length = timeEnd
  })
  return new Entries(
    Buffer.concat(pieces),
    rows.length,
    columns,
    Float64Array.from(rows, ({ at }) => at),
    types,
  )
}
