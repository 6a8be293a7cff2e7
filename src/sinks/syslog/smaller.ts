// An entry with a smaller body: the same id, time, type and version, so that a format writes it like any other.
import { COLUMNS, Entries, ID_END, ID_START, RAW_END, RAW_START } from '../../model/entries.ts'
import { TIME_END, TIME_START } from '../../model/entries.ts'
import type { Run } from '../../model/journal.ts'
import { compactEntry } from '../../model/json-members.ts'
import type { Format } from '../../model/sink.ts'
import type { ByteWriter } from '../../model/writer.ts'
import { neutralise } from './text.ts'

/** A format may write a dropped byte twice, or not at all: the right size is found by trying. */
const MOST_TRIES = 8

function withBody(run: Run, index: number, body: Uint8Array): Run {
  const { entries } = run
  const slice = (start: number, end: number) =>
    entries.bytes.subarray(entries.column(index, start), entries.column(index, end))
  const [id, time] = [slice(ID_START, ID_END), slice(TIME_START, TIME_END)]
  const columns = entries.columns.slice(index * COLUMNS, (index + 1) * COLUMNS)
  columns[RAW_START] = 0
  columns[RAW_END] = columns[ID_START] = body.length
  columns[ID_END] = columns[TIME_START] = body.length + id.length
  columns[TIME_END] = body.length + id.length + time.length
  const times = entries.times.slice(index, index + 1)
  const bytes = Buffer.concat([body, id, time])
  return { ...run, entries: new Entries(bytes, 1, columns, times, entries.types) }
}

/** Writes into `out`, in the place of what stands there, the entry in at most `maxBytes` of text; false where that cannot be. */
export function writeSmaller(
  run: Run,
  index: number,
  format: Format,
  maxBytes: number,
  out: ByteWriter,
): boolean {
  const raw = run.entries.raw(index)
  let size = raw.length
  for (let tries = 0; tries < MOST_TRIES; tries++) {
    // First in proportion, which leaves out no more than needed; from there on by what is still too much.
    size = tries === 0 ? Math.floor((size * maxBytes) / out.length) : size - (out.length - maxBytes)
    const body = size > 0 ? compactEntry(raw, size) : undefined
    if (!body) return false
    size = body.length
    out.clear()
    format(withBody(run, index, body), 0, out)
    neutralise(out.bytes, 0, out.length)
    if (out.length <= maxBytes) return true
  }
  return false
}
