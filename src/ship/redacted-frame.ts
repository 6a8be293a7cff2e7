// A sink's frame that sees each entry as it may be seen: formats and frames work on the changed entry and know of no other.
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
} from '../model/entries.ts'
import type { Run } from '../model/journal.ts'
import type { Frame } from '../model/sink.ts'
import { ByteWriter } from '../model/writer.ts'
import type { Redact } from './redact.ts'

/** What one huge entry needed is not kept. */
const SPARE_BYTES = 1024 * 1024
const USUAL_BYTES = 16 * 1024

/** One run stands for all entries of another, one after the other: what a frame keeps of its run stays of use. */
interface Stand extends Run {
  entries: Entries
  firstSeq: number
}

export function redactedFrame(frame: Frame, redact: Redact): Frame {
  let slab = new ByteWriter(USUAL_BYTES)
  let known: Run | undefined
  let stand: Stand | undefined
  return (run, index, out, format) => {
    if (known !== run || !stand) {
      known = run
      stand = { ...run }
    }
    const { entries, firstSeq } = run
    slab.clear()
    const changed = redact(entries.raw(index), slab)
    stand.entries = changed ? changedEntry(entries, index, slab) : entries
    stand.firstSeq = changed ? firstSeq + index : firstSeq
    frame(stand, changed ? 0 : index, out, format)
    if (slab.bytes.length > SPARE_BYTES) slab = new ByteWriter(USUAL_BYTES)
  }
}

/** The entry whose changed bytes stand in `slab`. Its id and time are the same ones, behind those bytes: what they were may lie elsewhere by now. */
function changedEntry(entries: Entries, index: number, slab: ByteWriter): Entries {
  const columns = new Uint32Array(COLUMNS)
  columns[RAW_START] = 0
  columns[RAW_END] = slab.length
  for (const [start, end] of [
    [ID_START, ID_END],
    [TIME_START, TIME_END],
  ] as const) {
    columns[start] = slab.length
    slab.copy(entries.bytes, entries.column(index, start), entries.column(index, end))
    columns[end] = slab.length
  }
  columns[TYPE] = entries.column(index, TYPE)
  columns[VERSION] = entries.version(index)
  return new Entries(slab.bytes, 1, columns, Float64Array.of(entries.at(index)), entries.types)
}
